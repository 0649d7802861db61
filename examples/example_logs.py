"""Writes a dsh home with one small session in each layout, as the released runtimes lay them out.

The session is the same each time: somebody asks what a folder holds, the model looks with a tool and answers.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from playhead import SessionHeader
from playhead.adapters.dsh import paths
from playhead.eventstore import chunk_rows, json_text, source_seqs, zstd_frames
from playhead.eventstore.ids import SessionId

CWD = "/home/ada/notes"
START_MS = 1_746_363_731_000
MODEL = {"kind": "model", "provider": "example", "model": "example-1"}
TOOLS = [{"name": "bash", "description": "Run a command", "parameters": {"type": "object"}}]
SYSTEM = "You help with files."
CALL_ID = "call_1"
ARGUMENTS = '{"command": "ls"}'

Json = dict[str, Any]


class Script:
    """Writes down what happens, as the events of one format; ``batches`` are what became durable together."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.batches: list[list[Json]] = [[]]
        self._seq = 0
        self._time = START_MS

    def add(self, type: str, data: Json, **envelope: Any) -> int:
        """Write an event 40 ms after the last one; its seq."""
        self._time += 40
        self.batches[-1].append(
            {"type": type, "seq": self._seq, "time": self._time, "data": data, **envelope}
        )
        self._seq += 1
        return self._seq - 1

    def flush(self) -> None:
        """End a batch."""
        self.batches.append([])

    def answer(self, step: int, content: list[Json], chunks: list[Json], usage: Json) -> None:
        """A streamed message: its chunks as events up to format 1, inside the message from format 2 on."""
        message = {"role": "assistant", "content": content, "source": MODEL, "id": f"answer-{step}"}
        data = {"turn": 1, "step": step, "message": message, "usage": usage}
        if self.version < 2:
            sources = [
                self.add("assistant/chunk", {"turn": 1, "step": step, "chunk": chunk}) for chunk in chunks
            ]
            self.add("assistant/message", data, sourceEventSeqs=sources, surfaceOp="append")
        else:
            data["stream"] = list(self._stream(chunks))
            self.add("assistant/message", data, surfaceOp="append")

    def _stream(self, chunks: list[Json]) -> Iterator[Json]:
        """The chunks as entries of an embedded stream, runs of text deltas in rows."""
        run: list[str] = []
        for chunk in [*chunks, None]:
            if chunk is not None and chunk["type"] == "text-delta":
                run.append(chunk["text"])
                continue
            if run:
                gaps = [25] * (len(run) - 1)
                yield {"type": "text-chunks", "time0": self._time + 25, "index": 0, "dt": gaps, "texts": run}
                self._time += 25 * len(run)
                run = []
            if chunk is not None:
                self._time += 25
                yield {"type": "chunk", "time": self._time, "chunk": chunk}


def session(version: int) -> Script:
    """The session in one format."""
    script = Script(version)
    question = {
        "content": [{"type": "text", "text": "What is in this folder?"}],
        "source": {"kind": "user"},
        "role": "user",
        "id": "question",
    }
    inbox = {"target": "next-turn", "start": 0}
    script.add("agent/inbox/spliced", inbox | {"inserted": [question]})
    script.add("turn/start", {"turn": 1})
    script.add("agent/inbox/spliced", inbox | {"removedCount": 1, "inserted": []})
    script.add("step/start", {"turn": 1, "step": 1})
    header: Json = {"config": {"provider": "example", "model": "example-1"}, "tools": TOOLS}
    if version < 3:
        header["system"] = SYSTEM
    else:
        system = {"role": "system", "content": [{"type": "text", "text": SYSTEM}], "id": "system"}
        kind = {"kind": "system-prompt"} if version > 3 else {"kind": "plugin", "plugin": "system-prompt"}
        system["source"] = kind
        script.add("system/message", {"turn": 1, "step": 1, "message": system}, surfaceOp="append")
    script.add("user/message", question, surfaceOp="append")
    script.add("request/header", {"header": header, "reason": "initial"})
    script.flush()
    call = {"type": "tool-call", "id": CALL_ID, "name": "bash", "arguments": ARGUMENTS}
    script.answer(1, [call], _call_chunks(call), {"inputTokens": 61, "outputTokens": 9})
    called = script.add(
        "tool/call", {"turn": 1, "step": 1, "callId": CALL_ID, "name": "bash", "arguments": ARGUMENTS}
    )
    script.flush()
    script.add("tool/result", _result(version), sourceEventSeqs=[called], surfaceOp="append")
    script.add("step/end", {"turn": 1, "step": 1})
    script.add("step/start", {"turn": 1, "step": 2})
    script.flush()
    words = ["Two", " files", ": a", " plan", " 📝", " and", " a", " list", "."]
    text = {"type": "text", "text": "".join(words)}
    script.answer(2, [text], _text_chunks(words, text), {"inputTokens": 84, "outputTokens": 10})
    script.add("step/end", {"turn": 1, "step": 2})
    script.add("turn/end", {"turn": 1, "reason": {"kind": "completed"}})
    return script


