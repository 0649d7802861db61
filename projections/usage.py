"""What a session took in tokens, call by call.

Every model call counts by itself, those that failed, were tried again or were cancelled too, and the calls behind
compactions. Within a call the last report wins: the usage of a message repeats that of the stream. A call without
any usage is unknown, not zero. What the session inherited from its parent is summed apart: the parent was billed.

``sessionTokens`` in the view is another sum, the one that the runtimes themselves show: one report per step, of which
a later one takes the place of an earlier one, so that a failed call disappears behind its retry; compactions are left
out; the inherited part is in it. It is there to compare with, not to bill by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from playhead.eventstore import members
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.recorded import Recorded
from playhead.projections import attempt_fold, block_chunks
from playhead.projections.attempt import Attempt, Outcome, Tokens, tokens_of, whole
from playhead.projections.attempt_fold import Attempts
from playhead.projections.embedded_stream import summarise
from playhead.projections.model_call_table import TOKEN_COLUMNS, token_values
from playhead.projections.projection import Column, Projection, ReadTable, Row
from playhead.projections.token_sums import TokenSum

K = TypeVar("K")


class Spent(msgspec.Struct, frozen=True, rename="camel"):
    """What one call took. ``at_ms`` is its end, or its beginning where it has none."""

    kind: str
    turn: int | None
    step: int | None
    number: int
    seq: int
    at_ms: int | None
    outcome: Outcome
    provider: str | None
    model: str | None
    tokens: Tokens | None


class Report(msgspec.Struct, frozen=True, rename="camel"):
    """The last report of a step, for ``sessionTokens``."""

    turn: int | None
    step: int | None
    tokens: Tokens


class Usage(msgspec.Struct, frozen=True, rename="camel"):
    """``turns`` are the calls of turns that are over. ``fold`` holds the calls since then and finds new ones.

    ``reports`` is the sum of the last reports of the steps before that of ``report``.
    """

    fold: Attempts
    turns: tuple[tuple[Spent, ...], ...] = ()
    report: Report | None = None
    reports: tuple[int, int, int, int] = (0, 0, 0, 0)


def spent(state: Usage) -> Iterator[Spent]:
    """What every call took, in order; steps of which nothing came are left out."""
    for turn in state.turns:
        yield from turn
    yield from _of(attempt_fold.calls(state.fold))


def is_inherited(state: Usage, call: Spent) -> bool:
    """Whether the parent made the call."""
    return state.fold.inherited.covers(call.seq)


def session_tokens(state: Usage) -> dict[str, int]:
    """Tokens of the session as the runtimes sum them up, see the module."""
    sums = _plus(state.reports, state.report)
    names = ("uncachedInputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")
    return dict(zip(names, sums, strict=True))


def _begin(header: SessionHeader) -> Usage:
    return Usage(attempt_fold.begin(header))


def _apply(state: Usage, event: Recorded) -> Usage:
    if attempt_fold.goes_on(state.fold, event):
        return state
    fold = attempt_fold.after(state.fold, event)
    if fold.turns:
        turns = tuple(tuple(_of(turn)) for turn in fold.turns)
        state = replace(state, turns=(*state.turns, *filter(None, turns)))
        fold = replace(fold, turns=())
    if fold is not state.fold:
        state = replace(state, fold=fold)
    report = _report(event) if event.type in _REPORTING else None
    if report is None or report == state.report:
        return state
    last = state.report
    if last is not None and (last.turn, last.step) != (report.turn, report.step):
        state = replace(state, reports=_plus(state.reports, last))
    return replace(state, report=report)


def _of(calls: Iterable[Attempt]) -> Iterator[Spent]:
    for call in calls:
        if call.outcome != "unanswered":
            yield Spent(
                kind=call.kind,
                turn=call.turn,
                step=call.step,
                number=call.number,
                seq=call.seq,
                at_ms=call.started_ms if call.ended_ms is None else call.ended_ms,
                outcome=call.outcome,
                provider=call.provider,
                model=call.model,
                tokens=call.tokens,
            )


_REPORTING = frozenset({"assistant/chunk", "assistant/message", "assistant/attempt"})


def _report(event: Recorded) -> Report | None:
    """What the event reports for its step; None where it reports nothing."""
    if event.type == "assistant/chunk" and block_chunks.place_of(event) is not None:
        return None
    data = members.of(event)
    match event.type:
        case "assistant/chunk":
            chunk = members.inner(data, "chunk")
            tokens = tokens_of(chunk) if chunk.get("type") == "usage" else None
        case "assistant/message":
            tokens = tokens_of(data)
        case _:
            tokens = summarise(data).tokens
    return None if tokens is None else Report(whole(data, "turn"), whole(data, "step"), tokens)


def _plus(sums: tuple[int, int, int, int], report: Report | None) -> tuple[int, int, int, int]:
    tokens = Tokens() if report is None else report.tokens
    return (
        sums[0] + (tokens.input or 0),
        sums[1] + (tokens.output or 0),
        sums[2] + (tokens.cache_read or 0),
        sums[3] + (tokens.cache_write or 0),
    )


def _view(state: Usage) -> Any:
    calls = list(spent(state))
    own = [call for call in calls if not is_inherited(state, call)]
    inherited = [call for call in calls if is_inherited(state, call)]
    return {
        "own": _sum(own),
        "inherited": _sum(inherited),
        "sessionTokens": session_tokens(state),
        "models": _by_model(own),
        "turns": _by_turn(own),
    }


def _sum(calls: Iterable[Spent]) -> dict[str, Any]:
    return TokenSum.of(call.tokens for call in calls).to_json()


def _by_model(calls: list[Spent]) -> list[dict[str, Any]]:
    models = _grouped(calls, lambda call: (call.provider, call.model))
    return [{"provider": who, "model": which, **_sum(made)} for (who, which), made in models]


def _by_turn(calls: list[Spent]) -> list[dict[str, Any]]:
    turns = []
    for turn, made in _grouped(calls, lambda call: call.turn):
        steps = [
            {"step": step, **_sum(of_step), "each": [msgspec.to_builtins(call) for call in of_step]}
            for step, of_step in _grouped(made, lambda call: call.step)
        ]
        turns.append({"turn": turn, **_sum(made), "steps": steps})
    return turns


def _grouped(calls: Iterable[Spent], key: Callable[[Spent], K]) -> Iterable[tuple[K, list[Spent]]]:
    """The calls of each key, in the order in which the keys come."""
    groups: dict[K, list[Spent]] = {}
    for call in calls:
        groups.setdefault(key(call), []).append(call)
    return groups.items()


USAGE = ReadTable(
    "read_usage",
    "What every model call took. Calls that failed and were made again count; inherited ones are marked.",
    (
        Column("kind", "text", "step, or summary for the call behind a compaction"),
        Column("turn", "int", "its turn", optional=True),
        Column("step", "int", "its step in the turn", optional=True),
        Column("number", "int", "which call of the step, from 1; 0 for a summary"),
        Column("inherited", "bool", "made, and paid for, by the session that this one was forked from"),
        Column("at_ms", "int", "its end, or its beginning where it has none", optional=True),
        Column("outcome", "text", "finished, failed, cancelled, crashed or open"),
        Column("provider", "text", "whom the request went to", optional=True),
        Column("model", "text", "which model", optional=True),
        *TOKEN_COLUMNS,
    ),
    key=("seq",),
)


def _rows(state: Usage) -> Iterator[Row]:
    for call in spent(state):
        yield Row(
            USAGE.name,
            call.seq,
            (
                call.kind,
                call.turn,
                call.step,
                call.number,
                is_inherited(state, call),
                call.at_ms,
                call.outcome,
                call.provider,
                call.model,
                *token_values(call.tokens),
            ),
        )


usage: Projection[Usage] = Projection(
    name="usage",
    version=1,
    state=Usage,
    handles=attempt_fold.HANDLES,
    initial=_begin,
    apply=_apply,
    view=_view,
    tables=(USAGE,),
    rows=_rows,
)
