"""A session differs in nothing from its copies, and in one place from a copy in which one thing was changed."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import NAMESPACE_OID, uuid5

import pytest
from driver_model import Played, playing
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from native_sessions import Native, natives
from session_logs import recorded, sessions
from twins import Log, Twins, read_log, recorded_logs, twins

import playhead
from playhead.adapters.dsh.importer import import_paths
from playhead.adapters.dsh.writer import LAYOUTS, write_log
from playhead.eventstore import cited_seqs, json_text
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId
from playhead.projections.repaired import Repaired
from playhead.replay import diff_couples
from playhead.replay.diff import Pair, differences, pairs
from playhead.replay.diff_cut import Cut
from playhead.replay.diff_rules import LEFT_OUT

Json = dict[str, Any]
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


def log(*events: tuple[str, Any], header: SessionHeader | None = None, **envelope: Any) -> Log:
    lines = [
        {"type": type, "seq": seq, "time": 7 * seq, "data": data, **envelope}
        for seq, (type, data) in enumerate(events)
    ]
    return Log.of(recorded(lines), header)


def message(text: str, id: str = "m1", kind: str = "user") -> Json:
    return {"id": id, "role": "user", "content": [{"type": "text", "text": text}], "source": {"kind": kind}}


def step(turn: int, number: int, *inside: tuple[str, Any]) -> list[tuple[str, Any]]:
    place = {"turn": turn, "step": number}
    return [("step/start", place), *inside, ("step/end", place)]


def turn(number: int, *inside: tuple[str, Any]) -> list[tuple[str, Any]]:
    end = {"turn": number, "reason": {"kind": "completed"}}
    return [("turn/start", {"turn": number}), *inside, ("turn/end", end)]


def told(found: Iterator[Pair]) -> list[tuple[Any, ...]]:
    """What differs, in short: kind, type, and path and kind of each change."""
    return [
        (pair.kind, pair.entry.type, *((change.path, change.kind) for change in pair.changes))
        for pair in found
        if pair.kind != "same"
    ]


# Copies


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


# Ids in the wrong place


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


# Streams


def streamed(*chunks: Json, **message: Any) -> Log:
    place = {"turn": 1, "step": 1}
    events: list[tuple[str, Any]] = [("assistant/chunk", {**place, "chunk": chunk}) for chunk in chunks]
    if message:
        events.append(("assistant/message", {**place, "message": message}))
    return log(*events, surfaceOp="append")


def delta(text: str) -> Json:
    return {"type": "text-delta", "index": 0, "text": text}


def test_where_a_stream_is_cut_counts_only_chunk_by_chunk() -> None:
    one, other = streamed(delta("ab"), delta("c")), streamed(delta("a"), delta("bc"))
    assert told(pairs(one, other)) == []
    ((kind, type, *changes),) = told(pairs(one, other, as_chunks=True))
    assert (kind, type) == ("changed", "assistant/attempt")
    assert {path[:2] for path, _ in changes} == {("stream", "chunks")}


@pytest.mark.parametrize(
    ("chunk", "path"),
    [
        (delta("another"), ("stream", "blocks", 0, "text")),
        ({"type": "usage", "usage": {"inputTokens": 1, "outputTokens": 2}}, ("stream", "usage")),
        ({"type": "finish", "reason": {"kind": "stop"}}, ("stream", "finish")),
        ({"type": "no-such-chunk"}, ("stream", "problems")),
        (
            {"type": "block-end", "index": 0, "block": {"type": "text", "text": "abc!"}},
            ("stream", "blocks", 0, "text"),
        ),
    ],
)
def test_what_came_in_a_stream_counts(chunk: Json, path: tuple[Any, ...]) -> None:
    ((kind, type, *changes),) = told(pairs(streamed(delta("abc")), streamed(delta("abc"), chunk)))
    assert (kind, type) == ("changed", "assistant/attempt")
    assert path in [at for at, _ in changes]


def test_a_stream_that_a_message_does_not_give_is_a_difference() -> None:
    content = [{"type": "text", "text": "abc"}]
    one, other = streamed(delta("abc"), content=content), streamed(delta("abX"), content=content)
    assert told(pairs(one, other)) == [("changed", "assistant/message", (("stream", "blocks"), "added"))]


def test_a_part_of_a_tool_call_that_the_limit_of_output_made_void_counts() -> None:
    def cut(arguments: str) -> Log:
        call = {"type": "tool-call-delta", "index": 0, "id": "c", "name": "t", "argumentsDelta": arguments}
        return streamed(call, {"type": "finish", "reason": {"kind": "max-tokens"}}, content=[])

    assert told(pairs(cut('{"a'), cut('{"b'))) == [
        ("changed", "assistant/message", (("stream", "blocks", 0, "arguments"), "text"))
    ]


def test_a_block_of_an_unknown_type_that_was_never_closed_is_compared() -> None:
    def opened(type: str) -> Log:
        return streamed({"type": "block-start", "index": 0, "blockType": type})

    assert told(pairs(opened("poem"), opened("poem"))) == []
    assert told(pairs(opened("poem"), opened("song"))) != []


def test_an_event_that_came_while_an_answer_streamed_stands_before_it_in_every_layout() -> None:
    place = {"turn": 1, "step": 1}
    content = [{"type": "text", "text": "ab"}]
    splice = ("agent/inbox/spliced", {"target": "next-step", "start": 0, "inserted": []})
    chunks = [("assistant/chunk", {**place, "chunk": delta(text)}) for text in "ab"]
    entries = [{"type": "chunk", "time": 1, "chunk": delta("ab")}]
    old = log(
        chunks[0],
        splice,
        chunks[1],
        ("assistant/message", {**place, "message": {"content": content}}),
        surfaceOp="append",
    )
    new = log(
        splice,
        ("assistant/message", {**place, "message": {"content": content}, "stream": entries}),
        surfaceOp="append",
    )
    assert told(pairs(old, new)) == []


# Alignment


def test_a_turn_that_only_one_side_has_is_its_own() -> None:
    def turns(*numbers: int) -> Log:
        return log(*(event for number in numbers for event in turn(number)))

    only = [("only-b", "turn/start"), ("only-b", "turn/end")]
    assert told(pairs(turns(1, 3), turns(1, 2, 3))) == only
    assert told(pairs(turns(1), turns(1, 2))) == only
    assert told(pairs(turns(2), turns(1, 2))) == only


def test_a_step_that_only_one_side_has_is_its_own() -> None:
    one = log(*turn(1, *step(1, 1), *step(1, 2)))
    assert told(pairs(one, log(*turn(1, *step(1, 1))))) == [("only-a", "step/start"), ("only-a", "step/end")]


def test_an_added_event_shifts_nothing() -> None:
    remarks = [("feedback/record", {"text": f"remark {number}"}) for number in range(20)]
    one = log(*turn(1, *step(1, 1, *remarks)))
    other = log(*turn(1, *step(1, 1, *remarks[:7], ("feedback/record", {"text": "new"}), *remarks[7:])))
    (pair,) = differences(one, other)
    assert (pair.kind, pair.b and pair.b.seq) == ("only-b", 9)


def test_an_event_that_differs_is_laid_beside_the_one_that_tells_of_the_same_thing() -> None:
    def calls(*names: str) -> Log:
        return log(
            *turn(
                1,
                *step(1, 1, *(("tool/call", {"name": name.split()[0], "arguments": name}) for name in names)),
            )
        )

    assert told(pairs(calls("read a", "bash x"), calls("bash y"))) == [
        ("only-a", "tool/call"),
        ("changed", "tool/call", (("arguments",), "text")),
    ]


def test_an_event_that_stands_elsewhere_in_the_step_has_moved() -> None:
    title, context = ("session/title", {"title": "t"}), ("request/context", {"model": "m"})
    header, other_header = (("request/header", {"reason": reason}) for reason in ("initial", "change"))
    one = log(*step(1, 1, title, header, context))
    assert told(pairs(one, log(*step(1, 1, header, context, title)))) == [("moved", "session/title")]
    assert told(pairs(one, log(*step(1, 1, other_header, context, title)))) == [
        ("moved", "session/title"),
        ("changed", "request/header", (("reason",), "text")),
    ]


def test_turns_that_are_out_of_order_end_and_equal_themselves() -> None:
    odd = log(
        *turn(5), *turn(1), ("turn/start", {"turn": "x"}), ("step/start", {}), *turn(1), ("turn/start", 7)
    )
    assert told(pairs(odd, odd)) == []
    assert len(told(pairs(odd, log(*turn(1), *turn(2))))) > 0


def test_ignored_types_are_left_out_and_can_still_be_cited() -> None:
    def titled(*texts: str) -> Log:
        messages = [("user/message", message(text)) for text in texts]
        return log(*messages, ("session/title", {"title": "t", "messageSeqs": [len(texts) - 1]}))

    one, other = titled("a", "b"), titled("x", "y")
    assert [type for _, type, *_ in told(pairs(one, other))] == ["user/message", "user/message"]
    assert told(pairs(one, other, ignore=["user/message"])) == []


def test_elements_of_lists_are_laid_beside_their_like() -> None:
    def tools(*names: str) -> Log:
        listed = [{"name": name, "description": f"{name} it"} for name in names]
        return log(("request/header", {"header": {"tools": listed}}))

    assert told(pairs(tools("bash", "read", "write"), tools("bash", "edit", "write"))) == [
        (
            "changed",
            "request/header",
            (("header", "tools", 1), "removed"),
            (("header", "tools", 1), "added"),
        )
    ]
    assert told(pairs(tools("read", "write"), tools("bash", "read", "write"))) == [
        ("changed", "request/header", (("header", "tools", 0), "added"))
    ]


# Formats


def written(played: Played, layout: str) -> Log:
    """The session as it comes back from a file of this layout."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "session.jsonl"
        file.write_bytes(write_log(LAYOUTS[layout], played.header, [played.facts], compressed=False))
        return read_file(file)


