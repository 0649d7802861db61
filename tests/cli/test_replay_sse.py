"""``playhead replay --as sse``: every call as it went over the wire."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from cli_runner import Play
from hypothesis import given, settings
from hypothesis import strategies as st
from log_script import PLACE, LogScript
from sources import header
from twins import read_log, recorded_logs
from wire import assert_came_back, logged

import playhead
from playhead.adapters.dsh.importer import import_paths
from playhead.adapters.providers.chat import DEEPSEEK_CHAT
from playhead.adapters.providers.dialects import DIALECTS, Recordings, recorded_in
from playhead.cli.replay_sse import timed_events
from playhead.eventstore.assembler import BlockAssembler
from playhead.eventstore.exchange import Exchange, ExchangeEnd
from playhead.eventstore.log import NewEvent
from playhead.replay.attempt import attempts
from playhead.replay.part import part

BODY = b": a comment of theirs\r\n\r\ndata: {\r\ndata: }\r\n\r\ndata: [DONE]\r\n\r\n"


def calls(out: bytes) -> dict[str, bytes]:
    """What was written of each call, by the comment in front of it."""
    _, *found = re.split(rb"(?m)^: ((?:turn|summary) [^\n]*)\n\n", out)
    return {name.decode(): body for name, body in zip(found[::2], found[1::2], strict=True)}


def answer(log: LogScript, **finish: Any) -> None:
    log.open()
    log.text("Half ")
    log.text("\ud83d")
    if finish:
        log.finish(**finish)


def exchange(
    body: bytes = BODY, end: ExchangeEnd = "complete", status: int | None = 200, **more: Any
) -> Exchange:
    given: dict[str, Any] = {
        "dialect": "openai-chat",
        "path": "/v1/chat/completions",
        "request": b'{"stream":true}',
        "began_ms": 1,
        "ended_ms": 9,
        "pieces": ((0, 3),) if body else (),
    }
    return Exchange(**given | {"body": body, "end": end, "status": status} | PLACE | {"number": 1} | more)


def keep(store_file: Path, session: str, kept: Exchange) -> None:
    with playhead.open_store(str(store_file)) as store:
        store.session(session).keep_exchange(kept)


# Encoded


@pytest.mark.heavy
@pytest.mark.parametrize("path", recorded_logs())
def test_every_recorded_call_decodes_to_its_chunks(path: Path) -> None:
    with playhead.open_store("sqlite://") as store:
        import_paths(store, [path])
        session = store.session(store.sessions()[0].id)
        out = b"".join(piece.data for piece in timed_events(session, part(session), None))
    bodies = list(calls(out).items())
    log = read_log(path)
    recordings = Recordings(log)
    for (name, body), call in zip(bodies, attempts(log), strict=True):
        step = f"turn {call.turn} step {call.step} call {call.number}"
        assert name == step or (call.is_summary and f"summary at seq {call.seq}," in name)
        came = logged(recordings.dialect_of(call), body)
        if call.is_summary:
            made_up = [timed.chunk for timed in call.synthesised_chunks()]
            assert BlockAssembler(came).blocks() == BlockAssembler(made_up).blocks()
            continue
        chunks = [timed.chunk for timed in call.chunks()]
        assert_came_back(came if chunks else came[:-1], chunks)


def test_calls_come_one_after_the_other_each_behind_a_comment_that_names_it(full: Play, home: Path) -> None:
    ran = full("replay", "plain-v0", "--as", "sse")
    assert (ran.code, ran.err) == (0, "")
    found = calls(ran.out)
    assert list(found) == ["turn 1 step 1 call 1", "turn 1 step 2 call 1"]
    (file,) = home.rglob("plain-v0/session*")
    for body, call in zip(found.values(), attempts(read_log(file)), strict=True):
        chunks = [timed.chunk for timed in call.chunks()]
        assert BlockAssembler(logged(recorded_in(call), body)).blocks() == BlockAssembler(chunks).blocks()


@pytest.mark.parametrize("name", DIALECTS)
def test_another_dialect_says_the_same_in_its_own_words(full: Play, name: str) -> None:
    out = full("replay", "packed-v1", "--as", "sse", "--dialect", name).out
    last = list(calls(out).values())[-1]
    assert (b"event: message_stop" in last) == ("messages" in name)
    text = "".join(chunk.text for chunk in logged(DIALECTS[name], last) if hasattr(chunk, "text"))
    assert text == "Two files: a plan 📝 and a list."


def test_what_no_stream_tells_is_said_in_comments(play: Play, log: LogScript) -> None:
    log.start()
    failure = {"message": "slow\ndown", "code": "RATE_LIMIT", "status": 429, "providerRetryAfterMs": 2000}
    log.finish(kind="error", failure=failure)
    retry = {**PLACE, "retryId": "r", "retry": 1, "delayMs": 5, "failure": failure}
    log.add("llm/retry", retry)
    answer(log, kind="error", failure={"message": "reset", "code": "TRANSPORT"})
    log.add("llm/retry", {**retry, "retryId": "r2", "retry": 2})
    answer(log)
    log.end(kind="aborted", reason={"kind": "user"})
    ran = play("replay", log.write(), "--as", "sse")
    assert ran.code == 0
    refused, broken, left = calls(ran.out).values()
    assert refused.startswith(b": HTTP 429\n: content-type: application/json\n")
    assert b"\n: retry-after: 2\n" in refused
    assert b'\n: {"error":{"message":"slow\\ndown"' in refused
    assert not logged(DEEPSEEK_CHAT, refused)[:-1]
    assert broken.endswith(b"\n\n: the connection broke here\n\n")
    assert left.endswith(b"\n\n: nothing more came\n\n")
    assert b"\\ud83d" in left
    chunks = logged(DEEPSEEK_CHAT, left)
    assert [type(chunk).__name__ for chunk in chunks[:-1]] == ["BlockStart", "TextDelta", "TextDelta"]


def test_a_summary_is_made_up_of_its_result_and_says_so(play: Play, log: LogScript) -> None:
    log.start()
    log.add(
        "compaction/summary",
        {"llmStreamCall": True, "rawOutput": [{"type": "text", "text": "In short."}], "turn": 1},
    )
    log.end()
    found = calls(play("replay", log.write(), "--as", "sse").out)
    (name,) = (name for name in found if "summary" in name)
    assert name.endswith("summary at seq 2, made up of its result")
    assert b"In short." in found[name]


def test_a_part_is_encoded_as_far_as_it_goes(play: Play, log: LogScript) -> None:
    log.start()
    answer(log, kind="stop")
    log.end()
    for turn in (2, 3):
        log.start(turn)
        log.open(turn)
        log.text(f"answer {turn}", turn)
        log.finish(turn)
        log.end(turn)
    log.write()
    assert list(calls(play("replay", log.path, "--as", "sse", "--turn", 2).out)) == ["turn 2 step 1 call 1"]
    (cut,) = calls(play("replay", log.path, "--as", "sse", "--at", 3).out).values()
    assert b"Half" in cut
    assert b"[DONE]" not in cut


# Kept


@given(body=st.binary(max_size=300), ends=st.sampled_from([b"", b"\n\n", b"\r\n\r\n", b"\r\r"]))
@settings(max_examples=50)
def test_any_kept_bytes_come_as_they_are(body: bytes, ends: bytes) -> None:
    body += ends
    with playhead.open_store("sqlite://", create=True) as store:
        session = store.create(header())
        session.append(
            [NewEvent("assistant/chunk", PLACE | {"chunk": {"type": "finish", "reason": {"kind": "stop"}}})]
        )
        session.keep_exchange(exchange(body))
        pieces = [piece.data for piece in timed_events(session, part(session), None)]
    assert pieces[0] == b": turn 1 step 1 call 1\n\n"
    whole = not body or body.endswith((b"\n\n", b"\r\r", b"\r\n\r\n"))
    assert b"".join(pieces[1:]) == body + (b"" if whole else b"\n\n")


def test_kept_bytes_are_given_for_their_dialect_only(full: Play, store_file: Path) -> None:
    keep(store_file, "plain-v0", exchange())
    first, second = calls(full("replay", "plain-v0", "--as", "sse").out).values()
    assert first == BODY
    assert b"chat.completion.chunk" in second
    same, _ = calls(full("replay", "plain-v0", "--as", "sse", "--dialect", "openai-chat").out).values()
    assert same == BODY
    other, _ = calls(full("replay", "plain-v0", "--as", "sse", "--dialect", "deepseek-chat").out).values()
    assert b"chat.completion.chunk" in other


def test_kept_bytes_of_a_call_that_is_cut_short_are_not_given(full: Play, store_file: Path) -> None:
    keep(store_file, "plain-v0", exchange())
    (cut,) = calls(full("replay", "plain-v0", "--as", "sse", "--at", 8).out).values()
    assert cut.startswith(b"event: message_start\n")
    assert cut.endswith(b": nothing more came\n\n")


def test_a_kept_answer_that_was_no_stream_is_a_comment_and_its_end_is_told(
    full: Play, store_file: Path
) -> None:
    keep(store_file, "plain-v0", exchange(b'{\r\n"error": 1}', status=503, headers=(("retry-after", "7"),)))
    keep(store_file, "plain-v0", exchange(b"data: x", end="reset", step=2))
    refused, broken = calls(full("replay", "plain-v0", "--as", "sse").out).values()
    assert refused == b': HTTP 503\n: retry-after: 7\n: {\n: "error": 1}\n\n'
    assert broken == b"data: x\n\n: the connection broke here\n\n"


def test_a_kept_answer_that_was_asked_for_as_one_object_is_encoded_as_a_stream(
    full: Play, store_file: Path
) -> None:
    keep(store_file, "plain-v0", exchange(b"{}", request=b'{"stream":false}'))
    first, _ = calls(full("replay", "plain-v0", "--as", "sse").out).values()
    assert b"chat.completion.chunk" in first


def test_pieces_come_at_their_times_and_only_the_wait_for_the_first_is_idle(log: LogScript) -> None:
    log.start()
    answer(log, kind="stop")
    log.end()
    with playhead.open_store("sqlite://", create=True) as store:
        import_paths(store, [log.write()])
        session = store.session("told")
        found = [(piece.time_ms, piece.idle) for piece in timed_events(session, part(session), None)]
    assert found[:2] == [(1010, True), (1020, True)]
    assert found[2:] == [(1030, False), (1040, False), (1050, False), (1050, False)]
