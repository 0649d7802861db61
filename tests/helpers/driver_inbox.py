"""The part of the driver model that writes events, and what people and programs do to the two lists of input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from driver_truth import Entry, Truth

Json = dict[str, Any]
Effect = Callable[[int], object]
CREATED_MS = 1_780_000_000_000
NEXT_TURN, NEXT_STEP = TARGETS = ("next-turn", "next-step")
WORDS = ("so", " then", "\n", "né", " 🥞", "", "{}", " end.")


class Crash(Exception):
    """The process dies: nothing more becomes durable."""


class InboxDriver:
    """Writes events, and keeps the lists. ``crash_at`` is how many events become durable before the process dies.

    ``ticks`` are the milliseconds that may pass between two events; the clock may step back.
    """

    def __init__(self, random: Random, session: str) -> None:
        self.random = random
        self.session = session
        self.events: list[Json] = []
        self.truth = Truth()
        self.crash_at: int | None = None
        self.messages: dict[str, Json] = {}
        self.time = CREATED_MS
        self.ticks: tuple[int, ...] = (0, 1, 3, 20, 20, 400, -5)
        self.ids = 0
        self.turn: int | None = None
        self.step = 0
        self.in_step = False
        self.cleared: list[str] = []
        self.claimed_from: dict[str, str] = {}

    def chance(self, percent: int) -> bool:
        return self.random.randrange(100) < percent

    def id(self, kind: str) -> str:
        self.ids += 1
        return f"{self.session}-{kind}-{self.ids}"

    def add(self, type: str, data: Any, effect: Effect | None = None, **envelope: Any) -> int:
        """Make an event durable, with its effect on the ledger; its seq. Raises ``Crash`` instead."""
        seq = len(self.events)
        if self.crash_at is not None and seq >= self.crash_at:
            raise Crash
        self.time += self.random.choice(self.ticks)
        return self.write(type, data, effect, **envelope)

    def write(self, type: str, data: Any, effect: Effect | None = None, **envelope: Any) -> int:
        """``add`` at the time of the last event."""
        seq = len(self.events)
        self.events.append({"type": type, "seq": seq, "time": self.time, "data": data, **envelope})
        if envelope.get("surfaceOp") == "append":
            self.truth.surface.append(seq)
        if effect is not None:
            effect(seq)
        self.truth.moment(seq)
        return seq

    def note(self, what: str, **facts: Any) -> Entry:
        """An entry of the transcript, at the place where the driver is; it may be completed later."""
        entry = {"what": what, "turn": self.turn, "step": self.step if self.in_step else None, **facts}
        self.truth.transcript.append(entry)
        return entry

    def mark(self, kind: str, text: str = "") -> Effect:
        """The effect of an event that shows as a mark."""
        return lambda _seq: self.note("mark", kind=kind, text=text)

    def message(self, source: Json | None = None, id: str | None = None) -> Json:
        """A new message, or another content for the message ``id``."""
        text = "".join(self.random.choice(WORDS) for _ in range(self.random.randrange(4)))
        content = [{"type": "text", "text": text}]
        id = id or self.id("m")
        self.messages[id] = {
            "id": id,
            "role": "user",
            "content": content,
            "source": source or {"kind": "user"},
        }
        return self.messages[id]

    # Splices

    def splice(
        self, target: str, start: int, removed: int, inserted: Sequence[Json], effect: Effect, **more: Any
    ) -> None:
        data: Json = {"target": target, "start": start, "inserted": list(inserted), **more}
        if removed:
            data["removedCount"] = removed

        def change(seq: int) -> None:
            self.truth.lists[target][start : start + removed] = [message["id"] for message in inserted]
            effect(seq)

        self.add("agent/inbox/spliced", data, change)

    def insert(self, target: str, start: int, messages: Sequence[Json]) -> None:
        def effect(seq: int) -> None:
            for message in messages:
                self.truth.queued(message["id"], target, seq, self.time)

        self.splice(target, start, 0, messages, effect)

    def send(self, target: str, source: Json | None = None) -> None:
        self.insert(target, len(self.truth.lists[target]), [self.message(source)])

    def remove(self, target: str, start: int) -> None:
        """Cancel one message. When its list is empty then, the log cannot tell this from clearing."""
        id = self.truth.lists[target][start]
        reason = "removed" if len(self.truth.lists[target]) > 1 else None
        self.splice(target, start, 1, (), lambda _: self.truth.cancelled(id, reason), outcome="canceled")

    def clear(self) -> None:
        """Cancel all that waits, by one splice for each list."""
        waiting = [target for target in reversed(TARGETS) if self.truth.lists[target]]
        gone = [id for target in waiting for id in self.truth.lists[target]]
        for target in waiting:
            ids, last = list(self.truth.lists[target]), target == waiting[-1]

            def effect(_seq: int, ids: list[str] = ids, last: bool = last) -> None:
                for id in gone if last else ids:
                    self.truth.cancelled(id, "cleared" if last else "removed")
                self.cleared += gone if last else ()

            self.splice(target, 0, len(ids), (), effect, outcome="canceled")

    def edit(self) -> None:
        """Change the place or the content of something that waits."""
        target = self.random.choice([target for target in TARGETS if self.truth.lists[target]])
        line = self.truth.lists[target]
        at = self.random.randrange(len(line))
        fate = self.truth.fates[line[at]]
        match self.random.choice(("replace", "rewrite", "to the other list", "shuffle", "remove")):
            case "replace":
                new = self.message()

                def replaced(seq: int) -> None:
                    fate.verdict, fate.replaced_by = "replaced", new["id"]
                    self.truth.queued(new["id"], target, seq, self.time)

                self.splice(target, at, 1, [new], replaced, outcome="canceled")
            case "rewrite":
                again = self.message(self.messages[line[at]]["source"], line[at])
                self.splice(target, at, 1, [again], lambda _: None, outcome="canceled")
            case "to the other list":
                self._move(line[at], target, at)
            case "shuffle":
                order = [self.messages[id] for id in line]
                self.random.shuffle(order)
                self.splice(target, 0, len(line), order, lambda _: None, outcome="canceled")
            case "remove":
                self.remove(target, at)

    def _move(self, id: str, target: str, at: int) -> None:
        """Two splices: out of one list, into the other. It stays the same stay."""
        other = TARGETS[1 - TARGETS.index(target)]
        before = self.truth.fates[id]
        self.remove(target, at)

        def moved(seq: int) -> None:
            self.truth.queued(id, other, seq, self.time)
            fate = self.truth.fates[id]
            fate.stays, fate.inserted_seq, fate.inserted_ms = (
                before.stays,
                before.inserted_seq,
                before.inserted_ms,
            )

        start = self.random.randrange(len(self.truth.lists[other]) + 1)
        self.splice(other, start, 0, [self.messages[id]], moved)

    def claim(self, turn: int, target: str) -> list[Json]:
        """Take what the boundary gives: all of next-step, and at the beginning of a turn one of next-turn."""
        counts = {NEXT_STEP: len(self.truth.lists[NEXT_STEP])}
        if target == NEXT_TURN:
            counts[NEXT_TURN] = min(1, len(self.truth.lists[NEXT_TURN]))
        batch: list[Json] = []
        for each, count in counts.items():
            ids = self.truth.lists[each][:count]

            def effect(_seq: int, ids: list[str] = ids) -> None:
                for id in ids:
                    self.truth.claimed(id, turn, self.step + 1, self.time)

            if ids:
                self.splice(each, 0, count, (), effect)
                self.claimed_from |= dict.fromkeys(ids, each)
                batch += [self.messages[id] for id in ids]
        return batch

    def deliver(self, message: Json) -> int:
        """Put a message before the model; its seq."""
        id = message["id"]
        source = message["source"]

        def effect(seq: int) -> None:
            if id in self.truth.fates:
                self.truth.fates[id].verdict, self.truth.fates[id].admitted_seq = "admitted", seq
            if source["kind"] == "goal":
                self.truth.rounds += 1
                self.truth.admitted_rounds.append((source["goalId"], source["round"]))
            steering = source["kind"] == "user" and self.claimed_from.get(id) == NEXT_STEP
            self.note("message", id=id, text=message["content"][0]["text"], steering=steering)

        return self.add("user/message", message, effect, surfaceOp="append")
