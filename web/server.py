"""An ASGI app as a server on this machine, for as long as somebody needs it: in a thread, on a socket that we bind.

    with serving(app) as server:
        ...  # anybody can talk to server.url

Port 0 takes any free port. What an app has to say, it says itself: only its failures are logged. A server on this
machine alone takes no requests that mean another one (``local_only.py``). Each request finds its ``Connection`` in the
scope. The end is at once: answers that still stream are broken off.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from playhead.eventstore.errors import PlayheadError
from playhead.web.connection import EXTENSION, Connection
from playhead.web.local_only import LocalOnly

LOOPBACK = "127.0.0.1"

log = logging.getLogger("playhead.web")
log.addFilter(lambda record: record.exc_info is not None)
"""Hears of apps that fail. What else uvicorn has to say is of clients that speak no HTTP, and of other packages."""

_IDLE_S = 3600
"""How long a connection stays open for the next request. A client may send one in the moment in which it is closed, and
sees it broken: so that moment comes long after anybody waits for a tool or a person.
"""


class AddressUnavailable(PlayheadError):
    """Nobody can listen there: another program does, or it is no address of this machine."""

    code = "address-unavailable"

    def __init__(self, host: str, port: int, reason: str) -> None:
        self.host = host
        self.port = port
        super().__init__(
            f"cannot listen on {_place(host, port)}: {reason}; choose another address, or port 0 for any free port"
        )


class Server:
    """A running server. ``url`` is where it is, without a slash at the end.

    ``is_local`` says that nobody but programs of this machine can reach it.
    """

    def __init__(self, app: ASGIApp, host: str = LOOPBACK, port: int = 0) -> None:
        """Bind the socket; ``start`` answers. Raises ``AddressUnavailable``."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._socket = socket.create_server((host, port), family=family, backlog=1024)
        except (OSError, OverflowError) as error:
            raise AddressUnavailable(host, port, _reason(error)) from error
        self.host, self.port = self._socket.getsockname()[:2]
        self.is_local = ip_address(self.host).is_loopback
        self._app: ASGIApp = LocalOnly(app) if self.is_local else app
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._uvicorn: _Uvicorn | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name=f"playhead-server-{self.port}", daemon=True)

    @property
    def url(self) -> str:
        return f"http://{_place(self.host, self.port)}"

    def start(self) -> None:
        """Answer from now on."""
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Break off what is under way, and return when all is gone; stopping twice is fine."""
        if self._uvicorn is not None and self._loop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._uvicorn.over.set)
        if self._thread.ident is not None:
            self._thread.join()
        self._socket.close()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self._failure = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        config = uvicorn.Config(
            self._app,
            http=_Protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=_IDLE_S,
        )
        self._uvicorn = _Uvicorn(config, self._ready)
        self._loop = asyncio.get_running_loop()
        await self._uvicorn.serve(sockets=[self._socket])


@contextmanager
def serving(app: ASGIApp, host: str = LOOPBACK, port: int = 0) -> Iterator[Server]:
    """A server for ``app`` that is gone at the end of the block. Raises ``AddressUnavailable``."""
    server = Server(app, host, port)
    try:
        server.start()
        yield server
    finally:
        server.stop()


class _Uvicorn(uvicorn.Server):
    """Runs until ``over`` is set, and then waits for nobody."""

    def __init__(self, config: uvicorn.Config, ready: threading.Event) -> None:
        super().__init__(config)
        self.over = asyncio.Event()
        self.force_exit = True
        self._ready = ready

    async def main_loop(self) -> None:
        self._ready.set()
        await self.over.wait()
        for connection in list(self.server_state.connections):
            connection.transport.abort()


class _Protocol(H11Protocol):
    """HTTP/1.1, with the connection in the scope of each request."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.logger = log
        super().connection_made(transport)
        app, connection = self.app, Connection(transport)

        async def connected(scope: Scope, receive: Receive, send: Send) -> None:
            await app({**scope, "extensions": {EXTENSION: connection}}, receive, send)

        self.app = connected


def _reason(error: OSError | OverflowError) -> str:
    """Why a socket could not be bound, in the words of the system alone: ``socket`` repeats the address behind them.

    A name that leads nowhere has a number of its own, below 0.
    """
    if not isinstance(error, OSError) or error.errno is None:
        return str(error)
    return os.strerror(error.errno) if error.errno > 0 else (error.strerror or "").partition(" (while ")[0]


def _place(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
