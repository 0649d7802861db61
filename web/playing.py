"""An answer on its way to a client: its pieces when they are due, and then the end that it is to have."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from itertools import chain

from starlette.types import Receive, Scope, Send

from playhead.replay.async_player import play_async
from playhead.replay.schedule import Pace
from playhead.web.answers import Answer, TimedPiece
from playhead.web.connection import Connection

_AT_ONCE_BYTES = 16 * 2**10
"""Without a pace pieces are sent together up to this size; the bytes are the same."""


async def play(answer: Answer, pace: Pace, scope: Scope, receive: Receive, send: Send) -> Exception | None:
    """Give ``answer`` to the client of a request; returns when it has all of it, or is gone.

    What went wrong on our side in the middle of it breaks the connection, and is returned.
    """
    connection = Connection.of(scope)
    gone = asyncio.ensure_future(_gone(receive))
    playing = asyncio.ensure_future(_play(answer, pace, connection, send))
    try:
        await asyncio.wait({gone, playing}, return_when=asyncio.FIRST_COMPLETED)
        failed = playing.exception() if playing.done() else None
        if failed is not None and connection is not None:
            await connection.reset()
            await gone
    finally:
        for task in (playing, gone):
            task.cancel()
        await asyncio.wait({gone, playing})
    return failed if isinstance(failed, Exception) else None


async def _play(answer: Answer, pace: Pace, connection: Connection | None, send: Send) -> None:
    begun = answer.status is None
    async for data in _pieces(answer, pace):
        if not begun:
            begun = True
            await _begin(answer, send)
        if data:
            await send({"type": "http.response.body", "body": data, "more_body": True})
    if answer.ready_file is not None:
        answer.ready_file.touch()
    if answer.body.end == "complete":
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        return
    if answer.body.end == "reset" and connection is not None:
        await connection.reset()
    await asyncio.Event().wait()  # until the client is gone


async def _pieces(answer: Answer, pace: Pace) -> AsyncIterator[bytes]:
    """The body in pieces, each when it is due, one at least."""
    if pace.speed == math.inf:
        together = bytearray()
        for piece in answer.body:
            together += piece.data
            if len(together) >= _AT_ONCE_BYTES:
                yield bytes(together)
                together.clear()
                await asyncio.sleep(0)
        yield bytes(together)
        return
    start = TimedPiece(answer.asked_ms, b"")
    pieces = play_async(chain([start], answer.body), pace)
    await anext(pieces)
    piece = start
    async for piece in pieces:
        yield piece.data
    if piece is start:
        yield b""


async def _begin(answer: Answer, send: Send) -> None:
    headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