def _call_chunks(call: Json) -> list[Json]:
    delta = {"type": "tool-call-delta", "index": 0, "id": CALL_ID}
    half = len(ARGUMENTS) // 2
    return [
        {"type": "block-start", "index": 0, "blockType": "tool-call"},
        delta | {"name": "bash", "argumentsDelta": ARGUMENTS[:half]},
        delta | {"argumentsDelta": ARGUMENTS[half:]},
        {"type": "block-end", "index": 0, "block": call},
        {"type": "finish", "reason": {"kind": "tool-calls"}},
    ]


def _text_chunks(words: list[str], block: Json) -> list[Json]:
    return [
        {"type": "block-start", "index": 0, "blockType": "text"},
        *({"type": "text-delta", "index": 0, "text": word} for word in words),
        {"type": "block-end", "index": 0, "block": block},
        {"type": "finish", "reason": {"kind": "stop"}},
    ]


def _result(version: int) -> Json:
    content = [{"type": "text", "text": "list.md\nplan.md\n"}]
    source = {"kind": "tool", "callId": CALL_ID}
    if version < 4:
        block = {"type": "tool-result", "toolCallId": CALL_ID, "content": content, "isError": False}
        message = {"source": source, "content": [block], "role": "user", "id": "result"}
    else:
        told = {"toolCallId": CALL_ID, "content": content, "isError": False}
        message = {"role": "tool", "source": source, **told, "id": "result"}
    return {"turn": 1, "step": 1, "message": message}


def header(name: str, version: int) -> SessionHeader:
    """The header of an example session."""
    seeded = None if version < 2 else False
    return SessionHeader(SessionId(name), START_MS, version, cwd=CWD, is_seeded=seeded)


def write_file(
    home: Path, name: str, version: int, *, packed: bool = False, compressed: bool = False
) -> Path:
    """Write the session as a log file, where dsh would; its path."""
    head = header(name, version)
    script = session(version)
    batches = [head.line() + b"\n"]
    for events in script.batches:
        lines = chunk_rows.pack(events) if packed else events
        batches.append(b"".join(json_text.dumps(line) + b"\n" for line in lines))
    folder = home / "sessions" / paths.project_segment(CWD) / paths.session_segment(name)
    folder.mkdir(parents=True)
    file = folder / paths.file_name(version, compressed=compressed)
    file.write_bytes(b"".join(map(zstd_frames.write_frame, batches) if compressed else batches))
    return file


def write_torn_file(home: Path, name: str) -> Path:
    """Write the session as it lies there after a crash: the last line is cut off; its path."""
    file = write_file(home, name, 0, packed=True)
    file.write_bytes(file.read_bytes()[:-40])
    return file


def write_database(home: Path, name: str) -> Path:
    """Write the session as a database of dsh's SQLite backend; its path."""
    file = home / "sessions.sqlite"
    head = header(name, 0)
    with closing(sqlite3.connect(file)) as database, database:
        database.executescript(_SCHEMA)
        database.execute(
            "INSERT INTO sessions VALUES (?, 0, ?, ?, NULL, NULL, NULL, 0, NULL, 'one', 1)",
            (name, head.created_ms, head.cwd),
        )
        for events in session(0).batches:
            for event in chunk_rows.pack(events, chunk_rows.SQLITE):
                packed = event["type"] in chunk_rows.TAGS
                sources = event.get("sourceEventSeqs")
                op = event.get("surfaceOp")
                database.execute(
                    "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    (
                        name,
                        event["seq0" if packed else "seq"],
                        event["type"],
                        event["time0" if packed else "time"],
                        json_text.dumps(event["data"]).decode(),
                        None if sources is None else source_seqs.encode_varints(sources),
                        None if op is None else json_text.dumps(op).decode(),
                        0 if packed else None,
                    ),
                )
    return file


_SCHEMA = """
PRAGMA application_id = 1146308688;
PRAGMA user_version = 17;
CREATE TABLE persistence_state (singleton INTEGER PRIMARY KEY, store_id TEXT NOT NULL) STRICT;
CREATE TABLE sessions (id TEXT PRIMARY KEY, version INTEGER NOT NULL, created_at INTEGER NOT NULL, cwd TEXT,
    parent_session TEXT, seed_length INTEGER, origin TEXT, delegation_depth INTEGER, agent_preset TEXT,
    incarnation TEXT NOT NULL, revision INTEGER NOT NULL) STRICT;
CREATE TABLE events (session_id TEXT NOT NULL REFERENCES sessions (id), seq INTEGER NOT NULL,
    type TEXT NOT NULL, time INTEGER NOT NULL, data ANY NOT NULL, source_event_seqs ANY, surface_op TEXT,
    ignorable INTEGER, PRIMARY KEY (session_id, seq)) STRICT;
"""


def write_home(home: Path) -> list[Path]:
    """Write a dsh home with every layout; the files in it."""
    home.mkdir(parents=True)
    return [
        write_file(home, "plain-v0", 0),
        write_file(home, "packed-v0", 0, packed=True, compressed=True),
        write_file(home, "plain-v1", 1, packed=True),
        write_file(home, "compressed-v2", 2, compressed=True),
        write_file(home, "compressed-v3", 3, compressed=True),
        write_file(home, "compressed-v4", 4, compressed=True),
        write_torn_file(home, "torn-v0"),
        write_database(home, "database-v0"),
    ]
