"""Writes a dsh home with one small session in each layout that released runtimes have written.

The session is the same each time: somebody asks what a folder holds, the model looks with a tool and answers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

from playhead import Recorded, Seq, SessionHeader, SessionId
from playhead.adapters.dsh import paths
from playhead.adapters.dsh.database_writer import StoredSession, write_database
from playhead.adapters.dsh.writer import Layout, write_log
from playhead.eventstore import json_text

CWD = "/home/ada/notes"
START_MS = 1_746_363_731_000
STORE_ID = UUID("5b0c1f0e-6b0a-4f7e-9d0c-0f2f7f6f3a11")
CALL_ID = "call_1"
ARGUMENTS = '{"command": "ls"}'
WORDS = ("Two", " files", ": a", " plan", " 📝", " and", " a", " list", ".")

Json = dict[str, Any]


class Script:
    """Writes down what happens; ``batches`` are the events that became durable together."""

    def __init__(self) -> None:
        self.batches: list[list[Recorded]] = [[]]
        self._seq = 0

    def add(self, type: str, data: Json, **envelope: Any) -> Seq:
        """Write an event 40 ms after the last one; its seq."""
        seq = Seq(self._seq)
        self._seq += 1
        time_ms = START_MS + 40 * self._seq
        self.batches[-1].append(
            Recorded(SessionId("example"), seq, time_ms, type, json_text.dumps(data), **envelope)
        )
        return seq

    def flush(self) -> None:
        """End a batch."""
        self.batches.append([])

    def answer(self, step: int, block: Json, deltas: list[Json], finish: str, usage: Json) -> None:
        """A streamed message of one block."""
        chunks = [
            {"type": "block-start", "index": 0, "blockType": block["type"]},
            *({"index": 0} | delta for delta in deltas),
            {"type": "block-end", "index": 0, "block": block},
            {"type": "usage", "usage": usage},
            {"type": "finish", "reason": {"kind": finish}},
        ]
        place = {"turn": 1, "step": step}
        sources = tuple(self.add("assistant/chunk", place | {"chunk": chunk}) for chunk in chunks)
        source = {"kind": "model", "provider": "example", "model": "example-1"}
        message = {"role": "assistant", "content": [block], "source": source, "id": f"answer-{step}"}
        data = place | {"message": message, "usage": usage}
        self.add("assistant/message", data, source_seqs=sources, surface_op="append")


def batches() -> list[list[Recorded]]:
    """The session as Playhead's own sessions hold it: one event per chunk."""
    script = Script()
    question = {
        "content": [{"type": "text", "text": "What is in this folder?"}],
        "source": {"kind": "user"},
        "role": "user",
        "id": "question",
    }
    inbox: Json = {"target": "next-turn", "start": 0}
    script.add("agent/inbox/spliced", inbox | {"inserted": [question]})
    script.add("turn/start", {"turn": 1})
    script.add("agent/inbox/spliced", inbox | {"removedCount": 1, "inserted": []})
    script.add("step/start", {"turn": 1, "step": 1})
    script.add("user/message", question, surface_op="append")
    header = {
        "config": {"provider": "example", "model": "example-1"},
        "system": "You help with files.",
        "tools": [{"name": "bash", "description": "Run a command", "parameters": {"type": "object"}}],
    }
    script.add("request/header", {"header": header, "reason": "initial"})
    script.flush()
    call = {"type": "tool-call", "id": CALL_ID, "name": "bash", "arguments": ARGUMENTS}
    deltas: list[Json] = [
        {"type": "tool-call-delta", "id": CALL_ID, "name": "bash", "argumentsDelta": ARGUMENTS[:8]},
        {"type": "tool-call-delta", "id": CALL_ID, "argumentsDelta": ARGUMENTS[8:]},
    ]
    script.answer(1, call, deltas, "tool-calls", {"inputTokens": 61, "outputTokens": 9})
    step = {"turn": 1, "step": 1}
    called = script.add("tool/call", step | {"callId": CALL_ID, "name": "bash", "arguments": ARGUMENTS})
    script.flush()
    block = {
        "type": "tool-result",
        "toolCallId": CALL_ID,
        "content": [{"type": "text", "text": "list.md\nplan.md\n"}],
        "isError": False,
    }
    source = {"kind": "tool", "callId": CALL_ID}
    result = {"source": source, "content": [block], "role": "user", "id": "result"}
    script.add("tool/result", step | {"message": result}, source_seqs=(called,), surface_op="append")
    script.add("step/end", step)
    script.add("step/start", {"turn": 1, "step": 2})
    script.flush()
    deltas = [{"type": "text-delta", "text": word} for word in WORDS]
    text = {"type": "text", "text": "".join(WORDS)}
    script.answer(2, text, deltas, "stop", {"inputTokens": 84, "outputTokens": 10})
    script.add("step/end", {"turn": 1, "step": 2})
    script.add("turn/end", {"turn": 1, "reason": {"kind": "completed"}})
    return script.batches


def header(name: str) -> SessionHeader:
    """The header of an example session."""
    return SessionHeader(SessionId(name), START_MS, cwd=CWD)


def write_file(
    home: Path, name: str, version: int, *, packed: bool = False, compressed: bool = False
) -> Path:
    """Write the session as a log file, where dsh would; its path."""
    layout = Layout(version, packs_chunks=packed, pairs_sources=version > 1)
    folder = home / "sessions" / paths.project_segment(CWD) / paths.session_segment(name)
    folder.mkdir(parents=True)
    file = folder / paths.file_name(version, compressed=compressed)
    file.write_bytes(write_log(layout, header(name), batches(), compressed=compressed))
    return file


def write_torn_file(home: Path, name: str) -> Path:
    """Write the session as it lies there after a crash: the last line is cut off; its path."""
    file = write_file(home, name, 0, packed=True)
    file.write_bytes(file.read_bytes()[:-40])
    return file


def write_home(home: Path) -> list[Path]:
    """Write a dsh home with every layout; the files in it."""
    files = [
        write_file(home, "plain-v0", 0),
        write_file(home, "packed-v0", 0, packed=True, compressed=True),
        write_file(home, "packed-v1", 1, packed=True),
        write_file(home, "compressed-v2", 2, compressed=True),
        write_file(home, "compressed-v3", 3, compressed=True),
        write_file(home, "compressed-v4", 4, compressed=True),
        write_torn_file(home, "torn-v0"),
    ]
    for schema in (15, 17):
        file = home / f"sessions-{schema}.sqlite"
        session = StoredSession(header(f"database-{schema}"), batches())
        file.write_bytes(write_database(schema, [session], STORE_ID))
        files.append(file)
    return files
