"""The inbox audit against a model that is nothing but two Python lists and a dict of verdicts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from playhead.eventstore import json_text
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import Seq, SessionId
from playhead.eventstore.recorded import Recorded
from playhead.projections.folding import Folded, advance, begin
from playhead.projections.inbox import (
    VERDICTS,
    InboxState,
    Lists,
    inbox,
    lists_at,
    standings,
    tally,
    verdict,
)

HEADER = SessionHeader(SessionId("s1"), 1)
TARGETS = ("next-turn", "next-step")
Json = dict[str, Any]


@dataclass
class Model:
    """Two lists, in which None is a message that the log does not name, and what became of each id.

    ``doubtful`` are the seqs of splices that do not fit.
    """

    lists: dict[str, list[str | None]] = field(default_factory=lambda: {target: [] for target in TARGETS})
    fate: dict[str, str] = field(default_factory=dict)
    delivered: set[str] = field(default_factory=set)
    claimed_for: dict[str, int] = field(default_factory=dict)
    open: bool = False
    started: int = 0
    ended: int = 0
    doubtful: list[int] = field(default_factory=list)

    def take(self, event: Recorded) -> None:
        data = event.json
        match event.type:
            case "agent/inbox/spliced":
                self.splice(event.seq, data)
            case "user/message":
                self.deliver(data["id"])
            case "turn/start":
                if self.open:
                    self.close("interrupted")
                self.open, self.started, self.ended = True, 0, 0
            case "turn/end":
                self.close(data["reason"]["kind"])
                self.open = False
            case "session/end-seed":
                if self.open:
                    self.close("interrupted")
                self.open = False
            case "step/start" if self.open:
                self.started += 1
            case "step/end" if self.open:
                self.ended = self.started

    def splice(self, seq: int, data: Json) -> None:
        line, ids = self.lists[data["target"]], [message["id"] for message in data["inserted"]]
        start, count = data["start"], data.get("removedCount", 0)
        fits = start + count <= len(line)
        missing = start - len(line)
        if ids and 0 < missing <= 64:
            line += [None] * missing
        gone = line[start : start + count]
        others = [*self.lists["next-turn"], *self.lists["next-step"]]
        for id in gone:
            others.remove(id)
        entries: list[str | None] = []
        for id in ids:
            entries.append(None if id in others or id in entries else id)
        if not fits or None in entries:
            self.doubtful.append(seq)
        line[start : start + count] = entries
        went = [id for id in gone if id is not None and id not in entries]
        came = [id for id in entries if id is not None and id not in gone]
        claim = count > 0 and not ids and "outcome" not in data
        for id in went:
            if claim:
                self.fate[id] = "claimed"
                self.claimed_for[id] = self.started + 1 if self.open else 1
            else:
                self.fate[id] = "replaced" if came else "cancelled"
                if id in self.delivered:
                    self.fate[id] = "admitted"
        for id in came:
            self.fate[id] = "pending"
            self.delivered.discard(id)

    def deliver(self, id: str) -> None:
        if id not in self.fate:
            return
        if id not in self.delivered and self.fate[id] != "pending":
            self.fate[id] = "admitted"
        self.delivered.add(id)

    def close(self, kind: str) -> None:
        for id, fate in self.fate.items():
            if fate == "claimed":
                crash = kind == "interrupted" and self.started == self.ended
                passed = (self.ended - crash if self.open else 0) >= self.claimed_for[id]
                self.fate[id] = "refused" if kind == "blocked" and not passed else "lost"
                if id in self.delivered:
                    self.fate[id] = "admitted"

    def verdict(self, id: str) -> str:
        fate = self.fate[id]
        return fate if fate != "claimed" else "open" if self.open else "lost"

    def as_lists(self) -> Lists:
        line, step = ([id or "" for id in self.lists[target]] for target in TARGETS)
        return Lists(tuple(line), tuple(step))


def message(id: str) -> Json:
    content = [{"type": "text", "text": id}]
    return {"id": id, "role": "user", "content": content, "source": {"kind": "user"}}


_ids = st.sampled_from("abcdefg")
_targets = st.sampled_from(TARGETS)


@st.composite
def _splice(draw: st.DrawFn) -> tuple[str, Json]:
    kind = draw(st.sampled_from(["insert", "insert", "claim", "cancel", "replace"]))
    data: Json = {"target": draw(_targets), "start": draw(st.integers(0, 3) | st.just(100)), "inserted": []}
    if kind in ("insert", "replace"):
        data["inserted"] = [message(id) for id in draw(st.lists(_ids, min_size=1, max_size=3))]
    if kind != "insert":
        data["removedCount"] = draw(st.integers(1, 4))
    if kind in ("cancel", "replace"):
        data["outcome"] = "canceled"
    return "agent/inbox/spliced", data


_endings = st.sampled_from(["completed", "max-tokens", "blocked", "aborted", "error", "interrupted", "odd"])
_happenings = st.one_of(
    _splice(),
    _splice(),
    st.just(("turn/start", {"turn": 1})),
    st.builds(lambda kind: ("turn/end", {"turn": 1, "reason": {"kind": kind}}), _endings),
    st.sampled_from([("step/start", {"turn": 1}), ("step/end", {"turn": 1}), ("session/end-seed", {})]),
    _ids.map(lambda id: ("user/message", message(id))),
)


def recorded(happenings: list[tuple[str, Json]]) -> list[Recorded]:
    return [
        Recorded(HEADER.id, Seq(seq), 7 * seq, type, json_text.dumps(data), "append")
        for seq, (type, data) in enumerate(happenings)
    ]


@st.composite
def _sensible(draw: st.DrawFn, model: Model) -> tuple[str, Json]:
    """What a driver might do next: queue, open a turn, claim, step, deliver, end."""
    full = [target for target in TARGETS if model.lists[target]]
    claimed = [id for id, fate in model.fate.items() if fate == "claimed"]
    if not full and not claimed:
        ids = draw(st.lists(_ids, min_size=1, max_size=2, unique=True))
        data = {"target": draw(_targets), "start": 0, "inserted": [message(id) for id in ids]}
        return "agent/inbox/spliced", data
    if not model.open:
        return "turn/start", {"turn": 1}
    if model.started != model.ended:
        return ("user/message", message(claimed[0])) if claimed and draw(st.booleans()) else ("step/end", {})
    if full and draw(st.booleans()):
        target = draw(st.sampled_from(full))
        return "agent/inbox/spliced", {"target": target, "start": 0, "removedCount": 1, "inserted": []}
    if draw(st.booleans()):
        return "turn/end", {"turn": 1, "reason": {"kind": draw(_endings)}}
    return "step/start", {}


@st.composite
def _histories(draw: st.DrawFn) -> list[Recorded]:
    """A log in which most events make sense after those before them."""
    model, happenings = Model(), []
    for seq in range(draw(st.integers(0, 40))):
        happening = draw(_sensible(model) if draw(st.integers(0, 9)) < 7 else _happenings)
        happenings.append(happening)
        model.take(Recorded(HEADER.id, Seq(seq), 0, happening[0], json_text.dumps(happening[1])))
    return recorded(happenings)


_logs = _histories()


def fits(state: InboxState, model: Model) -> None:
    assert state.lists == model.as_lists()
    assert {each.id: verdict(state, each) for each in state.messages()} == {
        id: model.verdict(id) for id in model.fate
    }
    doubtful = ("invalid-splice", "duplicate-pending-id")
    assert sorted({breach.seq for breach in state.breaches if breach.kind in doubtful}) == model.doubtful


@settings(max_examples=200)
@given(_logs)
def test_lists_and_verdicts_are_those_of_a_naive_model_after_every_event(events: list[Recorded]) -> None:
    model, folded = Model(), begin(inbox, HEADER)
    after: list[Lists] = []
    for event in events:
        model.take(event)
        folded = advance(inbox, folded, [event])
        fits(folded.state, model)
        after.append(folded.state.lists)
    assert [lists_at(folded.state, seq) for seq in range(len(events))] == after


@settings(max_examples=100)
@given(_logs)
def test_every_id_that_was_queued_has_exactly_one_verdict_and_a_chain(events: list[Recorded]) -> None:
    state = advance(inbox, begin(inbox, HEADER), events).state
    queued = {link.message for link in state.links if link.kind in ("inserted", "moved")}
    records = state.messages()
    assert len(records) == len(queued)
    assert {each.id for each in records} == queued
    assert [each.number for each in records] == list(range(len(records)))
    assert all(verdict(state, each) in VERDICTS for each in records)
    assert sum(tally(state).values()) == len(records)
    pending = {each.id for each in records if verdict(state, each) == "pending"}
    assert pending == {*state.lists.next_turn, *state.lists.next_step} - {""}
    assert [link.seq for link in state.links] == sorted(link.seq for link in state.links)
    for each in records:
        chain = [link.kind for link in state.links if link.message == each.id]
        assert chain[0] == "inserted"
        assert chain.count("inserted") == each.stays
        assert list(standings(state, each.id))


@settings(max_examples=100)
@given(_logs, st.data())
def test_a_fold_cut_anywhere_and_kept_as_a_checkpoint_goes_on_the_same(
    events: list[Recorded], data: st.DataObject
) -> None:
    whole = advance(inbox, begin(inbox, HEADER), events)
    cut = data.draw(st.integers(0, len(events)))
    before = advance(inbox, begin(inbox, HEADER), events[:cut])
    kept = inbox.load(inbox.dump(before.state))
    assert kept == before.state
    assert advance(inbox, Folded(kept, before.next_seq), events[cut:]) == whole


def _long(turns: int) -> list[Recorded]:
    """A log with so many turns, each with a message of its own."""
    return recorded(
        [
            happening
            for turn in range(turns)
            for happening in (
                (
                    "agent/inbox/spliced",
                    {"target": "next-turn", "start": 0, "inserted": [message(f"m{turn}")]},
                ),
                ("turn/start", {"turn": turn}),
                (
                    "agent/inbox/spliced",
                    {"target": "next-turn", "start": 0, "removedCount": 1, "inserted": []},
                ),
                ("user/message", message(f"m{turn}")),
                ("turn/end", {"turn": turn, "reason": {"kind": "completed"}}),
            )
        ]
    )


@example(512)
@settings(max_examples=5)
@given(st.integers(1, 300))
def test_what_is_live_stays_small_however_long_the_session(turns: int) -> None:
    state = advance(inbox, begin(inbox, HEADER), _long(turns)).state
    assert state.live == {}
    assert tally(state) == {"admitted": turns}
    for grown in (state.closed.runs, state.links.runs, state.splices.runs):
        assert len(grown) <= (5 * turns).bit_length()
