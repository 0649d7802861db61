"""Goals: every recorded operation of the service, and every recorded run of the driver."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from live_places import Place
from reference import cases
from scripted_model import Gates, ScriptedModel, counting, ticking, user

from playhead.eventstore.recorded import Recorded
from playhead.eventstore.request_header import CallConfig
from playhead.live.agent import Agent
from playhead.live.goal_driver import GoalDriver
from playhead.live.goals import GoalError, GoalRef, Goals, GoalView
from playhead.live.hooks import Proposal, Reject
from playhead.live.options import AgentOptions
from playhead.live.session import LiveSession

Json = dict[str, Any]


def live_agent(session: LiveSession, model: ScriptedModel | None = None) -> Agent:
    options = AgentOptions(
        model or ScriptedModel([]),
        CallConfig(provider="mock", model="m"),
        clock=ticking(),
        new_id=counting(),
    )
    return Agent(session, options)


def view_of(view: GoalView | None) -> Json | None:
    if view is None:
        return None
    goal = view.goal
    shown = {
        "revision": goal.revision,
        "phase": goal.phase,
        "objective": goal.objective,
        "maxGoalRounds": goal.max_rounds,
        "activation": "armed" if view.armed else "disarmed",
    }
    if goal.blocked is not None:
        shown["blockedReason"] = {"code": goal.blocked.code, "message": goal.blocked.message}
    return shown


def operate(goals: Goals, op: Json) -> GoalView | None:
    request = op.get("request", {})
    if op["op"] == "create":
        return goals.create(request["objective"], request.get("maxGoalRounds", 256))
    if op["op"] == "disarm":
        goals.disarm()
        return goals.get()
    current = goals.get()
    ref = GoalRef("g", 1) if current is None else current.ref
    if isinstance(op["ref"], dict):
        id = ref.id if op["ref"]["id"] == "current" else op["ref"]["id"]
        ref = GoalRef(id, op["ref"]["revision"])
    match op["op"]:
        case "edit":
            return goals.edit(
                ref, objective=request.get("objective"), max_rounds=request.get("maxGoalRounds")
            )
        case "block":
            return goals.block(ref, op["reason"]["code"], op["reason"]["message"])
        case "clear":
            goals.clear(ref)
            return None
    return getattr(goals, op["op"])(ref)  # type: ignore[no-any-return]


@pytest.mark.parametrize("case", cases("goal_fold", "service"))
def test_an_operation_gives_what_was_recorded_and_appends_only_what_was_accepted(
    case: Json, place: Place
) -> None:
    agent = live_agent(place.live())
    goals = Goals(agent, ticking(), counting())
    told: list[Json] = []
    for op in case["ops"]:
        try:
            told.append({"ok": view_of(operate(goals, op))})
        except GoalError as refused:
            told.append({"error": refused.code})
    assert told == case["expect"]
    appended = [event.json["operation"] for event in place.stored().read()]
    assert appended == case["durable_operations"]


class Run:
    """One recorded run of the driver."""

    def __init__(self, case: Json, place: Place) -> None:
        self.case = case
        self.place = place
        self.gates = Gates()
        answers = [{"code": answer["error"]} if "error" in answer else answer for answer in case["model"]]
        self.model = ScriptedModel(answers, self.gates)
        self.agent = live_agent(place.live(), self.model)
        self.goals = Goals(self.agent, ticking(), counting("goal"))
        self.driver = GoalDriver(self.agent, self.goals, counting("round"))
        if case.get("preReject") == "inner":
            self.agent.hooks.pre_step.add(self._reject_rounds)
        self.trace: list[Any] = []
        self.agent.session.observe(self._note)

    async def _reject_rounds(self, proposal: Proposal, inner: Any) -> Any:
        if any(message.source.tag == "goal" for message in proposal.messages):
            return Reject()
        return await inner(proposal)

    def _note(self, event: Recorded) -> None:
        data = event.json
        match event.type:
            case "goal/change":
                goal = data.get("goal", {})
                reason = goal.get("blockedReason", {}).get("code")
                self.trace.append(["goal/change", data["operation"], goal.get("phase"), reason])
            case "turn/start":
                self.trace.append(["turn/start", data["turn"]])
            case "turn/end":
                self.trace.append(["turn/end", data["turn"], data["reason"]["kind"]])
            case "user/message":
                source = data["source"]
                told = [source["revision"], source["round"]] if source["kind"] == "goal" else []
                self.trace.append(["user/message", source["kind"], *told])

    async def play(self) -> None:
        for action in self.case["actions"]:
            match action:
                case "idle":
                    await self._idle()
                case "settle":
                    await self.place.settled()
                case {"create": request}:
                    self.goals.create(request["objective"], request["maxGoalRounds"])
                case {"op": op}:
                    operate(self.goals, {"op": op, "ref": "current", "request": action.get("arg", {})})
                case {"followup": id}:
                    self.agent.followup(user(id))
                case {"cancel": cause}:
                    self.agent.cancel(cause)
                case {"release": gate}:
                    self.gates.release(gate)
                case other:
                    raise AssertionError(other)
        await self._idle()

    async def _idle(self) -> None:
        await self.place.settled()
        await self.agent.when_idle()
        await self.driver.settled()
        await self.place.settled()

    def final(self) -> Json:
        view = self.goals.get()
        assert view is not None
        inbox = self.agent.inbox
        return {
            "phase": view.goal.phase,
            "revision": view.goal.revision,
            "roundsStarted": view.rounds,
            "activation": "armed" if view.armed else "disarmed",
            "blocked": None if view.goal.blocked is None else view.goal.blocked.code,
            "status": self.agent.status,
            "pending": len(inbox.next_turn) + len(inbox.next_step),
            "model_calls": len(self.model.requests),
        }


@pytest.mark.parametrize("case", cases("goal_driver", "scenarios"))
def test_a_recorded_goal_is_driven_as_recorded(case: Json, place: Place) -> None:
    async def played() -> Run:
        run = Run(case, place)
        await run.play()
        return run

    run = asyncio.run(played())
    assert run.trace == case["expect"]["trace"]
    assert run.final() == case["expect"]["final"]


def test_a_round_that_another_process_left_queued_is_taken_out_and_people_go_on(place: Place) -> None:
    async def played() -> Agent:
        agent = live_agent(place.live(), ScriptedModel([{"text": "hello"}]))
        source = {"kind": "goal", "goalId": "goal-1", "revision": 1, "round": 1}
        agent.send(user("left-over", source), "next-turn", False)
        GoalDriver(agent, Goals(agent, ticking(), counting()), counting("round"))
        agent.followup(user("m1"))
        await agent.when_idle()
        return agent

    asyncio.run(played())
    entered = [event.json["id"] for event in place.stored().read(types=("user/message",))]
    assert entered == ["m1"]
