"""Every event type, block, source and reason gives back the JSON it was read from."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import cases
from vocabulary import any_text, json_values, members_of, objects

from playhead.eventstore import json_text
from playhead.eventstore.blocks import content_blocks
from playhead.eventstore.messages import Message
from playhead.eventstore.reasons import finish_reasons, turn_end_reasons
from playhead.eventstore.registry import Malformed, Registry, Unknown, event_types
from playhead.eventstore.sources import message_sources

LATER_TYPES = [
    "assistant/attempt",
    "deliverables/presented",
    "developer/message",
    "feedback/message-delete",
    "feedback/message-put",
    "image/offload",
    "job/registered",
    "job/settled",
    "model/selection",
    "session-log-deepseek/delivery-accepted",
    "subagent/catalog",
    "subagent/model-selection-policy",
    "system/message",
    "tool/ptc-dispatch",
    "tool/ptc-dispatch-start",
    "working-directory/change",
    "workspace/changes",
]


@pytest.mark.parametrize("case", cases("event_types", "types"))
def test_every_type_of_the_first_format_is_known_with_its_place_on_the_surface(case: dict[str, Any]) -> None:
    known = event_types.find(case["type"])
    assert known is not None
    assert known.surface == case["surface"]


@pytest.mark.parametrize("tag", LATER_TYPES)
def test_every_later_type_is_known(tag: str) -> None:
    assert tag in event_types


def test_exactly_five_types_are_on_the_surface() -> None:
    surface = {tag for tag in event_types if (cls := event_types.find(tag)) is not None and cls.surface}
    assert surface == {
        "user/message",
        "assistant/message",
        "tool/result",
        "system/message",
        "developer/message",
    }


@pytest.mark.parametrize("tag", list(event_types))
def test_every_type_says_in_its_docstring_what_happened(tag: str) -> None:
    known = event_types.find(tag)
    assert known is not None
    assert vars(known)["__doc__"]


@pytest.mark.parametrize("tag", list(event_types))
def test_every_event_that_fits_its_type_gives_its_json_back(tag: str) -> None:
    known = event_types.find(tag)
    assert known is not None

    @settings(max_examples=20)
    @given(objects(known))
    def round_trips(value: Any) -> None:
        event = event_types.decode(tag, value)
        assert isinstance(event, known)
        assert event.to_json() == value

    round_trips()


@pytest.mark.parametrize("registry", [content_blocks, message_sources, finish_reasons, turn_end_reasons])
def test_every_tagged_value_gives_its_json_back(registry: Registry[Any]) -> None:
    @settings(max_examples=100)
    @given(members_of(registry))
    def round_trips(value: Any) -> None:
        decoded = registry.parse(value)
        assert not isinstance(decoded, Malformed)
        assert decoded.tag == value[registry.member]
        assert decoded.to_json() == value

    round_trips()


@given(objects(Message))
def test_a_message_decoded_twice_is_the_same_message(value: Any) -> None:
    assert Message.decode(value) == Message.decode(Message.decode(value).to_json())


@given(st.sampled_from([*event_types, "nobody/knows", ""]), json_values)
def test_decoding_never_raises_and_loses_nothing(tag: str, value: Any) -> None:
    assert event_types.decode(tag, value).to_json() == value


@given(any_text, json_values)
def test_an_unknown_tag_keeps_its_json(tag: str, value: Any) -> None:
    event = event_types.decode(f"nobody/{tag}", value)
    assert event == Unknown(f"nobody/{tag}", value)
    assert event.to_json() is value


BAD: dict[str, tuple[str, Any, str]] = {
    "no-object": ("turn/start", None, "valid dictionary"),
    "member-missing": ("turn/start", {}, "turn: "),
    "true-is-no-number": ("turn/start", {"turn": True}, "turn"),
    "text-is-no-number": ("turn/start", {"turn": "1"}, "turn"),
    "a-fraction-is-no-turn": ("turn/start", {"turn": 1.5}, "turn"),
    "too-large-to-be-exact": ("turn/start", {"turn": 2**53}, "turn"),
    "number-is-no-flag": ("plan/mode", {"active": 1}, "active"),
    "object-is-no-list": (
        "agent/inbox/spliced",
        {"target": "next-turn", "start": 0, "inserted": {}},
        "inserted",
    ),
    "other-list": ("agent/inbox/spliced", {"target": "never", "start": 0, "inserted": []}, "target"),
    "message-without-id": ("user/message", {"role": "user", "content": [], "source": {"kind": "user"}}, "id"),
    "unknown-chunk": ("assistant/chunk", {"turn": 1, "step": 1, "chunk": {"type": "new"}}, "chunk"),
    "bad-usage": (
        "assistant/chunk",
        {"turn": 1, "step": 1, "chunk": {"type": "usage", "usage": {"inputTokens": 1}}},
        "usage",
    ),
    "goal-without-goal": (
        "goal/change",
        {"kind": "goal/change", "version": 1, "operation": "pause"},
        "lacks",
    ),
    "clear-without-goal": ("goal/change", {"operation": "clear", "clearedAt": 1}, "lacks"),
    "deleting-nothing": ("schedule/change", {"version": 1, "operation": "delete"}, "lacks"),
    "snake-case-is-another-member": ("agent-preset/selected", {"agent_preset": "x"}, "agentPreset"),
}


@pytest.mark.parametrize("name", BAD)
def test_data_that_does_not_fit_is_kept_with_the_reason(name: str) -> None:
    tag, value, why = BAD[name]
    event = event_types.decode(tag, value)
    assert isinstance(event, Malformed)
    assert (event.tag, event.to_json()) == (tag, value)
    assert why in event.reason


def test_a_member_named_by_a_lone_surrogate_does_not_raise() -> None:
    value = {"turn": 1, "\ud800": 2}
    assert event_types.decode("turn/start", value).to_json() == value


def test_blocks_nested_beyond_the_stack_do_not_raise() -> None:
    block: Any = {"type": "text", "text": "x"}
    for _ in range(20_000):
        block = {"type": "tool-result", "toolCallId": "c", "content": [block]}
    message = {"id": "m", "role": "user", "content": [block], "source": {"kind": "user"}}
    assert event_types.decode("user/message", message).to_json()["content"][0]["type"] == "tool-result"


def test_one_block_that_does_not_fit_leaves_the_message_readable() -> None:
    value = {"id": "m", "role": "user", "content": [{"type": "text"}, 7], "source": {"kind": "user"}}
    message = Message.decode(value)
    assert [block.tag for block in message.content] == ["text", ""]
    assert all(isinstance(block, Malformed) for block in message.content)
    assert message.to_json() == value


GOLDEN = {
    "assistant/chunk": r'{"turn":2,"step":1,"chunk":{"type":"text-delta","index":0,"text":"Hal\ud83d"}}',
    "assistant/message": r"""{"turn":2,"step":1,"message":{"id":"a1","role":"assistant",
        "content":[{"type":"reasoning","text":"hm"},
            {"type":"tool-call","id":"c1","name":"ls","arguments":"{\"path\":"}],
        "source":{"kind":"model","provider":"acme","model":"m-1","replayState":{"response":null}}},
        "usage":{"inputTokens":3,"outputTokens":4,"totalTokens":7,"audioTokens":0},
        "stream":[{"type":"text-chunks","time0":5,"index":0,"dt":[],"texts":["x"]}]}""",
    "tool/result": """{"turn":2,"step":1,"message":{"id":"r1","role":"user",
        "source":{"kind":"tool","callId":"c1"},
        "content":[{"type":"tool-result","toolCallId":"c1","isError":true,"content":[]}]},
        "error":{"name":"E","code":"ABORTED"},"meta":{"cwd":"/srv","n":1.5}}""",
    "turn/end": '{"turn":2,"reason":{"kind":"aborted","reason":{"kind":"hook","reason":"no"}}}',
    "compaction/start": '{"compactionId":"k1","turn":null}',
    "agent/inbox/spliced": """{"target":"next-step","start":0,"removedCount":1,"inserted":[
        {"id":"u1","role":"user","content":[{"type":"hologram","depth":3}],
        "source":{"kind":"plugin:weather","sky":"grey"}}]}""",
    "goal/change": """{"kind":"goal/change","version":1,"operation":"block",
        "goal":{"id":"goal-1","revision":2,"objective":"Sort it","phase":"blocked","maxGoalRounds":5,
            "blockedReason":{"code":"round-limit","message":"no rounds left"}},
        "roundsStarted":5,"createdAt":10,"updatedAt":11}""",
    "model/selection": '{"anything":["goes",{"here":null}]}',
    "developer/message": """{"turn":1,"step":1,"headerSeq":9,"message":{"id":"d1","role":"developer",
        "content":[{"type":"tool-addition","toolName":"ls"},{"type":"tool-removal","toolName":"cat"}],
        "source":{"kind":"tool-registry"}}}""",
    "request/header": """{"header":{
        "config":{"provider":"acme","model":"m-1","temperature":0.5,"stop":["END"]},
        "adapterDefaults":{"maxTokens":true},
        "tools":[{"name":"ls","description":"","parameters":{"type":"object"}}]},
        "reason":"series","startsSeries":true}""",
}


@pytest.mark.parametrize("tag", GOLDEN)
def test_a_golden_event_is_read_and_given_back(tag: str) -> None:
    value = json.loads(GOLDEN[tag])
    event = event_types.decode(tag, value)
    assert isinstance(event, event_types.find(tag) or ())
    assert json_text.parse(json_text.dumps(event.to_json())) == value
