"""Compaction: a part of the conversation gives way to a summary, or a long tool result to a shorter one.

Written by the compaction service. A summary lies between ``compaction/start`` and ``compaction/end`` and is
followed at once by the ``user/message`` that takes the place of what it sums up; a prune is followed at once
by the shorter ``tool/result``. A start before the last ``session/end-seed`` is stale.
"""

from __future__ import annotations

from typing import Any

from playhead.eventstore.blocks import Blocks
from playhead.eventstore.registry import Event, event_type
from playhead.eventstore.usage import Usage
from playhead.eventstore.value import Flag, SeqField, Text, Value, Whole


class ShadowedRange(Value):
    """First and last seq of what gives way, in the order of the surface: ``start`` may be the higher."""

    start: SeqField
    end: SeqField


@event_type("compaction/start")
class CompactionStarted(Event):
    """``turn`` is the open turn, or None between turns."""

    compaction_id: Text
    turn: Whole | None
    source_command_id: Text | None = None


@event_type("compaction/summary")
class CompactionSummarized(Event):
    """The summary and what it cost. ``llm_stream_call`` says that exactly one model call made it, of which
    ``raw_output`` is the answer."""

    compaction_id: Text
    summary: Blocks
    shadowed_range: ShadowedRange
    shadowed_seqs: tuple[SeqField, ...]
    shadowed_token_count: Whole
    provider: Text
    model: Text
    source_command_id: Text | None = None
    max_tokens: Whole | None = None
    usage: Usage | None = None
    raw_output: Blocks | None = None
    llm_stream_call: Flag | None = None


@event_type("compaction/end")
class CompactionEnded(Event):
    """Without ``error`` there was a summary. ``turn`` is that of the start."""

    compaction_id: Text
    turn: Whole | None
    source_command_id: Text | None = None
    error: Any = None


@event_type("compaction/prune")
class ToolResultPruned(Event):
    """What one replacement without a model saves."""

    shadowed_range: ShadowedRange
    shadowed_seqs: tuple[SeqField, ...]
    shadowed_token_count: Whole
