"""A session differs in nothing from its copies, and in one place from a copy in which one thing was changed."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from diff_logs import Json, log, told
from driver_model import playing
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from native_sessions import natives
from session_logs import recorded, sessions
from twins import Log

import playhead
from playhead.eventstore import cited_seqs, json_text
from playhead.replay.diff import differences, pairs
from playhead.replay.diff_rules import LEFT_OUT

(RECEIPT,) = LEFT_OUT
ID_MEMBERS = frozenset(
    [
        "id",
        "callId",
        "toolCallId",
        "rootCallId",
        "retryId",
        "goalId",
        "compactionId",
        "commandId",
        "sourceCommandId",
    ]
)


def objects(events: list[playhead.Recorded]) -> list[Json]:
    """Events as objects that a test may change."""
    return [copy.deepcopy(event.envelope()) for event in events]


def renamed(value: Any, name: Callable[[str], str], member: str = "") -> Any:
    """``value`` with a new name for each id in it."""
    if isinstance(value, dict):
        return {key: renamed(inner, name, key) for key, inner in value.items()}
    if isinstance(value, list):
        return [renamed(inner, name, member) for inner in value]
    return name(value) if member in ID_MEMBERS and isinstance(value, str) else value


def as_uuid(id: str) -> str:
    return str(uuid5(NAMESPACE_OID, id))


def as_job(id: str) -> str:
    return f"bash-{uuid5(NAMESPACE_OID, id).hex[:16]}"


def with_an_end(id: str) -> str:
    return f"{id}-renamed"


def renumbered(events: list[Json], receipts_before: list[int], later_ms: int) -> list[Json]:
    """The events with receipts of a provider between them, everything that cites a seq following."""
    seq_of: dict[int, int] = {}
    moved: list[Json] = []
    for event in events:
        for _ in range(receipts_before.count(event["seq"])):
            moved.append({"type": RECEIPT, "seq": len(moved), "time": 1, "data": {"throughSeq": 0}})
        seq_of[event["seq"]] = len(moved)
        event = event | {"seq": len(moved), "time": event["time"] + later_ms}
        event["data"] = cited_seqs.renumbered(event["type"], event["data"], seq_of.get)
        if "sourceEventSeqs" in event:
            event["sourceEventSeqs"] = [seq_of[seq] for seq in event["sourceEventSeqs"]]
        if isinstance(event.get("surfaceOp"), dict):
            op = event["surfaceOp"]
            event["surfaceOp"] = op | {"start": seq_of[op["start"]], "end": seq_of[op["end"]]}
        moved.append(event)
    return moved


any_session = st.one_of(
    sessions().map(lambda events: Log.of(recorded(events))),
    natives().map(lambda native: Log(native.header, tuple(native.events))),
    playing().map(lambda played: Log(played.header, tuple(played.facts))),
)


@settings(max_examples=60)
@given(session=any_session, as_chunks=st.booleans())
def test_a_session_differs_in_nothing_from_itself(session: Log, as_chunks: bool) -> None:
    assert told(pairs(session, session, as_chunks=as_chunks)) == []


@settings(max_examples=60)
@given(
    session=any_session.filter(lambda session: not session.header.seed_length),
    receipts=st.lists(st.integers(0, 40), max_size=6),
    later_ms=st.integers(-(10**6), 10**6),
    name=st.sampled_from([as_uuid, as_job, with_an_end]),
    as_chunks=st.booleans(),
)
def test_other_ids_times_and_seqs_are_no_difference(
    session: Log, receipts: list[int], later_ms: int, name: Callable[[str], str], as_chunks: bool
) -> None:
    events = renumbered(objects(list(session.facts)), receipts, later_ms)
    other = Log.of(recorded(renamed(events, name)), session.header)
    assert told(pairs(session, other, as_chunks=as_chunks)) == []
    assert told(pairs(other, session, as_chunks=as_chunks)) == []


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of everything in ``value`` that is compared by its own value."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in ID_MEMBERS:
                yield from leaves(inner, (*path, key))
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from leaves(inner, (*path, at))
    else:
        yield path


def put(holder: Any, path: tuple[Any, ...], value: Any) -> None:
    for part in path[:-1]:
        holder = holder[part]
    holder[path[-1]] = value


ELSEWHERE = [("assistant/message", "turn"), ("assistant/message", "step")]
"""What tells of a message that its chunks are not its own: two differences."""


@settings(max_examples=150)
@given(events=sessions(), data=st.data())
def test_one_thing_that_was_changed_is_found_where_it_is(events: list[Json], data: st.DataObject) -> None:
    places = [
        (event["seq"], path)
        for event in events
        if event["type"] not in ("assistant/chunk", "turn/start", "step/start")
        for path in leaves(event["data"])
        if (event["type"], *path) not in ELSEWHERE
    ]
    assume(places)
    seq, path = data.draw(st.sampled_from(places))
    changed = json_text.parse(json_text.dumps(events))  # with nothing shared between events
    put(changed[seq]["data"], path, "something else")
    found = list(differences(Log.of(recorded(events)), Log.of(recorded(changed))))
    assert [pair.entry.seq for pair in found] == [seq]
    paths = [change.path for change in found[0].changes]
    assert any(path[: len(at)] == at for at in paths), paths


@settings(max_examples=80)
@given(events=sessions(), data=st.data())
def test_one_event_that_is_missing_is_found(events: list[Json], data: st.DataObject) -> None:
    seqs = [event["seq"] for event in events if event["type"] == "tool/result"]
    assume(seqs)
    seq = data.draw(st.sampled_from(seqs))
    other = Log.of(recorded([event for event in events if event["seq"] != seq]))
    assert [(pair.kind, pair.entry.seq) for pair in differences(Log.of(recorded(events)), other)] == [
        ("only-a", seq)
    ]


@settings(max_examples=80)
@given(events=sessions(), data=st.data())
def test_one_source_that_is_another_event_is_found(events: list[Json], data: st.DataObject) -> None:
    seqs = [event["seq"] for event in events if event["type"] == "tool/result"]
    assume(seqs)
    seq = data.draw(st.sampled_from(seqs))
    changed = copy.deepcopy(events)
    changed[seq]["sourceEventSeqs"] = [data.draw(st.integers(0, seq - 1))]
    found = told(differences(Log.of(recorded(events)), Log.of(recorded(changed))))
    same = changed[seq]["sourceEventSeqs"] == events[seq]["sourceEventSeqs"]
    assert found == ([] if same else [("changed", "tool/result", (("sourceEventSeqs", 0), "reference"))])


def test_a_result_of_another_call_is_a_difference() -> None:
    def answered(*ids: str) -> Log:
        calls = [{"type": "tool-call", "id": id, "name": "t", "arguments": "{}"} for id in ("c1", "c2")]
        answer = {"turn": 1, "step": 1, "message": {"id": "a", "content": calls}}
        results = [("tool/result", {"message": {"source": {"kind": "tool", "callId": id}}}) for id in ids]
        return log(("assistant/message", answer), *results)

    (pair,) = differences(answered("c1", "c2"), answered("c1", "c1"))
    (change,) = pair.changes
    assert (pair.entry.seq, change.kind, change.a, change.b, change.expected) == (2, "id", "c2", "c1", "c2")


def test_a_call_id_that_is_used_again_may_be_two_ids_on_the_other_side() -> None:
    def calls(*ids: str) -> Log:
        events: list[tuple[str, Any]] = []
        for id in ids:
            block = {"type": "tool-call", "id": id, "name": "t", "arguments": "{}"}
            events += [
                ("assistant/message", {"message": {"content": [block]}}),
                ("tool/call", {"callId": id}),
            ]
        return log(*events)

    assert told(pairs(calls("call-0", "call-0"), calls("x", "y"))) == []
    assert told(pairs(calls("x", "y"), calls("call-0", "call-0"))) == []
