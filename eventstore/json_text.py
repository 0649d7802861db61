"""JSON as JavaScript writes and reads it, in exact bytes.

Reading keeps what Python can keep: integers of any size stay exact, lone surrogates stay lone, invalid
UTF-8 becomes U+FFFD. ``NaN``, ``Infinity``, a byte order mark and other additions of Python's parser are
refused. ``parse_ecma`` reads numbers as JavaScript does instead: every number is a double, ``-0`` is
negative zero.

Writing (``dumps``) gives the text of ``JSON.stringify``: no blanks, shortest numbers (``1e+21``, ``1e-7``,
no ``.0``), raw UTF-8, lone surrogates and control characters as lower-case escapes, keys in their order.
Source: docs/formats.md, "JSON text"; ECMA-262, JSON.stringify and Number::toString.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from playhead.eventstore.errors import NotLosslessJson

Json = Any
"""A JSON value: None, bool, int, float, str, list or dict with string keys."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


exact_decoder = json.JSONDecoder(parse_constant=_refuse)


def _ecma_int(text: str) -> float | int:
    value = float(text)
    return int(value) if value.is_integer() and not (value == 0 and text.startswith("-")) else value


_ecma = json.JSONDecoder(parse_constant=_refuse, parse_int=_ecma_int)


def parse(text: bytes | str) -> Json:
    """The value of a JSON text. Integers are exact. Raises ``ValueError`` for anything that is not JSON."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    return exact_decoder.decode(text)


def parse_ecma(text: bytes | str) -> Json:
    """The value of a JSON text with numbers as doubles: ``-0`` stays negative, large integers are rounded."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    return _ecma.decode(text)


def whole(text: str) -> str:
    """``text`` with every split surrogate pair joined into its character; unpaired halves stay."""
    if not _SURROGATE.search(text):
        return text
    return _PAIR.sub(lambda pair: pair.group().encode("utf-16-le", "surrogatepass").decode("utf-16-le"), text)


def number(value: float) -> str:
    """The text JavaScript prints for a finite number: shortest digits that read back equal."""
    value = float(value)
    if value == 0:
        return "0"
    sign = "-" if value < 0 else ""
    digits, _, exponent_text = repr(abs(value)).replace("e+", "e").partition("e")
    integer, _, fraction = digits.partition(".")
    if fraction == "0":
        fraction = ""
    exponent = int(exponent_text or 0) + len(integer)
    raw = integer + fraction
    stripped = raw.lstrip("0")
    exponent -= len(raw) - len(stripped)
    digits = stripped.rstrip("0")
    count = len(digits)
    if count <= exponent <= 21:
        return sign + digits + "0" * (exponent - count)
    if 0 < exponent <= 21:
        return sign + digits[:exponent] + "." + digits[exponent:]
    if -6 < exponent <= 0:
        return sign + "0." + "0" * -exponent + digits
    power = exponent - 1
    mantissa = digits[0] + ("." + digits[1:] if count > 1 else "")
    return f"{sign}{mantissa}e{'+' if power > 0 else '-'}{abs(power)}"


_plain = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _text(value: str) -> str:
    if _SURROGATE.search(value):
        value = whole(value)
    encoded = _plain.encode(value)
    if _SURROGATE.search(encoded):
        encoded = _SURROGATE.sub(lambda half: f"\\u{ord(half.group()):04x}", encoded)
    return encoded


def dumps(value: Json) -> bytes:
    """``value`` as JavaScript would print it, in UTF-8. Key order is kept as given.

    Raises ``ValueError`` for NaN and infinities, ``TypeError`` for what is no JSON value.
    """
    parts: list[str] = []
    stack: list[Any] = [value]
    while stack:
        item = stack.pop()
        match item:
            case _Literal():
                parts.append(item)
            case str():
                parts.append(_text(item))
            case bool() | None:
                parts.append(_plain.encode(item))
            case int():
                parts.append(str(item))
            case float():
                if not math.isfinite(item):
                    raise ValueError(f"{item!r} is not JSON")
                parts.append(number(item))
            case Mapping():
                parts.append("{")
                stack.append(_CLOSE_OBJECT)
                members: list[Any] = []
                for at, (key, member) in enumerate(item.items()):
                    if not isinstance(key, str):
                        raise TypeError(f"{key!r} is not a JSON key")
                    members.append(_Literal(("," if at else "") + _text(key) + ":"))
                    members.append(member)
                stack.extend(reversed(members))
            case list() | tuple():
                parts.append("[")
                stack.append(_CLOSE_ARRAY)
                elements: list[Any] = []
                for at, element in enumerate(item):
                    if at:
                        elements.append(_COMMA)
                    elements.append(element)
                stack.extend(reversed(elements))
            case _:
                raise TypeError(f"{type(item).__name__} is not a JSON value")
    return "".join(parts).encode("utf-8")


class _Literal(str):
    """Text that is already JSON."""

    __slots__ = ()


_CLOSE_OBJECT = _Literal("}")
_CLOSE_ARRAY = _Literal("]")
_COMMA = _Literal(",")


def require_lossless(value: Json) -> None:
    """Raise ``NotLosslessJson`` unless ``value`` comes back from JSON exactly as it is.

    Accepted: None, bool, str (lone surrogates too), list, tuple, dict with str keys, finite float except
    negative zero, and int that a double holds exactly. The walk is iterative, so depth is not limited; a
    shared part is fine, a cycle is not.
    """
    open_containers: set[int] = set()
    stack: list[tuple[str, Any]] = [("$", value)]
    while stack:
        path, item = stack.pop()
        if path is _LEAVE:
            open_containers.discard(item)
            continue
        kind = type(item)
        if item is None or kind is bool or kind is str:
            continue
        if kind is int:
            if abs(item) > 2**53 and not _double_holds(item):
                raise NotLosslessJson(path, f"{item} is no JSON number: a double cannot hold it exactly")
        elif kind is float:
            if not math.isfinite(item):
                raise NotLosslessJson(path, f"{item} has no JSON spelling")
            if item == 0 and math.copysign(1, item) < 0:
                raise NotLosslessJson(path, "negative zero becomes 0 in JSON")
        elif kind in (list, tuple, dict):
            if id(item) in open_containers:
                raise NotLosslessJson(path, "the value contains itself")
            open_containers.add(id(item))
            stack.append((_LEAVE, id(item)))
            stack.extend(_children(path, item))
        else:
            raise NotLosslessJson(path, f"{kind.__name__} is not a JSON value")


_LEAVE = "leave"


def _double_holds(value: int) -> bool:
    try:
        return int(float(value)) == value
    except OverflowError:
        return False


def _children(path: str, item: Any) -> Iterable[tuple[str, Any]]:
    if type(item) is dict:
        for key, member in item.items():
            if type(key) is not str:
                raise NotLosslessJson(path, f"the key {key!r} is not text")
            yield f"{path}.{key}", member
    else:
        for at, element in enumerate(item):
            yield f"{path}[{at}]", element
