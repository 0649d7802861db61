"""Workflows: a tool that runs several agents. Written around each run and each agent in it."""

from __future__ import annotations

from playhead.eventstore.registry import Event, event_type
from playhead.eventstore.value import SessionIdField, Text, Whole


@event_type("tool-workflow/run-start")
class WorkflowStarted(Event):
    """A run begins."""

    run_id: Text
    name: Text


@event_type("tool-workflow/agent-start")
class WorkflowAgentStarted(Event):
    """An agent of the run begins. ``seq`` numbers the agents of the run from 1; it is no place in the log."""

    run_id: Text
    seq: Whole
    label: Text
    child_id: SessionIdField
    phase: Text | None = None


@event_type("tool-workflow/agent-end")
class WorkflowAgentEnded(Event):
    """``outcome``: ``completed``, ``failed`` or ``cancelled``."""

    run_id: Text
    seq: Whole
    outcome: Text


@event_type("tool-workflow/run-end")
class WorkflowEnded(Event):
    """``stop_reason``: ``completed``, ``cancelled`` or ``error``. No agent of the run is open any more."""

    run_id: Text
    stop_reason: Text
