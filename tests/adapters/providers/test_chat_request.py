"""Requests of chat completions: from what a model is asked, and back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import cases

from playhead.adapters.providers.asked import asked
from playhead.adapters.providers.chat import DEEPSEEK_CHAT, DEEPSEEK_CHAT_0_1_0, OPENAI_CHAT, ChatDialect
from playhead.adapters.providers.chat_profile import DEEPSEEK, OPENAI, ChatProfile
from playhead.eventstore.chunk_source import AdapterError, ModelRequest
from playhead.eventstore.request_header import CallConfig, Tool
from playhead.projections.requests import Request

NO_MESSAGES: dict[str, Any] = {
    "model": "m",
    "messages": [],
    "stream": True,
    "stream_options": {"include_usage": True},
}


def request(*messages: dict[str, Any], system: str | None = None, **config: Any) -> ModelRequest:
    return ModelRequest(CallConfig(provider="p", model="m", **config), messages, system)


def body(profile: ChatProfile, *messages: dict[str, Any], **asked: Any) -> dict[str, Any]:
    return ChatDialect("x", profile).build_request(request(*messages, **asked))


def message(role: str, *content: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": "m", "role": role, "content": list(content), "source": {"kind": "user"}, **more}


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


CALL = {"type": "tool-call", "id": "c1", "name": "f", "arguments": "{}"}
THINKING = {"type": "reasoning", "text": "hm"}


@pytest.mark.parametrize("case", cases("sse_deepseek", "requests"))
def test_bodies_are_those_of_the_vectors(case: dict[str, Any]) -> None:
    options, defaults = case["options"], case["defaults"]
    profile = replace(
        DEEPSEEK,
        default_effort=defaults.get("reasoningEffort"),
        default_thinking=defaults.get("thinking"),
    )
    asked = ModelRequest(
        config=CallConfig.decode(
            {
                member: tuple(options[member]) if member == "stop" else options[member]
                for member in ("provider", "model", "reasoningEffort", "temperature", "maxTokens", "stop")
                if member in options
            }
        ),
        messages=tuple(options["messages"]),
        system=options.get("system"),
        tools=tuple(Tool.decode(tool) for tool in options.get("tools", ())),
        purpose=options.get("purpose", "turn"),
    )
    dialect = ChatDialect("deepseek-chat", profile)
    if "error" in case["expect"]:
        with pytest.raises(AdapterError) as raised:
            dialect.build_request(asked)
        assert raised.value.code == case["expect"]["error"]
        assert raised.value.failure.is_valid
    else:
        wanted = case["expect"]["body"]
        assert dialect.build_request(asked) == wanted
        if "thinking" not in defaults:
            assert dialect.build_request(dialect.read_request(wanted)) == wanted


def test_a_tool_result_is_the_same_message_in_either_shape() -> None:
    older = message(
        "user", {"type": "tool-result", "toolCallId": "c1", "content": [text("out")], "isError": True}
    )
    newer = message("tool", text("out"), toolCallId="c1", isError=True)
    wanted = [{"role": "tool", "tool_call_id": "c1", "content": "out"}]
    assert body(DEEPSEEK, older)["messages"] == wanted
    assert body(DEEPSEEK, newer)["messages"] == wanted
    assert body(DEEPSEEK, message("tool", toolCallId="c1"))["messages"][0]["content"] == "(no output)"


def test_a_list_of_tools_that_changed_is_no_message() -> None:
    changed = message("developer", {"type": "tool-addition", "toolName": "f"})
    assert body(DEEPSEEK, changed)["messages"] == []


def test_thinking_goes_back_where_the_endpoint_wants_it() -> None:
    said, called = message("assistant", THINKING, text("hi")), message("assistant", THINKING, CALL)

    def echoed(profile: ChatProfile) -> list[dict[str, Any]]:
        members = ("reasoning_content", "reasoning")
        return [
            {member: value for member, value in sent.items() if member in members}
            for sent in body(profile, said, called)["messages"]
        ]

    assert echoed(DEEPSEEK) == [{"reasoning_content": "hm"}] * 2
    assert echoed(DEEPSEEK_CHAT_0_1_0.profile) == [{}, {"reasoning_content": "hm"}]
    assert echoed(OPENAI) == [{}, {}]
    assert echoed(ChatProfile(reasoning_field="reasoning")) == [{"reasoning": "hm"}] * 2


def test_profiles_name_the_roles_limits_and_empty_content() -> None:
    profile = ChatProfile(
        max_tokens_field="max_completion_tokens",
        system_role="developer",
        empty_content=None,
        sends_effort=False,
    )
    history = (message("system", text("later")), message("assistant", CALL), message("assistant"))
    built = body(profile, *history, system="be brief", max_tokens=0, reasoning_effort="high")
    assert built["messages"][0] == {"role": "developer", "content": "be brief"}
    assert built["messages"][1] == {"role": "developer", "content": "later"}
    assert [sent["content"] for sent in built["messages"][2:]] == [None, ""]
    assert built["max_completion_tokens"] == 0
    assert not {"max_tokens", "reasoning_effort", "thinking"} & set(built)


def test_an_openai_endpoint_gets_the_effort_as_it_is() -> None:
    assert body(OPENAI, reasoning_effort="minimal") == {**NO_MESSAGES, "reasoning_effort": "minimal"}


def test_blocks_of_an_unknown_type_and_members_of_the_wrong_kind_are_left_out() -> None:
    broken: list[Any] = [
        {"role": "user", "content": None},
        {"role": "user", "content": [None, 5, {"type": "text"}, {"type": "text", "text": 5}, text("x")]},
        {"role": "assistant", "content": [{"type": "tool-call", "id": 5}]},
        {"content": [{"type": "tool-result", "content": "x"}]},
        {},
    ]
    assert body(DEEPSEEK, *broken)["messages"] == [
        {"role": "user", "content": ""},
        {"role": "user", "content": "x"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "", "type": "function", "function": {"name": "", "arguments": ""}}],
        },
        {"role": "tool", "tool_call_id": "", "content": "(no output)"},
        {"role": "user", "content": ""},
    ]


def test_what_openai_clients_write_is_read() -> None:
    function = {"name": "f", "description": "d", "parameters": {"type": "object"}, "strict": True}
    read = OPENAI_CHAT.read_request(
        {
            "model": "gpt",
            "messages": [
                {
                    "role": "developer",
                    "content": [{"type": "text", "text": "be"}, {"type": "text", "text": " brief"}],
                },
                {
                    "role": "user",
                    "content": [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {}}],
                },
                {"role": "assistant", "content": None, "refusal": "no"},
                {"role": "system", "content": "later"},
                {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "out"}]},
            ],
            "tools": [
                {"type": "function", "function": function},
                {"type": "custom", "custom": {"name": "g"}},
            ],
            "max_completion_tokens": 9,
            "stop": "END",
            "temperature": None,
            "reasoning_effort": "low",
            "stream": False,
        }
    )
    assert read.system == "be brief"
    assert read.config == CallConfig(
        provider="openai-chat", model="gpt", max_tokens=9, stop=("END",), reasoning_effort="low"
    )
    assert read.tools == (Tool(name="f", description="d", parameters={"type": "object"}),)
    assert [(part["id"], part["role"]) for part in read.messages] == [
        ("message-1", "user"),
        ("message-2", "assistant"),
        ("message-3", "system"),
        ("message-4", "user"),
    ]
    assert read.messages[0]["content"][1] == {"type": "image_url", "image_url": {}}
    assert read.messages[1]["content"] == [text("no")]
    assert read.messages[3]["source"] == {"kind": "tool", "callId": "c"}
    result = {"type": "tool-result", "toolCallId": "c", "content": [text("out")]}
    assert read.messages[3]["content"] == [result]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"messages": None}, "messages is not a list"),
        ({"messages": [5]}, r"messages\[0\] is not an object"),
        ({"messages": [{"role": "user"}, {"role": "robot"}]}, r"messages\[1\] has the role 'robot'"),
        ({"messages": [{}]}, "role None"),
        ({"model": 5}, "model is not text"),
        ({"temperature": "hot"}, "temperature"),
        ({"max_tokens": 1e300}, "maxTokens"),
        ({"stop": [5]}, "stop"),
        ({"stop": 5, "reasoning_effort": []}, "reasoningEffort, stop"),
    ],
)
def test_a_body_that_is_no_request_is_refused_and_says_why(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(AdapterError, match=said) as raised:
        DEEPSEEK_CHAT.read_request({**NO_MESSAGES, **wrong})
    assert raised.value.code == "INVALID_REQUEST"


words = st.text(st.characters(exclude_categories=()), max_size=4)
said = words.map(text)
results = st.builds(
    lambda call, out: {"type": "tool-result", "toolCallId": call, "content": [out]}, words, said
)
calls = st.builds(lambda id, args: {**CALL, "id": id, "arguments": args}, words, words)
histories = st.lists(
    st.one_of(
        st.lists(said, max_size=2).map(lambda blocks: message("user", *blocks)),
        st.tuples(results, said).map(lambda blocks: message("user", *blocks)),
        results.map(lambda block: message("tool", *block["content"], toolCallId=block["toolCallId"])),
        st.lists(said | calls | st.just(THINKING), max_size=4).map(
            lambda blocks: message("assistant", *blocks)
        ),
    ),
    max_size=5,
)


@given(
    history=histories,
    system=st.none() | words,
    effort=st.sampled_from([None, "off", "low", "max"]),
    limit=st.none() | st.integers(0, 9),
    stop=st.none() | st.lists(words, max_size=2).map(tuple),
)
def test_a_body_that_was_built_is_built_again_from_what_it_asks(
    history: list[dict[str, Any]], system: str | None, effort: str | None, limit: int | None, stop: Any
) -> None:
    tool = Tool(name="f", description="d", parameters={})
    given = replace(
        request(*history, system=system, reasoning_effort=effort, max_tokens=limit, stop=stop), tools=(tool,)
    )
    for dialect in (DEEPSEEK_CHAT, OPENAI_CHAT):
        built = dialect.build_request(given)
        read = dialect.read_request(built)
        assert dialect.build_request(read) == built
        assert (read.system, read.tools) == (system, (tool,))


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | words,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["content", "role", "type"]), inner)
    ),
    max_leaves=8,
)


@given(
    members=st.dictionaries(
        st.sampled_from(["model", "messages", "tools", "stop", "thinking", "max_tokens", "temperature"]),
        values,
    ),
    history=st.lists(
        st.dictionaries(st.sampled_from(["content", "tool_calls", "refusal", "tool_call_id"]), values),
        max_size=3,
    ),
    role=st.sampled_from(["system", "developer", "user", "assistant", "tool"]),
)
def test_any_body_is_read_or_refused(
    members: dict[str, Any], history: list[dict[str, Any]], role: str
) -> None:
    told = [{"role": role, **message} for message in history]
    for body in (members, {**NO_MESSAGES, **members}, {**NO_MESSAGES, "messages": told}):
        try:
            read = OPENAI_CHAT.read_request(body)
        except AdapterError as error:
            assert error.failure.is_valid  # noqa: PT017 -- what is read is no failure
        else:
            OPENAI_CHAT.build_request(read)


def test_a_call_of_a_damaged_log_is_asked_as_far_as_it_tells() -> None:
    header = {
        "config": {"provider": 5, "model": "m", "temperature": "x", "maxTokens": 1.5, "stop": ["a", 5]},
        "tools": [{"name": "f"}, None],
    }
    found = asked(Request(7, 3, header, None, ()), session="s")
    assert found == ModelRequest(
        CallConfig(provider="", model="m", stop=("a",)),
        (),
        tools=(Tool(name="f", description="", parameters={}),),
        session="s",
    )
    assert asked(Request(7, None, None, "be brief", ())).config == CallConfig(provider="", model="")
