"""Events of later formats in native form: the way back from what dsh's conversions made."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import assume, given, settings
from native_sessions import CREATED_MS, Native, natives
from twins import Log, Twins, twins

from playhead.adapters.dsh.acceptance import refusal
from playhead.adapters.dsh.strict import parse_strict
from playhead.adapters.dsh.writer import LAYOUTS, write_log
from playhead.eventstore import envelope, json_text
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId
from playhead.eventstore.recorded import Recorded, Replace
from playhead.projections.folding import fold
from playhead.projections.repaired import Repaired
from playhead.projections.surface import surface
from playhead.replay.native_events import NativeEvents

Json = dict[str, Any]
V4 = SessionHeader(SessionId("s1"), CREATED_MS, version=4, is_seeded=False)
PLACE = {"turn": 1, "step": 1}


def native(header: SessionHeader, events: Iterable[Recorded]) -> list[Recorded]:
    """The events in native form."""
    told = NativeEvents(header)
    made = [event for old in events for event in told.feed(old)]
    made += told.rest()
    assert [event.seq for event in made] == list(range(told.next_seq))
    return made


# What dsh itself converted


def as_migration_leaves_it(events: Iterable[Recorded]) -> list[Json]:
    """The events without what a migration adds from elsewhere, and what a repair says in its own words."""
    kept = []
    for event in events:
        told = event.envelope()
        if event.type == "subagent/catalog":
            continue
        if event.type == "tool/result" and event.json["message"]["id"].startswith("interrupted-tool-result-"):
            told["data"] = event.json["error"]
        kept.append(told)
    return kept


@pytest.mark.parametrize("pair", twins())
def test_a_log_that_dsh_migrated_comes_back_event_for_event(pair: Twins) -> None:
    source, migrated = pair.source, pair.migrated
    before = native(source.header, Repaired(source).events())
    after = native(migrated.header, migrated.events())
    assert as_migration_leaves_it(after) == as_migration_leaves_it(before)


# What our own writer converted


@pytest.mark.parametrize("layout", ["v2", "v3", "v4"])
@settings(max_examples=60)
@given(session=natives())
def test_a_native_session_comes_back_from_every_later_format(layout: str, session: Native) -> None:
    log = parse_strict(write_log(LAYOUTS[layout], session.header, session.batches), compressed=False)
    back = native(log.header, log.events)
    marked = session.header.seed_length is None or any(
        event.type == "session/end-seed" for event in session.events
    )
    assume(marked)  # else the layout adds the marker, and every seq behind it is another
    assert [event.envelope() for event in back] == [event.envelope() for event in session.events]
    assert refusal(SessionHeader(SessionId("s1"), 1), back) is None


@settings(max_examples=30)
@given(session=natives())
def test_events_of_the_early_formats_are_native_as_they_are(session: Native) -> None:
    for version in (0, 1):
        header = SessionHeader(SessionId("s1"), 1, version=version)
        assert all(
            one is other for one, other in zip(native(header, session.events), session.events, strict=True)
        )


# Rule by rule


def told(*events: tuple[str, Any] | tuple[str, Any, Json]) -> list[Recorded]:
    """The native form of a log of format 4."""
    return native(V4, stored(*events))


def stored(*events: tuple[str, Any] | tuple[str, Any, Json]) -> list[Recorded]:
    facts = []
    for seq, (type, data, *more) in enumerate(events):
        event = {
            "type": type,
            "seq": seq,
            "time": CREATED_MS + seq,
            "data": data,
            **(more[0] if more else {}),
        }
        facts += envelope.facts(json_text.dumps(event), SessionId("s1"))
    return facts


def user(id: str, **envelope: Any) -> tuple[str, Any, Json]:
    message = {"content": [], "source": {"kind": "user"}, "role": "user", "id": id}
    return "user/message", message, {"surfaceOp": "append"} | envelope


def system(text: str, **envelope: Any) -> tuple[str, Any, Json]:
    content = [{"type": "text", "text": text}] if text else []
    message = {"role": "system", "content": content, "source": {"kind": "system-prompt"}, "id": f"s-{text}"}
    return "system/message", {**PLACE, "message": message}, {"surfaceOp": "append"} | envelope


def developer(**envelope: Any) -> tuple[str, Any, Json]:
    content = [{"type": "tool-addition", "toolName": "t"}]
    message = {"source": {"kind": "tool-registry"}, "content": content, "role": "developer", "id": "d"}
    return "developer/message", {**PLACE, "message": message}, {"surfaceOp": "append"} | envelope


def answer(*stream: Json, **envelope: Any) -> tuple[str, Any, Json]:
    source = {"kind": "model", "provider": "p", "model": "m"}
    message = {"role": "assistant", "content": [], "source": source, "id": "a"}
    data = {**PLACE, "message": message, "stream": list(stream)}
    return "assistant/message", data, {"surfaceOp": "append"} | envelope


def header(**members: Any) -> tuple[str, Any]:
    config = {"provider": "p", "model": "m"}
    return "request/header", {"header": {"config": config, **members, "tools": []}, "reason": "initial"}


FINISH = {"type": "chunk", "time": 77, "chunk": {"type": "finish", "reason": {"kind": "stop"}}}
ROW = {"type": "text-chunks", "time0": 70, "index": 0, "dt": [5, -2], "texts": ["a", "\ud83d", "\ude00"]}


def replaced(start: int, end: int, *sources: int) -> Json:
    op = {"op": "replace", "startSeq": start, "endSeq": end}
    return {"surfaceOp": op, "sourceEventSeqs": list(sources)}


def test_the_stream_of_an_answer_becomes_chunks_that_it_cites() -> None:
    *chunks, message = told(answer(ROW, FINISH))
    assert [(chunk.time_ms, chunk.json["chunk"].get("text")) for chunk in chunks] == [
        (70, "a"),
        (75, "\ud83d"),
        (73, "\ude00"),
        (77, None),
    ]
    assert [chunk.type for chunk in chunks] == ["assistant/chunk"] * 4
    assert message.source_seqs == (0, 1, 2, 3)
    assert "stream" not in message.json
    assert list(chunks[0].json) == ["turn", "step", "chunk"]


def test_an_empty_stream_is_a_known_empty_list_of_sources() -> None:
    (message,) = told(answer())
    assert message.source_seqs == ()
    ((type, data, more),) = (answer(),)
    del data["stream"]
    (message,) = told((type, data, more))
    assert message.source_seqs is None


def test_a_failed_attempt_is_its_chunks_and_one_without_chunks_stays() -> None:
    chunk, empty, end = told(
        ("assistant/attempt", {**PLACE, "stream": [FINISH]}),
        ("assistant/attempt", {**PLACE, "stream": []}),
        ("step/end", PLACE),
    )
    assert (chunk.type, empty.type, end.type) == ("assistant/chunk", "assistant/attempt", "step/end")
    assert (empty.ignorable, end.ignorable) == (True, False)


@pytest.mark.parametrize(
    "entry",
    [
        None,
        {"type": "chunk", "time": 0.5, "chunk": {}},
        {"type": "chunk", "time": 1, "chunk": None},
        {"type": "chunk", "time": 1, "chunk": {}, "more": 1},
        {"type": "text-chunks", "time0": 1, "index": 0, "dt": [1], "texts": ["a"]},
        {"type": "text-chunks", "time0": 1, "index": 0, "dt": [], "texts": ["a"], "turn": 2},
        {"type": "other"},
    ],
)
def test_a_stream_that_makes_no_sense_stays_where_it_is(entry: Any) -> None:
    before = answer(ROW, entry)
    message, attempt = told(before, ("assistant/attempt", {**PLACE, "stream": [entry]}))
    assert (message.json, attempt.json["stream"]) == (before[1], [entry])
    assert (message.surface_op, attempt.ignorable) == ("append", True)


def test_the_system_prompt_goes_into_the_headers_behind_it() -> None:
    events = told(system(""), header(), system("Be brief.", **replaced(0, 0, 0)), header(), header())
    assert [event.json["header"].get("system") for event in events] == [None, "Be brief.", "Be brief."]
    assert list(events[1].json["header"]) == ["config", "system", "tools"]


def test_a_prompt_that_no_header_followed_gets_one_before_the_next_call() -> None:
    first, _, added, chunk, message, _, _ = told(
        system("Be brief."),
        header(),
        user("u"),
        system("Be kind.", **replaced(0, 0, 0)),
        answer(FINISH),
        user("v"),
        answer(),
    )
    assert (added.type, added.time_ms) == ("request/header", CREATED_MS + 3)
    assert added.json["reason"] == "change"
    assert added.json["header"] == first.json["header"] | {"system": "Be kind."}
    assert (chunk.seq, message.source_seqs) == (3, (3,))


def test_a_prompt_that_was_replaced_by_a_summary_is_in_no_header_any_more() -> None:
    events = told(system("Be brief."), header(), user("u"), user("sum", **replaced(0, 2, 0, 2)), header())
    assert [event.json["header"].get("system") for event in events if event.type == "request/header"] == [
        "Be brief.",
        None,
    ]
    assert events[2].surface_op == Replace(1, 1)


def test_a_replacement_takes_what_is_left_of_its_range() -> None:
    shadowed = {"shadowedRange": {"start": 1, "end": 3}, "shadowedSeqs": [1, 2, 3]}
    events = told(
        user("u"),
        developer(),
        user("v"),
        developer(),
        ("compaction/prune", shadowed),
        user("sum", **replaced(1, 3, 1, 2, 3)),
    )
    assert events[-1].surface_op == Replace(2, 2)
    assert set(events[-1].source_seqs or ()) >= {2}
    state = fold(Log.of(events), surface).state
    assert (state.seqs, state.breaches) == ([0, 5], ())


def test_a_replacement_of_nothing_that_is_left_goes_to_the_end() -> None:
    events = told(user("u"), developer(), user("sum", **replaced(1, 1, 1)))
    assert events[-1].surface_op == "append"
    assert fold(Log.of(events), surface).state.breaches == ()


def test_later_types_are_marked_and_have_no_place_and_unknown_ones_stay_required() -> None:
    job, notice, other, known = told(
        ("job/registered", {"jobId": "j"}),
        developer(),
        ("x/unknown", {"a": 1}),
        ("plugin:x", {}, {"ignorable": True}),
    )
    assert [event.ignorable for event in (job, notice, other, known)] == [True, True, False, True]
    assert (notice.surface_op, notice.source_seqs) == (None, None)
    assert fold(Log.of([job, notice]), surface).state.breaches == ()


@pytest.mark.parametrize(
    ("kind", "plugin"),
    [
        ("runtime-context", "@deepseek-ai/dsh-system-prompt"),
        ("compact-checkpoint", "compact"),
        ("tool-jobs", "tool-jobs"),
        ("plugin:mine", "mine"),
        ("goal", None),
        ("user", None),
    ],
)
def test_producers_are_plugins_again_in_messages_and_in_the_inbox(kind: str, plugin: str | None) -> None:
    message = {"content": [], "source": {"kind": kind, "form": "notice"}, "role": "user", "id": "m"}
    splice = {"target": "next-step", "start": 0, "inserted": [message]}
    inserted, sent = told(("agent/inbox/spliced", splice), ("user/message", message, {"surfaceOp": "append"}))
    expected = {"kind": kind} if plugin is None else {"kind": "plugin", "plugin": plugin}
    assert sent.json["source"] == expected | {"form": "notice"}
    assert inserted.json["inserted"][0] == sent.json


def test_marks_of_a_delivery_are_counted_and_left_out() -> None:
    header = SessionHeader(SessionId("s1"), 1, version=4)
    told = NativeEvents(header)
    mark = {"sessionId": "s1", "sessionFormatVersion": 4, "throughSeq": 0}
    events = stored(("turn/start", {"turn": 1}), ("session-log-deepseek/delivery-accepted", mark), user("u"))
    made = [event for old in events for event in told.feed(old)]
    assert [(event.seq, event.type) for event in made] == [(0, "turn/start"), (1, "user/message")]
    assert told.left_out == 1


def test_an_event_that_changes_in_nothing_but_its_seq_keeps_the_bytes_of_its_data() -> None:
    raw = b'{"turn":1, "n":1e400,"n":-0}'
    fact = Recorded(SessionId("s1"), 0, 5, "hook/result", raw)  # type: ignore[arg-type]
    assert native(V4, [fact])[0].raw == raw
