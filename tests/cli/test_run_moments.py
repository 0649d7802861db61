"""The moments of a session while it happens are those that its log tells afterwards."""

from __future__ import annotations

from driver_model import Played, playing
from hypothesis import given, settings
from twins import Log

from playhead.cli.run_moments import LiveMoments
from playhead.projections.attempt import STEP
from playhead.replay.moments import Began, Came, Ended, Happened, Moment, moments
from playhead.replay.part import part

SETTLED = frozenset({"finished", "failed", "cancelled"})
"""How calls end that nothing but the end of a process leaves open."""


def live(log: Log) -> list[Moment]:
    found = LiveMoments(log)
    return [moment for event in log.events() for moment in found.after(event)]


def chunks(found: list[Moment]) -> list[tuple[int, object]]:
    return [(moment.time_ms, moment.chunk) for moment in found if isinstance(moment, Came)]


def ends(found: list[Moment]) -> list[tuple[object, ...]]:
    """Which calls ended, and how: seq, outcome, message, chunks, and the number of the retry that follows."""
    return [
        (
            call.seq,
            call.outcome,
            call.message_seq,
            call.failure,
            moment.chunks,
            call.retry and call.retry.number,
        )
        for moment in found
        if isinstance(moment, Ended)
        and (call := moment.attempt.call).kind == STEP
        and call.outcome in SETTLED
    ]


@given(playing())
@settings(max_examples=100, deadline=None)
def test_chunks_and_ends_are_told_as_a_replay_tells_them(played: Played) -> None:
    log = Log.of([*played.facts, *played.closers], played.header)
    now, later = live(log), list(moments(part(log), lambda _: False))
    assert chunks(now) == chunks(later)
    assert ends(now) == ends(later)


@given(playing())
@settings(max_examples=50, deadline=None)
def test_a_call_begins_streams_and_ends_before_the_next_one(played: Played) -> None:
    open_call = None
    for moment in live(Log.of([*played.facts, *played.closers], played.header)):
        match moment:
            case Began(attempt=attempt):
                assert open_call is None
                open_call = attempt.seq
            case Came(attempt=attempt):
                assert attempt.seq == open_call
            case Ended(attempt=attempt):
                assert attempt.seq == open_call
                open_call = None
            case Happened():
                pass


@given(playing())
@settings(max_examples=50, deadline=None)
def test_the_latest_call_is_known_whatever_was_there_before(played: Played) -> None:
    whole, resumed = (LiveMoments(Log.of(played.facts, played.header)) for _ in range(2))
    for event in played.facts:
        list(whole.after(event))
        resumed.learn(event)
        assert resumed.latest == whole.latest
