"""Requests of the Messages format, built and read: every recorded one, and the shapes that no recording has."""

from __future__ import annotations

import json
from typing import Any

import pytest
from exchanges import MESSAGES_RUNTIMES, Scenario, scenarios
from hypothesis import given, settings
from hypothesis import strategies as st

from playhead.adapters.providers.asked import asked
from playhead.adapters.providers.messages import ANTHROPIC_MESSAGES, DEEPSEEK_MESSAGES, MessagesDialect
from playhead.eventstore.chunk_source import AdapterError, ModelRequest
from playhead.eventstore.request_header import CallConfig, Tool

BOTH = pytest.mark.parametrize(
    "dialect", [ANTHROPIC_MESSAGES, DEEPSEEK_MESSAGES], ids=lambda dialect: dialect.name
)
RECORDED = pytest.mark.parametrize("scenario", scenarios(*MESSAGES_RUNTIMES))
Json = dict[str, Any]


def sent(body: Json) -> Json:
    """A recorded body without the fields that are for the transport alone."""
    return {member: value for member, value in body.items() if not member.startswith("dsh_")}


def request(*messages: Json, **more: Any) -> ModelRequest:
    config = CallConfig(provider="p", model="m", **more)
    return ModelRequest(config=config, messages=messages)


def user(*texts: str, **more: Any) -> Json:
    content = [{"type": "text", "text": text} for text in texts]
    return {"id": "u", "role": "user", "content": content, "source": {"kind": "user"}, **more}


def result(*texts: str, call: str = "c1", **more: Any) -> Json:
    content = [{"type": "text", "text": text} for text in texts]
    block = {"type": "tool-result", "toolCallId": call, "content": content, **more}
    return {"id": "r", "role": "user", "content": [block], "source": {"kind": "tool", "callId": call}}


def flat_result(*texts: str, call: str = "c1", **more: Any) -> Json:
    content = [{"type": "text", "text": text} for text in texts]
    source = {"kind": "tool", "callId": call}
    return {"id": "r", "role": "tool", "toolCallId": call, "content": content, "source": source, **more}


def answer(*blocks: Json, kind: str = "", model: str = "m", entries: Any = None, version: int = 1) -> Json:
    source: Json = {"kind": "model", "provider": "p", "model": model}
    if entries is not None:
        response = {"kind": kind, "version": version, "model": model}
        source["replayState"] = {"response": response, "blocks": entries}
    return {"id": "a", "role": "assistant", "content": list(blocks), "source": source}


def call(arguments: str) -> Json:
    return {"type": "tool-call", "id": "c1", "name": "read", "arguments": arguments}


def messages(dialect: MessagesDialect, *given: Json) -> list[Json]:
    found: list[Json] = dialect.build_request(request(*given))["messages"]
    return found


def content(dialect: MessagesDialect, *given: Json) -> list[Json]:
    (message,) = messages(dialect, *given)
    found: list[Json] = message["content"]
    return found


# What was recorded


@RECORDED
def test_the_request_of_every_recorded_call_is_built_again_from_the_log(scenario: Scenario) -> None:
    for exchange in scenario.exchanges():
        if exchange.attempt is None or exchange.is_summary:
            continue
        body = DEEPSEEK_MESSAGES.build_request(asked(exchange.attempt.request()))
        assert json.dumps(body) == json.dumps(sent(exchange.request))


@RECORDED
def test_every_recorded_request_is_read_and_built_again(scenario: Scenario) -> None:
    for exchange in scenario.exchanges():
        body = DEEPSEEK_MESSAGES.build_request(DEEPSEEK_MESSAGES.read_request(exchange.request))
        assert json.dumps(body) == json.dumps(sent(exchange.request))


# Messages


@BOTH
def test_neighbours_of_one_role_are_one_message_and_every_text_stays_a_block(
    dialect: MessagesDialect,
) -> None:
    said = {"type": "text", "text": "x"}
    found = messages(dialect, user("a", "b"), user("c"), answer(said), answer(said), user("d"))
    assert [message["role"] for message in found] == ["user", "assistant", "user"]
    assert [block["text"] for block in found[0]["content"]] == ["a", "b", "c"]
    assert found[1]["content"] == [said, said]


