"""Takes logs of dsh into a store: finds them, leaves alone what did not change, and goes on past bad ones.

Each file is its own unit. What cannot be interpreted is archived as bytes, with the reason; what cannot be
read, or is not there, is in the report. An error of the store itself ends the import.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import BinaryIO

from playhead.adapters.dsh import paths as places
from playhead.adapters.dsh.discover import Candidate, Discovered, discover
from playhead.adapters.dsh.log_file import LogFile, open_file, open_log
from playhead.adapters.dsh.report import Report
from playhead.adapters.dsh.sqlite import Database, Refused
from playhead.adapters.dsh.window import PIECE_BYTES, window
from playhead.eventstore.errors import NotALog
from playhead.eventstore.findings import Finding
from playhead.eventstore.source import Archive, BytesSource, Ingested, KnownFile

STDIN = "-"
"""The path that stands for standard input, and the root of what comes from there."""

_UNREAD = frozenset({"unreadable", "missing", "changed"})
"""Refusals that leave no bytes to archive."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an import is. ``bytes`` are of files on disk; ``file_no`` counts from 1."""

    path: str
    file_no: int
    files: int
    file_bytes: int
    file_bytes_done: int
    total_bytes: int
    total_bytes_done: int


OnFile = Callable[[Progress], None]


def import_paths(
    archive: Archive,
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    on_file: OnFile | None = None,
    keep_frames: bool = False,
    stdin: BinaryIO | None = None,
) -> Report:
    """Take everything at ``paths``, or at the one path that is given, into ``archive``, and say what became of it.

    ``-`` is a log on standard input, or on ``stdin``. ``on_file`` hears of the progress at the begin of each
    file, now and then in it, and at its end. With ``keep_frames`` compressed frames are kept as bytes even
    where they could be made again. Nothing is raised for what the files hold, or for a path that is missing.
    """
    if isinstance(paths, str | os.PathLike):
        paths = (paths,)  # a text is an iterable of texts as well: "/a" would be the root, and a
    run = _Run(archive, on_file, keep_frames)
    found: list[Discovered | None] = []
    for path in paths:
        text = os.fspath(path)
        found.append(None if text == STDIN else discover(text))
    run.expect(found)
    for part in found:
        if part is None:
            run.stream(stdin or sys.stdin.buffer)
            continue
        for trouble in part.troubles:
            run.report.refuse(trouble.path, trouble.finding)
        for candidate in part.candidates:
            run.file(candidate)
    return run.report