def read_file(file: Path) -> Log:
    with playhead.open_store("sqlite://") as store:
        import_paths(store, [file])
        (info,) = store.sessions()
        session = store.session(info.id)
        return Log(session.header, tuple(session.events()))


@pytest.mark.parametrize("layout", [name for name, layout in LAYOUTS.items() if not layout.adds_totals])
@settings(max_examples=20)
@given(played=playing(), as_chunks=st.booleans())
def test_a_session_differs_in_nothing_from_itself_in_another_layout(
    layout: str, played: Played, as_chunks: bool
) -> None:
    native = Log(played.header, tuple(played.facts))
    assert told(pairs(native, written(played, layout), as_chunks=as_chunks)) == []


@pytest.mark.parametrize("layout", ["v2", "v3", "v4"])
@settings(max_examples=20)
@given(native=natives())
def test_a_native_session_differs_in_nothing_from_itself_in_a_later_format(
    layout: str, native: Native
) -> None:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "session.jsonl"
        file.write_bytes(write_log(LAYOUTS[layout], native.header, native.batches, compressed=False))
        assert told(pairs(Log(native.header, tuple(native.events)), read_file(file))) == []


@pytest.mark.heavy
@pytest.mark.parametrize("as_chunks", [False, True])
@pytest.mark.parametrize("pair", twins())
def test_a_recorded_log_differs_in_nothing_from_its_migrated_form(pair: Twins, as_chunks: bool) -> None:
    older, newer = read_log(pair.older), read_log(pair.newer)
    assert told(pairs(Repaired(older), newer, as_chunks=as_chunks)) == []
    assert told(pairs(newer, Repaired(older), as_chunks=as_chunks)) == []


