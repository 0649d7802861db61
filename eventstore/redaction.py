"""Credentials out of what is kept of an exchange with a provider.

Three things keep them out:

- Headers: only those on a list are kept (``kept_headers``); whatever else came, came for nothing.
- Literals: what the request itself proves to be a secret (the values of ``authorization``, ``x-api-key``, ``cookie``
  and their like, of the query, of ``user:pass@``) is blotted out wherever it stands, in every usual spelling: as it is,
  escaped for JSON, letters too, in percent notation, in Base64; and where a text breaks off in one, its first
  ``SHORTEST`` characters or more (``Secrets``).
- Wording: in a request's body and path, what is called a credential is taken for one: a member or a line named like an
  API key, a bearer token, a password or a cookie, keys in query strings, ``user:pass@`` in URLs, and the shapes of well
  known keys (``without_credentials``). An answer is not searched by wording: a model may well write about passwords,
  and what came must be served again as it came.

Each byte of a credential becomes ``*``, so that sizes and offsets stay. A literal of fewer than 8 characters, or a word
below 12 letters, is no secret: blotting it out would hollow out the text, and protect nobody.
Rules: docs/store.md, "exchange".
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import TypeAlias
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from playhead.eventstore import json_text

Headers: TypeAlias = tuple[tuple[str, str], ...]
"""Names in lower case, and values, in the order of the wire."""

REQUEST_HEADERS = frozenset(
    {
        "accept",
        "accept-language",
        "anthropic-beta",
        "anthropic-version",
        "content-type",
        "openai-beta",
        "user-agent",
        "x-deepseek-harness-compact",
        "x-deepseek-harness-session-id",
        "x-playhead-compact",
        "x-playhead-session-id",
    }
)
"""Headers of a request that are kept."""

RESPONSE_HEADERS = frozenset(
    {
        "apim-request-id",
        "cache-control",
        "cf-ray",
        "content-encoding",
        "content-type",
        "date",
        "openai-model",
        "openai-processing-ms",
        "openai-version",
        "request-id",
        "retry-after",
        "retry-after-ms",
        "server",
        "x-amzn-requestid",
        "x-ds-trace-id",
        "x-ms-request-id",
        "x-request-id",
        "x-should-retry",
    }
)
"""Headers of an answer that are kept."""

_PLAIN_PARAMETERS = frozenset({"alt", "api-version", "beta", "stream", "version"})
"""Parameters of a query whose values are kept."""


SHORTEST = 8
"""What is shorter is no secret, and neither is a shorter beginning of one."""


class Secrets:
    """What a request proves to be secret."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        spellings = {spelling for secret in secrets if _is_secret(secret) for spelling in _spellings(secret)}
        longest_first = sorted(spellings, key=lambda spelling: (-len(spelling), spelling))
        self._pattern = re.compile(b"|".join(map(re.escape, longest_first))) if spellings else None
        self._sorted = sorted(spellings)
        self._beginnings = frozenset(spelling[:SHORTEST] for spelling in spellings)
        self._longest_bytes = max(map(len, spellings), default=0)

    @classmethod
    def of_request(cls, url: str, headers: Iterable[tuple[str, str]], *known: str) -> Secrets:
        """The secrets in the URL and the headers of a request, and those that are ``known`` to be."""
        found = list(known)
        for name, value in headers:
            if name.lower() not in REQUEST_HEADERS and _CALLED_SECRET.search(name):
                found += _secrets_of_header(name.lower(), value)
        try:
            parts = urlsplit(url)
        except ValueError:
            return cls(found)
        if "@" in parts.netloc:
            user = parts.netloc.rpartition("@")[0]
            found += [user, *user.split(":", 1), *map(unquote, user.split(":", 1))]
        found += [value for name, value in parse_qsl(parts.query) if name.lower() not in _PLAIN_PARAMETERS]
        return cls(found)

    def hidden(self, data: bytes, *, at_end: bool = False) -> bytes:
        """``data`` with every secret blotted out; ``at_end`` also the beginning of one in which it breaks off."""
        if self._pattern is None:
            return data
        spelt = _Spelt(data)
        spans = [found.span() for found in self._pattern.finditer(spelt.plain)]
        if at_end:
            spans += self._broken_off(spelt.plain, spans[-1][1] if spans else 0)
        return spelt.with_stars(spans) if spans else data

    def hidden_text(self, text: str) -> str:
        """``hidden`` for text."""
        return self.hidden(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def may_go_on(self, data: bytes) -> bool:
        """Whether ``data`` ends in the beginning of a secret, so that what comes next may complete it."""
        if self._pattern is not None and _BEGUN_ESCAPE.search(data[-_ESCAPE_BYTES:]):
            return True
        plain = _Spelt(data[-_ESCAPE_BYTES * self._longest_bytes :]).plain
        starts = range(max(0, len(plain) - self._longest_bytes + 1), len(plain))
        return any(self._begins(plain[start:]) for start in starts)

    def _broken_off(self, data: bytes, from_byte: int) -> list[tuple[int, int]]:
        """Where the beginning of a secret lies that ``data`` ends with."""
        starts = range(max(from_byte, len(data) - self._longest_bytes + 1), len(data) - SHORTEST + 1)
        for start in starts:
            if data[start : start + SHORTEST] in self._beginnings and self._begins(data[start:]):
                return [(start, len(data))]
        return []

    def _begins(self, data: bytes) -> bool:
        at = bisect_left(self._sorted, data)
        return at < len(self._sorted) and self._sorted[at].startswith(data)

    def __repr__(self) -> str:
        return "Secrets()"


class _Spelt:
    """``plain`` is ``data`` with letters in the place of their escapes, however deep these are escaped themselves."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at: list[int] = []  # where in ``plain`` a letter stands for an escape
        self._longer = [
            0
        ]  # how many bytes more ``data`` has before the first, the second ... of them, and behind
        self.plain = _ANY_ESCAPE.sub(self._letter, data) if b"\\u00" in data else data

    def _letter(self, escape: re.Match[bytes]) -> bytes:
        self._at.append(escape.start() - self._longer[-1])
        self._longer.append(self._longer[-1] + len(escape[0]) - 1)
        return bytes([int(escape["unit"], 16)])

    def _byte(self, at: int) -> int:
        """Where in the data the byte ``at`` of ``plain`` begins."""
        return at + self._longer[bisect_left(self._at, at)]

    def with_stars(self, spans: Iterable[tuple[int, int]]) -> bytes:
        """The data with stars for these spans of ``plain``."""
        starred = bytearray(self._data)
        for start, end in spans:
            first, behind = self._byte(start), self._byte(end)
            starred[first:behind] = b"*" * (behind - first)
        return bytes(starred)


def kept_headers(headers: Iterable[tuple[str, str]], allowed: frozenset[str]) -> Headers:
    """The headers that are kept, without what is worded as a credential in them."""
    named = ((name.lower(), value) for name, value in headers)
    return tuple((name, text_without_credentials(value)) for name, value in named if name in allowed)


def kept_path(url: str) -> str:
    """Path and query of a URL, without the values of parameters that are not known to be harmless."""
    path, mark, query = (
        re.sub(r"^[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*", "", url).partition("#")[0].partition("?")
    )
    kept = "&".join(_parameter(parameter) for parameter in query.split("&"))
    return text_without_credentials(path) + mark + kept


def without_credentials(body: bytes) -> bytes:
    """A request's body without what is worded as a credential."""
    return _blotted(unescaped(body))


def unescaped(body: bytes) -> bytes:
    """``body`` with no escape of JSON where a letter could stand, so that no spelling hides a name or a secret.

    Written anew only where there is such an escape.
    """
    if not _ESCAPED_ASCII.search(body):
        return body
    try:
        return json_text.dumps(json_text.parse(body))
    except ValueError:
        return _ESCAPED_ASCII.sub(lambda found: _escaped_character(int(found["unit"], 16)), body)


def text_without_credentials(text: str) -> str:
    """Text without what is worded as a credential."""
    return _blotted(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")


# Literals


def _secrets_of_header(name: str, value: str) -> Iterator[str]:
    yield value
    scheme, _, token = value.strip().partition(" ")
    if token:
        yield token.strip()
    if scheme.lower() == "basic":
        pair = _basic_pair(token.strip().encode())
        yield from (pair, *pair.split(":", 1))
    if "cookie" in name:
        yield from (cookie.partition("=")[2].strip() for cookie in value.split(";"))


def _is_secret(text: str) -> bool:
    """Whether ``text`` is worth hiding: long enough, and no plain word."""
    return len(text) >= 12 or (len(text) >= SHORTEST and not text.isalpha())


def _spellings(secret: str) -> Iterator[bytes]:
    raw = secret.encode("utf-8", "surrogatepass")
    escaped = json.dumps(secret)[1:-1]
    yield raw
    for text in (escaped, escaped.replace("/", "\\/"), quote(secret, safe="", errors="replace")):
        yield text.encode()
    encoded = base64.b64encode(raw).rstrip(b"=")
    yield encoded
    yield encoded.translate(bytes.maketrans(b"+/", b"-_"))


# Wording

_CALLED_SECRET = re.compile(r"(?i)auth(?!or)|authoriz|key|token|secret|cookie|passw|credential|signature")

_UNIT = rb"u00(?P<unit>[2-6][0-9A-Fa-f]|7[0-9A-Ea-e])"
_ESCAPED_ASCII = re.compile(rb"\\" + _UNIT)
_ANY_ESCAPE = re.compile(rb"(?<!\\)\\++" + _UNIT)
_BEGUN_ESCAPE = re.compile(rb"\\(?:u(?:0(?:0[2-7]?)?)?)?\Z")
_ESCAPE_BYTES = 6

_NAME = (
    rb"(?:authorization|api[-_ ]?key|(?:access|auth|refresh|session|bearer|id|security)[-_ ]?token"
    rb"|(?:client|app)[-_ ]?secret|secret[-_ ]?(?:access[-_ ]?)?key|private[-_ ]?key|passw(?:or)?d|cookie)\d{0,2}"
)
_GAP = rb"(?:\s|\\+[nrt])*"
_MEMBER = re.compile(
    rb"(?i)" + _NAME + rb'(?:"\s*[:=]>?\s*"(?P<plain>(?:[^"\\\r\n]|\\.)*)"'
    rb"""|'\s*[:=]>?\s*'(?P<single>[^'"\r\n]*)'"""
    rb'|\\"' + _GAP + rb"[:=]>?" + _GAP + rb'\\"(?P<once>(?:[^"\\\r\n]|\\\\(?:\\\\|\\"|[^"\\\r\n]))*)\\"'
    rb"""|(?P<quote>\\{2,}["'])""" + _GAP + rb"[:=]>?" + _GAP + rb"(?P=quote)(?P<deep>[^\r\n]*?)(?P=quote))"
)
"""A member: a quoted name and its value in the same quotes, which may be escaped for a text inside a text."""

_LINE = re.compile(
    rb"(?i)"
    + _NAME
    + _GAP
    + rb"(?:=>|:=|[:=]|(?<!\s)>)"
    + _GAP
    + rb"""(?:\\*["'](?![\s,:}\]])(?P<quoted>[^"'\\\r\n]+)"""
    rb"""|(?P<bare>(?:(?:bearer|basic|token|digest|apikey)(?:\s|%20|\+)+)?[^\s"'\\,;&<>{}\[\]()]+))"""
)
"""A bare name and its value: a line of headers, an assignment. A quote behind it may also be where its text ends."""

_COOKIES = re.compile(rb"""(?i)cookie\s*:\s*(?P<secret>[^\s"'\\][^\r\n"'\\]*)""")
_BEARER = re.compile(rb"(?i)bearer(?:\s|%20|\+)+(?P<secret>[A-Za-z0-9._~+/=-]{6,})")
_BASIC = re.compile(rb"(?i)basic(?:\s|%20|\+)+(?P<secret>[A-Za-z0-9+/_-]{6,}={0,2})")
_QUERY = re.compile(
    rb"(?i)[?&](?:[a-z0-9_-]*(?:key|token|secret|signature|password|auth)|sig)="
    rb"""(?P<secret>[^&\s"'#<>\\]+)"""
)
_USER = re.compile(rb"""(?i):(?:\\?/){2}(?P<secret>[^\s/?#"'\\@<>]{1,512})@""")
_SHAPES = re.compile(
    rb"(?<![A-Za-z0-9])(?P<secret>sk-[A-Za-z0-9_-]{16,}|AIza[A-Za-z0-9_-]{30,}|AKIA[A-Z0-9]{16}"
    rb"|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|xox[a-z]-[A-Za-z0-9-]{10,}|hf_[A-Za-z0-9]{20,}"
    rb"|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,})"
)


def _blotted(data: bytes) -> bytes:
    """``data`` with all that is worded as a credential blotted out."""
    data = _BASIC.sub(_basic_stars, data)
    for pattern in (_COOKIES, _BEARER, _QUERY, _USER, _SHAPES):
        data = pattern.sub(lambda found: _stars(found, "secret"), data)
    data = _MEMBER.sub(lambda found: _stars(found, _first_of(found, "plain", "single", "once", "deep")), data)
    return _LINE.sub(lambda found: _stars(found, _first_of(found, "quoted", "bare")), data)


def _stars(found: re.Match[bytes], group: str) -> bytes:
    """What was found, with the bytes of ``group`` blotted out."""
    start, end = found.start(group) - found.start(), found.end(group) - found.start()
    return found[0][:start] + b"*" * (end - start) + found[0][end:]


def _first_of(found: re.Match[bytes], *groups: str) -> str:
    """Which of ``groups`` was found."""
    return next(group for group in groups if found[group] is not None)


def _escaped_character(unit: int) -> bytes:
    """An ASCII character as it stands in a JSON string."""
    return json.dumps(chr(unit))[1:-1].encode()


def _basic_stars(found: re.Match[bytes]) -> bytes:
    return _stars(found, "secret") if _basic_pair(found["secret"]) else found[0]


def _basic_pair(token: bytes) -> str:
    """The ``user:pass`` in a token of Basic authorization; "" where there is none: a word, not a token."""
    try:
        pair = base64.b64decode(
            token + b"=" * (-len(token) % 4), altchars=b"-_" if set(token) & set(b"-_") else None
        )
        text = pair.decode()
    except (binascii.Error, ValueError):
        return ""
    return text if ":" in text and text.isprintable() else ""


def _parameter(parameter: str) -> str:
    name, mark, value = parameter.partition("=")
    harmless = unquote(name).lower() in _PLAIN_PARAMETERS
    return (
        text_without_credentials(name)
        + mark
        + (text_without_credentials(value) if harmless else "*" * len(value))
    )
