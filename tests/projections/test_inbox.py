from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from reference import cases, needs_shared, shared_path
from twins import Log, Twins, read_log, recorded_logs, twins

import playhead
from playhead.adapters.dsh.importer import import_paths
from playhead.eventstore import json_text, jsonl
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import Seq, SessionId
from playhead.eventstore.recorded import Recorded, Replace, SurfaceOp
from playhead.projections.folding import fold
from playhead.projections.inbox import (
    InboxState,
    Lists,
    inbox,
    lists_at,
    moments,
    reason,
    standings,
    tally,
    verdict,
)

Json = dict[str, Any]


def message(id: str, text: str = "text", **source: Any) -> Json:
    content = [{"type": "text", "text": text}]
    return {"id": id, "role": "user", "content": content, "source": source or {"kind": "user"}}


class Script:
    """Writes a log, one event each 10 ms."""

    def __init__(self, header: SessionHeader | None = None) -> None:
        self.header = header or SessionHeader(SessionId("s1"), 1)
        self.facts: list[Recorded] = []

    def add(self, type: str, data: Any, *, time_ms: int | None = None, op: SurfaceOp | None = None) -> Script:
        seq = Seq(len(self.facts))
        time = 10 * seq if time_ms is None else time_ms
        self.facts.append(Recorded(self.header.id, seq, time, type, json_text.dumps(data), op))
        return self

    def splice(self, target: str, start: int, removed: int = 0, *ids: str, **more: Any) -> Script:
        data: Json = {"target": target, "start": start, "inserted": [message(id) for id in ids], **more}
        if removed:
            data["removedCount"] = removed
        return self.add("agent/inbox/spliced", data)

    def queue(self, *ids: str, target: str = "next-turn", start: int = 0) -> Script:
        return self.splice(target, start, 0, *ids)

    def drop(self, removed: int = 1, *ids: str, target: str = "next-turn", start: int = 0) -> Script:
        return self.splice(target, start, removed, *ids, outcome="canceled")

    def claim(self, removed: int = 1, *, target: str = "next-turn", start: int = 0) -> Script:
        return self.splice(target, start, removed)

    def turn(self, number: int = 1) -> Script:
        return self.add("turn/start", {"turn": number})

    def end(self, kind: str = "completed", **more: Any) -> Script:
        return self.add("turn/end", {"turn": 1, "reason": {"kind": kind, **more}})

    def stop(self, by: str = "user") -> Script:
        return self.end("aborted", reason={"kind": by})

    def step(self, step: int = 1) -> Script:
        return self.add("step/start", {"turn": 1, "step": step})

    def step_end(self, step: int = 1) -> Script:
        return self.add("step/end", {"turn": 1, "step": step})

    def deliver(self, id: str) -> Script:
        return self.add("user/message", message(id), op="append")

    def fold(self, *, at: int | None = None, repaired: bool = False) -> InboxState:
        return fold(Log.of(self.facts, self.header), inbox, at=at, repaired=repaired).state


def fates(state: InboxState) -> dict[str, Any]:
    """Id -> (verdict, reason, detail); trailing parts that are None are left out."""
    found: dict[str, Any] = {}
    for each in state.messages():
        told = [verdict(state, each), reason(state, each), each.detail]
        while told[-1] is None:
            told.pop()
        found[each.id] = told[0] if len(told) == 1 else tuple(told)
    return found


def kinds(state: InboxState) -> list[str]:
    return [breach.kind for breach in state.breaches]


def links(state: InboxState, id: str) -> list[tuple[int, str]]:
    return [(link.seq, link.kind) for link in state.links if link.message == id]


# Verdicts


def test_a_message_that_entered_the_conversation_is_admitted() -> None:
    state = Script().queue("a").turn().claim().step().deliver("a").step_end().end().fold()
    (a,) = state.messages()
    assert fates(state) == {"a": "admitted"}
    assert (a.inserted_seq, a.claim and a.claim.seq, a.admitted_seq, a.waited_ms) == (0, 2, 4, 20)
    assert (a.claim and a.claim.turn, a.claim and a.claim.step) == (1, 1)
    assert links(state, "a") == [(0, "inserted"), (2, "claimed"), (4, "admitted")]
    assert not state.breaches


