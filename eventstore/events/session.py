"""Facts about the session as a whole: its seed, its title, how it is configured, where its log went."""

from __future__ import annotations

from typing import Any

from playhead.eventstore.registry import Event, event_type
from playhead.eventstore.value import Flag, JsonList, SeqField, SessionIdField, Text, Value, Whole


@event_type("session/end-seed")
class SeedEnded(Event):
    """The events a session was constructed with end here. Written by the session when it resumes.

    ``inherited`` marks, from log format 2 on, the end of what a fork took over from its parent.
    """

    inherited: Flag | None = None


class Route(Value):
    """A provider and a model of it."""

    provider: Text
    model: Text


class TitleSource(Value):
    """Who made a title: ``fallback``, ``provider`` (with its name, and the model it used) or ``user``."""

    kind: Text
    provider: Text | None = None
    model: Route | None = None


@event_type("session/title")
class SessionTitled(Event):
    """The title; the last one counts.

    ``message_seqs`` are the messages it was made from, none when a person gave it.
    """

    title: Text
    message_seqs: tuple[SeqField, ...]
    source: TitleSource


@event_type("session/title-llm-request")
class TitleRequested(Event):
    """The request for a title, before it is sent."""

    title_provider: Text
    message_seqs: tuple[SeqField, ...]
    route: Route
    system: Text
    messages: JsonList
    max_tokens: Whole


@event_type("session-log-deepseek/delivery-accepted")
class DeliveryAccepted(Event):
    """A provider took delivery of the log up to and including ``through_seq``; one per accepted request."""

    session_id: SessionIdField
    session_format_version: Whole
    through_seq: SeqField


@event_type("agent-preset/selected")
class PresetSelected(Event):
    """Another agent preset was chosen while the session was blank; the newest overrides the header."""

    agent_preset: Text


@event_type("permission/preset")
class PermissionPresetChosen(Event):
    """A named bundle of sandbox mode and approval policy was chosen; those two events follow."""

    preset: Text


@event_type("sandbox/mode")
class SandboxModeSet(Event):
    """``read-only``, ``workspace-write`` or ``danger-full-access``; the last one counts.

    ``source`` is ``delegation`` where a parent handed it down.
    """

    mode: Text
    source: Text | None = None


@event_type("plan/mode")
class PlanModeSet(Event):
    """Plan mode was switched; the last one counts, and the default is off."""

    active: Flag


@event_type("model/selection")
class ModelSelected(Event):
    """A model was chosen. No example is known: every member is kept as it is found."""


@event_type("working-directory/change")
class WorkingDirectoryChanged(Event):
    """The working directory changed. No example is known: every member is kept as it is found."""


@event_type("workspace/changes")
class WorkspaceChanged(Event):
    """Files of the workspace changed. No example is known: every member is kept as it is found."""


@event_type("image/offload")
class ImageOffloaded(Event):
    """A picture left the conversation. No example is known: every member is kept as it is found."""


@event_type("deliverables/presented")
class DeliverablesPresented(Event):
    """Results were shown to the user. No example is known: every member is kept as it is found."""


@event_type("web/deepseek-search-llm-request")
class WebSearchRequested(Event):
    """A request of the web search tool to its model, without secrets, before it is sent."""

    endpoint: Text
    api_version: Any
    body: Any
