"""JSON as JavaScript writes and reads it, in exact bytes.

Reading keeps what Python can keep: integers stay exact (up to 4300 digits, the most that Python reads; longer
ones are infinite, as they are in JavaScript), lone surrogates stay lone, invalid UTF-8 becomes U+FFFD, and
nesting has no limit. ``NaN``, ``Infinity``, a byte order mark and other additions of Python's parser are
refused. ``parse_ecma`` reads as JavaScript does instead: every number is a double, ``-0`` is negative zero,
and keys that are array indexes come first, in numeric order.

Writing (``dumps``) gives the text of ``JSON.stringify``: no blanks, shortest numbers (``1e+21``, ``1e-7``,
no ``.0``), raw UTF-8, lone surrogates and control characters as lower-case escapes, keys in their order. An
``int`` is written with all its digits, so that what ``parse`` gave is written back exactly.
Source: docs/formats.md, "JSON text"; ECMA-262, JSON.stringify and Number::toString.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

import msgspec

from playhead.eventstore import json_deep
from playhead.eventstore.errors import NotLosslessJson

Json = Any
"""A JSON value: None, bool, int, float, str, list or dict with string keys."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_INDEX = re.compile("0|[1-9][0-9]{0,9}")
_EXACT = 2**53
"""Up to here a double holds every integer."""


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _long_int(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def _ecma_int(text: str) -> int | float:
    value = float(text)
    return int(value) if abs(value) <= _EXACT and text != "-0" else value


def _ecma_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return _indexes_first(dict(pairs))


def _indexes_first(members: dict[str, Any]) -> dict[str, Any]:
    indexes = [key for key in members if _INDEX.fullmatch(key) and int(key) < 2**32 - 1]
    if not indexes:
        return members
    return {key: members[key] for key in sorted(indexes, key=int)} | members


_quick = msgspec.json.Decoder()
"""Gives what ``exact_decoder`` gives, several times faster, or fails: at lone surrogates, say, or infinite numbers."""

exact_decoder = json.JSONDecoder(parse_constant=_refuse)
_long_decoder = json.JSONDecoder(parse_constant=_refuse, parse_int=_long_int)
_ecma_decoder = json.JSONDecoder(parse_constant=_refuse, parse_int=_ecma_int, object_pairs_hook=_ecma_object)


def parse(text: bytes | str) -> Json:
    """The value of a JSON text. Integers are exact. Raises ``ValueError`` for anything that is not JSON."""
    try:
        return _quick.decode(text)
    except (ValueError, RecursionError):
        return _decode(text, exact_decoder)


def parse_ecma(text: bytes | str) -> Json:
    """The value of a JSON text as JavaScript reads it: numbers are doubles, index keys come first.

    Whole numbers up to 2**53 are ints, all others floats. Raises ``ValueError`` for what is not JSON.
    """
    return _decode(text, _ecma_decoder)


def _decode(text: bytes | str, decoder: json.JSONDecoder) -> Json:
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    try:
        return decoder.decode(text)
    except json.JSONDecodeError:
        raise
    except RecursionError:
        return json_deep.decode(text, _long_decoder if decoder is exact_decoder else decoder)
    except ValueError:
        # An integer of more than 4300 digits, or a constant that is no JSON: the second fails again.
        if decoder is not exact_decoder:
            raise
        return _decode(text, _long_decoder)


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


def dumps(value: Json) -> bytes:
    """``value`` as JavaScript would print it, in UTF-8. Key order is kept as given.

    Raises ``ValueError`` for NaN, infinities and a value that contains itself, ``TypeError`` for what is no
    JSON value.
    """
    try:
        if _is_plain(value):
            return msgspec.json.encode(value)
    except (UnicodeEncodeError, OverflowError, RecursionError):
        # Lone surrogates, integers of more than 64 bits, deep nesting.
        pass
    return _written(value).encode("utf-8")


def stringify(value: Json) -> bytes:
    """The text that JavaScript prints for ``value``, numbers as doubles and index keys first.

    For comparing texts: two values are equal to JavaScript's eye when these are.
    """
    return dumps(parse_ecma(dumps(value)))


def _is_plain(value: Json) -> bool:
    """Whether msgspec prints the value as JavaScript does: exact types, text keys, no floats."""
    kind = type(value)
    if kind is dict:
        for key, member in value.items():
            if type(key) is not str or (type(member) not in _PLAIN and not _is_plain(member)):
                return False
        return True
    if kind is list or kind is tuple:
        return all(type(element) in _PLAIN or _is_plain(element) for element in value)
    return kind in _PLAIN


_PLAIN = frozenset({str, int, bool, type(None)})


def _written(value: Json) -> str:
    """The JSON text of any value, its lone surrogates as escapes. Not recursive: nesting has no limit."""
    parts: list[str] = []
    open_containers: set[int] = set()
    levels: list[tuple[Iterator[tuple[str, Any]], str, int]] = [(iter((("", value),)), "", 0)]
    while levels:
        members, end, container = levels[-1]
        for before, item in members:
            parts.append(before)
            if isinstance(item, Mapping):
                start, level = "{", (_object_members(item), "}", id(item))
            elif isinstance(item, list | tuple):
                start, level = "[", (_array_members(item), "]", id(item))
            else:
                parts.append(_scalar(item))
                continue
            if id(item) in open_containers:
                raise ValueError("the value contains itself")
            open_containers.add(id(item))
            parts.append(start)
            levels.append(level)
            break
        else:
            parts.append(end)
            open_containers.discard(container)
            levels.pop()
    return "".join(parts)


def _object_members(item: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    """Each member, and the text before it."""
    for at, (key, member) in enumerate(item.items()):
        if not isinstance(key, str):
            raise TypeError(f"{key!r} is not a JSON key")
        yield f"{',' if at else ''}{_text(key)}:", member


def _array_members(item: list[Any] | tuple[Any, ...]) -> Iterator[tuple[str, Any]]:
    for at, element in enumerate(item):
        yield "," if at else "", element


_encoder = json.JSONEncoder(ensure_ascii=False)


def _scalar(item: Any) -> str:
    if isinstance(item, str):
        return _text(item)
    if isinstance(item, float):
        if not math.isfinite(item):
            raise ValueError(f"{item!r} is not JSON")
        return number(item)
    if item is None or isinstance(item, int):
        return _encoder.encode(item)
    raise TypeError(f"{type(item).__name__} is not a JSON value")


def _text(value: str) -> str:
    encoded = _encoder.encode(whole(value))
    return _SURROGATE.sub(lambda half: f"\\u{ord(half.group()):04x}", encoded)


def require_lossless(value: Json) -> None:
    """Raise ``NotLosslessJson`` unless ``value`` comes back from JSON as it is, numbers taken as doubles.

    Accepted: None, bool, str (lone surrogates too), list, tuple, dict with str keys, finite float except
    negative zero, and int that a double holds exactly. Subclasses are refused. The walk is iterative, so
    depth is not limited; a shared part is fine, a cycle is not.
    """
    path: list[str | int] = []
    open_containers: list[int] = []
    is_open: set[int] = set()
    levels: list[Iterator[tuple[str | int, Any]]] = [iter((("$", value),))]
    while levels:
        for key, item in levels[-1]:
            kind = type(item)
            if kind is str or kind is bool or item is None:
                continue
            if kind is dict or kind is list or kind is tuple:
                path.append(key)
                if id(item) in is_open:
                    raise NotLosslessJson(_place(path), "the value contains itself")
                is_open.add(id(item))
                open_containers.append(id(item))
                levels.append(_lossless_members(item, path))
                break
            problem = _problem(item)
            if problem is not None:
                raise NotLosslessJson(_place([*path, key]), problem)
        else:
            levels.pop()
            if path:
                path.pop()
                is_open.discard(open_containers.pop())


def _lossless_members(item: Any, path: list[str | int]) -> Iterator[tuple[str | int, Any]]:
    if type(item) is not dict:
        return iter(enumerate(item))
    for key in item:
        if type(key) is not str:
            raise NotLosslessJson(_place(path), f"the key {key!r} is not text")
    return iter(item.items())


def _problem(item: Any) -> str | None:
    """Why a value that is no container does not survive JSON, or None."""
    if type(item) is int:
        fits = abs(item) <= _EXACT or _double_holds(item)
        return None if fits else f"{item} is no JSON number: a double cannot hold it exactly"
    if type(item) is float:
        if not math.isfinite(item):
            return f"{item} has no JSON spelling"
        negative_zero = item == 0 and math.copysign(1, item) < 0
        return "negative zero becomes 0 in JSON" if negative_zero else None
    return f"{type(item).__name__} is not a JSON value"


def _double_holds(value: int) -> bool:
    try:
        return int(float(value)) == value
    except OverflowError:
        return False


def _place(path: list[str | int]) -> str:
    """The path as ``$.key[3].key``."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path).removeprefix(".")
