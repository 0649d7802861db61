"""How turns end that do not go well, and what a model is asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from live_agents import ends, options, stored
from scripted_model import ScriptedModel, ticking, user

from playhead.eventstore import invariants
from playhead.eventstore.cancel import CancelToken
from playhead.eventstore.chunk_source import ModelRequest
from playhead.eventstore.chunks import Chunk, FinishChunk, TextDelta, decode_chunk
from playhead.eventstore.log import NewEvent
from playhead.eventstore.memory import MemorySession
from playhead.eventstore.reasons import FinishStop
from playhead.eventstore.recorded import Recorded
from playhead.eventstore.request_header import AdapterDefaults, CallConfig
from playhead.live.agent import Agent
from playhead.live.hooks import Asking, CallFailed, Proposal, Retry, Stopping
from playhead.live.notices import Notice
from playhead.live.retry import Retries, RetryPolicy
from playhead.live.session import LiveSession
from playhead.projections.requests import request_before

Json = dict[str, Any]


def live(model: Any, session: MemorySession | None = None, **named: Any) -> Agent:
    return Agent(LiveSession(session or stored(), ticking()), options(model, **named))


def played(agent_of: Any, *prompts: str) -> Agent:
    async def play() -> Agent:
        agent: Agent = agent_of()
        for prompt in prompts:
            agent.followup(user(prompt))
        await agent.when_idle()
        return agent

    return asyncio.run(play())


def last_reason(agent: Agent) -> Json:
    *_, end = agent.session.stored.read(types=("turn/end",))
    reason: Json = end.json["reason"]
    return reason


# Errors


def test_an_error_is_told_once_and_before_its_turn_ends() -> None:
    trace: list[str] = []

    def broken() -> Agent:
        agent = live(ScriptedModel([{"code": "AUTH"}]))
        agent.notices.listen(lambda notice: trace.append(notice.name))
        agent.session.observe(lambda event: trace.append(event.type))
        return agent

    played(broken, "m1")
    assert trace.count("agent/error") == 1
    assert trace.index("step/end") < trace.index("agent/error") < trace.index("turn/end")


def test_an_error_that_is_no_models_is_told_with_its_causes_and_the_code_for_the_unknown() -> None:
    async def policy(_proposal: Proposal, _inner: Any) -> Any:
        try:
            raise OSError("no route")
        except OSError as error:
            raise RuntimeError("the policy cannot be read") from error

    def broken() -> Agent:
        agent = live(ScriptedModel([]))
        agent.hooks.pre_step.add(policy)
        return agent

    assert last_reason(played(broken, "m1")) == {
        "kind": "error",
        "error": {"message": "the policy cannot be read; because of: no route", "code": "UNKNOWN"},
    }


def test_no_model_to_call_ends_the_turn_with_an_error_that_says_so() -> None:
    agent = played(lambda: live(ScriptedModel([]), config=CallConfig(provider="", model="")), "m1")
    reason = last_reason(agent)
    assert reason["error"]["code"] == "UNKNOWN"
    assert "needs a provider and a model" in reason["error"]["message"]


class Failing:
    """A session writer that refuses everything from an event of one type on."""

    def __init__(self, session: MemorySession, type: str) -> None:
        self._session, self._type = session, type
        self.is_broken = False
        self.header = session.header

    @property
    def next_seq(self) -> Any:
        return self._session.next_seq

    def put(self, fact: Recorded, line: bytes) -> None:  # noqa: ARG002 - the protocol's
        self.is_broken = self.is_broken or fact.type == self._type
        if self.is_broken:
            raise OSError(f"no disk for {fact.type if self._type == 'turn/end' else 'anything'}")
        event = NewEvent(fact.type, fact.json, fact.time_ms, fact.surface_op, fact.source_seqs)
        self._session.append([event], expected_seq=fact.seq)

    async def room(self) -> None: ...

    async def flush(self) -> None: ...

    async def close(self) -> None: ...


@pytest.mark.parametrize(
    ("type", "told"),
    [
        ("turn/start", ["no disk for anything"]),
        ("step/start", ["no disk for anything"]),
        ("assistant/chunk", ["no disk for anything"]),
        ("turn/end", ["no disk for turn/end"]),
    ],
)
def test_a_log_that_fails_is_told_once_and_leaves_the_agent_idle(type: str, told: list[str]) -> None:
    heard: list[str] = []

    async def play() -> Agent:
        session = stored()
        agent = Agent(
            LiveSession(session, ticking(), Failing(session, type)), options(ScriptedModel([{"text": "a"}]))
        )

        def hear(notice: Notice) -> None:
            if notice.name == "agent/error":
                heard.append(str(notice.info["error"]))

        agent.notices.listen(hear)
        agent.followup(user("m1"))
        await agent.when_idle()
        return agent

    agent = asyncio.run(play())
    assert (agent.status, heard) == ("idle", told)


def test_a_turn_that_could_not_begin_leaves_its_number_to_the_next() -> None:
    session = stored()

    async def play() -> Agent:
        writer = Failing(session, "turn/start")
        agent = Agent(LiveSession(session, ticking(), writer), options(ScriptedModel([{"text": "a"}])))
        agent.followup(user("m1"))
        await agent.when_idle()
        writer._type, writer.is_broken = "nothing", False
        agent.wake()
        await agent.when_idle()
        return agent

    assert asyncio.run(play()).last_turn == 1
    assert [fact.json["turn"] for fact in session.read(types=("turn/end",))] == [1]


def test_what_was_cancelled_inside_of_a_hook_is_a_failure_and_no_end_of_the_loop() -> None:
    async def waits_for_nothing(_stopping: Stopping) -> None:
        gone = asyncio.get_running_loop().create_future()
        gone.cancel()
        await gone

    def broken() -> Agent:
        agent = live(ScriptedModel([{"text": "a"}, {"text": "b"}]))
        agent.hooks.turn_stopping.add(waits_for_nothing)
        return agent

    agent = played(broken, "m1")
    assert last_reason(agent)["error"] == {"message": "CancelledError", "code": "UNKNOWN"}


# Cancellation, wherever it comes


@pytest.mark.parametrize("place", ["pre-step", "prompt", "request", "request-error", "retry", "stopping"])
def test_a_cancel_during_a_hook_aborts_the_turn_behind_it(place: str) -> None:
    asked: list[str] = []

    def stop(agent: Agent, where: str) -> None:
        asked.append(where)
        if where == place:
            agent.cancel({"kind": "hook", "reason": "enough"})

    def hooked() -> Agent:
        model = ScriptedModel([{"code": "SERVER"}, {"text": "a"}])

        async def prompt() -> str:
            stop(agent, "prompt")
            return "be brief"

        agent = live(model, system=prompt)

        async def pre_step(proposal: Proposal, inner: Any) -> Any:
            stop(agent, "pre-step")
            return await inner(proposal)

        async def request(asking: Asking, inner: Any) -> Any:
            stop(agent, "request")
            return await inner(asking)

        async def request_error(failed: CallFailed, inner: Any) -> Any:
            stop(agent, "request-error")
            return await inner(failed) or Retry()

        async def stopping(_stopping: Stopping) -> None:
            stop(agent, "stopping")

        async def wait(_delay_ms: float, _token: CancelToken) -> None:
            stop(agent, "retry")

        agent.hooks.pre_step.add(pre_step)
        agent.hooks.request.add(request)
        agent.hooks.request_error.add(request_error)
        agent.hooks.request_error.add(Retries(agent.session, RetryPolicy(), wait=wait))
        agent.hooks.turn_stopping.add(stopping)
        return agent

    agent = played(hooked, "m1")
    assert last_reason(agent) == {"kind": "aborted", "reason": {"kind": "hook", "reason": "enough"}}
    order = ["prompt", "pre-step", "request", "request-error", "retry", "request", "stopping"]
    if place == "request-error":
        assert asked == order[:4]  # the retry is not even scheduled
    else:
        assert asked == order[: order.index(place) + 1]
    assert list(invariants.check(agent.session.stored.read())) == []


def test_a_cancel_while_the_request_waits_for_the_disk_calls_no_model() -> None:
    async def play() -> tuple[Agent, ScriptedModel]:
        model = ScriptedModel([{"text": "never"}])
        agent = live(model)
        flush = agent.session.flush

        async def slow() -> None:
            agent.cancel({"kind": "user"})
            await flush()

        agent.session.flush = slow  # type: ignore[method-assign]
        agent.followup(user("m1"))
        await agent.when_idle()
        return agent, model

    agent, model = asyncio.run(play())
    assert (ends(agent), model.requests) == (["aborted"], [])


# What a model is asked


class Meddling:
    """A source that does what it likes with what it is given."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    async def stream(self, request: ModelRequest, token: CancelToken) -> AsyncIterator[Chunk]:  # noqa: ARG002
        self.asked.append(len(request.messages))
        for message in request.messages:
            message["content"].clear()
            message["source"]["kind"] = "changed"
        yield TextDelta(0, "a")
        yield FinishChunk(FinishStop())