@pytest.mark.heavy
@pytest.mark.parametrize("path", recorded_logs())
def test_a_recorded_log_differs_in_nothing_from_itself_and_in_something_from_its_half(path: Path) -> None:
    session = read_log(path)
    assert told(pairs(session, session, as_chunks=True)) == []
    assert told(pairs(Repaired(session), Cut(session, session.next_seq // 2))) != []


def system(text: str, id: str = "s1") -> tuple[str, Json]:
    content = [{"type": "text", "text": text}] if text else []
    source = {"kind": "system-prompt"}
    return "system/message", {
        "turn": 1,
        "step": 1,
        "message": {"id": id, "role": "system", "content": content, "source": source},
    }


def test_a_system_prompt_is_the_same_in_the_header_and_as_a_message_and_another_one_is_not() -> None:
    later = SessionHeader(SessionId("s1"), 1, version=4)

    def in_header(prompt: str) -> Log:
        return log(
            *step(1, 1, ("user/message", message("hi")), ("request/header", {"header": {"system": prompt}}))
        )

    def as_message(*prompts: str) -> Log:
        said = [system(prompt, f"s{at}") for at, prompt in enumerate(prompts)]
        inside = [*said, ("user/message", message("hi")), ("request/header", {"header": {}})]
        return Log(later, log(*step(1, 1, *inside), surfaceOp="append").facts)

    def unmarked(session: Log) -> Log:
        """Every event with the operation that all of ``as_message`` have."""
        return Log(
            session.header, log(*((fact.type, fact.json) for fact in session.facts), surfaceOp="append").facts
        )

    one = unmarked(in_header("Be brief."))
    assert told(pairs(one, as_message("Be brief."))) == []
    assert told(pairs(one, as_message("", "Be brief."))) == []
    path = ("message", "content", 0, "text")
    assert told(pairs(one, as_message("Be kind."))) == [("changed", "system/message", (path, "text"))]
    assert told(pairs(one, as_message())) == [("only-a", "system/message")]


def test_a_second_system_prompt_beside_the_first_is_not_a_replacement_of_it() -> None:
    def two(op: Any) -> Log:
        events = recorded(
            [
                {"type": type, "seq": seq, "time": 1, "data": data, "surfaceOp": "append" if seq == 0 else op}
                for seq, (type, data) in enumerate((system("one"), system("two", "s2")))
            ]
        )
        return Log(SessionHeader(SessionId("s1"), 1, version=4), tuple(events))

    found = told(pairs(two({"op": "replace", "start": 0, "end": 0}), two("append")))
    assert found == [("changed", "system/message", (("surfaceOp",), "added"))]


def test_a_resume_after_which_nothing_happened_leaves_no_trace() -> None:
    rest = [("session/end-seed", {}), ("sandbox/mode", {"mode": "read-only"}), ("session/end-seed", {})]
    child = ("subagent/catalog", {"childId": "c", "mode": "unknown"})
    one = log(*turn(1))
    assert told(pairs(one, log(*turn(1), *rest))) == []
    assert told(pairs(one, log(*turn(1), child, *rest))) == []
    assert [type for _, type in told(pairs(one, log(*turn(1), child)))] == ["subagent/catalog"]
    went_on = told(pairs(one, log(*turn(1), *rest, *turn(2))))
    assert [type for _, type in went_on][:3] == ["session/end-seed", "sandbox/mode", "session/end-seed"]


def test_what_a_fork_took_over_ends_at_the_same_place_in_every_format() -> None:
    def child(version: int, length: int | None, *events: tuple[str, Any]) -> Log:
        header = SessionHeader(SessionId("c"), 1, version, parent=SessionId("p"), seed_length=length)
        return log(*events, header=header)

    mark = ("session/end-seed", {"inherited": True})
    old = child(0, 2, *turn(1), *turn(2))
    assert told(pairs(old, child(4, None, *turn(1), mark, *turn(2)))) == []
    assert told(pairs(child(0, 2, *turn(1), ("session/end-seed", {})), child(4, None, *turn(1), mark))) == []
    assert told(pairs(child(0, 2, *turn(1)), child(4, None, *turn(1), mark))) == []
    assert told(pairs(old, child(4, None, *turn(1), *turn(2)))) == [("only-a", "session/end-seed")]


def test_a_type_that_a_migration_set_aside_is_the_type() -> None:
    assert told(pairs(log(("x/mine", {"a": 1})), log(("plugin:x/mine", {"a": 1})))) == []


# Whatever a log holds


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=())),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["turn", "message", "id", "x"]), inner)
    ),
    max_leaves=8,
)
TYPES = [
    "turn/start",
    "step/start",
    "turn/end",
    "assistant/chunk",
    "assistant/message",
    "assistant/attempt",
    "system/message",
    "request/header",
    "session/title",
    "session/end-seed",
    "tool/result",
    "x/unknown",
]


