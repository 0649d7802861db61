"""A live agent against a simple model of it: after every step both agree, and so do the projections of the log.

The model keeps two lists and a fate for each message. It changes them by what was asked of the agent, and by the
boundaries that the log shows: a claim takes what the rules say, in that order. It knows nothing of the code.

Crashes are cuts: the facts up to any event, in a new session, resumed, and resumed again. What was cut off is that
session's past. A loop that ends is no crash: what it tears down closes its own turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from live_places import Watched
from scripted_model import Gates, ScriptedModel, counting, settled, ticking, user

from playhead.eventstore import invariants
from playhead.eventstore.blocks import TextBlock
from playhead.eventstore.cancel import CancelToken
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId
from playhead.eventstore.log import NewEvent
from playhead.eventstore.memory import MemoryLog
from playhead.eventstore.recorded import Recorded
from playhead.eventstore.request_header import CallConfig, Tool
from playhead.eventstore.sql import open_store
from playhead.eventstore.sql.writer import Writer
from playhead.live.agent import Agent
from playhead.live.goal_driver import GoalDriver
from playhead.live.goals import GoalError, Goals
from playhead.live.hooks import Enter, Proposal, Reject
from playhead.live.options import AgentOptions
from playhead.live.retry import Retries, RetryPolicy
from playhead.live.session import LiveSession
from playhead.live.tool_box import ToolOutcome, unknown_tool
from playhead.projections.folding import fold
from playhead.projections.goal import goal
from playhead.projections.inbox import inbox, verdict
from playhead.projections.transcript import transcript
from playhead.replay.verify import discrepancies

Json = dict[str, Any]
PLUGIN = {"kind": "plugin", "plugin": "p"}


def calling(*names: str) -> Json:
    """An answer that calls each of ``names`` once; ids of calls come again in every step."""
    chunks: list[Json] = [{"type": "text-delta", "index": 99, "text": "I call"}]
    for at, name in enumerate(names):
        block = {"type": "tool-call", "id": f"c{at}", "name": name, "arguments": "{}"}
        chunks.append({"type": "block-end", "index": at, "block": block})
    return {"chunks": [*chunks, {"type": "finish", "reason": {"kind": "tool-calls"}}]}


ANSWERS: list[Json] = [
    {"text": "hello"},
    {"text": "later", "gate": "g"},
    {"max": "cut"},
    calling("probe"),
    calling("waits"),
    calling("probe", "waits", "notes", "steers", "missing"),
    calling("waits", "alone", "notes", "probe"),
    calling("steers", "concludes"),
    {"code": "SERVER"},
    {"code": "INVALID_REQUEST"},
    {"chunks": [{"type": "text-delta", "index": 0, "text": "half"}], "then": "hang"},
    {"chunks": [], "then": {"throw": {"message": "m", "code": "TRANSPORT"}}},
]


class Ledger:
    """The model: both lists by id, and what became of every message."""

    def __init__(self) -> None:
        self.lists: dict[str, list[str]] = {"next-turn": [], "next-step": []}
        self.fates: dict[str, str] = {}
        self.claimed: list[str] = []
        self.admitted: list[str] = []
        self.open_turn = False

    def queue(self, target: str, id: str, place: int | None = None) -> None:
        line = self.lists[target]
        line.insert(len(line) if place is None else place, id)
        self.fates[id] = "pending"

    def drop(self, id: str, fate: str = "cancelled") -> bool:
        for line in self.lists.values():
            if id in line:
                line.remove(id)
                self.fates[id] = fate
                return True
        return False

    def clear(self) -> None:
        for line in self.lists.values():
            for id in list(line):
                self.drop(id)

    def see(self, event: Recorded) -> None:
        """What the log shows of the driver's own doing."""
        data = event.json
        match event.type:
            case "turn/start":
                self.open_turn = True
            case "agent/inbox/spliced" if data.get("removedCount") and "outcome" not in data:
                line = self.lists[data["target"]]
                assert self.open_turn, "a claim outside a turn"
                gone = line[: data["removedCount"]]
                expected = line[:] if data["target"] == "next-step" else line[:1]
                assert (data["start"], gone) == (0, expected), (
                    "a claim takes all of next-step, and one prompt"
                )
                del line[: data["removedCount"]]
                self.claimed += gone
                self.fates |= dict.fromkeys(gone, "open")
            case "agent/inbox/spliced" if data.get("removedCount"):
                line = self.lists[data["target"]]
                for id in line[data["start"] : data["start"] + 1]:
                    if id.startswith("round") and not data["inserted"]:
                        self.drop(id)  # the driver takes back what never began
            case "agent/inbox/spliced":
                for at, message in enumerate(data["inserted"]):
                    id = message["id"]
                    if id in self.claimed:  # claimed together with a round that was refused
                        self.claimed.remove(id)
                        self.queue(data["target"], id, data["start"] + at)
                    elif id not in self.fates:  # rounds, and context of tools
                        self.queue(data["target"], id)
            case "user/message":
                assert self.claimed.pop(0) == data["id"], "messages enter in the order of the claim"
                self.fates[data["id"]] = "admitted"
                self.admitted.append(data["id"])
            case "turn/end":
                blocked = data["reason"]["kind"] == "blocked"
                for id in self.claimed:
                    self.fates[id] = "refused" if blocked else "lost"
                self.claimed, self.open_turn = [], False


