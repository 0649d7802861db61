"""The part of the driver model that works on a goal: changes that the rules allow, and rounds that become due."""

from __future__ import annotations

from driver_inbox import NEXT_TURN, InboxDriver, Json

_PHASES = {"pause": "paused", "block": "blocked", "complete": "complete", "resume": "active"}


class GoalDriver(InboxDriver):
    """Keeps at most one goal. ``armed`` is the process's own: a new process works on no goal by itself."""

    armed = False
    goals = 0

    def create_goal(self) -> None:
        self.goals += 1
        goal = {
            "id": self.id("goal"),
            "revision": 1,
            "objective": f"bake {self.goals}",
            "phase": "active",
            "maxGoalRounds": self.random.randint(1, 3),
        }
        self._write("create", goal, rounds=0, created=self.time)
        self.armed = True

    def change_goal(self) -> None:
        """One of the changes that the phase of the goal allows."""
        now = self.truth.goal
        if now is None:
            self.create_goal()
            return
        phase, spent = now["phase"], self.truth.rounds >= now["maxGoalRounds"]
        allowed = ["edit", "clear"]
        allowed += ["pause", "block"] if phase == "active" else []
        allowed += ["complete"] if phase != "complete" else ["create"]
        allowed += ["resume"] if phase != "complete" and not spent else []
        operation = self.random.choice(allowed)
        if operation == "create":
            self.create_goal()
        elif operation == "clear":
            self._clear(now)
        else:
            self._revise(operation, now)

    def _clear(self, now: Json) -> None:
        cleared = {"id": now["id"], "revision": now["revision"] + 1}
        at = max(self.time, now["updatedAt"])

        def gone(_seq: int) -> None:
            self.truth.goal, self.truth.rounds = None, 0
            self.note("mark", kind="goal", text="clear")

        change = {"kind": "goal/change", "version": 1, "operation": "clear"}
        self.add("goal/change", change | {"cleared": cleared, "clearedAt": at}, gone)

    def _revise(self, operation: str, now: Json) -> None:
        goal = {key: now[key] for key in ("id", "objective", "phase", "maxGoalRounds")}
        goal["revision"] = now["revision"] + 1
        if operation == "edit":
            goal["objective"] += ", again"
            goal["maxGoalRounds"] += 1
            if "blockedReason" in now:
                goal["blockedReason"] = now["blockedReason"]
        else:
            goal["phase"] = _PHASES[operation]
        if operation == "block":
            goal["blockedReason"] = {"code": "no-eggs", "message": "none left"}
        self.armed = operation == "resume" or (operation == "edit" and self.armed)
        self._write(operation, goal, rounds=self.truth.rounds, created=now["createdAt"])

    def _write(self, operation: str, goal: Json, *, rounds: int, created: int) -> None:
        before = self.truth.goal
        updated = max(self.time, created)
        if before is not None and operation != "create":
            updated = max(updated, before["updatedAt"])

        def effect(_seq: int) -> None:
            self.truth.goal = {**goal, "createdAt": created, "updatedAt": updated}
            self.truth.rounds = rounds
            self.note("mark", kind="goal", text=f"{operation}: {goal['objective']}")

        data = {
            "kind": "goal/change",
            "version": 1,
            "operation": operation,
            "goal": goal,
            "roundsStarted": rounds,
            "createdAt": created,
            "updatedAt": updated,
        }
        self.add("goal/change", data, effect)

    def queue_round(self) -> bool:
        """Queue the next round of the goal; False where none is due."""
        goal = self.truth.goal
        if goal is None or goal["phase"] != "active" or not self.armed or any(self.truth.lists.values()):
            return False
        if self.truth.rounds >= goal["maxGoalRounds"]:
            return False
        named = {"goalId": goal["id"], "revision": goal["revision"], "round": self.truth.rounds + 1}
        self.send(NEXT_TURN, {"kind": "goal", **named})
        return True

    def is_stale(self, message: Json) -> bool:
        """Whether the message is a round that may not enter: the goal is not as it was when the round was queued."""
        source, goal = message["source"], self.truth.goal
        if source["kind"] != "goal":
            return False
        if goal is None or goal["phase"] != "active" or source["round"] > goal["maxGoalRounds"]:
            return True
        named = (source["goalId"], source["revision"], source["round"])
        return named != (goal["id"], goal["revision"], self.truth.rounds + 1)