@settings(max_examples=100)
@given(
    st.lists(st.tuples(st.sampled_from(TYPES), json_values), max_size=6),
    st.lists(st.tuples(st.sampled_from(TYPES), json_values), max_size=6),
)
def test_any_data_is_compared_and_equals_itself(a: list[tuple[str, Any]], b: list[tuple[str, Any]]) -> None:
    one, other = (
        Log.of(
            playhead.Recorded(SessionId("s1"), playhead.Seq(seq), 1, type, json_text.dumps(data))
            for seq, (type, data) in enumerate(events)
        )
        for events in (a, b)
    )
    assert told(pairs(one, one)) == []
    list(pairs(one, other))


def test_data_that_is_no_json_and_data_without_a_bottom_are_compared() -> None:
    def raw(text: bytes) -> Log:
        return Log.of([playhead.Recorded(SessionId("s1"), playhead.Seq(0), 1, "x/odd", text)])

    deep, deeper = (b"[" * 50_000 + inner + b"]" * 50_000 for inner in (b"1", b"2"))
    assert told(pairs(raw(deep), raw(deep))) == []
    ((kind, _, (path, change)),) = told(pairs(raw(deep), raw(deeper)))
    assert (kind, change, set(path)) == ("changed", "changed", {0})
    assert told(pairs(raw(b"{"), raw(b"{"))) == []
    assert told(pairs(raw(b"{"), raw(b"["))) == [("changed", "x/odd", (("notJson",), "text"))]


