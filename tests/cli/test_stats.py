"""``playhead stats``: figures of one session and of a store, and what is not known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cli_runner import Play
from reference import shared_path

from playhead.cli import output
from playhead.eventstore import json_text
from playhead.eventstore.sql.sql_session import SqlSession

CASE = "cases/15-usage-stands-three-times"
SESSIONS = Path(__file__).resolve().parents[2] / "examples" / "sessions"
PLACE = {"turn": 1, "step": 1}
FAILURE = {"message": "busy", "code": "SERVER"}


def overview(rows: list[list[str]]) -> dict[str, tuple[str, str]]:
    return {name: (value, remark) for name, value, remark in rows}


def write(folder: Path, id: str, *events: dict[str, Any], **header: Any) -> Path:
    told = {"type": "session", "version": 0, "id": id, "createdAt": 1, "delegationDepth": 0} | header
    placed = [{"seq": seq, "time": 1000 * seq, **event} for seq, event in enumerate(events)]
    file = folder / f"{id}.jsonl"
    file.write_bytes(b"".join(json_text.dumps(line) + b"\n" for line in (told, *placed)))
    return file


def chunk(**chunk: Any) -> dict[str, Any]:
    return {"type": "assistant/chunk", "data": {**PLACE, "chunk": chunk}}


LOG: list[dict[str, Any]] = [
    {"type": "turn/start", "data": {"turn": 1}},
    {"type": "step/start", "data": PLACE},
    {"type": "request/header", "data": {"header": {"config": {"provider": "p", "model": "m"}}}},
    chunk(type="finish", reason={"kind": "error", "failure": FAILURE}),
    {"type": "llm/retry", "data": {"retryId": "r", **PLACE, "retry": 1, "delayMs": 1000, "failure": FAILURE}},
    {"type": "llm/retry-started", "data": {"retryId": "r", **PLACE, "retry": 1}},
    chunk(type="text-delta", index=0, text="x"),
    chunk(type="usage", usage={"inputTokens": 1200, "outputTokens": 30, "cacheWriteTokens": 5}),
    chunk(type="finish", reason={"kind": "stop"}),
    {"type": "tool/call", "data": {**PLACE, "callId": "c", "name": "bash", "arguments": "{}"}},
    {
        "type": "tool/result",
        "data": {**PLACE, "message": {"source": {"kind": "tool", "callId": "c"}}, "error": {"code": "X"}},
        "surfaceOp": "append",
    },
    {"type": "step/end", "data": PLACE},
    {"type": "turn/end", "data": {"turn": 1, "reason": {"kind": "completed"}}},
]


def test_the_figures_of_a_session_are_one_a_line(play: Play, tmp_path: Path) -> None:
    ran = play("stats", write(tmp_path, "s1", *LOG))
    assert ran.code == 0
    found = overview(ran.rows)
    assert (found["turns"][0], found["steps"][0]) == ("1", "1")
    assert found["model calls"] == ("2", "1 failed, 1 finished")
    assert found["failed"] == ("1", "1 SERVER")
    assert found["made again"] == ("1", "after waits of 1.0 s in all")
    assert found["input, not cached"] == ("1200", "")
    assert found["input from cache"] == ("-", "")
    assert found["billed input"][0] == "1205"
    assert found["calls without usage"][0] == "1"
    assert found["model time"] == ("5000 ms", "")
    assert found["tool calls"] == ("1", "1 bash")
    assert found["with an error"] == ("1", "1 bash")


def test_the_speed_of_an_answer_has_no_wait_before_a_retry_in_it(play: Play, tmp_path: Path) -> None:
    streamed = [*LOG[:3], chunk(type="text-delta", index=0, text="lost"), *LOG[3:]]
    for log, calls, first_ms in ((LOG, "1 call", 1000), (streamed, "2 calls", 1500)):
        found = overview(play("stats", write(tmp_path, "s1", *log)).rows)
        assert found["to first token"] == (f"{first_ms} ms", f"on average of {calls}")
        assert found["tokens a second"] == ("15.0", "from the first token to the end")
    found = play("stats", write(tmp_path, "s1", *streamed), "--json").json
    assert found["callSpeed"] == {"calls": 2, "firstTokenMs": 3000, "decodeMs": 2000, "decodeTokens": 30}
    assert found["speed"]["ttftSteps"] == 0, "as the runtimes have it: this step has no message"


def test_the_speed_of_the_calls_is_the_same_in_every_format(play: Play) -> None:
    speeds = [
        play("stats", file, "--json").json["callSpeed"]
        for file in sorted(SESSIONS.glob("*/*/session*.jsonl*"))
    ]
    assert len(speeds) == 8
    assert speeds == [speeds[0]] * 8
    assert speeds[0]["calls"] > 1
    assert speeds[0]["decodeMs"] > 0


def test_a_span_over_which_the_clock_ran_back_is_in_no_speed(play: Play, tmp_path: Path) -> None:
    early = {**chunk(type="text-delta", index=0, text="x"), "time": 10}
    found = play("stats", write(tmp_path, "s1", *LOG[:2], early, *LOG[8:]), "--json").json
    assert found["callSpeed"] == {"calls": 0, "firstTokenMs": 0, "decodeMs": 0, "decodeTokens": 0}
    assert "to first token" not in overview(play("stats", tmp_path / "s1.jsonl").rows)


def test_json_says_null_for_what_nobody_reported_and_who_reported_the_rest(
    play: Play, tmp_path: Path
) -> None:
    found = play("stats", write(tmp_path, "s1", *LOG), "--json").json
    total = found["total"]
    assert (total["calls"], total["withoutUsage"], total["retries"]) == (2, 1, 1)
    assert (total["input"], total["cacheRead"], total["cacheWrite"]) == (1200, None, 5)
    assert (total["reportedBy"]["input"], total["reportedBy"]["cacheRead"]) == (1, 0)
    assert total["failures"] == {"SERVER": 1}
    assert "cost" not in total
    assert found["tools"] == [
        {"tool": "bash", "calls": 1, "answered": 1, "errors": 1, "totalMs": 1000, "longestMs": 1000}
    ]


def test_usage_that_stands_three_times_costs_what_it_cost_once(play: Play) -> None:
    expected = json.loads(Path(shared_path(f"{CASE}/expected.json")).read_bytes())
    log, prices = shared_path(f"{CASE}/log.jsonl"), shared_path(f"{CASE}/prices.json")
    total = play("stats", log, "--prices", prices, "--json").json["total"]
    assert (total["cost"], total["callsWithoutPrice"]) == (expected["cost"], 0)
    assert overview(play("stats", log, "--prices", prices).rows)["cost"] == (expected["cost"], "")


def test_what_a_fork_inherited_is_told_apart(play: Play, tmp_path: Path) -> None:
    parent = write(tmp_path, "s1", *LOG)
    child = write(tmp_path, "s2", *LOG, *LOG, seedLength=len(LOG), parentSession="s1")
    found = play("stats", child, "--json").json
    assert (found["total"]["calls"], found["inherited"]["calls"]) == (2, 2)
    assert found["tools"][0]["calls"] == 1
    assert overview(play("stats", child).rows)["inherited calls"][0] == "2"
    assert play("import", parent, child).code == 0
    whole = play("stats", "--json").json
    assert (whole["sessions"], whole["total"]["calls"], whole["inherited"]["calls"]) == (2, 4, 2)


def test_a_store_is_the_sum_of_its_sessions_whatever_their_format(full: Play) -> None:
    each = full("stats", "plain-v0", "--json").json["total"]
    ran = full("stats", "--json")
    assert ran.code == 1
    assert ran.err.startswith("playhead: torn-v0: damaged: ")
    whole = ran.json
    assert [finding["session"] for finding in whole["damaged"]] == ["torn-v0"]
    number = whole["sessions"]
    assert number > 5
    for figure in ("turns", "steps", "calls", "input", "output", "modelMs"):
        assert whole["total"][figure] == number * each[figure]
    assert full("stats", "--strict").out == b""


@pytest.mark.parametrize(
    ("by", "members"), [("model", {"model", "provider"}), ("day", {"day"}), ("session", {"session"})]
)
def test_groups_add_up_to_the_whole(full: Play, by: str, members: set[str]) -> None:
    found = full("stats", "--by", by, "--json").json
    assert found["by"] == by
    assert all(members < set(group) for group in found["groups"])
    for figure in ("calls", "input", "output", "modelMs", "steps"):
        assert sum(group[figure] for group in found["groups"]) == found["total"][figure]
    rows = full("stats", "--by", by).rows
    assert sum(int(row[1]) for row in rows) == found["total"]["calls"]
    assert all(len(row) == 13 for row in rows)


def test_tools_are_told_by_name(full: Play) -> None:
    (row,) = full("stats", "--by", "tool").rows
    assert (row[0], row[2], row[3]) == ("bash", "0", "0")


def test_at_an_earlier_event_less_had_happened(play: Play, tmp_path: Path) -> None:
    log = write(tmp_path, "s1", *LOG)
    at_failure = play("stats", log, "--at", 3, "--json").json["total"]
    assert (at_failure["calls"], at_failure["outcomes"]) == (1, {"failed": 1})
    at_start = play("stats", log, "--at", 1, "--json").json["total"]
    assert (at_start["calls"], at_start["unanswered"]) == (0, 1)
    assert play("stats", log, "--at", len(LOG)).code == 2


def test_an_unknown_event_makes_the_figures_incomplete_unless_somebody_knows_better(
    play: Play, tmp_path: Path
) -> None:
    log = write(tmp_path, "s1", *LOG, {"type": "x/new", "data": {}})
    ran = play("stats", log)
    assert ran.code == 1
    assert "interpretation incomplete: unknown event type x/new, first at seq 13" in ran.err
    assert play("stats", log, "--ignorable", "x/new").code == 0
    assert play("stats", log, "--strict").out == b""


QUESTIONS: list[list[object]] = [
    [],
    ["--json"],
    *(["--by", by, "--json"] for by in ("model", "day", "session", "tool")),
    ["--strict"],
    ["--strict", "--ignorable", "x/new"],
    ["--ignorable", "x/new", "--json"],
    ["s1", "--json"],
    ["s1", "--at", len(LOG) - 1, "--json"],
    ["s1", "--at", len(LOG) + 1, "--json"],
    ["torn-v0", "--json"],
]


def test_checkpoints_change_no_figure_and_what_they_hold_is_not_read_again(
    full: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answers() -> list[tuple[int, bytes, str]]:
        return [(ran.code, ran.out, ran.err) for ran in (full("stats", *words) for words in QUESTIONS)]

    def reads() -> dict[str, set[int]]:
        seen: dict[str, set[int]] = {}
        events = SqlSession.events

        def told(session: SqlSession, from_seq: int = 0, to_seq: int | None = None, **more: Any) -> Any:
            seen.setdefault(session.id, set()).add(from_seq)
            return events(session, from_seq, to_seq, **more)

        with monkeypatch.context() as patched:
            patched.setattr(SqlSession, "events", told)
            full("stats")
        return seen

    log, new = tmp_path / "s1.jsonl", {"type": "x/new", "data": {}}
    assert full("import", write(tmp_path, "s1", *LOG, new)).code == 0
    before, later = answers(), len(LOG) + 1
    assert reads()["s1"] == {0}
    for names in (["attempts"], ["attempts", "tool-use"]):
        assert full("project", *names).code == 1, "there is an unknown type"
        assert answers() == before
    assert reads()["s1"] == {later}
    assert full("import", write(tmp_path, "s1", *LOG, new, *LOG)).code == 0
    kept = answers()
    assert kept != before
    assert reads()["s1"] == {later}
    full("project", "attempts", "tool-use", "--rebuild")
    assert answers() == kept
    (tmp_path / "store.sqlite").unlink()
    assert full("import", tmp_path / "dsh-home", log).code == 1
    assert answers() == kept, "as if there had never been a checkpoint"


@pytest.mark.parametrize(
    "words", [["--at", "1"], ["--generation", "1"], ["s1", "--by", "tool", "--prices", "f"], ["--by", "moon"]]
)
def test_options_that_do_not_go_together_are_refused(full: Play, words: list[str]) -> None:
    assert full("stats", *words).code == 2


def test_on_a_terminal_figures_are_aligned_and_lines_fit(
    full: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert full("import", write(tmp_path, "s1", *LOG)).code == 0
    monkeypatch.setattr(output, "on_terminal", lambda: True)
    lines = full("stats", "s1").lines
    assert lines[0].startswith("s1  ")
    assert any(line.startswith("input, not cached") and "1,200" in line for line in lines)
    by = full("stats", "--by", "session").lines
    assert by[0].split() == ["CALLS", "FAILED", "INPUT", "CACHED", "WRITTEN", "OUTPUT", "TIME", "SESSION"]
    one = next(line for line in by if line.endswith("  s1"))
    assert one.split()[:6] == ["2", "1", "≥1,200", "-", "≥5", "≥30"]
    assert by[-2].split()[-1] == "all"
    assert by[-1].startswith("≥ at least so much")
    assert full("stats", "--by", "tool").lines[0].split()[0] == "CALLS"
    assert all(len(line) <= 100 for line in (*lines, *by))
