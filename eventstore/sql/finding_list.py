"""What was found in one log: the first findings, and how many more there are.

A file of garbage has a finding on every line; what is kept of it must not grow with it.
"""

from __future__ import annotations

from collections.abc import Iterable

from playhead.eventstore.findings import Finding
from playhead.eventstore.line_records import Defect

MAX_FINDINGS = 1000
"""More findings than this of one log are counted, not kept."""


class FindingList:
    """Findings in the order in which they are added, at most ``MAX_FINDINGS`` of them."""

    def __init__(self, findings: Iterable[Finding] = ()) -> None:
        self._first: list[Finding] = []
        self._more = 0
        self.extend(findings)

    def add(self, finding: Finding) -> None:
        """Take up a finding, or count it."""
        if len(self._first) < MAX_FINDINGS:
            self._first.append(finding)
        else:
            self._more += 1

    def add_defect(self, defect: Defect, *, line: int, byte: int, seq: int, size_bytes: int) -> None:
        """Take up what is wrong with a line; ``seq`` is -1 when it is not known."""
        if len(self._first) < MAX_FINDINGS:
            known_seq = None if seq < 0 else seq
            self.add(Finding(defect.kind, defect.message, line, byte, known_seq, size_bytes))
        else:
            self._more += 1

    def count(self, more: int) -> None:
        """Take up that there are ``more`` findings that nobody described."""
        self._more += more

    def extend(self, others: FindingList | Iterable[Finding]) -> None:
        """Take up all of ``others`` behind what is there."""
        if isinstance(others, FindingList):
            self._more += others._more
            others = others._first
        for finding in others:
            self.add(finding)

    def listed(self) -> list[Finding]:
        """The findings; what was left out is counted in the last."""
        if not self._more:
            return list(self._first)
        return [*self._first, Finding("more", f"{self._more} more findings of this log are not listed")]
