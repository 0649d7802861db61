"""Recorded logs of every format: what is read agrees with the manifest that counted them independently."""

from __future__ import annotations

import hashlib
import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from reference import SHARED, needs_shared, shared_path

from playhead import open_store
from playhead.adapters.dsh.importer import import_paths
from playhead.adapters.dsh.log_file import open_log
from playhead.adapters.dsh.strict import read_strict
from playhead.eventstore import envelope
from playhead.eventstore.errors import CorruptLog, NotALog, UnknownEventType
from playhead.eventstore.findings import damage

CORPUS = SHARED / "corpus" / "dsh"

REFUSED = {
    "0.2.1rc2/edited-header-version-5/before": "newer-format",
    "0.2.1rc2/edited-wrong-id/before": "id-mismatch",
}
"""Logs that the manifest counts and nobody may interpret: a newer format, and a foreign folder."""

STRICTLY_REFUSED = {
    "bad-json-committed": CorruptLog,
    "blank-line-committed": CorruptLog,
    "envelope-extra-field": CorruptLog,
    "float-time": CorruptLog,
    "header-extra-field": CorruptLog,
    "header-version-5": NotALog,
    "seq-gap-committed": CorruptLog,
    "unknown-type": UnknownEventType,
    "wrong-cwd": CorruptLog,
    "wrong-id": CorruptLog,
}
"""The edited logs that the runtime refused. It also refused one that lacks a step number, by a rule about the
relations between events, which strict reading leaves alone."""


def recorded_logs() -> list[Any]:
    """The entry of every log in the manifest, as a test parameter."""
    if not CORPUS.is_dir():
        return [pytest.param(None, marks=needs_shared, id="no-reference-material")]
    files = json.loads((CORPUS / "MANIFEST.json").read_bytes())["files"]
    return [pytest.param(file, id=file["path"]) for file in files if file["kind"] == "session-log"]


LOGS = recorded_logs()


@pytest.mark.parametrize("entry", LOGS)
def test_a_recorded_log_is_read_as_it_was_counted(entry: dict[str, Any]) -> None:
    file = CORPUS / entry["path"]
    refused = REFUSED.get(entry["path"].split("/sessions/")[0])
    if refused:
        with pytest.raises(NotALog) as caught:
            open_log(str(file), "", entry["path"])
        assert caught.value.kind == refused
        return
    with open_log(str(file), "", entry["path"]) as log:
        lines = b"".join(log.blocks())
        shape = log.shape
    decoded = log.header_line + b"\n" + lines
    assert len(decoded) == entry["decoded_bytes"]
    assert hashlib.sha256(decoded).hexdigest() == entry["decoded_sha256"]
    assert (shape.size_bytes, shape.sha256.hex()) == (entry["bytes"], entry["sha256"])
    assert (log.header.version, log.header.id) == (entry["format_version"], entry["session_id"])
    check_frames(entry, shape.frames, decoded)
    check_lines(entry, lines)
    torn = [finding for finding in shape.findings if finding.kind in ("torn-frame", "torn-tail")]
    assert damage(shape.findings) == torn
    assert [finding.byte for finding in torn if finding.kind == "torn-frame"] == listed(
        entry, "torn_frame_at"
    )
    assert [finding.size_bytes for finding in torn if finding.kind == "torn-tail"] == listed(
        entry, "torn_line_bytes"
    )


def listed(entry: dict[str, Any], key: str) -> list[Any]:
    return [entry[key]] if key in entry else []


def check_frames(entry: dict[str, Any], frames: list[Any], decoded: bytes) -> None:
    assert len(frames) == entry.get("zstd_frames", 0)
    assert all(frame.recipe for frame in frames), "a frame of a released dsh has a recipe"
    at, counts = 0, []
    for frame in frames:
        counts.append(decoded.count(b"\n", at, at + frame.raw_bytes))
        at += frame.raw_bytes
    assert counts == entry.get("frame_lines", [])