@BOTH
@pytest.mark.parametrize("shape", [result, flat_result])
def test_a_tool_result_of_either_shape_is_a_block_before_the_text(
    dialect: MessagesDialect, shape: Any
) -> None:
    first, second, third = content(dialect, user("then"), shape("x", "", "y"), shape(call="c2", isError=True))
    assert first == {
        "type": "tool_result",
        "tool_use_id": "c1",
        "content": [{"type": "text", "text": "x"}, {"type": "text", "text": "y"}],
        "is_error": False,
    }
    assert second == {"type": "tool_result", "tool_use_id": "c2", "content": [], "is_error": True}
    assert third == {"type": "text", "text": "then"}


@BOTH
@pytest.mark.parametrize(
    ("arguments", "wire"),
    [('{"a":[1,2.5]}', {"a": [1, 2.5]}), ("", {}), ("{not json", {}), ("[1]", {}), ('"x"', {}), ("{}", {})],
)
def test_arguments_are_an_object_on_the_wire(dialect: MessagesDialect, arguments: str, wire: Any) -> None:
    (block,) = content(dialect, answer(call(arguments)))
    assert block == {"type": "tool_use", "id": "c1", "name": "read", "input": wire}


def test_large_numbers_in_arguments_are_exact_but_for_a_runtime_that_has_doubles_alone() -> None:
    (exact,) = content(ANTHROPIC_MESSAGES, answer(call('{"n":9007199254740993}')))
    (double,) = content(DEEPSEEK_MESSAGES, answer(call('{"n":9007199254740993}')))
    assert (exact["input"]["n"], double["input"]["n"]) == (9007199254740993, 9007199254740992)


@BOTH
def test_what_says_nothing_is_not_sent(dialect: MessagesDialect) -> None:
    empty = answer({"type": "text", "text": ""})
    developer = {**user("tools changed"), "role": "developer"}
    unknown = {**user(), "content": [{"type": "picture", "data": "x"}]}
    assert messages(dialect, user(""), user("a"), empty, developer, unknown, user("b")) == [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    ]


@BOTH
def test_a_system_message_inside_the_history_is_user_text(dialect: MessagesDialect) -> None:
    assert messages(dialect, {**user("be brief"), "role": "system"}) == [
        {"role": "user", "content": [{"type": "text", "text": "be brief"}]}
    ]


@BOTH
def test_thinking_goes_back_with_its_signature(dialect: MessagesDialect) -> None:
    entry = {"type": "reasoning", "signature": "s"}
    blocks = content(dialect, answer({"type": "reasoning", "text": "h"}, kind=dialect.name, entries=[entry]))
    assert blocks == [{"type": "thinking", "thinking": "h", "signature": "s"}]


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"kind": "other", "entries": [{"type": "reasoning", "signature": "s"}]},
        {"version": 2, "entries": [{"type": "reasoning", "signature": "s"}]},
        {"entries": []},
        {"entries": [{"type": "reasoning", "signature": "s"}] * 2},
        {"entries": [{"type": "reasoning", "signature": 5}]},
        {"entries": "no list"},
    ],
    ids=str,
)
def test_thinking_without_a_usable_signature_is_sent_bare_by_deepseek_and_not_by_anthropic(
    state: Any,
) -> None:
    thought = {"type": "reasoning", "text": "h"}
    said = {"type": "text", "text": "x"}
    for dialect, wire in (
        (DEEPSEEK_MESSAGES, [{"type": "thinking", "thinking": "h"}]),
        (ANTHROPIC_MESSAGES, []),
    ):
        told = {"kind": dialect.name, **state}
        found = messages(dialect, user("a"), answer(thought, **told), user("b"), answer(said))
        assert [message for message in found if message["role"] == "assistant"][:-1] == [
            {"role": "assistant", "content": wire} for _ in wire
        ]


def test_a_signature_of_another_model_or_for_another_block_is_of_no_use_to_deepseek() -> None:
    thought = {"type": "reasoning", "text": "h"}
    kind = DEEPSEEK_MESSAGES.name
    signed = {"type": "reasoning", "signature": "s"}
    other_model = answer(thought, kind=kind, model="other", entries=[signed])
    other_block = answer(thought, kind=kind, entries=[{"type": "text", "signature": "s"}])
    for message in (other_model, other_block):
        assert content(DEEPSEEK_MESSAGES, message) == [{"type": "thinking", "thinking": "h"}]


def test_redacted_thinking_goes_back_as_it_came() -> None:
    thought = {"type": "reasoning", "text": ""}
    message = answer(thought, kind=ANTHROPIC_MESSAGES.name, entries=[{"redacted": "opaque=="}])
    assert content(ANTHROPIC_MESSAGES, message) == [{"type": "redacted_thinking", "data": "opaque=="}]


