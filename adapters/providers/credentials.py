"""The key of a provider: checked before it is sent, spelled as its wire wants it, and shown nowhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from playhead.eventstore.chunk_source import AdapterError
from playhead.eventstore.failures import Failure

KeySource: TypeAlias = str | Callable[[], str | None] | None
"""A key, or what gives one for each call, so that it may change and need not be held."""

ANTHROPIC_VERSION = "2023-06-01"
"""The version of the Messages wire that we speak."""


def resolve_key(source: KeySource) -> str:
    """The key for one call, without blanks around it.

    Raises ``AdapterError``: ``MISSING_CREDENTIAL`` where there is none, ``INVALID_CREDENTIAL`` where it is not
    printable ASCII without blanks, which no header can carry. The message never shows it.
    """
    given = source() if callable(source) else source
    key = (given or "").strip()
    if not key:
        raise _refused(
            "MISSING_CREDENTIAL", "there is no API key; give one to the provider, any for a local endpoint"
        )
    if not all("!" <= character <= "~" for character in key):
        raise _refused(
            "INVALID_CREDENTIAL", "the API key has a character that is no printable ASCII; copy it again"
        )
    return key


def key_headers(path: str, key: str) -> dict[str, str]:
    """The headers that carry ``key`` to an endpoint of this path: ``x-api-key`` for Messages, a bearer token else."""
    return _BY_PATH.get(path, _bearer)(key)


def _bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def _api_key(key: str) -> dict[str, str]:
    return {"x-api-key": key, "anthropic-version": ANTHROPIC_VERSION}


_BY_PATH: Mapping[str, Callable[[str], dict[str, str]]] = {"/v1/messages": _api_key}


def _refused(code: str, message: str) -> AdapterError:
    return AdapterError(Failure(message=message, code=code))