def check_lines(entry: dict[str, Any], lines: bytes) -> None:
    """Lines, rows, types and defects agree. The manifest counts the header, and leaves blank lines out."""
    views = [envelope.view(line) for line in lines.split(b"\n")[:-1]]
    defects = Counter(view.defect.kind for view in views if view.defect)
    assert len(views) + 1 - defects["blank-line"] == entry["lines"]
    assert sum(view.n for view in views) == entry["events"]
    types: Counter[str] = Counter()
    for view in views:
        types[view.type] += view.n
    assert {type: count for type, count in types.items() if count} == entry["event_types"]
    assert defects["bad-json"] == entry.get("unparsable_lines", 0)
    assert defects["blank-line"] == entry.get("blank_lines", 0)


@pytest.mark.parametrize("entry", LOGS)
def test_strict_reading_opens_what_the_runtime_opened(entry: dict[str, Any]) -> None:
    edited = entry["path"].removeprefix("0.2.1rc2/edited-").split("/before/")[0]
    refused = STRICTLY_REFUSED.get(edited)
    if refused:
        with pytest.raises(refused):
            read_strict(CORPUS / entry["path"])
        return
    log = read_strict(CORPUS / entry["path"])
    assert [fact.seq for fact in log.facts] == list(range(len(log.facts)))
    assert log.torn_frame == entry.get("torn_frame_at")
    assert log.torn_bytes == entry.get("torn_line_bytes", 0)


def resumed_in_place() -> list[Any]:
    """Each crashed log that a runtime resumed, and the log as it was then; paths below the corpus."""
    pairs = []
    for param in LOGS:
        path = param.values[0]["path"] if param.values[0] else ""
        for phase in ("/before-torn/", "/before/"):
            after = path.replace(phase, "/after-resume/")
            torn_twin = CORPUS / path.replace("/before/", "/before-torn/")
            cut_later = phase == "/before/" and torn_twin.is_file()
            if phase in path and "/edited-" not in path and (CORPUS / after).is_file() and not cut_later:
                pairs.append(pytest.param(path, after, id=path))
    return pairs or [pytest.param("", "", marks=needs_shared, id="no-reference-material")]


@pytest.mark.parametrize(("before", "after"), resumed_in_place())
def test_repair_adds_what_the_runtime_added(before: str, after: str) -> None:
    log, resumed = read_strict(CORPUS / before), read_strict(CORPUS / after)
    kept, count = len(log.facts), len(log.facts) + len(log.closers)
    assert [identity(fact) for fact in resumed.facts[:kept]] == [identity(fact) for fact in log.facts]
    assert [identity(fact) for fact in resumed.facts[kept:count]] == [identity(one) for one in log.closers]
    assert resumed.facts[count].type == "session/end-seed"


def identity(fact: Any) -> dict[str, Any]:
    """The event without the wording of a synthetic result, which is free."""
    event = json.loads(json.dumps(fact.envelope()))
    message = event["data"].get("message") if isinstance(event["data"], dict) else None
    if message and str(message.get("id", "")).startswith("interrupted-tool-result-"):
        for block in [message, *message["content"]]:
            for text in block.get("content", []):
                text.pop("text", None)
                for inner in text.get("content", []):
                    inner.pop("text", None)
    return event


def test_the_whole_corpus_is_imported_twice_into_a_store_and_comes_back(tmp_path: Path) -> None:
    corpus = shared_path("corpus/dsh")
    with open_store(f"sqlite:///{tmp_path / 'store.sqlite'}") as store:
        first = import_paths(store, [str(corpus)])
        position = store.position
        again = import_paths(store, [str(corpus)])
        assert first.events > 10_000
        assert (again.imported, again.events, again.sessions) == (0, 0, [])
        assert store.position == position
        assert sorted(problem.path for problem in again.refused) == sorted(
            problem.path for problem in first.refused
        )
        assert len(again.damaged) == len(first.damaged)
        assert {problem.finding.kind for problem in first.refused} == {"newer-format", "id-mismatch"}
        for file in store.files():
            out = io.BytesIO()
            assert store.export_file(file, out).same
            assert out.getvalue() == Path(file.root, file.path).read_bytes()
