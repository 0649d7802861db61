"""What becomes of a log in the transaction that takes it in: its sessions, its file, findings and positions."""

from __future__ import annotations

from playhead.eventstore.findings import Finding, damage
from playhead.eventstore.log import Clock
from playhead.eventstore.source import Ingested, LogSource
from playhead.eventstore.sql import artifacts, commits, ingesting, session_row
from playhead.eventstore.sql.columns import escape
from playhead.eventstore.sql.engine import Link
from playhead.eventstore.sql.finding_list import FindingList
from playhead.eventstore.sql.ingesting import Taken
from playhead.eventstore.sql.session_row import pack_findings


def take(link: Link, source: LogSource, clock: Clock, *, outlined: bool) -> Ingested:
    """Take a log in: new events, a new generation, or nothing.

    A log of which nothing is stored is read once, unless it is to be ``outlined`` first. Raises ``RanBack`` where that
    is needed: the numbering runs back.
    """
    stored = session_row.of_key(link, escape(source.header.id), lock=True)
    if outlined or any(row.header == source.header_line for row in stored):
        taken, of_lines = ingesting.take_outlined(link, source, stored)
    else:
        generation = max((row.generation for row in stored), default=0) + 1
        new, of_lines = ingesting.take_new(link, source, generation)
        taken = [new]
    return _kept(link, source, taken, of_lines, clock())


def _kept(link: Link, source: LogSource, taken: list[Taken], of_lines: FindingList, now_ms: int) -> Ingested:
    """Write the file, the findings and the positions of what was taken."""
    found = FindingList(source.shape.findings)
    found.extend(of_lines)
    findings = found.listed()
    changed, added = False, 0
    if source.container is None:
        spans = [artifacts.Span(part.row.id, part.own_line, part.lines - part.own_line) for part in taken]
        changed, added = artifacts.put_log(link, source, taken[-1].row.id, spans, findings, now_ms)
    for part in taken:
        _save(link, part, findings)
    news = [part for part in taken if part.new]
    for part in taken:
        commits.place(link, part.row.id, part.ranges, now_ms)
    commits.count(link, sessions=len(news), artifacts=added)
    return Ingested(
        changed=changed or any(part.new or part.added_lines for part in taken),
        sessions=tuple((part.row.session, part.row.generation) for part in news),
        events=sum(n for part in taken for _, n in part.ranges),
        findings=tuple(findings),
    )


def _save(link: Link, part: Taken, findings: list[Finding]) -> None:
    """Write a session's row. Its findings are those of the file that has the most of it, and least damage."""
    row = part.row
    packed = row.findings
    if part.lines == row.lines:
        no_worse = len(damage(findings)) <= len(damage(row.decoded_findings()))
        if part.new or part.added_lines or no_worse:
            packed = pack_findings(findings)
    session_row.save(link, row._replace(findings=packed, artifacts=artifacts.count_of(link, row.id)))
