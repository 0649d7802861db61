"""Messages, their sources, and what a failure and a usage mean."""

from __future__ import annotations

from typing import Any

import pytest

from playhead.eventstore.blocks import TextBlock, ToolCallBlock, ToolResultBlock
from playhead.eventstore.errors import PlayheadError
from playhead.eventstore.failures import Failure
from playhead.eventstore.ids import CallId, MessageId
from playhead.eventstore.messages import Message
from playhead.eventstore.reasons import FinishAborted, FinishStop, finish_reasons, is_failure
from playhead.eventstore.request_header import RequestHeader
from playhead.eventstore.sources import PluginSource, UserSource, is_person, message_sources
from playhead.eventstore.usage import Usage


def test_a_prompt_is_what_a_person_wrote() -> None:
    assert Message.user(MessageId("m"), [TextBlock(text="hi")]).is_prompt
    assert not Message.user(MessageId("m"), [], PluginSource(plugin="weather")).is_prompt
    assert is_person(message_sources.parse({"kind": "user", "rpcId": 5}))
    assert not is_person(message_sources.parse({"kind": "users"}))


def test_a_prompt_has_the_json_of_the_log() -> None:
    assert Message.user(MessageId("m"), [TextBlock(text="hi")]).to_json() == {
        "id": "m",
        "role": "user",
        "content": [{"type": "text", "text": "hi"}],
        "source": {"kind": "user"},
    }


def test_an_answer_names_its_model_and_keeps_the_adapters_state() -> None:
    call = ToolCallBlock(id=CallId("c"), name="ls", arguments="")
    answer = Message.assistant(MessageId("a"), [call], provider="p", model="m", replay_state={"response": 1})
    assert answer.tool_calls == (call,)
    assert answer.to_json()["source"] == {
        "kind": "model",
        "provider": "p",
        "model": "m",
        "replayState": {"response": 1},
    }
    without = Message.assistant(MessageId("a"), [], provider="p", model="m")
    assert "replayState" not in without.to_json()["source"]


def test_a_tool_result_is_one_block_for_the_call_of_its_source() -> None:
    result = Message.tool_result(MessageId("r"), CallId("c"), [TextBlock(text="x")], is_error=True)
    assert result.content == (
        ToolResultBlock(tool_call_id=CallId("c"), content=(TextBlock(text="x"),), is_error=True),
    )
    assert result.to_json()["source"] == {"kind": "tool", "callId": "c"}
    assert "isError" not in Message.tool_result(MessageId("r"), CallId("c"), []).to_json()["content"][0]


@pytest.mark.parametrize(
    ("member", "value", "valid"),
    [
        ("message", "", False),
        ("code", "", False),
        ("status", 99, False),
        ("status", 100, True),
        ("status", 599, True),
        ("status", 600, False),
        ("providerRetryAfterMs", 0, False),
        ("providerRetryAfterMs", 0.5, True),
        ("providerRetryAfterMs", float("inf"), False),
        ("requestId", "", False),
        ("requestId", "r-1", True),
    ],
)
def test_a_failure_is_valid_when_its_members_are_in_range(member: str, value: Any, valid: bool) -> None:
    assert Failure.decode({"message": "m", "code": "SERVER", member: value}).is_valid is valid


class Throttled(Exception):
    def __init__(self, code: str, failure: Any) -> None:
        super().__init__("slow down")
        self.code = code
        self.failure = failure


def test_an_error_that_carries_a_failure_under_its_own_code_is_believed() -> None:
    failure = Failure(message="slow down", code="RATE_LIMIT", status=429)
    assert Failure.of(Throttled("RATE_LIMIT", failure)) is failure


@pytest.mark.parametrize(
    "error",
    [
        Throttled("OTHER", Failure(message="slow down", code="RATE_LIMIT")),
        Throttled("RATE_LIMIT", {"message": "slow down", "code": "RATE_LIMIT"}),
        Throttled("RATE_LIMIT", Failure(message="slow down", code="RATE_LIMIT", status=7)),
        ValueError("slow down"),
    ],
)
def test_any_other_error_is_unknown_whatever_code_it_claims(error: Exception) -> None:
    assert Failure.of(error) == Failure(message="slow down", code="UNKNOWN")


def test_an_error_of_ours_keeps_its_code_and_one_without_text_gets_its_name() -> None:
    assert Failure.of(PlayheadError("lost")) == Failure(message="lost", code="error")
    assert Failure.of(KeyboardInterrupt()) == Failure(message="KeyboardInterrupt", code="UNKNOWN")


def test_only_error_and_aborted_are_failures() -> None:
    aborted = FinishAborted(failure=Failure(message="m", code="ABORTED"))
    assert is_failure(aborted)
    assert is_failure(finish_reasons.parse({"kind": "error"}))
    assert not is_failure(FinishStop())
    assert not is_failure(finish_reasons.parse({"kind": "content-filter"}))


def test_billed_input_is_the_sum_of_the_disjoint_figures() -> None:
    usage = Usage(input_tokens=3, output_tokens=9, cache_read_tokens=4, reasoning_tokens=2)
    assert usage.billed_input_tokens == 7
    assert usage.cache_write_tokens is None


def header(**members: Any) -> RequestHeader:
    return RequestHeader.decode({"config": {"provider": "p", "model": "m"}} | members)


def tool(parameters: Any, **members: Any) -> dict[str, Any]:
    return {"name": "t", "description": "", "parameters": parameters, **members}


def test_an_empty_part_of_a_header_is_an_absent_one() -> None:
    empty = header(system="", tools=[], adapterDefaults={})
    assert empty.canonical().to_json() == header().to_json()
    assert empty.asks_the_same(header())


@pytest.mark.parametrize(
    "other",
    [
        header(system="be brief"),
        header(config={"provider": "p", "model": "m2"}),
        header(config={"provider": "p", "model": "m", "stop": ["a"]}),
        header(config={"provider": "p", "model": "m", "temperature": 0}),
        header(adapterDefaults={"maxTokens": True}),
        header(tools=[tool({"a": 1})]),
    ],
)
def test_a_header_that_asks_for_something_else_is_another(other: RequestHeader) -> None:
    assert not header().asks_the_same(other)
    assert other.asks_the_same(other.canonical())


def test_tools_are_compared_in_order_by_their_text() -> None:
    assert header(tools=[tool({"a": 1.0, "2": 0})]).asks_the_same(header(tools=[tool({"2": 0, "a": 1})]))
    assert not header(tools=[tool({"a": 1, "b": 2})]).asks_the_same(header(tools=[tool({"b": 2, "a": 1})]))


def test_a_user_source_remembers_its_client() -> None:
    source = UserSource(rpc_id="7", client_time_zone="Europe/Paris")
    assert source.to_json() == {"kind": "user", "rpcId": "7", "clientTimeZone": "Europe/Paris"}
