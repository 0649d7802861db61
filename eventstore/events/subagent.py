"""Sessions that work for another session.

``subagent/descriptor`` is written in the child, in its first turn; ``subagent/catalog`` in the parent, from
log format 3 on. A fork can hold an ancestor's descriptor.
"""

from __future__ import annotations

from typing import Any

from playhead.eventstore.registry import Event, event_type
from playhead.eventstore.value import SessionIdField, Text, Whole


@event_type("subagent/descriptor")
class SubagentDescribed(Event):
    """How the child was composed. ``mode``: ``one-shot`` or ``continuable``; only the second has more than a
    label. Versions 2 and 3 are known; 3 adds ``agent_reasoning_effort``."""

    version: Whole
    mode: Text
    provider: Text
    label: Text | None = None
    agent_provider: Text | None = None
    agent_model: Text | None = None
    agent_reasoning_effort: Text | None = None
    persona: Any = None
    tool_filter: Any = None


@event_type("subagent/catalog")
class SubagentCataloged(Event):
    """The parent's note of a child. ``child_created_at`` is epoch milliseconds."""

    version: Whole
    child_id: SessionIdField
    child_created_at: Whole
    mode: Text
    label: Text | None = None


@event_type("subagent/model-selection-policy")
class SubagentModelPolicySet(Event):
    """Which models subagents may use. No example is known: every member is kept as it is found."""
