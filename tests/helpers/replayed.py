"""Recorded sessions served, and what a client of ours gets of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from playhead.adapters.providers.client import Provider
from playhead.adapters.providers.dialect import ProviderDialect
from playhead.eventstore.cancel import CancelToken
from playhead.eventstore.chunk_source import AdapterError, ModelRequest
from playhead.eventstore.chunks import Chunk
from playhead.eventstore.failures import Failure
from playhead.eventstore.log import Session
from playhead.web.endpoint import Endpoint, Settings
from playhead.web.recording import Recording
from playhead.web.server import serving

SILENCE_S = 0.3
"""How long nothing may come before a client of these tests gives up."""


@dataclass(frozen=True)
class Got:
    """What a client got: chunks, and the failure that was raised behind them."""

    chunks: list[Chunk]
    failure: Failure | None = None


@contextmanager
def endpoint(*sessions: Session, settings: Settings | None = None) -> Iterator[tuple[Endpoint, str]]:
    """An endpoint that serves ``sessions``, and its URL."""
    served = Endpoint([Recording.of(session) for session in sessions], settings)
    with serving(served) as server:
        yield served, server.url


def ask_all(
    url: str, calls: Iterable[tuple[ProviderDialect, ModelRequest]], silence_s: float = SILENCE_S
) -> list[Got]:
    """What the provider client gets, one call after the other."""

    async def run() -> list[Got]:
        return [await ask(url, dialect, request, silence_s) for dialect, request in calls]

    return asyncio.run(run())


async def ask(url: str, dialect: ProviderDialect, request: ModelRequest, silence_s: float = SILENCE_S) -> Got:
    """What the provider client gets for one request."""
    got: list[Chunk] = []
    async with Provider(dialect, url, "sk-any-key", idle_timeout_s=silence_s) as provider:
        try:
            async for chunk in provider.stream(request, CancelToken()):
                got.append(chunk)
        except AdapterError as error:
            return Got(got, error.failure)
    return Got(got)
