"""The same session in another format or layout is the same session."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from diff_logs import Json, log, message, step, told, turn
from driver_model import Played, playing
from hypothesis import given, settings
from hypothesis import strategies as st
from native_sessions import Native, natives
from session_logs import recorded
from twins import Log, Twins, read_log, recorded_logs, twins

import playhead
from playhead.adapters.dsh.importer import import_paths
from playhead.adapters.dsh.writer import LAYOUTS, write_log
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId
from playhead.projections.repaired import Repaired
from playhead.replay.diff import pairs
from playhead.replay.part import Part


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
    assert told(pairs(Repaired(session), Part(session, to_seq=session.next_seq // 2))) != []


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
