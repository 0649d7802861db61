"""Which provider a conversation is with: its dialect, where it is, and where the key comes from.

The dialect is the one that was named, else the one that the host of the base URL speaks, else the one in which the
session was recorded that goes on, else ``openai-chat``. A base URL need not be given where the dialect is named and has
a home. The key comes from the variable that was named, else from the usual one of the dialect; a server on this machine
gets none unless a variable is named. Source: docs/cli.md, "playhead run".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING, NamedTuple

from playhead.eventstore.errors import UsageError

if TYPE_CHECKING:
    from playhead.adapters.providers.dialect import ProviderDialect

NO_KEY = "no-key"
"""What is sent as the key to a server that wants none."""


class _Home(NamedTuple):
    """Where the maker of a dialect answers, and the usual name of its key."""

    base_url: str
    key_env: str


_OPENAI = _Home("https://api.openai.com/v1", "OPENAI_API_KEY")
_DEEPSEEK = _Home("https://api.deepseek.com", "DEEPSEEK_API_KEY")

_HOMES: Mapping[str, _Home] = {
    "openai-chat": _OPENAI,
    "deepseek-chat": _DEEPSEEK,
    "deepseek-chat-0.1.1": _DEEPSEEK,
    "deepseek-chat-0.1.0": _DEEPSEEK,
    "deepseek-messages": _Home("https://api.deepseek.com/anthropic", "DEEPSEEK_API_KEY"),
    "anthropic-messages": _Home("https://api.anthropic.com", "ANTHROPIC_API_KEY"),
}

_OTHERWISE = "openai-chat"


@dataclass(frozen=True, slots=True)
class ProviderChoice:
    """Whom to call. ``key_env`` is the variable that holds the key, None for a server that wants none."""

    dialect: ProviderDialect
    base_url: str
    key_env: str | None

    def key(self, environment: Mapping[str, str]) -> str:
        """The key. Raises ``UsageError`` where its variable is not set."""
        if self.key_env is None:
            return NO_KEY
        key = environment.get(self.key_env, "").strip()
        if not key:
            raise UsageError(
                f"{self.key_env} holds no key for {self.base_url}: set it, name another variable with --key-env, "
                "or say --no-key where none is wanted"
            )
        return key


def choose(
    base_url: str | None,
    dialect_name: str | None,
    recorded: str | None,
    key_env: str | None,
    *,
    no_key: bool,
) -> ProviderChoice:
    """The provider that these options name; ``recorded`` is that of the session that goes on.

    Raises ``UsageError`` where they name none, an unknown dialect, or no URL.
    """
    from playhead.adapters.providers.client import endpoint
    from playhead.adapters.providers.dialects import DIALECTS, dialect

    if no_key and key_env is not None:
        raise UsageError("--key-env names a key and --no-key wants none: choose one")
    if base_url is None and dialect_name is None:
        raise UsageError("which provider? Give --base-url URL, or --dialect NAME for the maker's own address")
    if base_url is None:
        assert dialect_name is not None
        chosen = dialect(dialect_name)
        base_url = _HOMES[chosen.name].base_url
    else:
        named = dialect_name or _spoken_at(base_url) or (recorded if recorded in DIALECTS else None)
        chosen = dialect(named or _OTHERWISE)
    url = endpoint(base_url, chosen.path)
    wants_none = no_key or (key_env is None and _is_this_machine(url.host))
    return ProviderChoice(chosen, base_url, None if wants_none else key_env or _HOMES[chosen.name].key_env)


def _spoken_at(base_url: str) -> str | None:
    """The dialect of a maker whose home ``base_url`` is; the longest address that fits counts."""
    fitting = [
        name
        for name, home in _HOMES.items()
        if f"{base_url}/".startswith(f"{home.base_url.removesuffix('/v1')}/")
    ]
    return max(fitting, key=lambda name: len(_HOMES[name].base_url), default=None)


def _is_this_machine(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
