"""Rounds and what comes between them: people, context, maintenance, a disk that fails, a loop that ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from live_agents import ends, options, stored
from scripted_model import Gates, ScriptedModel, counting, settled, ticking, user

from playhead.eventstore import invariants
from playhead.eventstore.cancel import CancelToken
from playhead.eventstore.memory import MemorySession
from playhead.live.agent import Agent
from playhead.live.goal_driver import GoalDriver
from playhead.live.goals import GoalError, Goals, GoalView
from playhead.live.hooks import Enter, Proposal
from playhead.live.notices import Notice
from playhead.live.session import LiveSession
from playhead.projections.inbox_lists import NEXT_TURN


class Pursuit:
    """An agent with goals and their driver."""

    def __init__(self, answers: int | list[Any] = 8, session: MemorySession | None = None) -> None:
        self.gates = Gates()
        given = [{"text": str(at)} for at in range(answers)] if isinstance(answers, int) else answers
        self.model = ScriptedModel(given, self.gates)
        self.agent = Agent(LiveSession(session or stored(), ticking()), options(self.model))
        self.goals = Goals(self.agent, ticking(), counting("g"))
        self.driver = GoalDriver(self.agent, self.goals, counting("round"))

    async def rest(self) -> None:
        """Returns when nothing goes on any more."""
        for _ in range(3):
            await settled()
            await self.agent.when_idle()
            await self.driver.settled()

    @property
    def view(self) -> GoalView:
        view = self.goals.get()
        assert view is not None
        return view

    @property
    def entered(self) -> list[str]:
        """The ids of the messages that entered, in order."""
        return [event.json["id"] for event in self.agent.session.stored.read(types=("user/message",))]


def pursued(play: Callable[[], Any]) -> Pursuit:
    pursuit: Pursuit = asyncio.run(play())
    assert list(invariants.check(pursuit.agent.session.stored.read())) == []
    return pursuit


@pytest.mark.parametrize("how", ["followup", "steer"])
@pytest.mark.parametrize("when", ["before the others", "behind the others"])
def test_what_a_person_sends_between_claim_and_step_goes_first_and_the_round_comes_again(
    how: str, when: str
) -> None:
    async def play() -> Pursuit:
        pursuit = Pursuit()
        sent = False

        async def send(proposal: Proposal, inner: Any) -> Any:
            nonlocal sent
            decision = await inner(proposal) if when == "behind the others" else None
            if not sent:
                sent = True
                getattr(pursuit.agent, how)(user("m1"))
            return decision or await inner(proposal)

        pursuit.agent.hooks.pre_step.add(send)  # inside of the driver's own fence
        pursuit.goals.create("x", 2)
        await pursuit.rest()
        return pursuit

    pursuit = pursued(play)
    assert pursuit.entered == ["m1", "round-2", "round-3"]
    assert ends(pursuit.agent) == ["blocked", "completed", "completed", "completed"]
    assert (pursuit.view.rounds, pursuit.view.goal.blocked and pursuit.view.goal.blocked.code) == (
        2,
        "round-limit",
    )


def test_a_person_who_steers_before_the_claim_is_not_put_into_the_round() -> None:
    async def play() -> Pursuit:
        pursuit = Pursuit()

        def steer(notice: Notice) -> None:
            if notice.name == "agent/inbox/inserted" and notice.info["message"].id == "round-1":
                pursuit.agent.steer(user("m1"))

        pursuit.agent.notices.listen(steer)
        pursuit.goals.create("x", 1)
        await pursuit.rest()
        return pursuit

    pursuit = pursued(play)
    assert pursuit.entered == ["m1", "round-2"]
    assert not pursuit.agent.inbox.has_pending


def test_context_that_waits_for_a_step_does_not_keep_rounds_back_and_joins_the_first() -> None:
    async def play() -> Pursuit:
        pursuit = Pursuit()
        pursuit.agent.inject(user("note", {"kind": "plugin", "plugin": "p"}))
        pursuit.goals.create("x", 1)
        await pursuit.rest()
        return pursuit

    assert pursued(play).entered == ["note", "round-1"]


def test_a_prompt_that_is_parked_keeps_rounds_back_until_it_had_its_turn() -> None:
    async def play() -> Pursuit:
        pursuit = Pursuit()
        pursuit.agent.send(user("parked"), NEXT_TURN, False)
        pursuit.goals.create("x", 1)
        await pursuit.rest()
        assert pursuit.entered == []
        pursuit.agent.wake()
        await pursuit.rest()
        return pursuit

    assert pursued(play).entered == ["parked", "round-1"]


def test_an_edit_between_claim_and_step_refuses_the_round_and_sends_one_of_the_new_revision() -> None:
    async def play() -> Pursuit:
        pursuit = Pursuit()

        async def edit(proposal: Proposal, inner: Any) -> Any:
            if pursuit.view.goal.revision == 1:
                pursuit.goals.edit(pursuit.view.ref, objective="y")
            return await inner(proposal)

        pursuit.agent.hooks.pre_step.add(edit)
        pursuit.goals.create("x", 1)
        await pursuit.rest()
        return pursuit

    pursuit = pursued(play)
    assert pursuit.entered == ["round-2"]
    assert '"y"' in pursuit.model.requests[0].messages[0]["content"][0]["text"]


def test_a_round_whose_message_others_leave_out_pauses_the_goal() -> None:
    async def play() -> Pursuit:
        pursuit = Pursuit()

        async def empty(_proposal: Proposal, _inner: Any) -> Any:
            return Enter(())

        pursuit.agent.hooks.pre_step.add(empty)
        pursuit.goals.create("x", 5)
        await pursuit.rest()
        return pursuit

    pursuit = pursued(play)
    assert (pursuit.view.goal.phase, pursuit.view.rounds, pursuit.entered) == ("paused", 0, [])


def test_a_round_whose_turn_never_began_is_withdrawn_and_the_goal_paused() -> None:
    async def play() -> Pursuit:
        pursuit = Pursuit()

        def stop(notice: Notice) -> None:
            if notice.name == "agent/status" and notice.info["status"] == "running":
                pursuit.agent.cancel({"kind": "user"}, keep_inbox=True)

        remove = pursuit.agent.notices.listen(stop)
        pursuit.goals.create("x", 5)
        await pursuit.rest()
        remove()
        assert not pursuit.agent.inbox.has_pending
        assert pursuit.view.goal.phase == "paused"
        pursuit.agent.followup(user("m1"))
        await pursuit.rest()
        pursuit.goals.edit(pursuit.goals.resume(pursuit.view.ref).ref, max_rounds=1)
        await pursuit.rest()
        return pursuit

    assert pursued(play).entered == ["m1", "round-2"]


def test_a_round_that_a_person_discards_or_aborts_pauses_the_goal() -> None:
    async def play() -> Pursuit:
        pursuit = Pursuit([{"text": "never", "gate": "closed"}])
        pursuit.goals.create("x", 5)
        await settled()
        pursuit.agent.cancel({"kind": "user"})
        await pursuit.rest()
        return pursuit

    assert pursued(play).view.goal.phase == "paused"


def test_the_abort_of_a_turn_that_is_no_round_disarms_and_leaves_the_goal_active() -> None:
    async def play() -> Pursuit:
        pursuit = Pursuit([{"text": "never", "gate": "closed"}])
        pursuit.agent.followup(user("m1"))
        pursuit.goals.create("x", 5)
        await settled()
        pursuit.agent.cancel({"kind": "user"})
        await pursuit.rest()
        return pursuit

    pursuit = pursued(play)
    assert (pursuit.view.goal.phase, pursuit.view.armed, pursuit.entered) == ("active", False, ["m1"])


def test_rounds_wait_for_maintenance_and_begin_behind_it() -> None:
    async def play() -> Pursuit:
        pursuit = Pursuit()
        done = asyncio.Event()

        async def hold(_token: CancelToken) -> None:
            await done.wait()

        maintenance = pursuit.agent.run_maintenance(hold)
        pursuit.goals.create("x", 1)
        await settled()
        assert pursuit.entered == []
        done.set()
        await maintenance
        await pursuit.rest()
        return pursuit

    assert pursued(play).entered == ["round-1"]


def test_triggers_that_come_together_send_one_round() -> None:
    async def play() -> Pursuit:
        pursuit = Pursuit([{"text": "a", "gate": "g"}])
        pursuit.goals.create("x", 5)
        for objective in "abc":
            pursuit.goals.edit(pursuit.view.ref, objective=objective)
        await settled()
        assert [message["source"]["kind"] for message in pursuit.model.requests[0].messages] == ["goal"]
        pursuit.goals.pause(pursuit.view.ref)
        pursuit.gates.release("g")
        await pursuit.rest()
        return pursuit

    assert pursued(play).entered == ["round-1"]


def test_a_disk_that_fails_disarms_and_sends_nothing() -> None:
    told: list[str] = []

    async def play() -> Pursuit:
        pursuit = Pursuit()

        async def broken() -> None:
            raise OSError("no disk")

        pursuit.agent.session.flush = broken  # type: ignore[method-assign]
        pursuit.agent.notices.listen(lambda notice: told.append(notice.name))
        pursuit.goals.create("x", 5)
        await pursuit.rest()
        return pursuit

    pursuit = pursued(play)
    assert (pursuit.view.armed, pursuit.entered) == (False, [])
    assert told.count("agent/error") == 1


def test_a_goal_that_cannot_be_recorded_while_the_driver_looks_disarms_and_is_told() -> None:
    told: list[str] = []

    async def play() -> Pursuit:
        pursuit = Pursuit([{"text": "never", "gate": "closed"}])

        def hear(notice: Notice) -> None:
            if notice.name == "agent/error":
                told.append(str(notice.info["error"]))

        def refused(*_: object) -> None:
            raise OSError("no disk")

        pursuit.agent.notices.listen(hear)
        pursuit.goals.create("x", 5)
        await settled()
        pursuit.goals.pause = refused  # type: ignore[method-assign,assignment]
        pursuit.agent.cancel({"kind": "user"})
        await pursuit.rest()
        return pursuit

    assert (pursued(play).view.armed, told) == (False, ["no disk"])


def test_an_agent_that_is_closed_while_the_driver_waits_for_the_disk_sends_no_round() -> None:
    async def play() -> Pursuit:
        pursuit = Pursuit()
        flush, hold = pursuit.agent.session.flush, asyncio.Event()

        async def slow() -> None:
            await hold.wait()
            await flush()

        pursuit.agent.session.flush = slow  # type: ignore[method-assign]
        pursuit.goals.create("x", 5)
        await settled()
        closing = asyncio.ensure_future(pursuit.agent.close())
        await settled()
        hold.set()
        await closing
        await pursuit.driver.settled()
        with pytest.raises(GoalError) as refused:
            pursuit.goals.pause(pursuit.view.ref)
        assert refused.value.code == "GOAL_AGENT_NOT_LIVE"
        return pursuit

    assert pursued(play).entered == []


def test_a_restart_finds_the_goal_at_rest_and_a_resume_goes_on_behind_the_rounds_that_were() -> None:
    session = stored()

    async def first() -> Pursuit:
        pursuit = Pursuit([{"text": "a"}, {"text": "never", "gate": "closed"}], session)
        pursuit.goals.create("x", 3)
        await settled()
        return pursuit  # and the loop ends in the second round

    pursued(first)

    async def second() -> Pursuit:
        pursuit = Pursuit(1, session)
        await pursuit.rest()
        assert (pursuit.view.armed, pursuit.view.rounds, len(pursuit.model.requests)) == (False, 2, 0)
        pursuit.goals.resume(pursuit.view.ref)
        await pursuit.rest()
        return pursuit

    pursuit = pursued(second)
    assert (pursuit.view.rounds, len(pursuit.model.requests)) == (3, 1)


@pytest.mark.parametrize("blank", [" ", "\ufeff", "\u00a0", "\u2028"])
def test_objectives_are_trimmed_as_those_who_read_the_log_count_blanks(blank: str) -> None:
    pursuit = Pursuit()
    view = pursuit.goals.create(f"{blank}x{blank}")
    assert view.goal.objective == "x"
    with pytest.raises(GoalError):
        pursuit.goals.edit(view.ref, objective=blank)
    assert list(invariants.check(pursuit.agent.session.stored.read())) == []
