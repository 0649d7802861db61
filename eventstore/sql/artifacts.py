"""Source files in the store: one artifact row for each version of each file.

A log's bytes come from the lines of its sessions; what no line holds stands in the envelope (frames, tail, how
lines of several sessions alternate) and in parts (bytes of frames that no recipe gives again, the undecoded
rest, whole files that are no log). ``rebuilding.py`` gives the file back.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple

import msgspec
import zstandard

from playhead.eventstore.findings import Finding
from playhead.eventstore.source import BytesSource, KnownFile, LogSource
from playhead.eventstore.sql import session_row
from playhead.eventstore.sql.columns import escape, unescape
from playhead.eventstore.sql.engine import Link
from playhead.eventstore.sql.row_check import COLUMNS, row_check

PART_BYTES = 1 << 20
LOG_LAYOUTS = ("jsonl", "jsonl.zstd")

_COLUMNS = COLUMNS["artifact"]
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM artifact"
_INSERT = (
    f'INSERT INTO artifact ({", ".join(_COLUMNS[1:])}, "check") VALUES ({", ".join("?" * len(_COLUMNS))})'
)
_PART_INSERT = 'INSERT INTO artifact_part (artifact_id, part_no, body, "check") VALUES (?, ?, ?, ?)'


class Span(msgspec.Struct, frozen=True, array_like=True):
    """Lines of one session that stand in a row in the file: ``lines`` from ``line0`` on."""

    session_id: int
    line0: int
    lines: int


class Envelope(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a file has beyond the lines of its sessions; see ``source.FileShape`` for the members of a log.

    ``spans`` are in the order of the file. ``refused`` says why a file kept as bytes is not interpreted.
    ``time_ms`` is when the file was taken in.
    """

    time_ms: int
    spans: list[Span] = []
    frames: list[tuple[int, int, int]] = []
    tail: bytes = b""
    rest_bytes: int = 0
    library: str = ""
    findings: list[Finding] = []
    refused: Finding | None = None


