"""Where a provider is, as people write it: ``https://api.openai.com/v1``."""

from __future__ import annotations

import httpx

from playhead.eventstore.errors import UsageError

_LAST_PORT = 65535


def read_base_url(text: str, called: str, *, credentials: str) -> httpx.URL:
    """The URL of HTTP that ``text`` is.

    Raises ``UsageError`` for what is none, and for one with a user in it. Messages call it ``called``, and say with
    ``credentials`` where a key belongs.
    """
    try:
        url = httpx.URL(text)
    except httpx.InvalidURL as error:
        raise UsageError(f"{called} is no URL: {error}") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise UsageError(f"{called} begins with http:// or https:// and has a host")
    if url.port is not None and not 0 < url.port <= _LAST_PORT:
        raise UsageError(f"{called} has the port {url.port}: ports are 1 to {_LAST_PORT}")
    if url.userinfo:
        raise UsageError(f"{called} holds no user and no password: {credentials}")
    return url
