"""The registry of dialects, and what a log tells of the dialect in which a call was recorded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from answers import messages_answers
from exchanges import CHAT_RUNTIMES, MESSAGES_RUNTIMES, Scenario, scenarios
from hypothesis import given, settings
from hypothesis import strategies as st
from twins import Log, Twins, read_log, recorded_logs, twins
from wire import assert_came_back, logged, sent

from playhead.adapters.providers.chat import DEEPSEEK_CHAT, OPENAI_CHAT
from playhead.adapters.providers.dialect import ProviderDialect
from playhead.adapters.providers.dialects import DIALECTS, Recordings, dialect, dialect_at, recorded_in
from playhead.adapters.providers.messages import ANTHROPIC_MESSAGES, DEEPSEEK_MESSAGES
from playhead.eventstore import envelope, json_text
from playhead.eventstore.assembler import BlockAssembler
from playhead.eventstore.blocks import AnyBlock
from playhead.eventstore.chunks import Chunk, FinishChunk
from playhead.eventstore.errors import UsageError
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId
from playhead.eventstore.reasons import FinishError
from playhead.replay.attempt import Attempt, attempts

MESSAGES = {ANTHROPIC_MESSAGES, DEEPSEEK_MESSAGES}


# The registry


def test_every_dialect_is_found_by_its_name() -> None:
    assert {name: dialect(name).name for name in DIALECTS} == {name: name for name in DIALECTS}


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"'klingon'.*openai-chat.*anthropic-messages"):
        dialect("klingon")


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/chat/completions", OPENAI_CHAT),
        ("/v1/chat/completions", OPENAI_CHAT),
        ("/beta/chat/completions/", OPENAI_CHAT),
        ("/v1/messages", ANTHROPIC_MESSAGES),
        ("/anthropic/v1/messages", ANTHROPIC_MESSAGES),
        ("/v1/messages/count_tokens", None),
        ("/models", None),
        ("", None),
    ],
)
def test_a_path_says_the_dialect(path: str, found: ProviderDialect | None) -> None:
    assert dialect_at(path) is found


def test_an_answer_goes_out_as_it_was_recorded_where_the_path_allows_it() -> None:
    for known in DIALECTS.values():
        assert dialect_at(f"/v1{known.path.removeprefix('/v1')}", known) is known
    assert dialect_at("/v1/messages", DEEPSEEK_CHAT) is ANTHROPIC_MESSAGES
    assert dialect_at("/chat/completions", DEEPSEEK_MESSAGES) is OPENAI_CHAT


# What a log tells


def stream(*chunks: dict[str, Any], **more: Any) -> dict[str, Any]:
    entries = [{"type": "chunk", "time": 1, "chunk": chunk} for chunk in chunks]
    return {"turn": 1, "step": 1, "stream": entries, **more}


TEXT = {"type": "block-start", "index": 0, "blockType": "text"}
DELTA = {"type": "text-delta", "index": 0, "text": "x"}
END = {"type": "block-end", "index": 0, "block": {"type": "text", "text": "x"}}
CALL = {"type": "block-start", "index": 1, "blockType": "tool-call"}
NAMED = {"type": "tool-call-delta", "index": 1, "id": "c", "name": "f", "argumentsDelta": ""}
NAMELESS = {"type": "tool-call-delta", "index": 1, "id": "c", "argumentsDelta": "{"}


def finish(kind: str | None = None, reason: Any = None) -> dict[str, Any]:
    chunk: dict[str, Any] = {"type": "finish", "reason": reason or {"kind": "stop"}}
    if kind is not None:
        chunk["replayState"] = {"response": {"kind": kind, "version": 1, "model": "m"}, "blocks": [{}]}
    return chunk


def usage(**more: int) -> dict[str, Any]:
    return {"type": "usage", "usage": {"inputTokens": 1, "outputTokens": 1, **more}}


def failed(message: str) -> dict[str, Any]:
    return finish(reason={"kind": "error", "failure": {"message": message, "code": "SERVER"}})


def message(
    *chunks: dict[str, Any], provider: str = "p", interrupted: bool = False
) -> tuple[str, dict[str, Any]]:
    source: dict[str, Any] = {"kind": "model", "provider": provider, "model": "m"}
    state = chunks[-1].get("replayState")
    if state is not None:
        source["replayState"] = state
    said = {"role": "assistant", "content": [], "source": source, "id": "a"}
    more = {"interrupted": True} if interrupted else {}
    return "assistant/message", stream(*chunks, message=said, **more)


def attempt(*chunks: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return "assistant/attempt", stream(*chunks)


def found(*events: tuple[str, dict[str, Any]], version: int = 4) -> list[str]:
    """The names of the dialects of the calls in a log of ``events``."""
    header = SessionHeader(SessionId("s1"), 1, version=version, is_seeded=False)
    lines = [
        json_text.dumps({"type": type, "seq": seq, "time": 1, "data": data})
        for seq, (type, data) in enumerate(events)
    ]
    log = Log(header, tuple(fact for line in lines for fact in envelope.facts(line, header.id)))
    recordings = Recordings(log)
    names = [recordings.dialect_of(call).name for call in attempts(log)]
    assert [recorded_in(call).name for call in attempts(log)] == names
    return names


@pytest.mark.parametrize("version", [3, 4])
def test_replay_state_names_the_dialect(version: int) -> None:
    for known in MESSAGES:
        assert found(message(TEXT, DELTA, END, finish(known.name)), version=version) == [known.name]


@pytest.mark.parametrize("name", sorted(DIALECTS))
def test_a_provider_that_is_named_as_a_dialect_is_that_dialect(name: str) -> None:
    assert found(message(TEXT, DELTA, END, finish(), provider=name)) == [name]


def test_a_whole_answer_without_replay_state_came_by_chat_completions() -> None:
    whole = (TEXT, DELTA, END, usage(totalTokens=2), finish())
    assert found(message(*whole)) == ["deepseek-chat"]
    assert found(message(*whole[:3], usage(), finish()), version=0) == ["deepseek-chat-0.1.1"]
    assert found(message(*whole[:3], usage(), finish(), provider="openai")) == ["openai-chat"]


def test_two_retries_at_most_are_the_sign_of_the_first_runtime() -> None:
    retry = {"retryId": "r", "turn": 1, "step": 1, "retry": 1, "maxRetries": 2, "delayMs": 1}
    events = [
        attempt(failed("busy")),
        ("llm/retry", {**retry, "failure": {"message": "busy", "code": "SERVER"}}),
        message(TEXT, DELTA, END, usage(), finish()),
    ]
    assert found(*events, version=3) == ["deepseek-chat-0.1.0"] * 2


def test_the_words_of_a_failure_name_the_dialect() -> None:
    for known in (ANTHROPIC_MESSAGES, DEEPSEEK_MESSAGES):
        said = failed(f"{known.profile.label} transport failed")
        assert found(attempt(TEXT, said), version=3) == [known.name]


def test_a_failed_call_is_of_the_dialect_of_the_whole_answer_before_it_else_behind_it() -> None:
    busy = attempt(failed("busy"))
    chat = message(TEXT, DELTA, END, usage(totalTokens=2), finish())
    native = message(TEXT, DELTA, END, finish("deepseek-messages"))
    assert found(busy, chat, busy, native, busy) == [
        "deepseek-chat",
        "deepseek-chat",
        "deepseek-chat",
        "deepseek-messages",
        "deepseek-messages",
    ]
    assert found(busy, native) == ["deepseek-messages"] * 2


def test_a_call_among_no_whole_answers_is_of_the_only_dialect_of_its_format() -> None:
    busy = attempt(failed("busy"))
    cut = message(TEXT, DELTA, interrupted=True)
    assert found(busy, cut) == ["deepseek-messages"] * 2
    assert found(busy, cut, version=3) == ["deepseek-chat"] * 2


def test_a_stream_that_a_crash_left_in_format_4_was_migrated() -> None:
    native = message(TEXT, DELTA, END, finish("deepseek-messages"))
    assert found(attempt(TEXT, DELTA), native) == ["deepseek-chat", "deepseek-messages"]


@pytest.mark.parametrize(
    "chunks",
    [(TEXT, DELTA, END, CALL), (CALL, NAMED, NAMELESS), (TEXT, DELTA, usage(cacheWriteTokens=0))],
    ids=("block-after-end", "nameless-fragment", "cache-writes"),
)
def test_what_chat_completions_never_give_is_of_messages(chunks: Any) -> None:
    assert found(message(*chunks, interrupted=True), version=0) == ["deepseek-messages"]
    assert found(message(TEXT, CALL, NAMELESS, interrupted=True), version=0) == ["deepseek-chat"]


@pytest.mark.parametrize("scenario", scenarios(*MESSAGES_RUNTIMES))
def test_what_dsh_0_2_1_wrote_is_of_messages(scenario: Scenario) -> None:
    calls = [exchange.attempt for exchange in scenario.exchanges() if exchange.attempt is not None]
    assert {recorded_in(call).name for call in calls} <= {"deepseek-messages"}


@pytest.mark.parametrize("scenario", scenarios(*CHAT_RUNTIMES))
def test_what_older_runtimes_wrote_is_of_chat_completions(scenario: Scenario) -> None:
    for exchange in scenario.exchanges():
        if exchange.attempt is not None:
            name = recorded_in(exchange.attempt).name
            totals = exchange.attempt.call.tokens is None or exchange.attempt.call.tokens.total is not None
            first = scenario.runtime.startswith("0.1.0") and name == "deepseek-chat-0.1.0"
            assert first or name == ("deepseek-chat" if totals else "deepseek-chat-0.1.1")


@pytest.mark.parametrize("pair", twins())
def test_what_was_migrated_is_of_chat_completions_and_what_follows_is_not(pair: Twins) -> None:
    log = read_log(pair.newer)
    recordings = Recordings(log)
    resumed = max(fact.seq for fact in log.facts if fact.type == "session/end-seed")
    for call in attempts(log):
        came_by_messages = recordings.dialect_of(call) in MESSAGES
        assert came_by_messages == (log.header.version == 4 and call.seq > resumed)


# Both ways, for all that was recorded


def chunks_of(call: Attempt) -> list[Chunk]:
    return [timed.chunk for timed in call.chunks()]


def back(known: ProviderDialect, chunks: list[Chunk]) -> list[Chunk]:
    return logged(known, sent(known.encode(chunks, model="m", id="i")))


def recorded_calls(log: Log) -> Iterator[tuple[ProviderDialect, list[Chunk]]]:
    recordings = Recordings(log)
    for call in attempts(log):
        chunks = chunks_of(call)
        if chunks:
            yield recordings.dialect_of(call), chunks


@pytest.mark.heavy
@pytest.mark.parametrize("path", recorded_logs())
def test_every_recorded_answer_comes_back_from_the_wire(path: Any) -> None:
    for known, chunks in recorded_calls(read_log(path)):
        assert_came_back(back(known, chunks), chunks)


@pytest.mark.heavy
@pytest.mark.parametrize("path", recorded_logs())
def test_content_calls_and_finish_of_every_recorded_answer_survive_in_every_dialect(path: Any) -> None:
    for _, chunks in recorded_calls(read_log(path)):
        finish = chunks[-1]
        if isinstance(finish, FinishChunk) and not isinstance(finish.reason, FinishError):
            for known in DIALECTS.values():
                _survives(known, chunks)


@settings(max_examples=50)
@given(st.data())
@pytest.mark.parametrize("other", DIALECTS.values(), ids=DIALECTS)
@pytest.mark.parametrize("native", [ANTHROPIC_MESSAGES, DEEPSEEK_MESSAGES], ids=lambda known: known.name)
def test_content_calls_and_finish_of_generated_answers_survive_in_every_dialect(
    native: Any, other: ProviderDialect, data: st.DataObject
) -> None:
    _survives(other, data.draw(messages_answers(native, interleaved=False)))


def _survives(known: ProviderDialect, chunks: list[Chunk]) -> None:
    ours, theirs = BlockAssembler(chunks), BlockAssembler(back(known, chunks))
    if any(not _is_object(block) for block in ours.blocks()) and known.name == "deepseek-messages":
        assert theirs.finish.tag == "error"  # this runtime takes no arguments that are no JSON
        return
    assert _told(theirs.blocks()) == _told(ours.blocks())
    is_empty = not any(_told(ours.blocks())) and ours.finish.tag == "stop"
    assert theirs.finish.tag == ("error" if is_empty and "chat" in known.name else ours.finish.tag)


def _told(blocks: tuple[AnyBlock, ...]) -> tuple[Any, ...]:
    """What a content says, blocks of one kind joined: some dialects have but one of each."""
    members = [block.to_json() for block in blocks]
    texts = ["".join(m["text"] for m in members if m["type"] == kind) for kind in ("text", "reasoning")]
    calls = [(m["id"], m["name"], m["arguments"] or "{}") for m in members if m["type"] == "tool-call"]
    return (*texts, calls)


def _is_object(block: AnyBlock) -> bool:
    members = block.to_json()
    try:
        return members["type"] != "tool-call" or isinstance(json.loads(members["arguments"] or "{}"), dict)
    except ValueError:
        return False
