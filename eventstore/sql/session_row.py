"""The row of a session: loaded, changed as a value, written with its check."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from playhead.eventstore.errors import CorruptLog, NotALog
from playhead.eventstore.findings import CHANGED, Finding
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import Seq, SessionId
from playhead.eventstore.log import SessionInfo
from playhead.eventstore.sql.columns import escape, escape_optional, unescape
from playhead.eventstore.sql.engine import Link
from playhead.eventstore.sql.row_check import COLUMNS, row_check

_COLUMNS = COLUMNS["session"]
_INSERT = (
    f'INSERT INTO session ({", ".join(_COLUMNS[1:])}, "check") VALUES ({", ".join("?" * len(_COLUMNS))})'
)
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM session"
_UPDATE = (
    "UPDATE session SET next_seq = ?, lines = ?, events = ?, first_ms = ?, last_ms = ?, chain = ?, head = ?, "
    'sealed_lines = ?, artifacts = ?, findings = ?, "check" = ? WHERE id = ?'
)
_findings = msgspec.json.Decoder(list[Finding])


class SessionRow(NamedTuple):
    """All columns of a session but its check. Text is escaped, as it stands in the table."""

    id: int
    key: str
    generation: int
    dialect: str
    header: bytes
    created_ms: int
    cwd: str | None
    parent_key: str | None
    seed_length: int | None
    origin: str | None
    delegation_depth: int | None
    next_seq: int
    lines: int
    events: int
    first_ms: int | None
    last_ms: int | None
    chain: bytes
    head: bytes
    sealed_lines: int
    artifacts: int
    findings: bytes | None
    idem: str | None

    @property
    def session(self) -> SessionId:
        return SessionId(unescape(self.key))

    def check(self) -> bytes:
        return row_check("session", self)

    def decoded_findings(self) -> tuple[Finding, ...]:
        """The findings that belong to this session's log."""
        try:
            return tuple(_findings.decode(self.findings)) if self.findings else ()
        except (msgspec.MsgspecError, UnicodeDecodeError, TypeError):
            return (_changed("what was found wrong with the log cannot be read any more"),)

    def header_line(self) -> bytes:
        """The header, verbatim. Raises ``CorruptLog`` where somebody put something else than bytes there."""
        if not isinstance(self.header, bytes):
            raise self._unreadable()
        return self.header

    def parsed_header(self) -> SessionHeader:
        """The header. Raises ``CorruptLog`` for one that was changed in the store and cannot be read."""
        try:
            return SessionHeader.parse(self.header_line())
        except NotALog as error:
            raise self._unreadable() from error

    def _unreadable(self) -> CorruptLog:
        message = "its header was changed in the store and cannot be read; run `playhead verify`"
        return CorruptLog(self.session, message, line=1, kind=CHANGED)

    def info(self, generations: int) -> SessionInfo:
        """What a caller may know of the session, ``generations`` being the number of its id.

        Where the header cannot be read any more, what other columns repeat of it stands in, and a finding says so.
        """
        findings = self.decoded_findings()
        try:
            header = self.parsed_header()
        except CorruptLog:
            header = self._repeated_header()
            findings = (_changed("the header cannot be read any more", line=1), *findings)
        return SessionInfo(
            id=self.session,
            generation=self.generation,
            generations=generations,
            dialect=unescape(self.dialect),
            header=header,
            next_seq=Seq(self.next_seq),
            lines=self.lines,
            events=self.events,
            head=self.head,
            first_ms=self.first_ms,
            last_ms=self.last_ms,
            findings=findings,
        )

    def _repeated_header(self) -> SessionHeader:
        """What ``header_columns`` has put into other columns."""
        return SessionHeader(
            id=self.session,
            created_ms=self.created_ms,
            cwd=_unescaped(self.cwd),
            parent=None if self.parent_key is None else SessionId(unescape(self.parent_key)),
            seed_length=self.seed_length,
            origin=_unescaped(self.origin),
            delegation_depth=self.delegation_depth or 0,
        )


def _unescaped(text: str | None) -> str | None:
    return None if text is None else unescape(text)


def _changed(what: str, line: int | None = None) -> Finding:
    return Finding(CHANGED, f"{what}: the store was changed; `playhead verify` says where", line=line)


def header_columns(header: SessionHeader) -> dict[str, Any]:
    """The columns that repeat what the header says, so that SQL can ask for it."""
    return {
        "key": escape(header.id),
        "created_ms": header.created_ms,
        "cwd": escape_optional(header.cwd),
        "parent_key": escape_optional(header.parent),
        "seed_length": header.seed_length,
        "origin": escape_optional(header.origin),
        "delegation_depth": header.delegation_depth,
    }


def pack_findings(findings: tuple[Finding, ...] | list[Finding]) -> bytes | None:
    """Findings as a column holds them; None for none."""
    return msgspec.json.encode(list(findings)) if findings else None


def insert(link: Link, row: SessionRow) -> SessionRow:
    """Write a new session (``row.id`` is ignored) and give it back with its id."""
    placeholder_check = b""
    made = link.one(_INSERT + " RETURNING id", (*row[1:], placeholder_check))
    row = row._replace(id=made[0])
    link.run('UPDATE session SET "check" = ? WHERE id = ?', (row.check(), row.id))
    return row


def load(link: Link, row_id: int, *, lock: bool = False) -> SessionRow:
    """The session of this row id; ``lock`` keeps other writers off it until the transaction ends.

    Raises ``CorruptLog`` when the row is not there: rows are never deleted.
    """
    found = link.one(f"{_SELECT} WHERE id = ?{_for_update(link, lock)}", (row_id,))
    if found is None:
        raise CorruptLog("", f"session row {row_id} is missing from the store; run `playhead verify`")
    return SessionRow(*found)


def of_key(link: Link, key: str, *, lock: bool = False) -> list[SessionRow]:
    """All generations of the (escaped) id, oldest first."""
    sql = f"{_SELECT} WHERE key = ? ORDER BY generation{_for_update(link, lock)}"
    return [SessionRow(*found) for found in link.all(sql, (key,))]


def plain(rows: Iterable[SessionRow]) -> SessionRow:
    """The generation that a plain id means: the newest format, then the latest event, then the last that came."""
    return max(rows, key=lambda row: (_version(row), row.last_ms or row.created_ms, row.generation))


def _version(row: SessionRow) -> int:
    """The format that the header names; -1 where it cannot be read."""
    try:
        return row.parsed_header().version
    except CorruptLog:
        return -1


def every(link: Link) -> list[SessionRow]:
    """All sessions of the store, in the order they were made."""
    return [SessionRow(*found) for found in link.all(f"{_SELECT} ORDER BY id")]


def save(link: Link, row: SessionRow, *, before: SessionRow | None = None) -> bool:
    """Write the changing columns of ``row``. False, and nothing written, when ``before`` is given and the
    stored row is no longer that one."""
    sql = _UPDATE
    values: list[Any] = [
        row.next_seq,
        row.lines,
        row.events,
        row.first_ms,
        row.last_ms,
        row.chain,
        row.head,
        row.sealed_lines,
        row.artifacts,
        row.findings,
        row.check(),
        row.id,
    ]
    if before is not None:
        sql += ' AND next_seq = ? AND "check" = ?'
        values += [before.next_seq, before.check()]
    return link.run(sql, values) == 1


def _for_update(link: Link, lock: bool) -> str:
    return " FOR UPDATE" if lock and link.postgres else ""