class _Run:
    def __init__(self, archive: Archive, on_file: OnFile | None, keep_frames: bool) -> None:
        self.report = Report()
        self._archive = archive
        self._on_file = on_file
        self._keep_frames = keep_frames
        self._files = 0
        self._total_bytes = 0
        self._done_bytes = 0

    def expect(self, found: list[Discovered | None]) -> None:
        """Learn how much there is to do."""
        for part in found:
            self._files += 1 if part is None else len(part.candidates)
            if part is not None:
                self._total_bytes += sum(candidate.size_bytes for candidate in part.candidates)
                self.report.ignored += part.ignored

    def file(self, candidate: Candidate) -> None:
        """Take one file or database."""
        self.report.files += 1
        self._tell(candidate.file, candidate.size_bytes, 0)
        if candidate.kind == "database":
            self._database(candidate)
        else:
            self._log_file(candidate)
        self._tell(candidate.file, candidate.size_bytes, candidate.size_bytes)
        self._done_bytes += candidate.size_bytes

    def stream(self, stream: BinaryIO) -> None:
        """Take one log from a stream, which is copied to a temporary file first."""
        self.report.files += 1
        with tempfile.NamedTemporaryFile(prefix="playhead-") as spool:
            shutil.copyfileobj(stream, spool, PIECE_BYTES)
            spool.flush()
            self._tell(STDIN, spool.tell(), 0)
            try:
                with open_log(spool.name, STDIN, STDIN, keep_frames=self._keep_frames) as log:
                    log.path = f"{places.session_segment(log.header.id) if log.header.id else '~'}.jsonl"
                    known = self._archive.known(STDIN, log.path)
                    if not self._unchanged(STDIN, log, known):
                        self._took(STDIN, self._archive.ingest(log))
            except NotALog as refusal:
                path = f"refused-{_sha256(spool.name).hex()[:16]}"
                self._refuse(STDIN, STDIN, path, spool.name, refusal)

    def _log_file(self, candidate: Candidate) -> None:
        known = self._archive.known(candidate.root, candidate.path)
        for attempt in (1, 2):
            try:
                with self._opened(candidate) as log:
                    if not self._unchanged(candidate.file, log, known):
                        self._took(candidate.file, self._archive.ingest(log))
                return
            except NotALog as refusal:
                if refusal.kind == "changed" and attempt == 1:
                    continue
                self._refuse(candidate.file, candidate.root, candidate.path, candidate.file, refusal)
                return

    def _opened(self, candidate: Candidate) -> LogFile:
        def advance(done: int) -> None:
            self._tell(candidate.file, candidate.size_bytes, min(done, candidate.size_bytes))

        return open_log(
            candidate.file,
            candidate.root,
            candidate.path,
            keep_frames=self._keep_frames,
            advance=advance if self._on_file else None,
        )

    def _unchanged(self, shown: str, log: LogFile, known: KnownFile | None) -> bool:
        """True, and reported, when the store has exactly this file already."""
        if known is None or known.refused is not None or known.size_bytes != log.size_bytes:
            return False
        if log.sha256() != known.sha256:
            return False
        self.report.unchanged += 1
        self.report.add(shown, known.findings)
        return True

    def _took(self, shown: str, ingested: Ingested) -> None:
        if ingested.changed:
            self.report.imported += 1
        else:
            self.report.unchanged += 1
        self._count(shown, ingested)

    def _count(self, shown: str, ingested: Ingested) -> None:
        self.report.sessions += ingested.sessions
        self.report.events += ingested.events
        self.report.add(shown, ingested.findings)

    def _refuse(self, shown: str, root: str, path: str, file: str, refusal: NotALog) -> None:
        """Report a file that is not interpreted, and archive its bytes."""
        finding = Finding(refusal.kind, str(refusal), refusal.line, refusal.byte)
        if refusal.kind in _UNREAD:
            finding = Finding(refusal.kind, str(refusal))
        else:
            try:
                with open_file(file) as opened:
                    data = window(opened, 0, os.fstat(opened.fileno()).st_size)
                    self._archive.archive(BytesSource(root, path, "bytes", data, finding))
            except OSError as error:
                finding = Finding("unreadable", error.strerror or str(error))
        self.report.refuse(shown, finding)

    def _database(self, candidate: Candidate) -> None:
        """Take the sessions of a database, then the files themselves.

        The bytes come last: a database whose import was cut short is not known, and taken again. It is read
        anew each time, since the store keeps what was found in a session with the session.
        """
        try:
            with Database(candidate.file, candidate.root, candidate.path) as database:
                refusal = None
                changed = False
                try:
                    changed = self._sessions(candidate, database)
                    self.report.add(candidate.file, database.findings())
                except NotALog as error:
                    refusal = error
                changed |= self._bytes(candidate, database, refusal)
        except NotALog as error:
            self.report.refuse(candidate.file, Finding(error.kind, str(error)))
            return
        if refusal is not None:
            self.report.refuse(candidate.file, Finding(refusal.kind, str(refusal)))
        elif changed:
            self.report.imported += 1
        else:
            self.report.unchanged += 1

    def _sessions(self, candidate: Candidate, database: Database) -> bool:
        changed = False
        for session in database.sessions():
            shown = os.path.join(candidate.root, session.path)
            if isinstance(session, Refused):
                self.report.refuse(shown, Finding(session.refusal.kind, str(session.refusal)))
                continue
            ingested = self._archive.ingest(session)
            self._count(shown, ingested)
            changed |= ingested.changed
        return changed

    def _bytes(self, candidate: Candidate, database: Database, refusal: NotALog | None) -> bool:
        refused = None if refusal is None else Finding(refusal.kind, str(refusal))
        changed = False
        for ending, copy in reversed(database.files.items()):
            with open(copy, "rb") as data:
                layout = "bytes" if refused else "sqlite"
                source = BytesSource(candidate.root, candidate.path + ending, layout, data, refused)
                changed |= self._archive.archive(source).changed
        return changed

    def _tell(self, shown: str, file_bytes: int, done: int) -> None:
        if self._on_file is not None:
            self._on_file(
                Progress(
                    path=shown,
                    file_no=self.report.files,
                    files=self._files,
                    file_bytes=file_bytes,
                    file_bytes_done=done,
                    total_bytes=self._total_bytes,
                    total_bytes_done=self._done_bytes + done,
                )
            )


def _sha256(file: str) -> bytes:
    with open(file, "rb") as opened:
        return hashlib.file_digest(opened, "sha256").digest()