# Settings


def test_the_members_of_a_body_are_in_the_order_of_the_runtime() -> None:
    whole = ModelRequest(
        config=CallConfig(
            provider="p", model="m", reasoning_effort="max", temperature=0, max_tokens=0, stop=("x",)
        ),
        messages=(user("a"),),
        system="be brief",
        tools=(Tool(name="f", description="does", parameters={"type": "object"}),),
    )
    body = DEEPSEEK_MESSAGES.build_request(whole)
    assert list(body) == [
        "model",
        "stream",
        "messages",
        "max_tokens",
        "thinking",
        "output_config",
        "system",
        "temperature",
        "stop_sequences",
        "tools",
    ]
    assert (body["max_tokens"], body["temperature"], body["stop_sequences"]) == (0, 0, ["x"])
    assert body["tools"] == [{"name": "f", "description": "does", "input_schema": {"type": "object"}}]


@pytest.mark.parametrize(
    ("dialect", "effort", "wire"),
    [
        (DEEPSEEK_MESSAGES, None, {"thinking": {"type": "enabled"}, "output_config": {"effort": "high"}}),
        (DEEPSEEK_MESSAGES, "low", {"thinking": {"type": "enabled"}, "output_config": {"effort": "low"}}),
        (DEEPSEEK_MESSAGES, "off", {"thinking": {"type": "disabled"}}),
        (ANTHROPIC_MESSAGES, None, {}),
        (ANTHROPIC_MESSAGES, "off", {"thinking": {"type": "disabled"}}),
        (
            ANTHROPIC_MESSAGES,
            "xhigh",
            {"thinking": {"type": "adaptive"}, "output_config": {"effort": "xhigh"}},
        ),
    ],
)
def test_the_effort_is_what_the_endpoint_calls_it(dialect: MessagesDialect, effort: Any, wire: Json) -> None:
    body = dialect.build_request(request(user("a"), reasoning_effort=effort))
    rest = {"model": "m", "stream": True, "messages": body["messages"], "max_tokens": body["max_tokens"]}
    assert body == rest | wire


@BOTH
def test_an_unknown_effort_is_refused_by_name(dialect: MessagesDialect) -> None:
    with pytest.raises(AdapterError, match="'extreme'") as caught:
        dialect.build_request(request(user("a"), reasoning_effort="extreme"))
    assert caught.value.code == "UNSUPPORTED_REASONING_EFFORT"


@BOTH
def test_an_empty_system_prompt_is_left_out(dialect: MessagesDialect) -> None:
    empty = ModelRequest(config=CallConfig(provider="p", model="m"), messages=(), system="")
    assert "system" not in dialect.build_request(empty)


# Reading


CLIENT: Json = {
    "model": "claude-x",
    "max_tokens": 100,
    "system": [
        {"type": "text", "text": "be", "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": "brief"},
    ],
    "messages": [
        {"role": "user", "content": "Hi"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "h", "signature": "s"},
                {"type": "redacted_thinking", "data": "d"},
                {"type": "text", "text": "Hello", "citations": None},
                {"type": "tool_use", "id": "c1", "name": "f", "input": {"b": 1, "a": [2]}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "and"},
                {"type": "tool_result", "tool_use_id": "c1", "content": "out", "is_error": True},
                {"type": "image", "source": {"type": "url", "url": "http://x"}},
            ],
        },
    ],
    "tools": [
        {"name": "f", "input_schema": {"type": "object"}},
        {"type": "web_search_1", "name": "web_search"},
    ],
    "stop_sequences": ["x"],
    "temperature": 0.5,
    "thinking": {"type": "disabled"},
    "metadata": {"user_id": "u"},
}


