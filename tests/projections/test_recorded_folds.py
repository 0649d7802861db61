"""What the original implementation folds 62 recorded logs to, all parts of a log together.

Each log is read once, as anybody would read it, and every part of the expectation is derived from that one reading:
the events themselves, what the model sees, the pending lists, goals, figures, and what a repair would add. Model calls
have a test of their own in ``test_attempts.py``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from reference import cases, shared_path
from twins import Log, read_log

from playhead.eventstore import invariants, json_text, repair
from playhead.eventstore.ids import SessionId
from playhead.eventstore.recorded import Recorded
from playhead.projections.folding import advance, begin, fold
from playhead.projections.goal import goal
from playhead.projections.inbox import inbox, moments
from playhead.projections.requests import request_before
from playhead.projections.session_list import session_list
from playhead.projections.session_stats import session_stats
from playhead.projections.surface import messages, surface
from playhead.projections.todos import todos
from playhead.projections.usage import session_tokens, usage

Json = dict[str, Any]

OF_CALLS = {"attempts"}
"""Parts that are compared elsewhere."""

OF_THE_FILE = {"corpus", "ranged_sources"}


def sha256(text: str) -> str:
    """The hash of UTF-8 in which split pairs are joined and a lone surrogate is three bytes."""
    return hashlib.sha256(json_text.whole(text).encode("utf-8", "surrogatepass")).hexdigest()


def all_text(blocks: list[Json]) -> str:
    """Every text block, those inside tool results among them."""
    return "".join(
        all_text(block["content"]) if block["type"] == "tool-result" else block.get("text", "")
        for block in blocks
        if block["type"] in ("text", "tool-result")
    )


def block_hash(block: Json) -> str:
    if block["type"] == "tool-call":
        return sha256("\0".join(("tool-call", block["id"], block["name"], block["arguments"])))
    return sha256(f"{block['type']}\0{block['text']}")


def message(seq: int, found: Json) -> Json:
    content = found["content"]
    told = {
        "seq": seq,
        "id": found["id"],
        "role": found["role"],
        "source": found["source"]["kind"],
        "text_sha256": sha256(all_text(content)),
    }
    if found["role"] == "assistant":
        told["blocks_sha256"] = sha256("\n".join(map(block_hash, content)))
        calls = [block for block in content if block["type"] == "tool-call"]
        if calls:
            told["tool_calls"] = [[call["id"], call["name"], sha256(call["arguments"])] for call in calls]
    if found["source"]["kind"] == "tool":
        told["tool_result"] = [content[0]["toolCallId"], content[0].get("isError", False)]
    return told


def spine(log: Log) -> str:
    return sha256("".join(f"{event.seq} {event.time_ms} {event.type}\n" for event in log.facts))


def chunks(log: Log) -> str:
    lines = []
    for event in log.facts:
        if event.type == "assistant/chunk":
            chunk = event.json["chunk"]
            said = chunk.get("text", chunk.get("argumentsDelta", ""))
            lines.append(f"{event.seq}\0{chunk['type']}\0{said}\n")
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogatepass")).hexdigest()


def goal_trace(log: Log) -> Iterator[list[Any]]:
    folded = begin(goal, log.header)
    for event in log.events(deltas=False):
        before, folded = folded, advance(goal, folded, [event])
        standing = folded.state.standing
        if standing != before.state.standing:
            now = standing.goal
            phase, revision = (None, standing.last_revision) if now is None else (now.phase, now.revision)
            yield [event.seq, phase, revision, standing.rounds]


def last_goal(log: Log) -> Json | None:
    standing = fold(log, goal).state.standing
    now = standing.goal
    if now is None:
        return None
    told: Json = {
        "id": now.id,
        "revision": now.revision,
        "objective": now.objective,
        "phase": now.phase,
        "maxGoalRounds": now.max_rounds,
    }
    if now.blocked is not None:
        said = now.blocked.message
        units = len(said.encode("utf-16-le")) // 2
        told["blockedReason"] = {
            "code": now.blocked.code,
            "message": {"sha256": sha256(said), "units": units},
        }
    return {
        "goal": told,
        "roundsStarted": standing.rounds,
        "createdAt": standing.created_ms,
        "updatedAt": standing.updated_ms,
        "lastRef": {"id": standing.last_id, "revision": standing.last_revision},
    }


def closer(event: Recorded) -> Json:
    data = event.json
    told: Json = {"type": event.type, "seq": event.seq, "time": event.time_ms, "turn": data["turn"]}
    if event.type == "turn/end":
        return told | {"reason": data["reason"]}
    told["step"] = data["step"]
    if event.type == "tool/result":
        told["message_id"] = data["message"]["id"]
        told["call_id"] = data["message"]["source"]["callId"]
        told["error"] = data["error"]
        if event.source_seqs is not None:
            told["source_seqs"] = list(event.source_seqs)
    return told


def finding(found: invariants.Violation) -> Json:
    return {"owner": found.owner, "rule": found.rule, "seq": found.seq}


@pytest.mark.parametrize("case", cases("corpus_folds", "logs"))
def test_a_recorded_log_folds_to_what_the_original_folds_it_to(case: Json) -> None:
    path: Path = shared_path(case["corpus"])
    log = read_log(path)
    seen, pending = fold(log, surface).state, fold(log, inbox).state
    request = request_before(log, len(log.facts))
    produced = {
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "events": len(log.facts),
        "spine_sha256": spine(log),
        "chunks_sha256": chunks(log),
        "surface": seen.seqs,
        "replace_generation": seen.generation,
        "messages": [message(seq, found) for seq, found in messages(log, seen)],
        "inbox": {
            "next-turn": list(pending.lists.next_turn),
            "next-step": list(pending.lists.next_step),
        },
        "inbox_splices": [
            [applied.seq, list(lists.next_turn), list(lists.next_step)] for applied, lists in moments(pending)
        ],
        "goal": last_goal(log),
        "goal_trace": list(goal_trace(log)),
        "title": fold(log, session_list).state.title,
        "todos": todos.view(fold(log, todos).state),
        "stats": session_stats.view(fold(log, session_stats).state),
        "token_usage": session_tokens(fold(log, usage).state),
        "request": {
            "config": request.config,
            "system_sha256": sha256(request.system or ""),
            "tools": [tool["name"] for tool in request.tools or ()],
        },
        "closers": [closer(event) for event in repair.closers(log.facts)],
        "findings": [
            finding(found) for found in invariants.check(log.facts, seed_length=log.header.seed_length or 0)
        ],
    }
    if "surface_after_repair" in case:
        produced["surface_after_repair"] = fold(log, surface, repaired=True).state.seqs
    for name, value in produced.items():
        assert value == case[name], name
    assert produced.keys() | OF_CALLS | OF_THE_FILE == case.keys()
    assert log.header.id == SessionId(path.parent.name)