def test_a_source_that_changes_its_request_changes_nothing_of_the_session() -> None:
    source = Meddling()
    agent = played(lambda: live(source), "m1", "m2")
    assert source.asked == [1, 3]
    messages = agent.session.messages()
    assert [message["content"][0]["text"] for message in messages] == ["m1", "a", "m2", "a"]
    assert [message["source"]["kind"] for message in messages] == ["user", "model", "user", "model"]


def test_replay_state_goes_back_to_its_own_provider_only() -> None:
    state = {"response": {"kind": "mock", "version": 1}}
    finish = {"type": "finish", "reason": {"kind": "stop"}, "replayState": state}
    text = {"type": "text-delta", "index": 0, "text": "a"}
    model = ScriptedModel([{"chunks": [text, finish]}, {"text": "b"}, {"text": "c"}])
    providers = iter(["mock", "other", "mock"])

    async def switch(asking: Asking, _inner: Any) -> CallConfig:
        return CallConfig(provider=next(providers), model=asking.config.model)

    def switching() -> Agent:
        agent = live(model)
        agent.hooks.request.add(switch)
        return agent

    agent = played(switching, "m1", "m2", "m3")
    sent = [
        [
            message["source"].get("replayState")
            for message in request.messages
            if message["role"] == "assistant"
        ]
        for request in model.requests
    ]
    assert sent == [[], [None], [state, None]]
    firsts = [
        fact.seq
        for fact in agent.session.stored.read(types=("assistant/chunk",))
        if fact.json["chunk"] == text or fact.json["chunk"]["type"] == "block-start"
    ]
    for seq, request in zip(firsts, model.requests, strict=True):
        told = request_before(agent.session.stored, seq)
        assert [message for _, message in told.messages] == list(request.messages)


