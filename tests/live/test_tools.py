"""Tools of functions: schema, arguments, results, failures, and the order of calls in the log."""

from __future__ import annotations

import asyncio
from datetime import date
from typing import Any, Literal

import pytest
from pydantic import BaseModel, TypeAdapter
from scripted_model import ScriptedModel, counting, settled, ticking, user

from playhead.eventstore.blocks import TextBlock
from playhead.eventstore.cancel import CancelToken
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId
from playhead.eventstore.memory import MemoryLog
from playhead.eventstore.recorded import Recorded
from playhead.eventstore.request_header import CallConfig
from playhead.live.agent import Agent
from playhead.live.options import AgentOptions
from playhead.live.session import LiveSession
from playhead.live.tool_box import ToolOutcome
from playhead.live.tools import BadTool, Tools

Json = dict[str, Any]


def call(tools: Tools, name: str, arguments: str, token: CancelToken | None = None) -> ToolOutcome:
    return asyncio.run(tools.call(name, arguments, "call-1", token or CancelToken()))


def text(outcome: ToolOutcome) -> str:
    (block,) = outcome.content
    assert isinstance(block, TextBlock)
    return block.text


def code(outcome: ToolOutcome) -> str | None:
    return None if outcome.error is None else outcome.error.code


def add(first: int, second: int = 2) -> int:
    """The sum of two numbers."""
    return first + second


def test_the_model_is_offered_name_docstring_and_schema_of_a_function() -> None:
    (offered,) = Tools.of(add).tools
    assert (offered.name, offered.description) == ("add", "The sum of two numbers.")
    assert offered.parameters["required"] == ["first"]
    assert offered.parameters["properties"]["second"]["default"] == 2
    assert offered.parameters["additionalProperties"] is False


def test_a_call_gives_what_the_function_gives() -> None:
    tools = Tools.of(add)
    assert text(call(tools, "add", '{"first": 40}')) == "42"


def test_empty_arguments_are_an_empty_object() -> None:
    def ping(to: Literal["all"] = "all") -> str:
        """Ping."""
        return f"ping {to}"

    assert text(call(Tools.of(ping), "ping", "")) == "ping all"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("{not json", "no JSON: {not json"),
        ("{}", "first: Field required"),
        ('{"first": "x"}', "first: Input should be a valid integer"),
        ('{"first": 1, "third": 3}', "third: Extra inputs are not permitted"),
        ("[1]", "arguments: Input should be a valid dictionary"),
    ],
)
def test_arguments_that_do_not_fit_are_told_to_the_model(arguments: str, expected: str) -> None:
    outcome = call(Tools.of(add), "add", arguments)
    assert (outcome.is_error, code(outcome)) == (True, "INVALID_ARGS")
    assert expected in text(outcome)


def test_a_tool_that_nobody_has_and_one_that_fails_are_outcomes() -> None:
    def broken() -> str:
        raise RuntimeError("no luck")

    tools = Tools.of(broken)
    assert code(call(tools, "missing", "{}")) == "UNKNOWN_TOOL"
    failed = call(tools, "broken", "{}")
    assert (code(failed), text(failed)) == ("TOOL_FAILED", "Error: no luck")


def test_a_coroutine_gets_the_token_and_may_decide_the_whole_outcome() -> None:
    async def wait(token: CancelToken, seconds: int) -> ToolOutcome:
        return ToolOutcome((TextBlock(text=f"{seconds} {token.cancelled}"),), concludes=True)

    outcome = call(Tools.of(wait), "wait", '{"seconds": 3}')
    assert (text(outcome), outcome.concludes) == ("3 False", True)
    assert "token" not in Tools.of(wait).tools[0].parameters["properties"]


def test_a_function_without_types_and_a_name_that_is_taken_are_refused() -> None:
    tools = Tools.of(add)
    with pytest.raises(BadTool, match="already"):
        tools.add(add)
    with pytest.raises(BadTool, match="needs a type"):
        tools.add(lambda first: first, name="untyped")


def answer_with(*names: str) -> Json:
    """An answer that calls each of ``names`` once."""
    chunks: list[Json] = []
    for at, name in enumerate(names):
        block = {"type": "tool-call", "id": f"c{at}", "name": name, "arguments": "{}"}
        chunks.append({"type": "block-end", "index": at, "block": block})
    return {"chunks": [*chunks, {"type": "finish", "reason": {"kind": "tool-calls"}}]}


