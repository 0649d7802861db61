"""Teams of agents, an experiment. Written in the lead's log only; every event holds the whole new value."""

from __future__ import annotations

from typing import Any

from playhead.eventstore.blocks import Blocks
from playhead.eventstore.registry import Event, event_type
from playhead.eventstore.value import MessageIdField, Text, Value, Whole


class TeamMember(Value):
    """``context``: ``fresh`` or ``fork``. ``phase``: ``provisioning``, ``active`` or ``failed``."""

    id: Text
    name: Text
    description: Text
    provider: Text
    context: Text
    phase: Text
    error: Any = None


class TeamTask(Value):
    """``revision`` counts from 1. ``status``: ``pending``, ``in_progress``, ``completed`` or ``deleted``."""

    id: Text
    revision: Whole
    subject: Text
    description: Text
    status: Text
    blocked_by: tuple[Text, ...]
    write_scopes: tuple[Text, ...]
    owner_id: Text | None = None


class TeamMessage(Value):
    """``delivery``: ``quiet`` or ``wakeup``."""

    id: MessageIdField
    sender_id: Text
    sender_name: Text
    target_id: Text
    delivery: Text
    content: Blocks


@event_type("team/member")
class TeamMemberChanged(Event):
    """A member joined or changed."""

    version: Whole
    team_id: Text
    member: TeamMember


@event_type("team/task")
class TeamTaskChanged(Event):
    """A task was added or changed."""

    version: Whole
    team_id: Text
    task: TeamTask


@event_type("team/message/queued")
class TeamMessageQueued(Event):
    """One member wrote to another."""

    version: Whole
    team_id: Text
    message: TeamMessage


@event_type("team/message/delivered")
class TeamMessageDelivered(Event):
    """The message reached its target."""

    version: Whole
    team_id: Text
    message_id: MessageIdField
    target_id: Text