def test_a_message_whose_step_was_rejected_is_refused() -> None:
    state = Script().queue("a").turn().claim().end("blocked").fold()
    assert fates(state) == {"a": ("refused", "blocked")}
    assert links(state, "a")[-1] == (3, "refused")


@pytest.mark.parametrize(
    ("ending", "fate"),
    [
        ({"kind": "aborted", "reason": {"kind": "user"}}, ("lost", "aborted", "user")),
        ({"kind": "aborted", "reason": {"kind": "hook", "reason": "no"}}, ("lost", "aborted", "hook: no")),
        ({"kind": "aborted", "reason": {"kind": "legacy"}}, ("lost", "aborted", "legacy")),
        ({"kind": "error", "error": {"code": "UNKNOWN", "message": "m"}}, ("lost", "error", "UNKNOWN")),
        ({"kind": "interrupted"}, ("lost", "interrupted")),
        ({"kind": "completed"}, ("lost", "left-out", "completed")),
        ({"kind": "max-tokens"}, ("lost", "left-out", "max-tokens")),
        ({"kind": "eclipse"}, ("lost", "eclipse")),
        (None, ("lost", "unknown")),
    ],
)
def test_a_message_that_was_claimed_and_never_delivered_is_lost_by_the_end_of_its_turn(
    ending: Any, fate: Any
) -> None:
    state = Script().queue("a").turn().claim().add("turn/end", {"turn": 1, "reason": ending}).fold()
    assert fates(state) == {"a": fate}
    assert links(state, "a")[-1] == (3, "lost")


def test_a_message_that_a_step_went_on_without_was_left_out_however_the_turn_ends() -> None:
    script = Script().queue("a", "b").turn().claim().step().step_end().queue("s", target="next-step")
    state = script.claim(target="next-step").end("blocked").fold()
    assert fates(state) == {"a": ("lost", "left-out", "blocked"), "b": "pending", "s": ("refused", "blocked")}


def test_the_end_of_a_step_that_repair_wrote_is_no_proof_that_the_message_was_left_out() -> None:
    crashed = Script().queue("a").turn().claim().step()
    assert fates(crashed.fold()) == {"a": "open"}
    assert fates(crashed.fold(repaired=True)) == {"a": ("lost", "interrupted")}
    assert fates(crashed.step_end().end("interrupted").fold()) == {"a": ("lost", "interrupted")}


@pytest.mark.parametrize("type", ["turn/start", "session/end-seed"])
def test_a_turn_without_an_end_was_interrupted_by_what_follows(type: str) -> None:
    state = Script().queue("a").turn().claim().add(type, {"turn": 2}).fold()
    assert fates(state) == {"a": ("lost", "interrupted")}


def test_claims_from_both_lists_wait_for_their_delivery_in_order() -> None:
    script = Script().queue("p", "q").queue("s", target="next-step").turn()
    script.claim(target="next-step").claim().step().deliver("s").deliver("p").step_end().end()
    state = script.fold()
    assert fates(state) == {"p": "admitted", "q": "pending", "s": "admitted"}
    assert state.lists == Lists(("q",))


def test_a_claim_between_steps_names_the_step_it_is_for() -> None:
    script = Script().queue("a").turn().claim().step().deliver("a").queue("s", target="next-step")
    state = script.step_end().claim(target="next-step").step(2).deliver("s").step_end(2).end().fold()
    s = state.message("s")
    assert s is not None
    assert s.claim is not None
    assert (s.claim.turn, s.claim.step, s.claim.place) == (1, 2, 0)


def test_a_message_taken_out_of_its_list_is_removed_cleared_or_stopped() -> None:
    while_others_stay = Script().queue("a", "b").drop()
    assert fates(while_others_stay.fold()) == {"a": ("cancelled", "removed"), "b": "pending"}
    everything = Script().queue("a").queue("s", target="next-step").drop(target="next-step").drop()
    assert fates(everything.fold()) == {"a": ("cancelled", "cleared"), "s": ("cancelled", "cleared")}
    script = Script().turn().queue("a").queue("s", target="next-step").drop(target="next-step").drop()
    assert fates(script.stop().fold()) == {
        "a": ("cancelled", "stopped", "user"),
        "s": ("cancelled", "stopped", "user"),
    }
    assert fates(script.stop().fold(at=4)) == {"a": ("cancelled", "cleared"), "s": ("cancelled", "cleared")}