def run_calls(tools: Tools, *names: str) -> list[Recorded]:
    """The events that an agent leaves whose model calls ``names`` and then is done."""

    async def played() -> list[Recorded]:
        session = LiveSession(MemoryLog(ticking()).create(SessionHeader(SessionId("s1"), 1)), ticking())
        model = ScriptedModel([answer_with(*names), {"text": "done"}])
        config = CallConfig(provider="mock", model="m")
        agent = Agent(session, AgentOptions(model, config, tools=tools, clock=ticking(), new_id=counting()))
        agent.followup(user("m1"))
        await agent.when_idle()
        await settled()
        return list(session.stored.read(types=("tool/call", "tool/result", "user/message", "turn/end")))

    return asyncio.run(played())


def order(events: list[Recorded]) -> list[str]:
    told = []
    for event in events:
        data = event.json
        if event.type == "tool/call":
            told.append(f"call {data['callId']}")
        elif event.type == "tool/result":
            told.append(f"result {data['message']['source']['callId']}")
    return told


def test_results_stand_in_the_order_of_the_calls_whatever_order_they_come_in() -> None:
    passed = asyncio.Event()

    async def slow() -> str:
        await passed.wait()
        return "slow"

    async def quick() -> str:
        passed.set()
        return "quick"

    events = run_calls(Tools.of(slow, quick), "slow", "quick")
    assert order(events) == ["call c0", "call c1", "result c0", "result c1"]
    calls = {event.json["callId"]: event.seq for event in events if event.type == "tool/call"}
    for event in events:
        if event.type == "tool/result":
            assert event.source_seqs == (calls[event.json["message"]["source"]["callId"]],)


def test_an_exclusive_call_runs_alone() -> None:
    running: set[str] = set()
    met: list[set[str]] = []

    async def visit(name: str) -> str:
        running.add(name)
        met.append(set(running))
        await asyncio.sleep(0)
        running.discard(name)
        return name

    tools = Tools()
    tools.add(lambda: None, name="unused")
    for name, exclusive in (("a", False), ("b", True), ("c", False)):

        async def tool(name: str = name) -> str:
            return await visit(name)

        tools.add(tool, name=name, exclusive=exclusive)
    events = run_calls(tools, "a", "b", "c")
    assert met == [{"a"}, {"b"}, {"c"}]
    assert order(events) == ["call c0", "result c0", "call c1", "result c1", "call c2", "result c2"]


def test_context_of_a_tool_joins_the_next_step_and_a_conclusion_ends_the_turn_behind_it() -> None:
    async def conclude() -> ToolOutcome:
        return ToolOutcome((TextBlock(text="ok"),), context=(user("note"),), concludes=True)

    events = run_calls(Tools.of(conclude), "conclude")
    assert [event.json["id"] for event in events if event.type == "user/message"] == ["m1", "note"]
    assert events[-1].json["reason"] == {"kind": "completed"}


def test_parameters_may_have_any_name() -> None:
    def odd(json: str, schema: int = 1, copy: bool = True) -> str:
        """Names that pydantic has for its own."""
        return f"{json} {schema} {copy}"

    tools = Tools.of(odd)
    assert list(tools.tools[0].parameters["properties"]) == ["json", "schema", "copy"]
    assert text(call(tools, "odd", '{"json": "a", "copy": false}')) == "a 1 False"
    assert "schema: Input should be" in text(call(tools, "odd", '{"json": "a", "schema": "x"}'))


def test_an_error_of_the_tool_itself_is_no_fault_of_the_arguments() -> None:
    def checks(first: int) -> str:
        return str(TypeAdapter(int).validate_python(f"no number {first}"))

    assert code(call(Tools.of(checks), "checks", '{"first": 1}')) == "TOOL_FAILED"


def test_results_are_written_as_json_as_one_would_write_them() -> None:
    class Found(BaseModel):
        at: date
        tags: set[str]

    def find() -> Found:
        return Found(at=date(2026, 8, 1), tags={"ü"})

    def own() -> object:
        return Tools

    assert text(call(Tools.of(find), "find", "")) == '{"at": "2026-08-01", "tags": ["ü"]}'
    assert "Tools" in text(call(Tools.of(own), "own", ""))


def test_a_plain_function_that_gives_something_to_await_is_awaited() -> None:
    async def later() -> str:
        return "later"

    def wrapped() -> Any:
        return later()

    assert text(call(Tools.of(wrapped), "wrapped", "")) == "later"


def test_what_has_no_name_no_schema_or_no_readable_types_is_refused_when_it_is_added() -> None:
    def unreadable(first: "NotHere") -> str:  # type: ignore[name-defined]  # noqa: F821, UP037
        return str(first)

    def unspeakable(first: CancelToken) -> str:
        return str(first)

    for function, problem in (
        (lambda: "x", "cannot be named"),
        (unreadable, "cannot be read"),
        (unspeakable, "no JSON schema"),
    ):
        with pytest.raises(BadTool, match=problem):
            Tools().add(function)
