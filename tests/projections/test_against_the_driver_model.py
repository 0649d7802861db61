"""Every projection agrees with what the driver of a generated session knows of it, at every event of the log."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from driver_model import Played, play, playing
from driver_truth import Call, Entry, Fate
from hypothesis import given, settings
from hypothesis import strategies as st
from twins import Log

from playhead.eventstore import invariants, repair
from playhead.eventstore.recorded import Recorded
from playhead.projections import registry
from playhead.projections.folding import Folded, advance, begin, fold
from playhead.projections.goal import goal
from playhead.projections.inbox import inbox, lists_at, standings, verdict
from playhead.projections.inbox_state import InboxState, Message
from playhead.projections.projection import Projection
from playhead.projections.session_stats import session_stats
from playhead.projections.surface import surface
from playhead.projections.transcript import transcript
from playhead.projections.transcript_items import (
    Answer,
    AnyItem,
    Compaction,
    FailedAttempt,
    Mark,
    Step,
    ToolCall,
    Turn,
)
from playhead.projections.transcript_items import (
    Message as Shown,
)
from playhead.projections.usage import is_inherited, spent, usage

every_projection = pytest.mark.parametrize(
    "projection", [pytest.param(each, id=each.name) for each in registry.every()]
)


def as_it_lies(played: Played) -> Log:
    return Log(played.header, tuple(played.facts))


def repaired(played: Played) -> Log:
    return Log(played.header, (*played.facts, *played.closers))


def states(projection: Projection[Any], played: Played) -> dict[int, Any]:
    """The state after each event, folded one by one."""
    folded = begin(projection, played.header)
    found = {}
    for event in played.facts:
        folded = advance(projection, folded, [event])
        found[event.seq] = folded.state
    return found


# The model itself


@settings(max_examples=80)
@given(playing())
def test_the_driver_breaks_no_rule_and_its_own_closers_are_those_of_repair(played: Played) -> None:
    log = [*played.facts, *played.closers]
    assert list(invariants.check(log, seed_length=played.inherited)) == []
    assert [_closer(event) for event in repair.closers(played.facts)] == [
        _closer(event) for event in played.closers
    ]


def _closer(event: Recorded) -> tuple[Any, ...]:
    data = dict(event.json)
    message = data.pop("message", {})
    return event.seq, event.time_ms, event.type, event.source_seqs, data, message.get("id")


def test_the_driver_comes_into_every_situation_that_is_told_apart() -> None:
    seen: Counter[Any] = Counter()
    for seed in range(400):
        played = play(Random(seed))
        truth = played.repaired
        seen.update(fate.verdict for fate in played.truth.fates.values())
        seen.update((fate.verdict, fate.reason) for fate in truth.fates.values())
        seen.update((call.outcome, call.inherited) for call in truth.calls)
        seen.update((entry["what"], entry.get("outcome")) for entry in truth.transcript)
        seen.update(entry["ending"] for entry in truth.transcript if entry["what"] == "turn")
        seen.update(event.json["operation"] for event in played.facts if event.type == "goal/change")
        seen["stays again"] += any(fate.stays > 1 for fate in truth.fates.values())
        seen["steering"] += any(entry.get("steering") for entry in truth.transcript)
        seen["a goal round"] += bool(truth.admitted_rounds)
    wanted = {
        *("admitted", "refused", "lost", "cancelled", "replaced", "pending", "open"),
        *((("lost", reason)) for reason in ("left-out", "interrupted", "aborted")),
        *((("cancelled", reason)) for reason in ("removed", "cleared", "stopped")),
        *((outcome, False) for outcome in ("finished", "failed", "cancelled", "crashed")),
        ("finished", True),
        *(("compaction", outcome) for outcome in ("done", "failed", "unfinished")),
        *("completed", "aborted", "error", "max-tokens", "blocked", "interrupted"),
        *("create", "edit", "pause", "resume", "complete", "block", "clear"),
        *("stays again", "steering", "a goal round"),
    }
    assert wanted - seen.keys() == set()


# The inbox


@settings(max_examples=80)
@given(playing())
def test_lists_and_verdicts_are_those_of_the_driver_at_every_seq(played: Played) -> None:
    folded = states(inbox, played)
    for moment in played.truth.moments:
        state: InboxState = folded[moment.seq]
        assert (state.lists.next_turn, state.lists.next_step) == (moment.next_turn, moment.next_step)
        told = [(message.id, verdict(state, message)) for message in state.messages()]
        assert len(told) == len(dict(told))
        assert dict(told) == moment.verdicts
    last = fold(as_it_lies(played), inbox).state
    assert last.breaches == ()
    for moment in played.truth.moments:
        lists = lists_at(last, moment.seq)
        assert (lists.next_turn, lists.next_step) == (moment.next_turn, moment.next_step)


@settings(max_examples=80)
@given(playing())
def test_each_message_has_the_history_that_the_driver_gave_it(played: Played) -> None:
    state = fold(repaired(played), inbox).state
    fates = played.repaired.fates
    assert [message.id for message in state.messages()] == list(fates)
    for message in state.messages():
        _same_fate(state, message, fates[message.id])


def _same_fate(state: InboxState, message: Message, fate: Fate) -> None:
    assert verdict(state, message) == fate.verdict
    if fate.reason is not None:
        assert (message.reason, message.detail) == (fate.reason, fate.detail)
    claim = message.claim
    assert (None if claim is None else claim.turn) == fate.claimed_turn
    assert (None if claim is None else claim.step) == fate.claimed_step
    assert (None if claim is None else claim.time_ms) == fate.claimed_ms
    assert (message.stays, message.target) == (fate.stays, fate.target)
    assert (message.inserted_seq, message.inserted_ms) == (fate.inserted_seq, fate.inserted_ms)
    assert (message.admitted_seq, message.replaced_by) == (fate.admitted_seq, fate.replaced_by)


@settings(max_examples=100)
@given(playing())
def test_the_places_of_a_message_are_those_it_had_in_the_lists(played: Played) -> None:
    state = fold(as_it_lies(played), inbox).state
    for id in played.truth.fates:
        stood: list[tuple[int, str, int]] = []
        last = None
        for moment in played.truth.moments:
            now = None
            for target, line in (("next-turn", moment.next_turn), ("next-step", moment.next_step)):
                if id in line:
                    now = (target, line.index(id))
            if now is not None and now != last:
                stood.append((moment.seq, *now))
            last = now
        assert [(each.seq, each.target, each.place) for each in standings(state, id)] == stood


# The transcript


@settings(max_examples=80)
@given(playing())
def test_the_transcript_tells_what_the_driver_showed(played: Played) -> None:
    for log, truth in ((as_it_lies(played), played.truth), (repaired(played), played.repaired)):
        state = fold(log, transcript).state
        assert _told(state.sections()) == [_plain(entry) for entry in truth.transcript]
        assert state.title == truth.title
        assert state.breaches == ()


def _plain(entry: Entry) -> tuple[Any, ...]:
    what = entry["what"]
    place = (what, entry["turn"], entry["step"])
    match what:
        case "turn":
            return what, entry["number"], entry["ending"]
        case "step":
            return what, entry["turn"], entry["number"]
        case "message":
            return *place, entry["id"], entry["text"], entry["steering"]
        case "answer":
            return *place, tuple(map(tuple, entry["parts"])), entry["interrupted"]
        case "tool":
            known = (entry["call"], entry["arguments"], entry["started"])
            return *place, *known, None if entry["code"] else entry["result"], entry["code"]
        case "attempt":
            return *place, entry["finish"], entry["code"], entry["retry"], entry["started"]
        case "compaction":
            return *place, entry["kind"], entry["outcome"]
    return *place, entry["kind"], entry["text"]


def _told(sections: Any) -> list[tuple[Any, ...]]:
    """The entries of a transcript as the driver writes them down."""
    found: list[tuple[Any, ...]] = []
    for section in sections:
        number = section.number if isinstance(section, Turn) else None
        if isinstance(section, Turn):
            found.append(("turn", number, None if section.ending is None else section.ending.reason))
        for item in section.items:
            if isinstance(item, Step):
                found.append(("step", number, item.number))
                found += (_item(inner, number, item.number) for inner in item.items)
            else:
                found.append(_item(item, number, None))
    return found


def _item(item: AnyItem, turn: int | None, step: int | None) -> tuple[Any, ...]:
    match item:
        case Shown():
            return "message", turn, step, item.id, item.text, item.steering
        case Answer():
            parts = tuple((part.kind, part.text) for part in item.parts)
            return "answer", turn, step, parts, item.interrupted
        case ToolCall():
            result = None if item.is_error else item.result
            known = (item.call_id, item.arguments, item.started_seq is not None)
            return "tool", turn, step, *known, result, item.error_code
        case FailedAttempt():
            retry, failure = item.retry, item.failure
            number = None if retry is None else retry.number
            code = None if failure is None else failure.code
            started = retry is not None and retry.started_ms is not None
            return "attempt", turn, step, item.finish, code, number, started
        case Compaction():
            return "compaction", turn, step, item.kind, item.outcome
        case Mark():
            return "mark", turn, step, item.kind, item.text


# Surface, goals, figures


@settings(max_examples=80)
@given(playing())
def test_the_surface_is_that_of_the_driver_at_every_seq(played: Played) -> None:
    folded = states(surface, played)
    for moment in played.truth.moments:
        assert tuple(folded[moment.seq].seqs) == moment.surface
    last = fold(repaired(played), surface).state
    assert (tuple(last.seqs), last.breaches) == (tuple(played.repaired.surface), ())


@settings(max_examples=80)
@given(playing())
def test_the_goal_is_that_of_the_driver_at_every_seq(played: Played) -> None:
    folded = states(goal, played)
    for moment in played.truth.moments:
        standing = folded[moment.seq].standing
        if moment.goal is None:
            assert standing.goal is None
            continue
        now = standing.goal
        reason = None if now.blocked is None else {"code": now.blocked.code, "message": now.blocked.message}
        assert (now.id, now.revision, now.objective, now.phase, now.max_rounds, standing.rounds) == (
            *(moment.goal[key] for key in ("id", "revision", "objective", "phase", "maxGoalRounds")),
            moment.rounds,
        )
        assert reason == moment.goal.get("blockedReason")
        assert (standing.created_ms, standing.updated_ms) == (
            moment.goal["createdAt"],
            moment.goal["updatedAt"],
        )
    state = fold(as_it_lies(played), goal).state
    admitted = [(each.goal_id, each.round) for each in (*state.rounds, *state.running)]
    assert admitted == played.truth.admitted_rounds
    assert state.breaches == ()


_FIGURES = (("input", "inputTokens"), ("output", "outputTokens"), ("cacheRead", "cacheReadTokens"))


def _sum(calls: list[Call]) -> dict[str, Any]:
    """What the calls took; None where none of them told."""
    found: dict[str, Any] = {
        "calls": len(calls),
        "withoutUsage": sum(call.usage is None for call in calls),
    }
    for name, key in _FIGURES:
        told = [call.usage[key] for call in calls if call.usage is not None and key in call.usage]
        found[name] = sum(told) if told else None
    return found


@settings(max_examples=80)
@given(playing())
def test_tokens_are_summed_per_call_and_those_of_the_parent_apart(played: Played) -> None:
    truth = played.repaired
    state = fold(repaired(played), usage).state
    view = usage.view(state)
    for name, inherited in (("own", False), ("inherited", True)):
        wanted = _sum([call for call in truth.calls if call.inherited == inherited])
        assert {key: view[name][key] for key in wanted} == wanted
    shown = list(truth.shown_usage.values())
    assert view["sessionTokens"] == {
        "uncachedInputTokens": sum(each["inputTokens"] for each in shown),
        "outputTokens": sum(each["outputTokens"] for each in shown),
        "cacheReadTokens": sum(each.get("cacheReadTokens", 0) for each in shown),
        "cacheWriteTokens": 0,
    }


@settings(max_examples=80)
@given(playing())
def test_every_call_is_there_once_with_its_outcome(played: Played) -> None:
    state = fold(repaired(played), usage).state
    calls = [(call.step, call.outcome, is_inherited(state, call)) for call in spent(state)]
    assert calls == [(call.step, call.outcome, call.inherited) for call in played.repaired.calls]


@settings(max_examples=80)
@given(playing())
def test_the_figures_are_those_of_the_driver(played: Played) -> None:
    view = session_stats.view(fold(repaired(played), session_stats).state)
    stats = played.repaired.stats
    assert view == {
        "turns": stats.turns,
        "steps": stats.steps,
        "llmMs": stats.llm_ms,
        "toolMs": stats.tool_ms,
        "ttftMs": stats.ttft_ms,
        "ttftSteps": stats.ttft_steps,
        "decodeMs": stats.decode_ms,
        "decodeTokens": stats.decode_tokens,
    }


# Every projection


@every_projection
@settings(max_examples=30)
@given(played=playing(), data=st.data())
def test_a_fold_cut_anywhere_and_kept_anywhere_equals_the_whole(
    projection: Projection[Any], played: Played, data: st.DataObject
) -> None:
    log = repaired(played)
    whole = fold(log, projection)
    step = begin(projection, log.header)
    cuts = data.draw(st.sets(st.integers(0, len(log.facts)), max_size=3))
    for at, event in enumerate(log.facts):
        if at in cuts:
            kept = projection.load(projection.dump(step.state))
            assert kept == step.state == fold(log, projection, at=at - 1).state
            step = Folded(kept, step.next_seq, step.unknown)
        if projection.deltas or not _is_delta(event):
            step = advance(projection, step, [event])
    assert step.state == whole.state
    assert (whole.complete, step.next_seq) == (True, len(log.facts))


def _is_delta(event: Recorded) -> bool:
    return event.type == "assistant/chunk" and event.json["chunk"]["type"].endswith("-delta")


@every_projection
@settings(max_examples=30)
@given(played=playing())
def test_an_event_that_changes_nothing_leaves_the_state_object_alone(
    projection: Projection[Any], played: Played
) -> None:
    folded = begin(projection, played.header)
    for event in repaired(played).facts:
        after = advance(projection, folded, [event])
        assert after.state is folded.state or after.state != folded.state
        assert event.type in projection.handles or after.state is folded.state
        folded = after
