"""A server on the loopback in a thread of its own, so that clients of any kind can talk to it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from queue import Queue

LONG_S = 60.0
"""How long anything may take before a test has failed: far longer than a machine stands still that has much to do."""

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
"""What is done with a connection, which is closed behind it."""


@contextmanager
def loop_server(serve: Serve) -> Iterator[str]:
    """The URL of a server that gives every connection to ``serve``; at the end of the block all of them are cut."""
    loop = asyncio.new_event_loop()
    urls: Queue[str] = Queue()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(
                asyncio.CancelledError
            ):  # before Python 3.12 asyncio logs a connection that was cancelled
                await serve(reader, writer)
        finally:
            writer.close()

    def run() -> None:
        asyncio.set_event_loop(loop)
        server = loop.run_until_complete(asyncio.start_server(connected, "127.0.0.1", 0, limit=2**26))
        urls.put(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        try:
            loop.run_forever()
        finally:
            server.close()
            tasks = asyncio.all_tasks(loop)
            for task in tasks:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            loop.close()

    thread = threading.Thread(target=run, name=f"serving {serve}", daemon=True)
    thread.start()
    try:
        yield urls.get(timeout=LONG_S)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(LONG_S)
