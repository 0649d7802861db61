"""The recording proxy: requests go to the upstream as they came, answers to the client as they come.

Each piece is passed on before anything else is done with it, in both directions, and no piece waits for another. What
the recorder hears it only queues. Ends are passed on too:

==========================================================  ========================================================
the upstream gives no answer (refused, reset, closed)       the client's connection is reset, without an answer
the upstream breaks off in its answer                       the client's connection is reset, behind what had come
the client goes away                                        the connection to the upstream is closed at once
==========================================================  ========================================================

So a client tries again as it would with the provider. It is asked by its path: a client that takes it for a forward
proxy, which names the whole URL or wants a tunnel, is told so. Source: docs/recording.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

from starlette.types import Receive, Scope, Send

from playhead.adapters.providers.upstream import Upstream, UpstreamBroken
from playhead.eventstore.exchange import ExchangeEnd
from playhead.replay.schedule import UNPACED
from playhead.web.answers import of_json
from playhead.web.connection import Connection
from playhead.web.playing import play
from playhead.web.recorder import Recorder, Tape
from playhead.web.recorder_call import Headers

_PATIENCE_S = 1.0
"""How long a client is waited for when its call is over already."""


_NO_FORWARD_PROXY = {
    "error": {
        "message": "playhead: this is no forward proxy: give its address to the client as the base URL of the "
        "provider, not as HTTP_PROXY",
        "type": "invalid_request_error",
    }
}


class ClientGone(Exception):
    """The client closed its connection before its request was over."""


class Proxy:
    """An ASGI app in front of ``upstream``; ``running`` counts the calls under way."""

    def __init__(self, upstream: Upstream, recorder: Recorder) -> None:
        self._upstream = upstream
        self._recorder = recorder
        self.running = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not scope["raw_path"].startswith(b"/"):
            await play(of_json(400, _NO_FORWARD_PROXY), UNPACED, scope, receive, send)
            return
        self.running += 1
        try:
            await _Call(self._upstream, self._recorder, scope, receive, send).run()
        finally:
            self.running -= 1


class _Call:
    """One call on its way through."""

    def __init__(
        self, upstream: Upstream, recorder: Recorder, scope: Scope, receive: Receive, send: Send
    ) -> None:
        self._upstream = upstream
        self._scope, self._receive, self._send = scope, receive, send
        query = scope["query_string"]
        self._asked: bytes = scope["raw_path"] + (b"?" + query if query else b"")
        target = self._asked.decode("latin-1")
        self._tape: Tape = recorder.tape(scope["method"], target, _text(scope["headers"]))
        self._is_asked = asyncio.Event()

    async def run(self) -> None:
        """Pass the call through, to its end on either side."""
        end: ExchangeEnd = "client-gone"
        reason = ""
        passing = asyncio.ensure_future(self._pass())
        leaving = asyncio.ensure_future(self._left())
        try:
            await asyncio.wait({passing, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if passing.done():
                passing.result()
                end = "complete"
        except UpstreamBroken as error:
            end = "reset-before-response" if error.before_response else "reset"
            reason = str(error)
            await self._hear_out()
            await self._break_off()
        except ClientGone:
            pass
        except Exception as error:
            end, reason = "reset", f"the proxy failed: {type(error).__name__}"
            raise
        finally:
            self._tape.ended(end, reason)
            for task in (passing, leaving):
                task.cancel()
            await asyncio.gather(passing, leaving, return_exceptions=True)

    async def _pass(self) -> None:
        headers = list(self._scope["headers"])
        has_body = any(name in (b"content-length", b"transfer-encoding") for name, _ in headers)
        if not has_body:
            self._end_request()
        body = self._request() if has_body else None
        async with await self._upstream.ask(self._scope["method"], self._asked, headers, body) as answer:
            now_ms = self._tape.now()
            await self._send(
                {"type": "http.response.start", "status": answer.status, "headers": answer.headers}
            )
            self._tape.head(answer.status, _text(answer.headers), now_ms)
            async for piece in answer.pieces():
                now_ms = self._tape.now()
                await self._send({"type": "http.response.body", "body": piece, "more_body": True})
                self._tape.piece(piece, now_ms)
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _request(self) -> AsyncIterator[bytes]:
        """The body of the request as it comes. Raises ``ClientGone``."""
        is_more = True
        while is_more:
            message = await self._receive()
            if message["type"] != "http.request":
                raise ClientGone
            is_more = message.get("more_body", False)
            piece = message.get("body", b"")
            try:
                yield piece
            finally:
                self._tape.request_piece(piece)
        self._end_request()

    def _end_request(self) -> None:
        self._tape.asked()
        self._is_asked.set()

    async def _left(self) -> None:
        """Returns once the client is gone, or has its whole answer."""
        await self._is_asked.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def _hear_out(self) -> None:
        """Take what is still to come of a request that the upstream did not want: the recorder wants it."""
        if not self._is_asked.is_set():
            with suppress(TimeoutError, ClientGone):
                async with asyncio.timeout(_PATIENCE_S):
                    async for _ in self._request():
                        pass

    async def _break_off(self) -> None:
        """Reset the connection of the client, and wait until it is gone."""
        connection = Connection.of(self._scope)
        if connection is not None:
            await connection.reset()
            with suppress(TimeoutError):
                async with asyncio.timeout(_PATIENCE_S):
                    while (await self._receive())["type"] != "http.disconnect":
                        pass


def _text(headers: list[tuple[bytes, bytes]]) -> Headers:
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers]
