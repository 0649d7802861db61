"""Replay state on its way back to a provider.

An answer may carry private data of the adapter that made it (``source.replayState``: signatures, ids), so that the
answer can be sent back as it came. It means nothing to another provider, and none is sent another's.
"""

from __future__ import annotations

from typing import Any

from playhead.eventstore import members


def for_provider(message: dict[str, Any], provider: str | None) -> dict[str, Any]:
    """``message`` as ``provider`` may see it: without the replay state of another one.

    The same object where nothing has to go; also where nobody knows the provider.
    """
    source = members.inner(message, "source")
    if provider is None or "replayState" not in source or source.get("provider") == provider:
        return message
    return message | {"source": {name: value for name, value in source.items() if name != "replayState"}}