def test_an_answer_without_content_is_kept_and_not_sent_again() -> None:
    call = {"type": "tool-call", "id": "c", "name": "cut", "arguments": "{"}
    cut = [
        {"type": "block-end", "index": 0, "block": call},
        {"type": "finish", "reason": {"kind": "max-tokens", "detail": "of a later version"}},
    ]
    model = ScriptedModel([{"chunks": cut}, {"text": "a"}])
    agent = played(lambda: live(model), "m1", "m2")
    assert ends(agent) == ["max-tokens", "completed"]
    assert [message["id"] for message in model.requests[1].messages] == ["m1", "m2"]
    empty = next(iter(agent.session.stored.read(types=("assistant/message",))))
    assert empty.json["message"]["content"] == []


def test_chunks_behind_a_finish_are_not_taken() -> None:
    chunks = [
        {"type": "text-delta", "index": 0, "text": "a"},
        {"type": "finish", "reason": {"kind": "stop"}},
        {"type": "text-delta", "index": 0, "text": "too late"},
    ]
    agent = played(lambda: live(ScriptedModel([{"chunks": chunks}])), "m1")
    kept = [fact.json["chunk"] for fact in agent.session.stored.read(types=("assistant/chunk",))]
    assert kept == chunks[:2]
    assert [decode_chunk(chunk).to_json() for chunk in kept] == kept


# The header


def headers(agent: Agent) -> list[tuple[str, Json]]:
    return [
        (fact.json["reason"], fact.json["header"]["config"])
        for fact in agent.session.stored.read(types=("request/header",))
    ]


def with_effort(config: CallConfig, effort: str) -> CallConfig:
    return CallConfig.decode(config.to_json() | {"reasoningEffort": effort})


def test_an_effort_that_was_asked_for_is_carried_over_and_one_of_the_adapter_is_not() -> None:
    def fill_in(config: CallConfig) -> tuple[CallConfig, AdapterDefaults | None]:
        if config.reasoning_effort is None:
            return with_effort(config, "medium"), AdapterDefaults(reasoning_effort=True)
        return config, None

    async def low(asking: Asking, _inner: Any) -> CallConfig:
        return with_effort(asking.config, "low")

    session = stored()
    played(lambda: live(ScriptedModel([{"text": "a"}]), session, fill_in=fill_in), "m1")

    def asking_low() -> Agent:
        agent = live(ScriptedModel([{"text": "a"}]), session, fill_in=fill_in)
        agent.hooks.request.add(low)
        return agent

    played(asking_low, "m2")
    agent = played(lambda: live(ScriptedModel([{"text": "a"}] * 2), session, fill_in=fill_in), "m3", "m4")
    efforts = [(reason, config.get("reasoningEffort")) for reason, config in headers(agent)]
    assert efforts == [("initial", "medium"), ("resume", "low"), ("resume", "low")]
    other = CallConfig(provider="mock", model="another")
    agent = played(lambda: live(ScriptedModel([{"text": "a"}]), session, fill_in=fill_in, config=other), "m5")
    assert headers(agent)[-1] == (
        "resume",
        {"provider": "mock", "model": "another", "reasoningEffort": "medium"},
    )
    mine = CallConfig(provider="mock", model="another", reasoning_effort="high")
    agent = played(lambda: live(ScriptedModel([{"text": "a"}]), session, fill_in=fill_in, config=mine), "m6")
    assert headers(agent)[-1][1]["reasoningEffort"] == "high"


# Retries


def test_each_provider_of_a_step_has_a_chain_of_retries_of_its_own() -> None:
    model = ScriptedModel([{"code": "SERVER"}] * 10)
    providers = iter(["a", "b"] * 10)

    async def switch(asking: Asking, _inner: Any) -> CallConfig:
        return CallConfig(provider=next(providers), model=asking.config.model)

    async def no_wait(_delay_ms: float, _token: CancelToken) -> None: ...

    def switching() -> Agent:
        agent = live(model)
        agent.hooks.request.add(switch)
        agent.hooks.request_error.add(Retries(agent.session, RetryPolicy(most=2), wait=no_wait))
        return agent

    agent = played(switching, "m1")
    retries = [fact.json for fact in agent.session.stored.read(types=("llm/retry",))]
    assert [(one["provider"], one["retry"]) for one in retries] == [("a", 1), ("b", 1), ("a", 2), ("b", 2)]
    assert len({(one["provider"], one["retryId"]) for one in retries}) == 2
    assert len(model.requests) == 5
    assert list(invariants.check(agent.session.stored.read())) == []