def test_a_request_of_a_client_is_read_into_messages_of_ours() -> None:
    read = ANTHROPIC_MESSAGES.read_request(CLIENT)
    assert (read.system, read.config.provider, read.config.model) == (
        "be\n\nbrief",
        "anthropic-messages",
        "claude-x",
    )
    assert (read.config.max_tokens, read.config.stop, read.config.temperature) == (100, ("x",), 0.5)
    assert read.config.reasoning_effort == "off"
    assert [tool.to_json() for tool in read.tools] == [
        {"name": "f", "description": "", "parameters": {"type": "object"}},
        {"name": "web_search", "description": "", "parameters": {}},
    ]
    hello, said, out, rest = read.messages
    assert [message["id"] for message in read.messages] == [
        "message-0",
        "message-1",
        "message-2-result-1",
        "message-2",
    ]
    assert hello["content"] == [{"type": "text", "text": "Hi"}]
    assert said["content"] == [
        {"type": "reasoning", "text": "h"},
        {"type": "reasoning", "text": ""},
        {"type": "text", "text": "Hello"},
        {"type": "tool-call", "id": "c1", "name": "f", "arguments": '{"b":1,"a":[2]}'},
    ]
    assert said["source"]["replayState"]["blocks"] == [{"signature": "s"}, {"redacted": "d"}, {}, {}]
    assert out["source"] == {"kind": "tool", "callId": "c1"}
    assert out["content"] == [
        {
            "type": "tool-result",
            "toolCallId": "c1",
            "content": [{"type": "text", "text": "out"}],
            "isError": True,
        }
    ]
    assert [block["type"] for block in rest["content"]] == ["text", "image"]
    again = ANTHROPIC_MESSAGES.build_request(read)["messages"]
    assert [block["type"] for block in again[1]["content"]] == [
        "thinking",
        "redacted_thinking",
        "text",
        "tool_use",
    ]
    assert again[2]["content"][-1] == {"type": "image", "source": {"type": "url", "url": "http://x"}}


@BOTH
@pytest.mark.parametrize(
    "body",
    [
        {},
        {"model": "m"},
        {"model": "m", "messages": {}},
        {"model": 5, "messages": []},
        {"messages": []},
        {"model": "m", "messages": ["x"]},
        {"model": "m", "messages": [{"role": "tool", "content": "x"}]},
        {"model": "m", "messages": [{"role": "user"}]},
        {"model": "m", "messages": [{"role": "user", "content": [5]}]},
        {"model": "m", "messages": [], "system": 5},
        {"model": "m", "messages": [], "max_tokens": "5"},
        {"model": "m", "messages": [], "stop_sequences": [5]},
        {"model": "m", "messages": [{"role": "user", "content": [{"type": "tool_result", "content": 5}]}]},
        {
            "model": "m",
            "messages": [{"role": "assistant", "content": [{"type": "tool_use", "input": float("inf")}]}],
        },
    ],
    ids=str,
)
def test_a_body_that_is_no_request_is_refused_with_the_place(dialect: MessagesDialect, body: Json) -> None:
    with pytest.raises(AdapterError, match="no request of the Messages format") as caught:
        dialect.read_request(body)
    assert caught.value.code == "INVALID_REQUEST"


_text = st.text("ab\ud83d é", max_size=3)
_wire_input = st.builds(lambda text: {"type": "text", "text": text}, _text.filter(bool))
_wire_result = st.builds(
    lambda call, parts, failed: {
        "type": "tool_result",
        "tool_use_id": call,
        "content": parts,
        "is_error": failed,
    },
    _text,
    st.lists(_wire_input, max_size=2),
    st.booleans(),
)
_wire_said = st.one_of(
    _wire_input,
    st.builds(lambda text: {"type": "thinking", "thinking": text}, _text),
    st.builds(lambda text: {"type": "thinking", "thinking": text, "signature": "s"}, _text),
    st.builds(
        lambda text, input: {"type": "tool_use", "id": text, "name": "f", "input": input},
        _text,
        st.dictionaries(_text, st.integers(-5, 5) | _text | st.booleans(), max_size=2),
    ),
)


@settings(max_examples=100)
@given(
    turns=st.lists(
        st.tuples(
            st.lists(_wire_result, max_size=2),
            st.lists(_wire_input, max_size=2),
            st.lists(_wire_said, min_size=1, max_size=3),
        ),
        max_size=3,
    ),
    effort=st.sampled_from(["off", "low", "high", "max"]),
)
def test_a_body_that_was_built_is_read_and_built_again(turns: list[Any], effort: str) -> None:
    messages = []
    for results, texts, said in turns:
        messages.append({"role": "user", "content": [*results, *texts] or [{"type": "text", "text": "go"}]})
        messages.append({"role": "assistant", "content": said})
    body = {
        **DEEPSEEK_MESSAGES.build_request(request(reasoning_effort=effort)),
        "messages": messages,
        "system": "s",
    }
    assert DEEPSEEK_MESSAGES.build_request(DEEPSEEK_MESSAGES.read_request(body)) == body
