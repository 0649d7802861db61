"""A small model of an agent's driver: it writes plausible native logs, and knows what they mean.

Every choice comes from one ``random.Random``, which hypothesis hands in, so that failures shrink. The driver follows
the rules of delivery: turns claim, steps admit, calls stream and are tried again, tools run one by one or side by
side, people queue, steer, edit and cancel while it works, goals drive rounds, old parts are summed up or cut. The
process may die at any event; who takes the session up again closes what is open. Children inherit a part.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from driver_calls import Aborted, CallDriver, Failed
from driver_inbox import NEXT_STEP, NEXT_TURN, TARGETS, Crash, Json
from driver_truth import Call, Truth
from hypothesis import strategies as st

from playhead.eventstore import envelope, json_text
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId
from playhead.eventstore.recorded import Recorded

CREATED_MS = 1_780_000_000_000
_OUTCOMES = {"aborted": "cancelled", "error": "failed", "interrupted": "crashed"}
"""What the end of a turn says of a call that has no end of its own."""


@dataclass(frozen=True)
class Played:
    """A session, and what its driver knows.

    ``closers`` are the events that a repair has to add, none when no turn is open; ``repaired`` is the truth with
    them. ``inherited`` is how many events came from a parent.
    """

    header: SessionHeader
    facts: list[Recorded]
    truth: Truth
    closers: list[Recorded]
    repaired: Truth

    @property
    def inherited(self) -> int:
        return self.header.seed_length or 0


class Driver(CallDriver):
    """A driver and its session. ``last_turn`` is the number of the last turn in the log."""

    last_turn = 0
    steps_over = 0
    compaction: str | None = None
    seed_length: int | None = None

    def live(self, crash_after: int | None) -> None:
        """One life of the process: people talk to it until they stop, or it dies after so many events."""
        self.crash_at = None if crash_after is None else len(self.events) + crash_after
        try:
            for _ in range(self.random.randint(1, 3)):
                self._idle()
                if not self.queue_round() and not any(self.truth.lists.values()):
                    self.send(self.random.choice(TARGETS))
                while self._take_turn() or self.queue_round():
                    pass
            self._idle()
        except Crash:
            pass
        self.crash_at = None

    def _idle(self) -> None:
        self.meanwhile(45)
        if self.chance(15):
            self.change_goal()
        if self.chance(12):
            self._compact()

    # Turns and steps

    def _take_turn(self) -> bool:
        """One turn; whether the driver takes another."""
        self.cancel, number = None, self.last_turn + 1

        def opened(_seq: int) -> None:
            self.turn = self.last_turn = number
            self.step = self.steps_over = 0
            self.cleared = []
            self.truth.todos = None
            self.note("turn", number=number, ending=None)

        self.add("turn/start", {"turn": number}, opened)
        try:
            reason: Json = {"kind": self._work()}
        except Aborted:
            reason = {"kind": "aborted", "reason": self.cancel}
        except Failed as failed:
            reason = {"kind": "error", "error": failed.args[0]}
        normal = reason["kind"] in ("completed", "max-tokens") and self.step > 0
        self.add("turn/end", {"turn": number, "reason": reason}, lambda _: self._turn_ended(reason))
        return normal and any(self.truth.lists.values())

    def _turn_ended(self, reason: Json) -> None:
        kind, detail = reason["kind"], None
        if kind == "aborted":
            detail = ": ".join(reason["reason"].values())
        if kind == "error":
            detail = reason["error"]["code"]
        self.truth.turn_ended(kind, detail, self.steps_over, self.cleared)
        for call in self.truth.calls:
            if call.outcome == "open":
                call.outcome = _OUTCOMES[kind]
        self.truth.stats.called_ms = {}
        self.pending = {}
        started = [entry for entry in self.truth.transcript if entry["what"] == "turn"]
        started[-1]["ending"] = kind
        self.turn, self.cancel, self.cleared = None, None, []

    def _work(self) -> str:
        """The steps of a turn; how it ends."""
        target, outcome = NEXT_TURN, None
        assert self.turn is not None
        while True:
            batch = self.claim(self.turn, target)
            self.meanwhile()
            stale = [message for message in batch if self.is_stale(message)]
            if stale or self.chance(4):
                back = [message for message in batch if message not in stale] if stale else []
                if back:
                    self.insert(NEXT_STEP, 0, back)
                return "blocked"
            entering = [message for message in batch if not self.chance(4)]
            if self.chance(8):
                entering.append(self._context())
            if not entering and (outcome is not None or self.step == 0):
                return outcome or "completed"
            result = self._take_step(entering)
            outcome = outcome if outcome == "max-tokens" else result
            self.meanwhile(0)
            if outcome is not None and not self.truth.lists[NEXT_STEP]:
                self.meanwhile(15)
                if not self.truth.lists[NEXT_STEP]:
                    return outcome
            target = NEXT_STEP

    def _context(self) -> Json:
        """What the driver itself puts before the model; it never was in a list."""
        form = {"form": "snapshot", "sections": [{"name": "time", "text": "noon"}]}
        return self.message({"kind": "plugin", "plugin": "@deepseek-ai/dsh-system-prompt", **form})

    def _take_step(self, entering: list[Json]) -> str | None:
        """One step; the outcome it gives the turn, None when the results of tools are to be answered."""

        def opened(_seq: int) -> None:
            self.step += 1
            self.note("step", number=self.step)
            self.in_step = True
            self.truth.stats.step_ms, self.truth.stats.token_ms = self.time, None

        self.add("step/start", {"turn": self.turn, "step": self.step + 1}, opened)
        try:
            seqs = [self.deliver(message) for message in entering]
            if seqs and self.truth.title is None:
                self.rename(seqs)
            if self.chance(8):
                self._compact()
            if self.chance(15):
                self._prune()
            result = self.answer()
            outcome = result if isinstance(result, str) else self.run_tools(result)
        except (Aborted, Failed):
            self._end_step()
            raise
        self._end_step()
        return outcome

    def _end_step(self) -> None:
        def effect(_seq: int) -> None:
            self.steps_over = self.step
            self._step_over()

        self.add("step/end", self.place, effect)

    def _step_over(self) -> None:
        self._lost_attempt(None)
        self.truth.stats.step_ended(self.turn)
        self.pending = {}
        self.in_step = False

    # What the model no longer sees

    def _compact(self) -> None:
        """Sum up a part of the surface, or fail to."""
        surface = self.truth.surface
        if not surface:
            return
        start = self.random.randrange(len(surface))
        end = self.random.randrange(start, len(surface))
        shadowed = surface[start : end + 1]
        id = self.id("compaction")

        def opened(_seq: int) -> None:
            self.compaction = id

        self.add("compaction/start", {"compactionId": id, "turn": self.turn}, opened)
        if self.chance(25):
            error = {"code": "SUMMARY_FAILED", "message": "no summary"}
            self._end_compaction(id, "failed", {"error": error})
            return
        usage = self._usage() if self.chance(50) else None
        summary = [{"type": "text", "text": "So far: pancakes."}]
        data = {
            "compactionId": id,
            "summary": summary,
            "shadowedRange": {"start": shadowed[0], "end": shadowed[-1]},
            "shadowedSeqs": shadowed,
            "shadowedTokenCount": 7 * len(shadowed),
            **self.route,
            **({"usage": usage} if usage else {}),
            "rawOutput": summary,
            "llmStreamCall": True,
        }

        def summed_up(_seq: int) -> None:
            step = self.step if self.in_step else None
            self.truth.calls.append(Call(self.turn, step, "finished", usage=usage))

        self.add("compaction/summary", data, summed_up)
        source = {"kind": "plugin", "plugin": "compact", "compactionId": id}
        self._replace("user/message", self.message(source), shadowed)
        self._end_compaction(id, "done", {})

    def _end_compaction(self, id: str, outcome: str, more: Json) -> None:
        def effect(_seq: int) -> None:
            self.compaction = None
            self.note("compaction", kind="summary", outcome=outcome)

        self.add("compaction/end", {"compactionId": id, "turn": self.turn, **more}, effect)

    def _prune(self) -> None:
        """Cut a tool result that the model still sees."""
        results = [seq for seq in self.truth.surface if self.events[seq]["type"] == "tool/result"]
        if not results:
            return
        seq = self.random.choice(results)
        data = {
            "shadowedRange": {"start": seq, "end": seq},
            "shadowedSeqs": [seq],
            "shadowedTokenCount": 9,
        }
        shown: Callable[[int], object] = lambda _: self.note("compaction", kind="prune", outcome="done")  # noqa: E731
        self.add("compaction/prune", data, shown)
        result = copy.deepcopy(self.events[seq]["data"])
        result["message"]["content"][0]["content"] = [{"type": "text", "text": "cut"}]
        self._replace("tool/result", result, [seq])

    def _replace(self, type: str, data: Json, shadowed: list[int]) -> None:
        surface = self.truth.surface
        at = surface.index(shadowed[0])

        def effect(seq: int) -> None:
            surface[at : at + len(shadowed)] = [seq]

        op = {"op": "replace", "start": shadowed[0], "end": shadowed[-1]}
        self.add(type, data, effect, sourceEventSeqs=list(shadowed), surfaceOp=op)

    # Lives

    def close(self) -> None:
        """Write what a repair writes behind a log whose writer died."""
        if self.turn is None:
            return
        for id, called in list(self.pending.items()):
            self._stand_in(id, called)
        if self.in_step:
            self.write("step/end", self.place, lambda _: self._step_over())
        reason = {"kind": "interrupted"}
        self.write(
            "turn/end", {"turn": self.turn, "reason": reason}, lambda _: self._interrupted_turn(reason)
        )

    def _interrupted_turn(self, reason: Json) -> None:
        unsure = [fate for fate in self.truth.fates.values() if fate.claimed_step == self.step != 0]
        unsure = [fate for fate in unsure if fate.verdict == "open" and self.step == self.steps_over]
        self.give_up()
        self._turn_ended(reason)
        for fate in unsure:
            fate.reason = None

    def _stand_in(self, id: str, called: int | None) -> None:
        """The result of a call that never came to one."""
        kind = "TOOL_NOT_STARTED" if called is None else "TOOL_OUTCOME_UNKNOWN"
        name = "ToolNotStartedError" if called is None else "ToolOutcomeUnknownError"
        block = {"type": "tool-result", "toolCallId": id, "isError": True, "content": []}
        source = {"kind": "tool", "callId": id}
        message_id = f"interrupted-tool-result-{id}-{len(self.events)}"
        message = {"id": message_id, "role": "user", "source": source, "content": [block]}
        data = {**self.place, "message": message, "error": {"name": name, "code": kind}}
        sources = {} if called is None else {"sourceEventSeqs": [called]}
        self.write("tool/result", data, lambda _: self.returned(id, "", kind), surfaceOp="append", **sources)

    def resume(self) -> None:
        """A new process takes the session up: it closes what is open, and marks where it begins."""
        self.close()
        self._mark_seed("resumed")

    def _mark_seed(self, kind: str) -> None:
        def effect(_seq: int) -> None:
            self.give_up()
            self.note("mark", kind=kind, text="")

        self.logged_header = self.armed = False
        if not self.events or self.events[-1]["type"] != "session/end-seed":
            self.add("session/end-seed", {}, effect)

    def fork(self, session: str) -> Driver:
        """A child that inherits the whole log, which has no open turn."""
        child = copy.copy(self)
        child.session = session
        child.events = list(self.events)
        child.seed_length = len(child.events)
        child.truth = self.truth.forked()
        child.messages, child.claimed_from = {}, {}
        child.tools, child.pending = {}, {}
        child._mark_seed("inherited" if child.events else "resumed")
        return child

    def played(self) -> Played:
        """The session as it lies there now."""
        end = copy.deepcopy(self, {id(self.random): self.random})
        end.close()
        for driver in (self, end):
            driver.give_up()
        facts, closed = recorded(self.events), recorded(end.events)
        return Played(self._header(), facts, self.truth, closed[len(facts) :], end.truth)

    def give_up(self) -> None:
        """Nothing more comes: the transcript tells what was left unfinished."""
        self._lost_attempt(None)
        if self.compaction is not None:
            self.in_step = False
            self.note("compaction", kind="summary", outcome="unfinished")
            self.compaction = None

    def _header(self) -> SessionHeader:
        parent = None if self.seed_length is None else SessionId("parent")
        return SessionHeader(SessionId("s1"), CREATED_MS, parent=parent, seed_length=self.seed_length)


def recorded(events: list[Json]) -> list[Recorded]:
    """The facts of event objects."""
    return [fact for event in events for fact in envelope.facts(json_text.dumps(event), SessionId("s1"))]


def play(random: Random, *, steady_clock: bool = False) -> Played:
    """A session of up to three lives, the last of which may have ended in a crash; some are children."""
    driver = Driver(random, "p")
    if steady_clock:
        driver.ticks = tuple(tick for tick in driver.ticks if tick >= 0)
    lives = random.randint(1, 3)
    for life in range(lives):
        last = life == lives - 1
        crash_after = random.randrange(60) if random.randrange(100) < 55 else None
        driver.live(crash_after)
        if last:
            break
        if random.randrange(100) < 30:
            driver.close()
            driver = driver.fork(f"c{life}")
        else:
            driver.resume()
    return driver.played()


def playing(*, steady_clock: bool = False) -> st.SearchStrategy[Played]:
    """Sessions as drivers write them, each with its truth."""
    return st.randoms(use_true_random=False).map(lambda random: play(random, steady_clock=steady_clock))
