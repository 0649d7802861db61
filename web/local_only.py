"""Requests to a server on this machine, from programs that mean this machine.

A web page can give a name of its own the address 127.0.0.1, and have the browser ask there in its name: what a server
on the loopback says would then be read by the page. Such a request shows the name in its ``host`` header. Taken are
addresses, names of one word, and names under domains that nobody can register: ``localhost``, ``local``, ``internal``
(as containers call their machine), ``test``, ``home.arpa``. Any other is answered with status 403. A request that
names a whole URL, or wants a tunnel, comes from a client that was told to take this server for its proxy: the app says
what it thinks of that.
Source: docs/cli.md, "playhead serve".
"""

from __future__ import annotations

import re
from ipaddress import ip_address

from starlette.types import ASGIApp, Receive, Scope, Send

from playhead.eventstore import json_text

_PORT = re.compile(r":\d*\Z")
_RESERVED = (".localhost", ".local", ".internal", ".test", ".home.arpa")
"""RFC 6761, 6762 and 8375, and the domain that ICANN keeps for private use (2024)."""


class LocalOnly:
    """``app`` for who means this machine."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        named = next((value for name, value in scope.get("headers", ()) if name == b"host"), b"")
        host = named.decode("latin-1")
        is_of_a_proxy = not scope.get("raw_path", b"/").startswith(b"/")
        if is_of_a_proxy or means_this_machine(host):
            await self._app(scope, receive, send)
        else:
            await _refuse(host, send)


def means_this_machine(host: str) -> bool:
    """Whether ``host``, which is a header with or without a port, can be that of a program which means this machine."""
    name = _PORT.sub("", host).removeprefix("[").removesuffix("]").rstrip(".").lower()
    return "." not in name or name.endswith(_RESERVED) or _is_address(name)


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


async def _refuse(host: str, send: Send) -> None:
    message = (
        f"playhead: this server is for this machine, and the request means {host!r}: "
        "name it by its address, or let it listen on another one than the loopback"
    )
    body = json_text.dumps(
        {"error": {"message": message, "type": "permission_error", "code": "foreign_host"}}
    )
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 403, "headers": headers})
    await send({"type": "http.response.body", "body": body})
