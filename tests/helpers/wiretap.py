"""A wire with a listener on it: passes every byte on, both ways, and tells afterwards what went over it.

    with wiretap(server.url) as tap:
        ...  # a client at tap.url
    assert tap.calls[0].answer == b"..."

Ends are passed on as well: a connection that one side closed or reset is closed or reset for the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

from loop_server import loop_server
from scripted_server import reset

End = Literal["complete", "reset"]
Headers = dict[str, str]


class Call(NamedTuple):
    """A request and what answered it. Bodies are without their framing; ``status`` is None where no answer began."""

    target: str
    headers: Headers
    request: bytes
    status: int | None
    answer_headers: Headers
    answer: bytes
    end: End


@dataclass
class _Wire:
    """One connection: what came from the client, and from the far side."""

    sent: bytearray = field(default_factory=bytearray)
    got: bytearray = field(default_factory=bytearray)


class Wiretap:
    """A tap before ``url``. ``calls`` are in the order in which their connections came."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._far = (parts.hostname, parts.port)
        self.url = ""
        self._wires: list[_Wire] = []

    @property
    def calls(self) -> list[Call]:
        return [call for wire in self._wires for call in _calls(wire)]

    async def join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Join a connection to one of its own on the far side."""
        far_reader, far_writer = await asyncio.open_connection(*self._far)
        wire = _Wire()
        self._wires.append(wire)
        try:
            await asyncio.gather(
                _pass_on(reader, far_writer, wire.sent),
                _pass_on(far_reader, writer, wire.got),
            )
        finally:
            far_writer.close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, heard: bytearray) -> None:
    """Pass on what one side says, until it closes or breaks."""
    try:
        while piece := await reader.read(2**16):
            heard += piece
            writer.write(piece)
            await writer.drain()
        writer.write_eof()
    except OSError:
        reset(writer)


@contextmanager
def wiretap(url: str) -> Iterator[Wiretap]:
    """A tap that is gone at the end of the block; what it heard stays."""
    tap = Wiretap(url)
    with loop_server(tap.join) as tap.url:
        yield tap


def _calls(wire: _Wire) -> Iterator[Call]:
    sent, got = bytes(wire.sent), bytes(wire.got)
    while sent:
        first, headers, request, sent, _ = _message(sent)
        status, answer_headers, answer, whole = None, {}, b"", False
        if got:
            line, answer_headers, answer, got, whole = _message(got, until_close=True)
            status = int(line.split(" ")[1])
        yield Call(
            first.split(" ")[1],
            headers,
            request,
            status,
            answer_headers,
            answer,
            "complete" if whole else "reset",
        )


def _message(data: bytes, *, until_close: bool = False) -> tuple[str, Headers, bytes, bytes, bool]:
    """First line, headers, body, what lies behind it, and whether the message is whole."""
    head, _, rest = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if headers.get("transfer-encoding") == "chunked":
        body = b""
        while True:
            size, _, behind = rest.partition(b"\r\n")
            length = int(size, 16) if size else -1
            if length <= 0:
                return first, headers, body, behind.removeprefix(b"\r\n"), length == 0
            body += behind[:length]
            rest = behind[length + 2 :]
    if until_close and "content-length" not in headers:
        return first, headers, rest, b"", True
    length = int(headers.get("content-length", "0"))
    return first, headers, rest[:length], rest[length:], len(rest) >= length
