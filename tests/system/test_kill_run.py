"""``playhead run`` killed in mid-stream: what was flushed is there, the queue waits, and nothing is delivered twice.

A chunk may wait ``WINDOW_MS`` for company, and then for the commit that takes it: so much may be lost of a stream. A
fact that a model call or a tool leans on is flushed before, and never lost. ``PLAYHEAD_SOAK=1`` makes more rounds.
"""

from __future__ import annotations

import json
import os
import random
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from chat_answers import DONE, calls, delta, said
from children import kill_after, playhead_here, start_playhead
from scripted_server import LONG_S, Answer, Pause, Request, scripted_server

from playhead.eventstore.sql.writer import WINDOW_MS

ROUNDS = 100 if os.environ.get("PLAYHEAD_SOAK") == "1" else 20

SCRIPT = """\
/followup first
/followup second
/steer at once
/inject context
/send next-turn park parked
/wait
"""
PENDING = ("first", "second", "at once", "context", "parked")

COMMIT_MS = 10_000
"""How long a commit may take on a machine that is busy with other tests."""

_STREAM = Answer(
    steps=[step for number in range(4_000) for step in (delta(content=f"{number} "), Pause(0.002))] + [DONE]
)


def texts(event: dict[str, Any]) -> str:
    return "".join(block.get("text", "") for block in event["data"]["content"])


def events(store: Path) -> list[dict[str, Any]]:
    shown = playhead_here("events", "s1", "--json", store=store)
    assert shown.code == 0, shown.err
    found: list[dict[str, Any]] = [json.loads(line) for line in shown.out.splitlines()]
    for event in found:
        del event["position"]
    return found


def one_round(folder: Path, seed: int) -> None:
    draw = random.Random(seed)
    store, script = folder / "store.sqlite", folder / "script"
    script.write_text(SCRIPT)
    resumed = threading.Event()
    first_answers = [calls(("list-files", {"folder": "/nowhere"})), _STREAM]

    def answer(_request: Request) -> Answer:
        if resumed.is_set() or not first_answers:
            return said("ok")
        return first_answers.pop(0)

    with scripted_server(script=answer) as server:
        options = ["--base-url", server.url, "--model", "m", "--tool", "list-files"]
        child = start_playhead("run", *options, "--id", "s1", "--json", "--script", script, store=store)
        assert child.stdout is not None
        wanted = draw.choice(
            [b"agent/inbox/spliced", b'"tool/call"', b"text-delta", b"text-delta", b"text-delta"]
        )
        printed: list[bytes] = []
        while not printed or wanted not in printed[-1]:
            printed.append(child.stdout.readline())
            assert printed[-1], "it ended by itself"
        assert kill_after(child, draw.uniform(0, 0.4))
        assert child.stderr is not None
        out, err = child.stdout.read(), child.stderr.read()
        child.wait(LONG_S)
        assert b"Traceback" not in err, err.decode()
        resumed.set()
        accepted = [
            json.loads(line)
            for line in b"".join([*printed, out]).splitlines(keepends=True)
            if line[-1:] == b"\n"
        ]
        left = events(store)
        check_what_is_left(left, accepted)
        going_on = folder / "going-on"
        going_on.write_text("/inbox\ngo on\n")
        again = playhead_here("run", *options, "--resume", "s1", "--script", going_on, store=store)
    assert again.code == 0, again.err
    check_deliveries(events(store), left)
    verified = playhead_here("verify", "s1", store=store)
    assert verified.code == 0, verified.out.decode() + verified.err


def check_what_is_left(stored: list[dict[str, Any]], accepted: list[dict[str, Any]]) -> None:
    """What is stored is the beginning of what was accepted, and only what came last is missing."""
    common = min(len(stored), len(accepted))
    assert stored[:common] == accepted[:common]
    lost = accepted[common:]
    if lost:
        assert accepted[-1]["time"] - lost[0]["time"] <= WINDOW_MS + COMMIT_MS
    called = [event["seq"] for event in accepted if event["type"] == "assistant/chunk"]
    for seq in called[:1]:
        assert len(stored) >= seq, "what a model call leans on was not flushed before it"


def check_deliveries(stored: list[dict[str, Any]], left: list[dict[str, Any]]) -> None:
    """No message was admitted twice, and all were admitted once.

    Unless the process died between a claim and its delivery: then ``playhead inbox`` says that they were lost.
    """
    admitted = [event for event in stored if event["type"] == "user/message"]
    assert max(Counter(event["data"]["id"] for event in admitted).values()) == 1
    queued = {
        message["id"]: message["content"][0]["text"]
        for event in stored
        if event["type"] == "agent/inbox/spliced"
        for message in event["data"]["inserted"]
    }
    delivered = {event["data"]["id"] for event in admitted}
    undelivered = {text for id, text in queued.items() if id not in delivered}
    assert not undelivered or died_between_claim_and_delivery(left), undelivered
    assert texts(admitted[-1]) == "go on"


def died_between_claim_and_delivery(left: list[dict[str, Any]]) -> bool:
    claimed = delivered = -1
    for event in left:
        data = event["data"]
        if event["type"] == "agent/inbox/spliced" and data.get("removedCount") and "outcome" not in data:
            claimed = event["seq"]
        elif event["type"] == "user/message":
            delivered = event["seq"]
    return claimed > delivered


def test_a_conversation_killed_once(tmp_path: Path) -> None:
    one_round(tmp_path, 0)


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(1, ROUNDS + 1))
def test_a_conversation_killed_at_random_moments(tmp_path: Path, seed: int) -> None:
    one_round(tmp_path, seed)