def test_halves_of_characters_are_compared() -> None:
    one, other = (log(("feedback/record", {"text": text})) for text in ("\ud83d", "\ude00"))
    assert told(pairs(one, one)) == []
    assert told(pairs(one, other)) == [("changed", "feedback/record", (("text",), "text"))]


def test_a_cut_session_ends_before_its_end() -> None:
    session = log(*turn(1), *turn(2))
    assert told(pairs(Cut(session, 2), log(*turn(1)))) == []
    assert (Cut(session, 2).next_seq, Cut(session, 99).next_seq) == (2, 4)
    assert [fact.seq for fact in Cut(session, 3).events(1, 9)] == [1, 2]


# Size


def many(count: int, changed: int | None = None, *, steps: bool) -> Log:
    """A session of many events, in many steps or in one turn without any."""
    events: list[tuple[str, Any]] = [("turn/start", {"turn": 1})]
    for number in range(count):
        if steps and number % 20 == 0:
            events.append(("step/start", {"turn": 1, "step": number // 20 + 1}))
        text = "changed" if number == changed else f"remark {number % 1000}"
        events.append(("feedback/record", {"text": text}))
    return log(*events)


@pytest.mark.parametrize("steps", [True, False])
@pytest.mark.parametrize("count", [2_000, pytest.param(100_000, marks=pytest.mark.heavy)])
def test_only_what_lies_around_a_difference_is_laid_side_by_side(
    count: int, steps: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    laid: list[int] = []
    matching = diff_couples.matches

    def counting(a: Any, b: Any) -> Any:
        laid.append(len(a) + len(b))
        return matching(a, b)

    monkeypatch.setattr(diff_couples, "matches", counting)
    at = count // 2
    (pair,) = differences(many(count, steps=steps), many(count, at, steps=steps))
    assert [change.path for change in pair.changes] == [("text",)]
    assert sum(laid) <= (50 if steps else 2 * (count - at) + 10)


def test_a_comparison_holds_one_step_at_a_time() -> None:
    """Asked for the first difference, it reads neither session to its end."""
    seen: list[int] = []

    class Watched(Log):
        def events(self, *args: Any, **kwargs: Any) -> Iterator[playhead.Recorded]:
            for fact in super().events(*args, **kwargs):
                seen.append(fact.seq)
                yield fact

    session = many(2_000, steps=True)
    watched = Watched(session.header, session.facts)
    next(differences(watched, many(2_000, 500, steps=True)))
    assert max(seen) < 600
