"""Scripts: made of logs, changed by overrides, filled in from requests, and taken by live sessions."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import cases
from twins import Log

from playhead.eventstore import json_text
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import Seq, SessionId
from playhead.eventstore.recorded import Recorded
from playhead.replay import placeholders, script
from playhead.replay.attempt import attempts
from playhead.replay.claims import Claims, Script, ScriptExhausted, TooManySessions, Unserved, in_line
from playhead.replay.last_match import NoMatch, last_match
from playhead.replay.override import OverrideError, parse_entry, parse_override
from playhead.replay.placeholders import PlaceholderError

Json = dict[str, Any]
STOP = {"type": "finish", "reason": {"kind": "stop"}}


def log(events: list[Json], header: SessionHeader | None = None) -> Log:
    session = SessionId("s1")
    facts = [
        Recorded(session, Seq(seq), seq, event["type"], json_text.dumps(event["data"]))
        for seq, event in enumerate(events)
    ]
    return Log.of(facts, header)


def said(text: str, turn: int = 1, step: int = 1) -> list[Json]:
    """The events of a call that answers with ``text``."""
    delta = {"type": "text-delta", "index": 0, "text": text}
    place = {"turn": turn, "step": step}
    return [{"type": "assistant/chunk", "data": {**place, "chunk": chunk}} for chunk in (delta, STOP)]


def as_json(entries: Any) -> list[Json]:
    return [entry.to_json() for entry in entries]


# Vectors


@pytest.mark.parametrize("case", cases("replay_script", "derive"))
def test_scripts_derive_as_in_the_vectors(case: Any) -> None:
    session = log(case["events"])
    if "error" in case["expect"]:
        with pytest.raises(script.ScriptError) as caught:
            script.derive(session)
        assert caught.value.code == case["expect"]["error"]
    else:
        assert as_json(script.derive(session)) == case["expect"]["script"]


@pytest.mark.parametrize("case", cases("replay_script", "overrides"))
def test_overrides_apply_as_in_the_vectors(case: Any) -> None:
    derived = script.derive(log([*said("a"), *said("b", step=2)]))
    if "error" in case["expect"]:
        with pytest.raises(OverrideError):
            parse_override(case["override"]).applied(derived)
    else:
        assert as_json(parse_override(case["override"]).applied(derived)) == case["expect"]["script"]


@pytest.mark.parametrize("case", cases("replay_script", "placeholders"))
def test_placeholders_fill_as_in_the_vectors(case: Any) -> None:
    text = placeholders.request_text([{"role": "user", "content": [{"text": case["request_text"]}]}])
    if "error" in case["expect"]:
        with pytest.raises((PlaceholderError, NoMatch)):
            fill(case["text"], text)
    else:
        assert fill(case["text"], text) == case["expect"]["text"]


def fill(value: Any, text: str) -> Any:
    return placeholders.filled(
        value, {pattern: last_match(pattern, text) for pattern in placeholders.patterns(value)}
    )


# Deriving


def test_a_stream_inside_a_message_or_an_attempt_is_an_entry_like_any_other() -> None:
    def streamed(kind: str, finish: Json, text: str) -> Json:
        run = {"type": "text-chunks", "time0": 5, "index": 0, "dt": [1], "texts": [text, "!"]}
        stream = [run, {"type": "chunk", "time": 9, "chunk": finish}]
        return {"type": kind, "data": {"turn": 1, "step": 1, "stream": stream}}

    failed = {
        "type": "finish",
        "reason": {"kind": "error", "failure": {"message": "m", "code": "SERVER"}},
    }
    header = SessionHeader(SessionId("s1"), 1, version=4)
    entries = as_json(
        script.derive(
            log(
                [streamed("assistant/attempt", failed, "a"), streamed("assistant/message", STOP, "b")], header
            )
        )
    )
    assert [[chunk.get("text") for chunk in entry["chunks"]] for entry in entries] == [
        ["a", "!", None],
        ["b", "!", None],
    ]
    assert [entry["chunks"][-1] for entry in entries] == [failed, STOP]


def test_a_message_that_was_interrupted_leaves_no_script() -> None:
    run = {"type": "text-chunks", "time0": 5, "index": 0, "dt": [], "texts": ["a"]}
    event = {"type": "assistant/message", "data": {"turn": 3, "step": 2, "stream": [run]}}
    with pytest.raises(script.ScriptError, match="turn 3, step 2"):
        script.derive(log([event], SessionHeader(SessionId("s1"), 1, version=4)))


def test_what_a_child_inherited_is_not_its_own() -> None:
    events = [*said("parent"), *said("child", turn=2)]
    header = SessionHeader(SessionId("s1"), 1, seed_length=2, parent=SessionId("p"))
    assert [entry["chunks"][0]["text"] for entry in as_json(script.derive(log(events, header)))] == ["child"]


def test_a_script_has_the_chunks_that_the_attempts_of_the_session_have() -> None:
    events = [
        {"type": "turn/start", "data": {"turn": 1}},
        {"type": "step/start", "data": {"turn": 1, "step": 1}},
        *said("a"),
        {"type": "step/end", "data": {"turn": 1, "step": 1}},
        {"type": "turn/end", "data": {"turn": 1, "reason": {"kind": "completed"}}},
    ]
    session = log(events)
    derived = [list(entry.chunks) for entry in script.derive(session)]
    assert derived == [[timed.chunk for timed in attempt.chunks()] for attempt in attempts(session)]


# Overrides


@pytest.mark.parametrize(
    ("document", "place"),
    [
        ("text", ""),
        ({"patches": [], "note": 1}, ""),
        ({"patches": {}}, "patches"),
        ({"patches": [3]}, "patches[0]"),
        ({"patches": [{"at": True, "entry": {"kind": "hang"}}]}, "patches[0].at"),
        ({"patches": [{"at": 0.5, "entry": {"kind": "hang"}}]}, "patches[0].at"),
        ({"patches": [{"at": 0}]}, "patches[0]"),
        ([{"kind": "hang", "readyFile": ""}], "[0].readyFile"),
        ([{"kind": "hang"}, {"kind": "throw", "chunks": [], "message": "", "code": "X"}], "[1].message"),
        ([{"kind": "throw", "chunks": [], "message": "m", "code": 3}], "[0].code"),
        ([{"kind": "chunks", "chunks": "abc"}], "[0].chunks"),
        ([{"kind": "chunks", "chunks": [STOP, {"type": "text-delta"}]}], "[0].chunks[1]"),
        ([{"kind": "chunks", "chunks": [{**STOP, "note": 1}]}], "[0].chunks[0]"),
        ([{"kind": "chunks", "chunks": [{"type": "finish", "reason": {"kind": "error"}}]}], "[0].chunks[0]"),
        ([[]], "[0].kind"),
    ],
)
def test_a_wrong_override_says_where(document: Any, place: str) -> None:
    with pytest.raises(OverrideError) as caught:
        parse_override(document)
    assert caught.value.path == place
    assert caught.value.code == "override"


def test_an_override_replaces_any_kind_of_call() -> None:
    patch = parse_override({"patches": [{"at": 1, "entry": {"kind": "hang"}}]})
    assert patch.applied(["one", "two", "three"]) == ["one", script.Hang(), "three"]


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-2, 3)
        | st.sampled_from(["chunks", "hang", "finish", "stop"]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    ["kind", "chunks", "patches", "at", "entry", "type", "reason", "message", "code"]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
@settings(max_examples=200)
def test_any_document_is_an_override_or_an_error_of_ours(document: Any) -> None:
    with suppress(OverrideError):
        assert len(parse_override(document).applied(["a"])) >= 0


def test_entries_come_back_from_their_json() -> None:
    for entry in (
        {"kind": "chunks", "chunks": [STOP]},
        {"kind": "throw", "chunks": [], "message": "m", "code": "AUTH"},
        {"kind": "hang", "readyFile": "r"},
        {"kind": "hang"},
    ):
        assert parse_entry(entry).to_json() == entry


# Placeholders


@pytest.mark.parametrize(
    ("value", "text", "wanted"),
    [
        ("{{fromRequest:(?<year>[0-9]{4})}}", "in 1999", "1999"),
        ("{{fromRequest:a(b)?}}", "a", "a"),
        ({"deep": ["{{fromRequest:x.}}", 3, None]}, "x1\nx2", {"deep": ["x2", 3, None]}),
        ("no { placeholder }} at all", "", "no { placeholder }} at all"),
        ("{{fromRequest:a}b}}!", "a}b", "a}b!"),
    ],
)
def test_placeholders_are_filled(value: Any, text: str, wanted: Any) -> None:
    assert fill(value, text) == wanted


def test_texts_of_a_request_stand_in_the_order_in_which_they_are_written() -> None:
    messages = [{"role": "user", "content": [{"text": "one"}, {"text": "two"}]}, {"role": "tool", "n": 3}]
    assert placeholders.request_text(messages) == "user\none\ntwo\ntool"


@given(st.text("{}fromRequest:a()[]+*?.\\<|", max_size=30), st.text("ab}", max_size=10))
@settings(max_examples=200)
def test_any_text_is_filled_or_an_error_of_ours(value: str, text: str) -> None:
    with suppress(PlaceholderError, NoMatch):
        assert isinstance(fill(value, text), str)


# Claims


def scripts(*sizes: int) -> list[Script[str]]:
    return [Script(f"r{at}", at, [f"r{at}.{call}" for call in range(size)]) for at, size in enumerate(sizes)]


def taken(claims: Claims[str], live: str | None) -> str:
    cursor = claims.cursor(live)
    entry = cursor.next
    cursor.advance()
    return entry


def test_the_primary_script_comes_first_then_the_children_by_age_and_id() -> None:
    child = [Script("b", 5, []), Script("a", 5, []), Script("z", 1, [])]
    assert [each.session for each in in_line(Script("p", 9, []), child)] == ["p", "z", "a", "b"]


def test_live_sessions_take_scripts_in_turn_and_each_has_its_own_cursor() -> None:
    claims = Claims(scripts(2, 2))
    calls = [("x", "r0.0"), ("y", "r1.0"), ("x", "r0.1"), ("y", "r1.1")]
    assert [taken(claims, live) for live, _ in calls] == [entry for _, entry in calls]
    assert claims.unserved() == []


def test_a_live_session_with_a_recorded_id_takes_the_script_of_that_id() -> None:
    claims = Claims(scripts(1, 1, 1))
    assert [taken(claims, live) for live in ("r1", "x", "y")] == ["r1.0", "r0.0", "r2.0"]


def test_calls_without_a_session_share_one_cursor() -> None:
    claims = Claims(scripts(2, 1))
    assert [taken(claims, None), taken(claims, "x"), taken(claims, None)] == ["r0.0", "r1.0", "r0.1"]


def test_a_call_too_many_and_a_session_too_many_are_errors_that_say_so() -> None:
    claims = Claims(scripts(1))
    taken(claims, "x")
    with pytest.raises(ScriptExhausted, match=r"call 2 of session 'r0': the script is exhausted"):
        taken(claims, "x")
    with pytest.raises(TooManySessions, match="'y'"):
        taken(claims, "y")
    with pytest.raises(TooManySessions, match="no session"):
        taken(claims, None)


def test_what_was_not_played_is_listed_with_how_far_it_came() -> None:
    claims = Claims(scripts(2, 1, 1))
    taken(claims, "x")
    taken(claims, "y")
    assert claims.unserved() == [Unserved("r0", True, 1, 2), Unserved("r2", False, 0, 1)]
