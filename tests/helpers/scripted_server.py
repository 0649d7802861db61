"""A provider that does as it is told: an HTTP server on the loopback, with every way to answer well and badly.

Clients of any kind can talk to it::

    limited = Answer.json(429, {"error": {"message": "slow down"}}, retry_after="2")
    with scripted_server(limited, Answer(steps=[b"data: {}\\n\\n", RESET])) as server:
        ...  # two calls to server.url
    assert server.requests[0].headers["authorization"] == "Bearer k"

Answers are given in order, one to each request; a request beyond them gets status 599. A function in place of the
answers is asked for each request. What a step does stands beside its name below.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from loop_server import LONG_S, loop_server


class Pause(NamedTuple):
    """Send nothing for a while."""

    seconds: float


class Until(NamedTuple):
    """Send nothing until ``event`` is set."""

    event: threading.Event


class Signal(NamedTuple):
    """Set ``event``: tells a test how far the answer is."""

    event: threading.Event


@dataclass(frozen=True)
class _Word:
    name: str


HANG: Final = _Word("hang")
"""Send nothing more, and wait until the client is gone."""
RESET: Final = _Word("reset")
"""Break the connection with a RST."""
CUT: Final = _Word("cut")
"""Close the connection. That breaks a body with framing ``chunked`` or ``length``, and ends one with ``close``."""
GARBLE: Final = _Word("garble")
"""Send a chunk whose size is no number, then close."""

Step: TypeAlias = bytes | Pause | Until | Signal | _Word
Framing: TypeAlias = Literal["chunked", "length", "close"]


@dataclass(frozen=True)
class Answer:
    """The answer to one request: a head, then ``steps``; bytes are one piece of the body.

    ``status`` None sends no head at all: the first step is then ``HANG``, ``RESET`` or ``CUT``. ``framing`` says how
    the body ends: by its last chunk, by its length, or with the connection.
    """

    status: int | None = 200
    steps: Sequence[Step] = ()
    headers: dict[str, str] = field(default_factory=lambda: {"content-type": "text/event-stream"})
    framing: Framing = "chunked"

    @classmethod
    def json(cls, status: int, body: Any, **headers: str) -> Answer:
        """An answer with a JSON body; ``headers`` have ``_`` for ``-``."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        given = {"content-type": "application/json", **named}
        return cls(status, [json.dumps(body).encode()], given, "length")


@dataclass(frozen=True)
class Request:
    """What came. ``headers`` have lower-case names, ``raw_headers`` are as they were, in order."""

    method: str
    path: str
    headers: dict[str, str]
    raw_headers: list[tuple[str, str]]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Script: TypeAlias = Callable[[Request], Answer]


class ScriptedServer:
    """A running server; see ``scripted_server``."""

    def __init__(self, script: Script) -> None:
        self.requests: list[Request] = []
        self.connections = 0
        self.url = ""
        self._script = script
        self._gone = threading.Semaphore(0)

    def wait_client_gone(self) -> bool:
        """True once a client went away from a ``HANG``, or left a body before its end; False after ``LONG_S``."""
        return self._gone.acquire(timeout=LONG_S)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        self.connections += 1
        try:
            while (request := await _read_request(reader)) is not None:
                self.requests.append(request)
                if not await self._answer(self._script(request), reader, writer):
                    break
        except ConnectionError:
            self._gone.release()

    async def _answer(
        self, answer: Answer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Give one answer; False when the connection ends with it."""
        if answer.status is not None:
            writer.write(_head(answer))
            await writer.drain()
        for step in answer.steps:
            match step:
                case bytes():
                    writer.write(b"%x\r\n%b\r\n" % (len(step), step) if answer.framing == "chunked" else step)
                    await writer.drain()
                case Pause(seconds):
                    await asyncio.sleep(seconds)
                case Until(event):
                    while not event.is_set():
                        await asyncio.sleep(0.005)
                case Signal(event):
                    event.set()
                case _ if step is HANG:
                    await _client_gone(reader)
                    self._gone.release()
                    return False
                case _ if step is RESET:
                    reset(writer)
                    return False
                case _ if step is CUT:
                    return False
                case _:
                    writer.write(b"zz\r\n")
                    await writer.drain()
                    return False
        if answer.status is not None and answer.framing == "chunked":
            writer.write(b"0\r\n\r\n")
            await writer.drain()
        return answer.status is not None and answer.framing != "close"


@contextmanager
def scripted_server(*answers: Answer, script: Script | None = None) -> Iterator[ScriptedServer]:
    """A server that gives ``answers`` in order, or what ``script`` says; it is gone at the end of the block."""
    waiting = list(answers)

    def next_answer(_: Request) -> Answer:
        return waiting.pop(0) if waiting else Answer.json(599, {"error": {"message": "the script is over"}})

    server = ScriptedServer(script or next_answer)
    with loop_server(server.serve) as server.url:
        yield server


def cut_everywhere(body: bytes) -> list[Step]:
    """``body`` one byte at a time."""
    return [bytes([byte]) for byte in body]


def _head(answer: Answer) -> bytes:
    headers = dict(answer.headers)
    if answer.framing == "chunked":
        headers["transfer-encoding"] = "chunked"
    elif answer.framing == "length":
        headers.setdefault(
            "content-length", str(sum(len(step) for step in answer.steps if isinstance(step, bytes)))
        )
    else:
        headers["connection"] = "close"
    lines = [f"HTTP/1.1 {answer.status} As Told", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


async def _read_request(reader: asyncio.StreamReader) -> Request | None:
    """The next request of a connection; None when it is over."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.removesuffix("\r\n\r\n").split("\r\n")
    method, path, _ = first.split(" ")
    raw = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]
    headers = {name.lower(): value for name, value in raw}
    if headers.get("transfer-encoding") == "chunked":
        body = b""
        while size := int(await reader.readline(), 16):
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readline()
    else:
        body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(method, path, headers, raw, body)


async def _client_gone(reader: asyncio.StreamReader) -> None:
    try:
        while await reader.read(2**16):
            pass
    except ConnectionError:
        pass


def reset(writer: asyncio.StreamWriter) -> None:
    """Break the connection with a RST."""
    raw: socket.socket = writer.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