def test_a_list_that_was_emptied_earlier_does_not_go_with_the_other() -> None:
    script = Script().queue("a").queue("s", target="next-step").drop(target="next-step")
    state = script.add("feedback/record", {"text": "hm"}).drop().fold()
    assert fates(state) == {"a": ("cancelled", "cleared"), "s": ("cancelled", "removed")}


def test_what_is_put_in_the_place_of_another_replaces_it() -> None:
    state = Script().queue("a", "b", "c").drop(1, "B", start=1).fold()
    b, replacement = state.message("b"), state.message("B")
    assert state.lists == Lists(("a", "B", "c"))
    assert b is not None
    assert replacement is not None
    assert (verdict(state, b), b.replaced_by, replacement.replaces) == ("replaced", "B", ("b",))
    assert [(link.kind, link.other) for link in state.links if link.seq == 1] == [
        ("replaced", "B"),
        ("inserted", "b"),
    ]


@pytest.mark.parametrize(
    ("removed", "new", "pairs"),
    [
        (2, ("x", "y"), {"a": "x", "b": "y"}),
        (3, ("x",), {"a": "x", "b": "x", "c": "x"}),
        (3, ("x", "y"), {"a": "x", "b": "y", "c": "y"}),
        (1, ("x", "y"), {"a": "x"}),
    ],
)
def test_several_are_replaced_in_their_order(removed: int, new: tuple[str, ...], pairs: Json) -> None:
    state = Script().queue("a", "b", "c").drop(removed, *new).fold()
    assert {each.id: each.replaced_by for each in state.messages() if each.replaced_by} == pairs


def test_a_message_that_comes_back_by_the_same_splice_was_moved_or_edited() -> None:
    moved = Script().queue("a", "b").drop(2, "b", "a").fold()
    assert fates(moved) == {"a": "pending", "b": "pending"}
    assert links(moved, "a") == [(0, "inserted"), (1, "moved")]
    data = {"target": "next-turn", "start": 0, "removedCount": 1, "inserted": [message("a", "better")]}
    edited = Script().queue("a").add("agent/inbox/spliced", data | {"outcome": "canceled"}).fold()
    assert links(edited, "a") == [(0, "inserted"), (1, "edited")]
    assert [each.text for each in edited.messages()] == ["better"]
    assert [each.stays for each in edited.messages()] == [1]


def test_a_message_that_goes_to_the_other_list_was_moved_and_keeps_waiting_since_its_insertion() -> None:
    script = Script().queue("a", target="next-step").queue("b").drop(target="next-step")
    state = script.queue("a", start=1).turn().claim(1, start=1).step().deliver("a").fold()
    a = state.message("a")
    assert a is not None
    assert (a.stays, a.target, a.waited_ms) == (1, "next-turn", 50)
    assert links(state, "a") == [
        (0, "inserted"),
        (2, "cancelled"),
        (3, "moved"),
        (5, "claimed"),
        (7, "admitted"),
    ]


def test_a_message_that_is_queued_again_after_its_end_has_another_stay_and_the_last_verdict_counts() -> None:
    script = Script().queue("a").drop().queue("a").turn().claim().stop().queue("a")
    state = script.fold()
    assert fates(state) == {"a": "pending"}
    assert [each.stays for each in state.messages()] == [3]
    assert links(state, "a") == [
        (0, "inserted"),
        (1, "cancelled"),
        (2, "inserted"),
        (4, "claimed"),
        (5, "lost"),
        (6, "inserted"),
    ]
    assert fates(script.fold(at=5)) == {"a": ("lost", "aborted", "user")}


def test_a_claimed_message_that_is_put_back_begins_another_stay() -> None:
    state = Script().queue("a").turn().claim().queue("a").stop().fold()
    assert fates(state) == {"a": "pending"}
    assert state.lists == Lists(("a",))


