"""Logs in which values are not what they should be: every command reads them, and none of them fails.

The example sessions of every format, with values exchanged for others of any type, members taken out, events dropped,
said twice, or put in another order. What a reader makes of that is up to it; that it makes something is promised.
``PLAYHEAD_SOAK=1`` bends many more.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from random import Random
from typing import Any

import pytest
import zstandard
from children import ROOT, playhead_here

ROUNDS = 400 if os.environ.get("PLAYHEAD_SOAK") == "1" else 20

FILES = sorted((ROOT / "examples").rglob("session*.jsonl*")) + sorted(
    (ROOT / "examples" / "tour").glob("*.jsonl")
)

VALUES: list[Any] = [
    None, True, 0, -1, 1.5, 2**53, 10**30, "", "x", "next-step", "constructor", "\ud800", "\x1b[2J", "a" * 3000,
    [], ["x"], [[None]], {}, {"kind": "user"}, {"kind": ["user"]}, {"type": {}}, [{"type": "text", "text": 1}],
]  # fmt: skip

COMMANDS = [
    ["show"],
    ["show", "--full", "--repaired"],
    ["show", "--json"],
    ["show", "--format", "markdown"],
    ["show", "--view", "model"],
    ["inbox", "--events"],
    ["inbox", "--repaired", "--json"],
    ["goals", "--json"],
    ["stats", "--json"],
    ["events", "--logical"],
    ["replay"],
    ["verify"],
]


def decoded(file: Path) -> bytes:
    """The lines of a log file, compressed or not."""
    if file.suffix != ".zstd":
        return file.read_bytes()
    with file.open("rb") as packed:
        return zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True).read()


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value inside ``value``, itself left out."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [each for key, item in inner for each in [(*path, key), *places(item, (*path, key))]]


def bend(random: Random, event: dict[str, Any]) -> None:
    """Exchange one value in the data of ``event``, or take it out."""
    found = [
        path for path in places(event) if path[0] in ("data", "surfaceOp", "sourceEventSeqs", "ignorable")
    ]
    if not found:
        return
    *way, last = random.choice(found)
    holder: Any = event
    for key in way:
        holder = holder[key]
    if isinstance(holder, dict) and random.random() < 0.2:
        del holder[last]
    else:
        holder[last] = random.choice(VALUES)


def bent(random: Random, lines: list[bytes]) -> bytes:
    """The log, its header first, bent in some way."""
    header, *events = [json.loads(line) for line in lines]
    for event in random.choices(events, k=random.randint(1, 12)):
        bend(random, event)
    match random.choice(["as it is", "as it is", "dropped", "twice", "mixed"]):
        case "dropped":
            events = [event for event in events if random.random() > 0.1]
        case "twice":
            events = [event for event in events for _ in range(random.choice([1, 1, 1, 2]))]
        case "mixed":
            random.shuffle(events)
    seq, numbered = 0, []
    for event in events:
        key = "seq" if "seq" in event else "seq0"
        numbered.append(event | {key: seq})
        packed = event["data"].get("texts", event["data"].get("args")) if key == "seq0" else None
        seq += len(packed) if isinstance(packed, list) else 1
    return b"".join(json.dumps(each).encode() + b"\n" for each in (header, *numbered))


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_a_bent_log_is_read_by_every_command(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    log, store = tmp_path / "bent.jsonl", tmp_path / "store.sqlite"
    log.write_bytes(bent(random, decoded(random.choice(FILES)).split(b"\n")[:-1]))
    for command, *options in COMMANDS:
        ran = playhead_here(command, log, *options, store=store)
        assert ran.code in (0, 1), (command, options, ran.err)
        assert b"\x1b" not in ran.out, (command, options)
    assert playhead_here("import", log, store=store).code in (0, 1)
    ran = playhead_here("project", "events", "surface", "transcript", "inbox", "usage", store=store)
    assert "could not be folded" not in ran.err
