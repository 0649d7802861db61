"""The connection below a request, for answers that end in a way for which ASGI has no word.

``server.py`` puts one into the scope of every request: ``scope["extensions"][EXTENSION]``.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import sys

from starlette.types import Scope

EXTENSION = "playhead.connection"

_TAKEN_WITHIN_S = 30.0
"""How long the other side may take over what was sent to it before the connection is reset."""
_LOOK_AGAIN_S = 0.002
_LINGER_NOT = struct.pack("ii", 1, 0)
_UNSENT_BYTES = 0x5411
"""SIOCOUTQ of Linux: how many bytes the other side has not taken yet."""


class Connection:
    """One connection of a client."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    @classmethod
    def of(cls, scope: Scope) -> Connection | None:
        """The connection of a request; None where another server than ours runs the app."""
        found = scope.get("extensions", {}).get(EXTENSION)
        return found if isinstance(found, cls) else None

    async def reset(self) -> None:
        """Break the connection with a RST, once the other side has taken everything that was sent before.

        A reset throws away what is still on its way. Where nobody tells how much that is, on systems other than Linux,
        the connection is closed in the middle of the body instead, which loses nothing and breaks it all the same.
        """
        raw = self._transport.get_extra_info("socket")
        if raw is None or not await self._taken(raw):
            self._transport.close()
            return
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
        self._transport.abort()

    async def _taken(self, raw: socket.socket) -> bool:
        """Whether all is with the other side, after some time if need be."""
        if not sys.platform.startswith("linux"):
            return False
        try:
            async with asyncio.timeout(_TAKEN_WITHIN_S):
                while not self._transport.is_closing() and (
                    self._transport.get_write_buffer_size() or _unsent_bytes(raw)
                ):
                    await asyncio.sleep(_LOOK_AGAIN_S)
        except TimeoutError:
            return False
        return True


def _unsent_bytes(raw: socket.socket) -> int:
    import fcntl

    counted = fcntl.ioctl(raw.fileno(), _UNSENT_BYTES, struct.pack("i", 0))
    unsent: int = struct.unpack("i", counted)[0]
    return unsent
