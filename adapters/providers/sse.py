"""Server-sent events: bytes to events and back, without any network.

A stream is lines of UTF-8 that end in LF, CR or CRLF. A byte order mark in front is dropped, bytes that are no UTF-8
become U+FFFD. A line is ``field:value`` or ``field: value`` (one blank is not part of the value); a line without colon
is a field with an empty value; a line that begins with a colon is a comment. Fields:

- ``data``: a line of the text; the lines of one event are joined by LF;
- ``event``: the name of the event, ``message`` where there is none;
- ``id``: holds for this event and all after it, until another comes; one with a NUL in it is ignored;
- ``retry`` and all others: nothing to us.

A blank line ends an event. An event without any ``data`` line is none; one whose data is an empty line is one. What
stands behind the last blank line when the body ends was cut off, and is lost.
Source: docs/providers.md, "Server-sent events"; WHATWG HTML, "Server-sent events" (2024).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from playhead.adapters.providers.dialect import WireEvent
from playhead.eventstore.chunk_source import AdapterError
from playhead.eventstore.failures import Failure

EVENT_LIMIT_BYTES = 8 * 2**20
"""The largest event that is read. What models send in one event is a thousandth of it."""

_LINE_END = re.compile(rb"\r\n|\r|\n")
_TEXT_LINE_END = re.compile("\r\n|\r|\n")
_MARK = b"\xef\xbb\xbf"


class EventReader:
    """Reads the events of one body, in pieces cut anywhere: inside a character, or between CR and LF."""

    def __init__(self, limit_bytes: int = EVENT_LIMIT_BYTES) -> None:
        self.lines = 0
        """Lines read so far. Comments and blank lines count: the other side is alive, even if no event came."""
        self._limit_bytes = limit_bytes
        self._line = bytearray()
        self._after_cr = False
        self._data: list[str] = []
        self._size_bytes = 0
        self._event = ""
        self._id = ""

    def push(self, piece: bytes) -> Iterator[WireEvent]:
        """The events that are complete with ``piece``, once it is wholly looked at.

        Raises ``AdapterError`` with ``MALFORMED_RESPONSE``, after the events before it, when an event grows beyond
        the limit.
        """
        if not piece:
            return
        if self._after_cr and piece.startswith(b"\n"):
            piece = piece[1:]
        self._after_cr = piece.endswith(b"\r")
        *ends, rest = _LINE_END.split(piece)
        for end in ends:
            self._extend(end)
            line = bytes(self._line)
            self._line.clear()
            event = self._take(line)
            if event is not None:
                yield event
        self._extend(rest)

    def _extend(self, part: bytes) -> None:
        if self._size_bytes + len(self._line) + len(part) > self._limit_bytes:
            limit_mib = self._limit_bytes / 2**20
            raise AdapterError(
                Failure(
                    message=f"an event of the stream is larger than {limit_mib:g} MiB",
                    code="MALFORMED_RESPONSE",
                )
            )
        self._line += part

    def _take(self, line: bytes) -> WireEvent | None:
        """The event that ``line`` completes."""
        if self.lines == 0:
            line = line.removeprefix(_MARK)
        self.lines += 1
        if not line:
            return self._dispatch()
        name, _, value = line.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        match name:
            case "data":
                self._data.append(value)
                self._size_bytes += len(line) + 1
            case "event":
                self._event = value
            case "id" if "\0" not in value:
                self._id = value
        return None

    def _dispatch(self) -> WireEvent | None:
        data, name = self._data, self._event
        self._data, self._event, self._size_bytes = [], "", 0
        return WireEvent("\n".join(data), name or "message", self._id) if data else None


def encode_event(event: WireEvent) -> bytes:
    """The bytes of one event, up to the blank line that ends it.

    Line ends in the data come back as LF. Raises ``ValueError`` for what has no spelling: a line end in a name or an
    id, and half a surrogate pair (JSON text spells it as an escape).
    """
    fields = []
    if event.event != "message":
        fields.append(f"event: {_one_line(event.event)}\n")
    if event.id:
        fields.append(f"id: {_one_line(event.id)}\n")
    fields += (f"data: {line}\n" for line in _TEXT_LINE_END.split(event.data))
    return "".join([*fields, "\n"]).encode("utf-8")


def _one_line(value: str) -> str:
    if _TEXT_LINE_END.search(value) or "\0" in value:
        raise ValueError(
            f"a server-sent event cannot carry the name or id {value!r}: it is more than one line"
        )
    return value