def test_waiting_time_is_unknown_when_the_clock_ran_back() -> None:
    script = Script().add(
        "agent/inbox/spliced",
        {"target": "next-turn", "start": 0, "inserted": [message("a")]},
        time_ms=1_000_000,
    )
    (a,) = script.turn().claim().step().deliver("a").fold().messages()
    assert a.claim is not None
    assert a.waited_ms is None


def test_places_over_time_name_each_change() -> None:
    script = Script().queue("a").queue("b", start=1).queue("c").drop(start=0).turn().claim()
    found = [(each.seq, each.place, each.of) for each in standings(script.fold(), "b")]
    assert found == [(1, 1, 2), (2, 2, 3), (3, 1, 2), (5, 0, 1)]


# What never was in a list, and what was in another session's


def test_messages_past_the_inbox_are_counted_by_their_source() -> None:
    snapshot = message("x", kind="runtime-context", form="snapshot")
    script = Script().add("user/message", snapshot, op="append")
    summary = message("y", kind="plugin", plugin="compact")
    state = script.add("user/message", summary, op=Replace(Seq(0), Seq(0))).fold()
    assert state.outside == {"runtime context": 1, "compaction checkpoint": 1}
    assert state.messages() == []


def test_a_rewritten_message_on_the_surface_is_no_second_delivery() -> None:
    script = Script().queue("a").turn().claim().step().deliver("a")
    state = script.add("user/message", message("a"), op=Replace(Seq(4), Seq(4))).fold()
    assert not state.breaches
    assert fates(state) == {"a": "admitted"}


def test_a_fork_of_early_formats_starts_behind_the_inherited_events() -> None:
    header = SessionHeader(SessionId("s1"), 1, seed_length=2)
    state = Script(header).queue("p").turn().queue("own").fold()
    assert fates(state) == {"own": "pending"}
    assert (state.inherited.splices, state.inherited.messages) == (1, 1)


def test_a_fork_of_a_fork_of_later_formats_starts_behind_the_last_marker() -> None:
    header = SessionHeader(SessionId("s1"), 1, version=4, is_seeded=True)
    script = Script(header).queue("p").turn().add("session/end-seed", {"inherited": True})
    script.queue("parents-own").add("session/end-seed", {"inherited": True}).queue("own")
    script.add("session/end-seed", {})
    assert fates(script.fold()) == {"own": "pending"}
    assert script.fold().inherited.splices == 2
    assert fates(script.fold(at=3)) == {"parents-own": "pending"}
    assert fates(script.fold(at=1)) == {}


def test_a_marker_in_a_log_that_inherited_nothing_means_nothing() -> None:
    header = SessionHeader(SessionId("s1"), 1, version=4, is_seeded=False)
    assert fates(Script(header).queue("a").add("session/end-seed", {"inherited": True}).fold()) == {
        "a": "pending"
    }


# Logs that break the rules


def test_a_message_the_log_does_not_show_keeps_its_place_until_it_is_claimed() -> None:
    script = Script().queue("b", start=1).turn().claim().step().deliver("a").step_end().end()
    state = script.fold()
    assert kinds(state) == ["invalid-splice"]
    assert fates(state) == {"b": "pending"}
    assert state.outside == {"user": 1}
    assert lists_at(state, 0) == Lists(("", "b"))
    assert state.lists == Lists(("b",))


def test_a_duplicate_keeps_its_place_and_the_message_its_own() -> None:
    state = Script().queue("a", "b").queue("a", target="next-step").fold()
    assert kinds(state) == ["duplicate-pending-id"]
    assert state.lists == Lists(("a", "b"), ("",))
    assert fates(state) == {"a": "pending", "b": "pending"}


def test_a_claim_outside_of_any_turn_is_lost_unless_it_is_delivered() -> None:
    script = Script().queue("a", "b").claim(2)
    assert kinds(script.fold()) == ["claim-outside-turn"]
    assert fates(script.fold()) == {"a": ("lost", "outside-turn"), "b": ("lost", "outside-turn")}
    state = script.turn().step().deliver("a").step_end().fold()
    assert fates(state) == {"a": "admitted", "b": "open"}
    assert fates(script.end().fold()) == {"a": "admitted", "b": ("lost", "left-out", "completed")}