class ArtifactRow(NamedTuple):
    """All columns of an artifact but its check."""

    id: int
    session_id: int | None
    root: str
    path: str
    version: int
    sha256: bytes
    size: int
    layout: str
    lines: int
    envelope: bytes

    def opened(self) -> Envelope:
        return _open(self.envelope)

    def check(self) -> bytes:
        return row_check("artifact", self)


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One imported file. ``path`` lies below ``root``, both as they were given, with ``/`` between parts.

    ``version`` counts from 1 where a file was imported again after it had been rewritten. ``layout`` is ``jsonl``,
    ``jsonl.zstd``, ``sqlite`` or ``bytes``; ``refused`` says why a file is not interpreted. ``library`` is the
    libzstd that makes its compressed frames again; "" where none is needed. ``taken_ms`` is when it came.
    """

    id: int
    root: str
    path: str
    version: int
    sha256: bytes
    size_bytes: int
    layout: str
    refused: Finding | None
    newest: bool
    library: str
    taken_ms: int

    @property
    def is_log(self) -> bool:
        """True for a file whose lines were taken in; False for one kept as bytes."""
        return self.layout in LOG_LAYOUTS


def _open(blob: bytes) -> Envelope:
    return msgspec.msgpack.decode(zstandard.ZstdDecompressor().decompress(blob), type=Envelope)


def _close(envelope: Envelope) -> bytes:
    compressor = zstandard.ZstdCompressor(level=9, write_checksum=True)
    return compressor.compress(msgspec.msgpack.encode(envelope))


def latest(link: Link, root: str, path: str) -> ArtifactRow | None:
    """The newest version of a file, by its place."""
    found = link.one(
        f"{_SELECT} WHERE root = ? AND path = ? ORDER BY version DESC LIMIT 1", (escape(root), escape(path))
    )
    return None if found is None else ArtifactRow(*found)


def known(row: ArtifactRow) -> KnownFile:
    """What an importer may ask of a stored file."""
    envelope = row.opened()
    return KnownFile(row.size, row.sha256, row.layout, tuple(envelope.findings), envelope.refused)


def of_session(link: Link, session_id: int) -> list[ArtifactRow]:
    """The files that hold lines of a session, the one with the most lines last."""
    rows = link.all(
        f"{_SELECT} WHERE session_id IN (SELECT same.id FROM session AS same JOIN session AS own "
        "ON same.key = own.key WHERE own.id = ?) ORDER BY lines, id",
        (session_id,),
    )
    found = [ArtifactRow(*row) for row in rows]
    return [
        row
        for row in found
        if row.session_id == session_id or any(span.session_id == session_id for span in row.opened().spans)
    ]


def every(link: Link) -> list[ArtifactRow]:
    """All artifacts, in the order of root, path and version."""
    return [ArtifactRow(*row) for row in link.all(f"{_SELECT} ORDER BY root, path, version")]


def listed(rows: Iterable[ArtifactRow]) -> list[StoredFile]:
    """The files that ``rows`` describe."""
    opened = [(row, row.opened()) for row in rows]
    newest = {(row.root, row.path): row.version for row, _ in opened}
    return [
        StoredFile(
            id=row.id,
            root=unescape(row.root),
            path=unescape(row.path),
            version=row.version,
            sha256=row.sha256,
            size_bytes=row.size,
            layout=row.layout,
            refused=envelope.refused,
            newest=newest[row.root, row.path] == row.version,
            library=envelope.library if any(recipe for _, _, recipe in envelope.frames) else "",
            taken_ms=envelope.time_ms,
        )
        for row, envelope in opened
    ]


def load(link: Link, artifact_id: int) -> ArtifactRow:
    """The artifact of this row id."""
    return ArtifactRow(*link.one(f"{_SELECT} WHERE id = ?", (artifact_id,)))


def named_by(link: Link, session_id: int) -> list[tuple[ArtifactRow, bytes]]:
    """The artifacts that name the session as theirs, with their stored checks."""
    rows = link.all(
        f'SELECT {", ".join(_COLUMNS)}, "check" FROM artifact WHERE session_id = ? ORDER BY id', (session_id,)
    )
    return [(ArtifactRow(*row[:-1]), row[-1]) for row in rows]


def count_of(link: Link, session_id: int) -> int:
    """How many artifacts name the session as theirs."""
    return int(link.one("SELECT count(*) FROM artifact WHERE session_id = ?", (session_id,))[0])


def put_log(
    link: Link, source: LogSource, session_id: int, spans: list[Span], findings: list[Finding], now: int
) -> tuple[bool, int]:
    """Keep the file of a log that was read to its end.

    Gives whether it was new, and the number of artifacts that this adds. That is 0 when the file has all that
    its last version had, and takes its place.
    """
    shape = source.shape
    envelope = Envelope(
        time_ms=now,
        spans=spans,
        frames=[(frame.raw_bytes, frame.size_bytes, frame.recipe) for frame in shape.frames],
        tail=shape.tail,
        rest_bytes=shape.rest_bytes,
        library=shape.library,
        findings=findings,
    )
    row = ArtifactRow(
        id=0,
        session_id=session_id,
        root=escape(source.root),
        path=escape(source.path),
        version=1,
        sha256=shape.sha256,
        size=shape.size_bytes,
        layout=shape.layout,
        lines=sum(span.lines for span in spans),
        envelope=_close(envelope),
    )
    before = latest(link, source.root, source.path)
    changed = before is None or (before.size, before.sha256) != (row.size, row.sha256)
    replaced = before is not None and _extends(source, envelope, before)
    added = _put(link, row, before, replaced, _pieces(shape.kept))
    if before is not None and replaced and before.session_id not in (None, session_id):
        owner = session_row.load(link, before.session_id, lock=True)
        session_row.save(link, owner._replace(artifacts=count_of(link, owner.id)))
    return changed, added


def _extends(source: LogSource, envelope: Envelope, old: ArtifactRow) -> bool:
    """True when a file has all that its version ``old`` had, so that the old one need not be kept.

    Either it only grew, or its lines did, and nothing but whole lines was in the old one.
    """
    before = old.opened()
    whole = old.session_id is not None and not before.tail and not before.rest_bytes
    return (whole and _leads(before.spans, envelope.spans)) or source.begins_with(old.size, old.sha256)


def put_bytes(link: Link, source: BytesSource, now: int) -> tuple[bool, int]:
    """Keep a file as bytes. Gives whether it was new, and the number of artifacts that this adds.

    One that only grew takes the place of its last version, unless that was read as a log.
    """
    digest, size = hashlib.sha256(), 0
    with tempfile.TemporaryFile() as spool:
        for piece in _pieces(source.data):
            digest.update(piece)
            size += len(piece)
            spool.write(piece)
        before = latest(link, source.root, source.path)
        if before is not None and (before.size, before.sha256) == (size, digest.digest()):
            return False, 0
        envelope = Envelope(time_ms=now, refused=source.refused)
        row = ArtifactRow(
            0,
            None,
            escape(source.root),
            escape(source.path),
            1,
            digest.digest(),
            size,
            source.layout,
            0,
            _close(envelope),
        )
        grown = before is not None and before.session_id is None and _begins_with(spool, before)
        return True, _put(link, row, before, grown, _pieces(spool))


def _begins_with(data: BinaryIO, old: ArtifactRow) -> bool:
    """True when the first bytes of ``data`` are those of ``old``."""
    digest, left = hashlib.sha256(), old.size
    for piece in _pieces(data):
        digest.update(piece[:left])
        left -= min(left, len(piece))
    return left == 0 and digest.digest() == old.sha256


def _put(
    link: Link, row: ArtifactRow, old: ArtifactRow | None, replaced: bool, parts: Iterator[bytes]
) -> int:
    """Write the artifact, with ``replaced`` in the place of ``old``; the number of artifacts that this adds."""
    if old is not None and replaced:
        link.run("DELETE FROM artifact_part WHERE artifact_id = ?", (old.id,))
        row = row._replace(id=old.id, version=old.version)
        assignments = ", ".join(f"{column} = ?" for column in _COLUMNS[1:])
        link.run(
            f'UPDATE artifact SET {assignments}, "check" = ? WHERE id = ?', (*row[1:], row.check(), row.id)
        )
    else:
        row = row._replace(version=1 if old is None else old.version + 1)
        made = link.one(_INSERT + " RETURNING id", (*row[1:], b""))
        row = row._replace(id=made[0])
        link.run('UPDATE artifact SET "check" = ? WHERE id = ?', (row.check(), row.id))
    compressor = zstandard.ZstdCompressor(level=3, write_checksum=True)
    for number, piece in enumerate(parts):
        values = (row.id, number, compressor.compress(piece))
        link.run(_PART_INSERT, (*values, row_check("artifact_part", values)))
    return 0 if replaced else 1


def _leads(old: list[Span], new: list[Span]) -> bool:
    """True when the lines of ``old`` are the first lines of ``new``."""
    if len(old) > len(new):
        return False
    for at, span in enumerate(old):
        other = new[at]
        if (span.session_id, span.line0) != (other.session_id, other.line0) or span.lines > other.lines:
            return False
        if span.lines < other.lines and at < len(old) - 1:
            return False
    return True


def _pieces(data: BinaryIO | None) -> Iterator[bytes]:
    if data is None:
        return
    data.seek(0)
    while piece := data.read(PART_BYTES):
        yield piece