class ModelTools:
    """Tools that answer, wait, give context, send input while they run, conclude the turn, or run alone."""

    def __init__(self, machine: LiveAgent) -> None:
        self._machine = machine
        self.tools: Sequence[Tool] = ()

    def is_exclusive(self, name: str) -> bool:
        return name == "alone"

    async def call(self, name: str, arguments: str, call_id: str, token: CancelToken) -> ToolOutcome:  # noqa: ARG002
        machine, text = self._machine, (TextBlock(text="ok"),)
        match name:
            case "waits":
                await machine.gates.passed("t", token)
                token.check()
            case "notes":
                return ToolOutcome(
                    text, context=(user(machine.names(), PLUGIN), user(machine.names(), PLUGIN))
                )
            case "steers":
                id = machine.names()
                machine.ledger.queue("next-turn" if token.cancelled else "next-step", id)
                machine.agent.steer(user(id))
            case "concludes":
                return ToolOutcome(text, concludes=True)
            case "missing":
                return unknown_tool(name)
        return ToolOutcome(text)


class LiveAgent(RuleBasedStateMachine):
    """Everything that can be asked of an agent, in any order. ``through_writer`` says where its session is kept."""

    through_writer: ClassVar[bool] = False

    @initialize()
    def begin(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.places = ExitStack()
        self.store: Any = MemoryLog(ticking())
        self.writer: Writer | None = None
        if self.through_writer:
            self.store = self.places.enter_context(open_store("sqlite://"))
            self.writer = self.places.enter_context(Writer(self.store, window_ms=0.5))
        self.names = counting("m")
        self.generation = self.opened = 0
        self.rejected = self.held = False
        self.ledger = Ledger()
        self._open(self._new_session())

    def _new_session(self) -> Any:
        self.generation += 1
        return self.store.create(SessionHeader(SessionId(f"s{self.generation}"), 1))

    def _open(self, session: Any) -> None:
        self.session = session
        self.opened += 1
        self.queue = None if self.writer is None else Watched(self.writer.open(session))
        self.gates = Gates()
        self.model = ScriptedModel([], self.gates)
        live = LiveSession(session, ticking(2_000_000_000_000), self.queue)
        if live.next_seq:
            for event in live.resume():
                self.ledger.see(event)
            self.loop.run_until_complete(live.flush())
            assert LiveSession(session, ticking()).resume() == []
        options = AgentOptions(
            self.model,
            CallConfig(provider="mock", model="m"),
            tools=ModelTools(self),
            clock=ticking(2_000_000_000_000),
            new_id=counting(f"a{self.opened}"),
        )
        live.observe(self.ledger.see)
        self.agent = Agent(live, options)
        self.agent.hooks.pre_step.add(self._pre_step)
        self.goals = Goals(self.agent, ticking(2_000_000_000_000), counting(f"g{self.opened}"))
        self.driver = GoalDriver(self.agent, self.goals, counting(f"round{self.opened}"))
        retries = Retries(live, RetryPolicy(most=1), new_id=counting(f"c{self.opened}"), wait=_no_wait)
        self.agent.hooks.request_error.add(retries)
        self._do(lambda: None)  # what the new process takes out of the queue is on its way to the disk

    async def _pre_step(self, proposal: Proposal, inner: Any) -> Any:
        if self.held:
            self.held = False
            await self.gates.passed("p", proposal.token)
        if self.rejected:
            self.rejected = False
            return Reject()
        decision = await inner(proposal)
        return decision if isinstance(decision, Reject) else Enter(decision.messages)

    def _do(self, act: Any, *args: Any, **named: Any) -> Any:
        """Call ``act`` on the loop, and let everything happen that follows from it."""

        async def done() -> Any:
            result = act(*args, **named)
            await self._settled()
            return result

        return self.loop.run_until_complete(done())

    async def _settled(self) -> None:
        """Returns when nothing is left to run but what waits for the world; the disk is not the world."""
        await (settled() if self.queue is None else self.queue.settled())

    # What may be asked

    @rule(how=st.sampled_from(["followup", "steer", "inject", "park"]), answer=st.sampled_from(ANSWERS))
    def send(self, how: str, answer: Json) -> None:
        self.model._answers.append(answer)
        id = self.names()
        now = self.agent._activity
        dying = now is not None and now.token.cancelled
        target = "next-turn" if how in ("followup", "park") or (how == "steer" and dying) else "next-step"
        self.ledger.queue(target, id)
        message = user(id, PLUGIN if how == "inject" else None)
        if how == "park":
            self._do(self.agent.send, message, "next-turn", False)
        else:
            self._do(getattr(self.agent, how), message)

    @precondition(lambda self: self.agent.inbox.has_pending)
    @rule(data=st.data(), replace=st.booleans())
    def edit(self, data: st.DataObject, replace: bool) -> None:
        pending = [*self.ledger.lists["next-turn"], *self.ledger.lists["next-step"]]
        id = data.draw(st.sampled_from(pending))
        if not replace:
            assert self.ledger.drop(id)
            assert self._do(self.agent.inbox.remove, id)
            return
        target = next(name for name, line in self.ledger.lists.items() if id in line)
        place = self.ledger.lists[target].index(id)
        new = self.names()
        self.ledger.drop(id, "replaced")
        self.ledger.queue(target, new, place)
        assert self._do(self.agent.inbox.replace, id, user(new))

    @rule(keep=st.booleans(), kind=st.sampled_from(["user", "parent"]))
    def cancel(self, keep: bool, kind: str) -> None:
        if not keep:
            self.ledger.clear()
        self._do(self.agent.cancel, {"kind": kind}, keep_inbox=keep)

    @rule(gate=st.sampled_from(["g", "t", "p", "m"]))
    def release(self, gate: str) -> None:
        self._do(self.gates.release, gate)

    @rule()
    def reject_the_next_step(self) -> None:
        self.rejected = True

    @rule()
    def hold_the_next_step(self) -> None:
        self.held = True

    @rule()
    def wake(self) -> None:
        self._do(self.agent.wake)

    @precondition(lambda self: self.agent.is_idle)
    @rule()
    def maintain(self) -> None:
        self._do(self.agent.run_maintenance, lambda token: self.gates.passed("m", token))

    @rule(operation=st.sampled_from(["create", "pause", "resume", "complete", "clear", "edit"]))
    def change_goal(self, operation: str) -> None:
        self.model._answers.append({"text": "round"})
        view = self.goals.get()

        def change() -> None:
            try:
                if operation == "create":
                    self.goals.create("an objective", 2)
                elif view is not None:
                    named = {"objective": "another"} if operation == "edit" else {}
                    getattr(self.goals, operation)(view.ref, **named)
            except GoalError:
                pass  # refused operations leave no trace, which the invariants below show

        self._do(change)

    @precondition(lambda self: self.session.next_seq > 0)
    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        """The process dies behind any event; another one resumes what is on disk."""
        self._close()
        facts = list(self.session.read())
        cut = data.draw(st.integers(1, len(facts)))
        self.ledger = _replayed(facts[:cut])
        session = self._new_session()
        session.append([_again(fact) for fact in facts[:cut]])
        self._open(session)

    @precondition(lambda self: self.session.next_seq > 0)
    @rule()
    def lose_the_loop(self) -> None:
        """The loop ends with all that is on it, as when nobody closes the agent; another process goes on."""

        async def end() -> None:
            others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        self.loop.run_until_complete(end())
        assert not self.ledger.open_turn
        self.loop.run_until_complete(self.agent.session.close())
        self._open(self.session if self.writer is None else self.store.session(self.session.id))

    def _close(self) -> None:
        self._do(self.agent.cancel, {"kind": "disposed"}, keep_inbox=True)
        self._do(self.gates.release, "t")
        self.loop.run_until_complete(self.agent.close())

    # What always holds

    @invariant()
    def the_inbox_is_that_of_the_model(self) -> None:
        if not hasattr(self, "agent"):
            return
        lists = self.ledger.lists
        assert [message.id for message in self.agent.inbox.next_turn] == lists["next-turn"]
        assert [message.id for message in self.agent.inbox.next_step] == lists["next-step"]
        state = fold(self.session, inbox).state
        assert (list(state.lists.next_turn), list(state.lists.next_step)) == (
            lists["next-turn"],
            lists["next-step"],
        )
        assert {message.id: verdict(state, message) for message in state.messages()} == self.ledger.fates
        assert state.breaches == ()

    @invariant()
    def what_was_admitted_is_shown_once_and_in_order(self) -> None:
        if not hasattr(self, "agent"):
            return
        shown = [
            message["id"] for message in self.agent.session.messages() if message["source"]["kind"] != "tool"
        ]
        assert [id for id in shown if id in self.ledger.fates] == self.ledger.admitted
        assert fold(self.session, transcript).state.breaches == ()

    @invariant()
    def the_log_breaks_no_rule_and_gives_its_messages(self) -> None:
        if not hasattr(self, "agent"):
            return
        assert list(invariants.check(self.session.read())) == []
        assert list(discrepancies(self.session)) == []

    @invariant()
    def every_call_of_a_turn_that_ended_has_its_result(self) -> None:
        if not hasattr(self, "agent"):
            return
        open_calls: list[str] = []
        for fact in self.session.read(types=("assistant/message", "tool/result", "turn/end")):
            if fact.type == "turn/end":
                assert open_calls == []
                continue
            message = fact.json["message"]
            if fact.type == "tool/result":
                assert open_calls.pop(0) == message["source"]["callId"], (
                    "results come in the order of the calls"
                )
            else:
                open_calls += [block["id"] for block in message["content"] if block["type"] == "tool-call"]

    @invariant()
    def the_goal_is_that_of_the_service(self) -> None:
        if not hasattr(self, "goals"):
            return
        standing = fold(self.session, goal).state.standing
        view = self.goals.get()
        assert (standing.goal, standing.rounds) == ((view.goal, view.rounds) if view else (None, 0))

    def teardown(self) -> None:
        if hasattr(self, "agent"):
            self._close()
            assert self.agent.status == "idle"
            self.places.close()
            self.loop.close()


async def _no_wait(_delay_ms: float, _token: Any) -> None:
    """Retries do not wait here."""


def _again(fact: Recorded) -> NewEvent:
    return NewEvent(
        fact.type, fact.json, fact.time_ms, surface_op=fact.surface_op, source_seqs=fact.source_seqs
    )


def _replayed(facts: list[Recorded]) -> Ledger:
    """The model after a log, told by its own rules for what people ask and what drivers do."""
    ledger = Ledger()
    for fact in facts:
        data = fact.json
        if fact.type == "agent/inbox/spliced" and ("outcome" in data or not data.get("removedCount")):
            line = ledger.lists[data["target"]]
            gone = line[data["start"] : data["start"] + data.get("removedCount", 0)]
            for id in gone:
                ledger.drop(id, "replaced" if data["inserted"] else "cancelled")
            for at, message in enumerate(data["inserted"]):
                ledger.queue(data["target"], message["id"], data["start"] + at)
            continue
        ledger.see(fact)
    return ledger


class LiveAgentThroughWriter(LiveAgent):
    """The same in a SQL store, with commits that come later."""

    through_writer = True


TestLiveAgent = LiveAgent.TestCase
TestLiveAgent.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)

TestLiveAgentThroughWriter = LiveAgentThroughWriter.TestCase
TestLiveAgentThroughWriter.settings = settings(max_examples=10, stateful_step_count=20, deadline=None)


@pytest.mark.heavy
class TestLiveAgentAtLength(LiveAgent.TestCase):  # type: ignore[misc,valid-type]
    settings = settings(max_examples=1_500, stateful_step_count=40, deadline=None)


@pytest.mark.heavy
class TestLiveAgentThroughWriterAtLength(LiveAgentThroughWriter.TestCase):  # type: ignore[misc,valid-type]
    settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