def test_a_claim_while_a_step_runs_is_a_breach() -> None:
    state = Script().turn().step().queue("s", target="next-step").claim(target="next-step").fold()
    assert kinds(state) == ["claim-inside-step"]


def test_a_delivery_that_nobody_claimed_is_a_breach_and_the_message_still_waits() -> None:
    script = Script().queue("a").turn().step().deliver("a")
    state = script.fold()
    assert kinds(state) == ["delivered-unclaimed"]
    assert fates(state) == {"a": "pending"}
    assert fates(script.step_end().end().turn(2).claim().end().fold()) == {"a": "admitted"}


def test_a_late_delivery_is_a_breach_and_the_message_is_admitted() -> None:
    state = Script().queue("a").turn().claim().stop().turn(2).step().deliver("a").fold()
    assert kinds(state) == ["delivered-late"]
    assert fates(state) == {"a": "admitted"}


def test_a_second_delivery_is_a_breach_and_the_first_one_counts() -> None:
    state = Script().queue("a").turn().claim().step().deliver("a").deliver("a").fold()
    assert kinds(state) == ["delivered-twice"]
    assert [each.admitted_seq for each in state.messages()] == [4]


def test_a_message_with_half_a_surrogate_pair_survives_a_checkpoint() -> None:
    state = Script().queue("a\ud83d").fold()
    assert inbox.load(inbox.dump(state)) == state


# Reference material


@pytest.mark.parametrize("case", cases("inbox_splices", "folds"))
def test_folds_of_the_vectors(case: Json) -> None:
    script = Script(SessionHeader(SessionId("s1"), 1, seed_length=case["seedLength"]))
    for event in case["events"]:
        script.add(event["type"], event["data"])
    state, expect = script.fold(), case["expect"]
    impossible = [breach for breach in state.breaches if not breach.kind.startswith("claim-")]
    if "lists" in expect:
        assert not impossible
        assert {target: list(state.lists.of(target)) for target in expect["lists"]} == expect["lists"]
    else:
        assert (impossible[0].kind, impossible[0].seq) == (expect["cause"], expect["error_at_seq"])


@pytest.mark.parametrize("case", cases("corpus_folds", "logs"))
def test_lists_of_recorded_logs_agree_with_the_original_implementation(case: Json) -> None:
    state = fold(read_log(shared_path(case["corpus"])), inbox).state
    found = [[applied.seq, list(lists.next_turn), list(lists.next_step)] for applied, lists in moments(state)]
    assert found == case["inbox_splices"]
    lists = {"next-turn": list(state.lists.next_turn), "next-step": list(state.lists.next_step)}
    assert lists == case["inbox"]
    assert not state.breaches


def comparable(state: InboxState) -> Any:
    """All that a log and its migrated form must agree on: everything but seqs."""
    records = [
        (
            each.id,
            verdict(state, each),
            reason(state, each),
            each.detail,
            each.source,
            each.source_kind,
            each.text,
            each.target,
            each.place,
            each.stays,
            each.inserted_ms,
            each.claim and (each.claim.time_ms, each.claim.turn, each.claim.step, each.claim.place),
            each.waited_ms,
            each.ended_ms,
            each.replaced_by,
        )
        for each in state.messages()
    ]
    chains = [
        (link.time_ms, link.message, link.kind, link.target, link.place, link.turn, link.step, link.other)
        for link in state.links
    ]
    lists = [(applied.time_ms, lists) for applied, lists in moments(state)]
    return records, chains, lists, state.outside, state.inherited, kinds(state)


@pytest.mark.parametrize("pair", twins())
def test_a_log_and_its_migrated_twin_tell_the_same(pair: Twins) -> None:
    older = fold(pair.source, inbox, repaired=True).state
    newer = fold(pair.migrated, inbox).state
    assert comparable(older) == comparable(newer)


@needs_shared
def test_recorded_logs_break_no_rule_and_give_every_message_one_verdict() -> None:
    found: Counter[str] = Counter()
    for parameter in recorded_logs():
        state = fold(read_log(parameter.values[0]), inbox).state
        assert state.breaches == (), parameter.id
        found.update(tally(state))
    assert found == {"admitted": 845, "pending": 6, "cancelled": 3, "lost": 2, "open": 1}


