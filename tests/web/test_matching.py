"""Whether a request is the recorded one: what counts, what does not, and how a difference is told."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playhead.adapters.providers.chat import DEEPSEEK_CHAT, OPENAI_CHAT
from playhead.adapters.providers.dialect import ProviderDialect
from playhead.adapters.providers.messages import ANTHROPIC_MESSAGES
from playhead.eventstore.chunk_source import ModelRequest
from playhead.eventstore.request_header import CallConfig, Tool
from playhead.web.matching import first_difference, mismatch
from playhead.web.request_form import comparable

Json = dict[str, Any]

RECORDED = ModelRequest(
    config=CallConfig(provider="p", model="m"),
    system="Be brief.",
    tools=(Tool(name="look", description="Looks.", parameters={"type": "object"}),),
    messages=(
        {"role": "user", "content": [{"type": "text", "text": "What is in the cellar?"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "reasoning", "text": "Hm."},
                {"type": "text", "text": "I look."},
                {"type": "tool-call", "id": "c1", "name": "look", "arguments": '{"at":"cellar"}'},
                {"type": "tool-call", "id": "c2", "name": "look", "arguments": '{"at":"shelf"}'},
            ],
        },
        {"role": "tool", "toolCallId": "c1", "isError": False, "content": [{"type": "text", "text": "wine"}]},
        {"role": "tool", "toolCallId": "c2", "isError": False, "content": [{"type": "text", "text": "jam"}]},
        {"role": "user", "content": [{"type": "text", "text": "And in the attic?"}]},
    ),
)
DIALECTS = [OPENAI_CHAT, ANTHROPIC_MESSAGES]
each_dialect = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)


def body(dialect: ProviderDialect) -> Json:
    return copy.deepcopy(dialect.build_request(RECORDED))


def told(asked: Json, dialect: ProviderDialect, *, for_summary: bool = False) -> str | None:
    return mismatch(RECORDED, asked, dialect, for_summary=for_summary)


@each_dialect
def test_the_recorded_request_matches(dialect: ProviderDialect) -> None:
    assert told(body(dialect), dialect) is None


@each_dialect
def test_what_says_how_to_answer_or_whom_makes_no_difference(dialect: ProviderDialect) -> None:
    asked = body(dialect) | {
        "model": "other",
        "stream": False,
        "max_tokens": 3,
        "max_completion_tokens": 3,
        "temperature": 1,
        "user": "u-1",
        "metadata": {"user_id": "u-1"},
        "dsh_session_log": {"events": [1]},
        "dsh_plugin_packages": ["x"],
    }
    assert told(asked, dialect) is None


def test_spellings_of_one_conversation_are_the_same_in_chat() -> None:
    asked = body(OPENAI_CHAT)
    asked["messages"][0] |= {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]}
    asked["messages"][1]["content"] = [
        {"type": "text", "text": "What is in "},
        {"type": "text", "text": "the cellar?"},
    ]
    asked["messages"][2] |= {"refusal": None, "audio": None, "annotations": []}
    asked["tools"][0]["function"]["strict"] = False
    assert told(asked, OPENAI_CHAT) is None


def test_spellings_of_one_conversation_are_the_same_in_messages() -> None:
    asked = body(ANTHROPIC_MESSAGES)
    asked["system"] = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    asked["messages"][0]["content"] = "What is in the cellar?"
    *results, question = asked["messages"][2]["content"]
    results[0] |= {"content": "wine", "is_error": False}
    asked["messages"][2:] = [{"role": "user", "content": results}, {"role": "user", "content": [question]}]
    asked["tools"][0]["type"] = "custom"
    assert told(asked, ANTHROPIC_MESSAGES) is None


def replaced(asked: Json, *words: tuple[str, str]) -> Json:
    """``asked`` with words replaced wherever they stand."""
    text = json.dumps(asked)
    for word, other in words:
        text = text.replace(word, other)
    changed: Json = json.loads(text)
    return changed


@each_dialect
def test_ids_of_tool_calls_may_be_any(dialect: ProviderDialect) -> None:
    asked = replaced(body(dialect), ('"c1"', '"toolu_9"'), ('"c2"', '"toolu_7"'))
    assert told(asked, dialect) is None


@each_dialect
def test_results_must_belong_to_the_calls_that_they_were_recorded_with(dialect: ProviderDialect) -> None:
    asked = body(dialect)
    if dialect is OPENAI_CHAT:
        results, name = asked["messages"][3:5], "tool_call_id"
    else:
        results, name = asked["messages"][2]["content"][:2], "tool_use_id"
    results[0][name], results[1][name] = results[1][name], results[0][name]
    assert f'{name}: recorded "call 1", asked "call 2"' in (told(asked, dialect) or "")


def test_thinking_of_chat_completions_may_be_left_out_and_must_not_be_another() -> None:
    asked = body(DEEPSEEK_CHAT)
    assert asked["messages"][2].pop("reasoning_content") == "Hm."
    assert told(asked, DEEPSEEK_CHAT) is None
    asked["messages"][2]["reasoning_content"] = "Ha."
    assert 'recorded "Hm.", asked "Ha."' in (told(asked, DEEPSEEK_CHAT) or "")


@each_dialect
def test_a_changed_word_is_named_with_its_place_and_both_sides(dialect: ProviderDialect) -> None:
    asked = replaced(body(dialect), ("the attic", "the basement"))
    message = told(asked, dialect) or ""
    assert message.startswith("messages[")
    assert 'recorded "And in the attic?"' in message
    assert 'asked "And in the basement?"' in message


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda asked: asked["messages"].pop(), "messages[5]: recorded {"),
        (lambda asked: asked["messages"].append({"role": "user", "content": "more"}), "asked {"),
        (lambda asked: asked["messages"].clear(), "messages[0]"),
        (lambda asked: asked.pop("messages"), "messages[0]"),
        (lambda asked: asked.update(messages="x"), "messages[0]"),
        (lambda asked: asked.update(messages=[3]), "messages[0]"),
        (lambda asked: asked.pop("tools"), "tools: recorded [{"),
        (
            lambda asked: asked["tools"][0]["function"].update(name="see"),
            'tools[0].function.name: recorded "look"',
        ),
        (
            lambda asked: asked["messages"][0].update(content="Be long."),
            'recorded "Be brief.", asked "Be long."',
        ),
        (lambda asked: asked["messages"][4].update(content="beer"), 'recorded "jam", asked "beer"'),
    ],
)
def test_every_difference_of_a_conversation_is_found(change: Any, words: str) -> None:
    asked = body(OPENAI_CHAT)
    change(asked)
    assert words in (told(asked, OPENAI_CHAT) or "")


def test_a_long_text_is_shown_around_the_place_where_it_parts() -> None:
    asked = body(OPENAI_CHAT)
    recorded = copy.deepcopy(asked)
    asked["messages"][1]["content"] = "x" * 5000 + "here" + "y" * 5000
    recorded["messages"][1]["content"] = "x" * 5000 + "there" + "y" * 5000
    found = first_difference(recorded, asked)
    assert found is not None
    assert len(str(found)) < 300
    assert "there" in str(found)
    assert found.path == "messages[1].content"


def test_a_summary_is_asked_for_by_its_header_and_its_instruction_may_be_any() -> None:
    summary = ModelRequest(
        RECORDED.config, RECORDED.messages, RECORDED.system, RECORDED.tools, None, "compaction"
    )
    for dialect in DIALECTS:
        asked = body(dialect)
        if dialect is OPENAI_CHAT:
            asked["messages"].append({"role": "user", "content": "Sum it up."})
        else:
            asked["messages"][-1]["content"].append({"type": "text", "text": "Sum it up."})
        assert mismatch(summary, asked, dialect, for_summary=True) is None
        assert "asks for an answer" in (mismatch(summary, asked, dialect, for_summary=False) or "")
        asked["messages"][0]["content"] = "other"
        assert "messages[0].content" in (mismatch(summary, asked, dialect, for_summary=True) or "")
    assert "asks for a summary" in (told(body(OPENAI_CHAT), OPENAI_CHAT, for_summary=True) or "")


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.floats(-2, 2) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["messages", "role", "content", "type", "text", "id", "tools", "system", "a"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)


@given(_json, _json)
@settings(max_examples=200)
def test_values_differ_exactly_where_they_are_not_equal(one: Any, other: Any) -> None:
    assert first_difference(one, one) is None
    found, back = first_difference(one, other), first_difference(other, one)
    assert (found is None) == (back is None)
    if found is not None:
        assert str(found)


@given(st.dictionaries(st.sampled_from(["messages", "tools", "system"]), _json))
@settings(max_examples=200)
def test_any_body_has_a_form_and_is_its_own_match(asked: Json) -> None:
    for dialect in DIALECTS:
        form = comparable(asked, dialect.path)
        assert first_difference(form, comparable(copy.deepcopy(asked), dialect.path)) is None
        told(asked, dialect)
