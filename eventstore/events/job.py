"""Background jobs. Written by the job registry, from log format 4 on, for every shell command."""

from __future__ import annotations

from playhead.eventstore.registry import Event, event_type
from playhead.eventstore.value import CallIdField, Flag, SessionIdField, Text, Value, Whole


class JobCall(Value):
    """The tool call that started a job, and the call of the model that it goes back to."""

    call_id: CallIdField
    root_call_id: CallIdField


class _Job(Event):
    """Times are epoch milliseconds; ``owner`` is the session."""

    job_id: Text
    owner: SessionIdField
    kind: Text
    label: Text
    started_at: Whole
    tool_call: JobCall | None = None


@event_type("job/registered")
class JobRegistered(_Job):
    """A job runs."""


@event_type("job/settled")
class JobSettled(_Job):
    """A job is over. ``status``: ``completed``, ``failed`` or ``killed``."""

    finished_at: Whole
    status: Text
    cause: Text | None = None
    producer_reported: Flag | None = None
    detail: Text | None = None
