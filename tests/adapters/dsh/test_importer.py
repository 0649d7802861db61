"""Imports: what is taken, what is left alone, and what is refused."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import shared_path

from playhead.adapters.dsh import importer, paths
from playhead.adapters.dsh.discover import APPLICATION_ID, discover
from playhead.adapters.dsh.importer import Progress, import_paths
from playhead.adapters.dsh.report import Problem, Report
from playhead.eventstore import envelope, zstd_frames
from playhead.eventstore.findings import Finding
from playhead.eventstore.source import BytesSource, Ingested, KnownFile, LogSource

LINES = [b'{"type":"turn/start","seq":%d,"time":1,"data":{"turn":1}}\n' % seq for seq in range(4)]


def header(session: str, version: int = 0) -> bytes:
    members = {"type": "session", "version": version, "id": session, "createdAt": 1, "delegationDepth": 0}
    return json.dumps(members).encode() + b"\n"


def log(session: str, lines: int = 4, version: int = 0) -> bytes:
    return header(session, version) + b"".join(LINES[:lines])


class KeptLogs:
    """An archive in memory: the lines of each session, and every file by its place."""

    def __init__(self) -> None:
        self.logs: dict[str, bytes] = {}
        self.files: dict[tuple[str, str], KnownFile] = {}
        self.ingested = 0

    def known(self, root: str, path: str) -> KnownFile | None:
        return self.files.get((root, path))

    def ingest(self, source: LogSource) -> Ingested:
        self.ingested += 1
        lines = b"".join(source.blocks())
        before = self.logs.get(source.header.id)
        old = before or b""
        grown = lines.startswith(old) and len(lines) > len(old)
        if before is None or grown:
            self.logs[source.header.id] = lines
        shape = source.shape
        findings = tuple(shape.findings)
        if source.container is None:
            key = (source.root, source.path)
            self.files[key] = KnownFile(shape.size_bytes, shape.sha256, shape.layout, findings, None)
        added = lines[len(old) :] if before is None or grown else b""
        events = sum(envelope.view(line).n for line in added.split(b"\n")[:-1])
        sessions = ((source.header.id, 1),) if before is None else ()
        return Ingested(before is None or grown, sessions, events, findings)

    def archive(self, source: BytesSource) -> Ingested:
        data = source.data.read()
        known = KnownFile(len(data), hashlib.sha256(data).digest(), source.layout, (), source.refused)
        changed = self.files.get((source.root, source.path)) != known
        self.files[source.root, source.path] = known
        return Ingested(changed)


def write(folder: Path, name: str, content: bytes) -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return file


def kinds(problems: list[Problem]) -> list[str]:
    return [problem.finding.kind for problem in problems]


def places(report: Report) -> dict[str, str]:
    """The refusals: the kind by the folder that the file lies in."""
    return {Path(problem.path).parent.name: problem.finding.kind for problem in report.refused}


def test_logs_of_a_folder_are_taken_and_counted(tmp_path: Path) -> None:
    write(tmp_path, "a.jsonl", log("a"))
    write(
        tmp_path,
        "deep/b.jsonl.zstd",
        zstd_frames.write_frame(header("b")) + zstd_frames.write_frame(LINES[0]),
    )
    write(tmp_path, "notes.txt", b"")
    archive = KeptLogs()
    report = import_paths(archive, [tmp_path])
    assert archive.logs == {"a": b"".join(LINES), "b": LINES[0]}
    assert (report.files, report.imported, report.ignored, report.events) == (2, 2, 1, 5)
    assert report.sessions == [("a", 1), ("b", 1)]
    assert report.clean
    assert list(archive.files) == [(str(tmp_path), "a.jsonl"), (str(tmp_path), "deep/b.jsonl.zstd")]


@pytest.mark.parametrize("spelled", [str, Path])
def test_one_path_is_as_good_as_a_list_of_one(
    tmp_path: Path, spelled: Callable[[Path], str | Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "a.jsonl", log("a"))
    looked_at: list[str] = []
    monkeypatch.setattr(importer, "discover", lambda path: looked_at.append(path) or discover(path))
    assert import_paths(KeptLogs(), spelled(tmp_path)).sessions == [("a", 1)]
    assert looked_at == [str(tmp_path)]


def test_importing_again_reads_no_log_again_and_says_the_same(tmp_path: Path) -> None:
    write(tmp_path, "a.jsonl", log("a") + b"torn")
    write(tmp_path, "b.jsonl", b"no log\n")
    archive = KeptLogs()
    first = import_paths(archive, [str(tmp_path)])
    again = import_paths(archive, [str(tmp_path)])
    assert archive.ingested == 1
    assert (again.imported, again.unchanged, again.events) == (0, 1, 0)
    assert (again.damaged, again.refused) == (first.damaged, first.refused)
    assert kinds(again.damaged) == ["torn-tail"]
    assert kinds(again.refused) == ["no-header"]


def test_a_file_that_grew_adds_what_is_new(tmp_path: Path) -> None:
    file = write(tmp_path, "a.jsonl", log("a", 2))
    archive = KeptLogs()
    import_paths(archive, [str(tmp_path)])
    with file.open("ab") as writer:
        writer.write(LINES[2])
    report = import_paths(archive, [str(tmp_path)])
    assert (report.imported, report.events, report.sessions) == (1, 1, [])


def test_a_file_of_the_same_size_with_other_bytes_is_read_again(tmp_path: Path) -> None:
    write(tmp_path, "a.jsonl", log("a"))
    archive = KeptLogs()
    import_paths(archive, [str(tmp_path)])
    write(tmp_path, "a.jsonl", log("b"))
    assert import_paths(archive, [str(tmp_path)]).sessions == [("b", 1)]


def test_a_file_that_was_refused_is_tried_again(tmp_path: Path) -> None:
    content = log("a")
    write(tmp_path, "a.jsonl", content)
    archive = KeptLogs()
    digest = hashlib.sha256(content).digest()
    refused = KnownFile(
        len(content), digest, "bytes", (), Finding("newer-format", "an older release said so")
    )
    archive.files[str(tmp_path), "a.jsonl"] = refused
    assert import_paths(archive, [str(tmp_path)]).sessions == [("a", 1)]


def test_one_bad_file_does_not_stop_the_others_and_its_bytes_are_kept(tmp_path: Path) -> None:
    contents = {
        "1.jsonl": b"",
        "2.jsonl": b"noise",
        "3.jsonl": log("new", version=9),
        "4.jsonl.zstd": b"noise" * 9,
    }
    for name, content in contents.items():
        write(tmp_path, name, content)
    write(tmp_path, "5.jsonl", log("good"))
    archive = KeptLogs()
    report = import_paths(archive, [str(tmp_path)])
    assert kinds(report.refused) == ["no-header", "no-header", "newer-format", "bad-magic"]
    assert list(archive.logs) == ["good"]
    for name, content in contents.items():
        known = archive.files[str(tmp_path), name]
        assert (known.sha256, known.layout) == (hashlib.sha256(content).digest(), "bytes")
        assert known.refused is not None


def test_a_path_that_is_not_there_is_in_the_report(tmp_path: Path) -> None:
    write(tmp_path, "a.jsonl", log("a"))
    report = import_paths(KeptLogs(), [str(tmp_path / "missing"), str(tmp_path)])
    assert kinds(report.refused) == ["missing"]
    assert report.imported == 1


def test_a_file_that_goes_away_before_it_is_read_is_in_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path, "a.jsonl", log("a"))
    found = importer.discover(str(tmp_path))
    file.unlink()
    monkeypatch.setattr(importer, "discover", lambda _: found)
    report = import_paths(KeptLogs(), [str(tmp_path)])
    assert kinds(report.refused) == ["unreadable"]


def test_a_file_that_is_rewritten_while_it_is_read_is_read_once_more(tmp_path: Path) -> None:
    file = write(tmp_path, "a.jsonl", log("a"))

    class Interrupted(KeptLogs):
        def ingest(self, source: LogSource) -> Ingested:
            if not self.ingested:
                file.write_bytes(log("a").replace(b'"turn":1', b'"turn":2'))
                os.utime(file, ns=(1, 1))
                self.ingested += 1
                blocks = source.blocks()
                next(blocks)
                file.write_bytes(log("a"))
                list(blocks)
            return super().ingest(source)

    archive = Interrupted()
    report = import_paths(archive, [str(tmp_path)])
    assert report.clean
    assert archive.logs == {"a": b"".join(LINES)}


def test_an_error_of_the_store_is_not_taken_for_a_bad_file(tmp_path: Path) -> None:
    write(tmp_path, "a.jsonl", log("a"))

    class Full(KeptLogs):
        def ingest(self, source: LogSource) -> Ingested:  # noqa: ARG002 - fails before it looks
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        import_paths(Full(), [str(tmp_path)])


@pytest.mark.parametrize("session", ["a", "../../x", "", "a\0b", "\ud83d"])
def test_standard_input_is_a_log_under_the_name_of_its_session(session: str) -> None:
    archive = KeptLogs()
    for new in (1, 0):
        report = import_paths(archive, ["-"], stdin=io.BytesIO(log(session)))
        assert (report.clean, len(report.sessions), report.unchanged) == (True, new, 1 - new)
    [(root, path)] = archive.files
    assert root == "-"
    assert path == f"{paths.session_segment(session) if session else '~'}.jsonl"
    assert "/" not in path


def test_standard_input_that_is_no_log_is_kept_and_refused() -> None:
    archive = KeptLogs()
    for content in (b"noise\n", b"other noise\n"):
        report = import_paths(archive, ["-"], stdin=io.BytesIO(content))
        assert kinds(report.refused) == ["no-header"]
    assert len(archive.files) == 2


def database(file: Path, sessions: int = 1) -> Path:
    connection = sqlite3.connect(file)
    connection.executescript(
        f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = 17;"
        "CREATE TABLE sessions (id TEXT PRIMARY KEY, version, created_at, cwd, parent_session, seed_length,"
        " origin, delegation_depth, agent_preset);"
        "CREATE TABLE events (session_id, seq, type TEXT, time, data, source_event_seqs, surface_op,"
        " ignorable);"
    )
    for number in range(sessions):
        connection.execute("INSERT INTO sessions (id, version, created_at) VALUES (?, 0, 1)", (f"d{number}",))
        connection.execute(
            "INSERT INTO events VALUES (?, 0, 'x/y', 1, '{}', NULL, NULL, NULL)", (f"d{number}",)
        )
    connection.commit()
    connection.close()
    return file


def test_a_database_gives_its_sessions_and_its_bytes(tmp_path: Path) -> None:
    file = database(tmp_path / "a.db", 2)
    archive = KeptLogs()
    report = import_paths(archive, [str(tmp_path)])
    assert report.sessions == [("d0", 1), ("d1", 1)]
    assert (report.files, report.imported, report.events, report.clean) == (1, 1, 2, True)
    known = archive.files[str(tmp_path), "a.db"]
    assert (known.sha256, known.layout) == (hashlib.sha256(file.read_bytes()).digest(), "sqlite")
    again = import_paths(archive, [str(tmp_path)])
    assert (again.imported, again.unchanged, again.events) == (0, 1, 0)


def test_damage_in_a_database_is_reported_at_every_import(tmp_path: Path) -> None:
    file = database(tmp_path / "a.db")
    connection = sqlite3.connect(file)
    connection.execute("INSERT INTO events VALUES ('d0', 1, 'x/y', 1, '{oops', NULL, NULL, NULL)")
    connection.commit()
    connection.close()
    archive = KeptLogs()
    for _ in range(2):
        [problem] = import_paths(archive, [str(tmp_path)]).damaged
        assert (problem.finding.kind, problem.finding.seq) == ("bad-row", 1)
        assert problem.path == f"{file}/d0"


def test_a_foreign_database_is_refused_when_it_was_named(tmp_path: Path) -> None:
    file = tmp_path / "foreign.db"
    connection = sqlite3.connect(file)
    connection.execute("CREATE TABLE t (a)")
    connection.close()
    archive = KeptLogs()
    assert import_paths(archive, [str(tmp_path)]).ignored == 1
    assert kinds(import_paths(archive, [str(file)]).refused) == ["not-dsh-database"]
    assert archive.files[str(tmp_path), "foreign.db"].layout == "bytes"


def test_progress_tells_of_every_file_and_ends_at_the_whole(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write(tmp_path, f"{name}.jsonl", log(name))
    database(tmp_path / "c.db")
    heard: list[Progress] = []
    import_paths(KeptLogs(), [str(tmp_path)], on_file=heard.append)
    assert {step.file_no for step in heard} == {1, 2, 3}
    assert {step.files for step in heard} == {3}
    done = [step.total_bytes_done for step in heard]
    assert done == sorted(done)
    assert done[-1] == heard[-1].total_bytes == sum(file.stat().st_size for file in tmp_path.iterdir())


def test_a_report_is_json(tmp_path: Path) -> None:
    write(tmp_path, "a.jsonl", b"\xef\xbb\xbf" + log("a") + b"torn")
    write(tmp_path, "b.jsonl", b"")
    report = json.loads(json.dumps(import_paths(KeptLogs(), [str(tmp_path)]).to_json()))
    assert report["files"] == {"seen": 2, "imported": 1, "unchanged": 0, "refused": 1, "ignored": 0}
    assert report["sessions"] == [{"id": "a", "generation": 1}]
    [damaged] = report["damaged"]
    assert (damaged["kind"], damaged["line"], damaged["sizeBytes"]) == ("torn-tail", 6, 4)
    assert [note["kind"] for note in report["notes"]] == ["bom"]


@given(contents=st.lists(st.binary(max_size=60) | st.just(log("x")), max_size=5))
def test_no_content_of_files_raises(tmp_path_factory: pytest.TempPathFactory, contents: list[bytes]) -> None:
    folder = tmp_path_factory.mktemp("import")
    for number, content in enumerate(contents):
        write(folder, f"{number}.jsonl{'.zstd' if number % 2 else ''}", content)
    report = import_paths(KeptLogs(), [str(folder)])
    assert report.files == len(contents) == report.imported + report.unchanged + len(report.refused)


@pytest.fixture
def case_09(tmp_path: Path) -> Iterator[Path]:
    """A copy of the store with one bad file of every kind; it must come out as it went in."""
    copy = tmp_path / "store"
    shutil.copytree(shared_path("cases/09-one-bad-file-in-the-store/store"), copy)
    before = hashes(copy)
    yield copy
    assert hashes(copy) == before


def hashes(folder: Path) -> dict[str, tuple[str, int]]:
    return {
        str(file): (hashlib.sha256(file.read_bytes()).hexdigest(), file.stat().st_mtime_ns)
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


def test_a_store_with_bad_files_gives_its_good_sessions(case_09: Path) -> None:
    archive = KeptLogs()
    for _ in range(2):
        report = import_paths(archive, [str(case_09)])
        assert places(report) == {"copy-1": "id-mismatch", "empty-1": "no-header", "noise-1": "bad-magic"}
        assert [problem.finding.kind for problem in report.notes] == ["bom", "crlf"]
        assert report.damaged == []
        assert report.files == 6
    assert {session: lines.count(b"\n") for session, lines in archive.logs.items()} == {
        "bom-1": 7,
        "good-1": 7,
        "good-2": 7,
    }


def test_a_single_file_is_held_against_its_place_as_well(case_09: Path) -> None:
    report = import_paths(KeptLogs(), [str(case_09 / "--srv-demo--" / "copy-1" / "session.jsonl")])
    assert kinds(report.refused) == ["id-mismatch"]


def test_hostile_ids_are_taken_character_for_character() -> None:
    archive = KeptLogs()
    report = import_paths(archive, [str(shared_path("cases/23-hostile-session-ids/in"))])
    expected = json.loads(shared_path("cases/23-hostile-session-ids/expected.json").read_bytes())
    assert [session for session, _ in report.sessions] == expected["ids"]
    assert report.clean
    for session in expected["ids"]:
        stream: BinaryIO = io.BytesIO(header(session) + archive.logs[session])
        assert import_paths(archive, ["-"], stdin=stream).sessions == []
