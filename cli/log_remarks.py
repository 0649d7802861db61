"""Remarks: what is wrong with a log, to be said in the place where it is, among what the log says."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from playhead.cli import damage
from playhead.eventstore import envelope
from playhead.eventstore.findings import damage as damaged

if TYPE_CHECKING:
    from playhead.eventstore.findings import Finding
    from playhead.eventstore.sql.sql_session import SqlSession

_AT_THE_END = frozenset({"torn-tail", "torn-frame"})


@dataclass(frozen=True, slots=True)
class Remark:
    """Something about the log itself, to be said before the event ``seq``; None is the end of the log."""

    seq: int | None
    text: str


def in_order(remarks: Iterable[Remark]) -> tuple[Remark, ...]:
    """The remarks in the order in which they are to be said."""
    return tuple(sorted(remarks, key=lambda remark: (remark.seq is None, remark.seq or 0)))


def due(waiting: deque[Remark], seq: int | None) -> Iterator[Remark]:
    """The first of ``waiting``, which are in order, that belong before the event ``seq``, taken out; all for None."""
    while waiting and (seq is None or (waiting[0].seq is not None and waiting[0].seq <= seq)):
        yield waiting.popleft()


def of_damage(log: SqlSession) -> Iterator[Remark]:
    """What is damaged, each where it is; what has no place among the events is told with its place in the file."""
    found = damaged(log.info.findings)
    unplaced = {finding.kind for finding in found if finding.seq is None} - _AT_THE_END
    behind = _seqs_behind(log, unplaced) if unplaced else {}
    for finding in found:
        yield _remark(finding, next(behind[finding.kind], None) if finding.kind in behind else finding.seq)


def _remark(finding: Finding, seq: int | None) -> Remark:
    if seq is None and finding.kind not in _AT_THE_END:
        return Remark(None, f"damaged: {damage.sentence(finding)}")
    return Remark(seq, f"damaged here: {finding.message}")


def _seqs_behind(log: SqlSession, kinds: Iterable[str]) -> dict[str, Iterator[int]]:
    """Kind of damage -> for each line that has it, the seq that comes next behind it.

    A finding is matched with its line by kind and order: a session may have but some of the lines of its file.
    """
    seqs: dict[str, list[int]] = defaultdict(list)
    next_seq = 0
    for line in log.lines():
        seen = envelope.view(line)
        if seen.defect is not None:
            seqs[seen.defect.kind].append(next_seq)
        if seen.n:
            next_seq = max(next_seq, seen.seq0 + seen.n)
    return {kind: iter(seqs[kind]) for kind in kinds}