@needs_shared
def test_verdicts_of_the_whole_prefixes_of_recorded_logs_are_as_many_as_were_counted() -> None:
    """Read strictly, up to the first damage, the log whose id somebody changed included."""
    found: Counter[str] = Counter()
    wrong_id = "0.2.1rc2/edited-wrong-id/before/sessions/--tmp-ws--/s-raw/session.v4.jsonl"
    for path in [
        *(parameter.values[0] for parameter in recorded_logs()),
        shared_path(f"corpus/dsh/{wrong_id}"),
    ]:
        decoded = _decoded(path)
        header = SessionHeader.parse(decoded.partition(b"\n")[0])
        found.update(tally(fold(Log.of(jsonl.scan(decoded, header.id).facts, header), inbox).state))
    assert found == {"admitted": 841, "pending": 6, "cancelled": 3, "lost": 2, "open": 4}
    assert sum(found.values()) == 856


def _decoded(path: Path) -> bytes:
    with playhead.open_store("sqlite://") as store:
        import_paths(store, [path])
        (file,) = store.files()
        return path.read_bytes() if file.refused else b"".join(store.decoded(file))


@needs_shared
def test_what_a_repaired_view_makes_of_open_messages_is_lost() -> None:
    crashed = "0.1.5rc1/crash-raw/before-torn/sessions/--tmp-ws--/s-crash-raw/session.v3.jsonl"
    log = read_log(shared_path(f"corpus/dsh/{crashed}"))
    assert tally(fold(log, inbox).state)["open"] == 1
    assert tally(fold(log, inbox, repaired=True).state)["lost"] == 1


def case(name: str) -> tuple[Log, Json]:
    expected = json_text.parse(shared_path(f"cases/{name}/expected.json").read_bytes())
    return read_log(shared_path(f"cases/{name}/log.jsonl")), expected


@needs_shared
def test_17_stop_keeps_the_queue_and_says_what_was_dropped() -> None:
    log, expected = case("17-stop-keeps-the-queue")
    state = fold(log, inbox).state
    assert {target: list(state.lists.of(target)) for target in expected["inbox"]} == expected["inbox"]
    after = {0: ("m-0001",), 2: (), 5: ("q-0002",), 6: ("q-0002", "q-0003"), 7: ("q-0002", "q-0003")}
    after |= {8: ("q-0001", "q-0002", "q-0003"), 9: ("q-0001", "q-0002", "q-0004")}
    after |= {11: ("q-0001", "q-0002", "q-0004")}
    assert {applied.seq: lists.next_turn for applied, lists in moments(state)} == after
    waiting = {applied.seq for applied, lists in moments(state) if lists.next_step}
    assert waiting == {7, 8, 9}
    assert fates(state) == {
        "m-0001": "admitted",
        "s-0001": ("cancelled", "removed"),
        "q-0003": "replaced",
        "q-0001": "pending",
        "q-0002": "pending",
        "q-0004": "pending",
    }
    replaced = state.message("q-0003")
    assert replaced is not None
    assert replaced.replaced_by == "q-0004"
    assert fates(fold(log, inbox, repaired=True).state) == fates(state)


@needs_shared
def test_18_a_message_that_was_taken_and_never_delivered_is_told() -> None:
    log, expected = case("18-taken-but-never-delivered")
    state = fold(log, inbox).state
    lost = [each for each in state.messages() if verdict(state, each) == "lost"]
    assert [{"id": each.id, "claim_seq": each.claim and each.claim.seq} for each in lost] == expected[
        "claimed_never_delivered"
    ]
    assert {target: list(state.lists.of(target)) for target in expected["inbox"]} == expected["inbox"]
    assert fates(state)["m-0001"] == "admitted"
    assert fates(state)["s-0001"] == ("lost", "aborted", "user")


@needs_shared
def test_19_a_round_that_was_queued_and_never_admitted_is_pending() -> None:
    log, expected = case("19-goal-pause-edit-resume")
    state = fold(log, inbox).state
    assert [id for id, fate in fates(state).items() if fate == "pending"] == expected["pending"]
