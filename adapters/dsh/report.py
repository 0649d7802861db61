"""What an import did, for people and as JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from playhead.eventstore.findings import Finding


@dataclass(frozen=True, slots=True)
class Problem:
    """A finding with the file that it was found in."""

    path: str
    finding: Finding

    def to_json(self) -> dict[str, Any]:
        """The problem as plain JSON; what is not known is left out."""
        found = self.finding
        members = {
            "path": self.path,
            "kind": found.kind,
            "message": found.message,
            "line": found.line,
            "byte": found.byte,
            "seq": found.seq,
            "sizeBytes": found.size_bytes,
        }
        return {key: value for key, value in members.items() if value is not None}


@dataclass(slots=True)
class Report:
    """The sum of an import.

    ``files`` counts the candidates, each of which is ``imported`` (something new came of it), ``unchanged``
    or among the refused; a file that was refused before is refused again. ``ignored`` counts the files that
    are no candidates. ``sessions`` are (id, generation) of the new ones, ``events`` the facts added.
    ``damaged`` lists what is wrong inside files that were taken, ``refused`` what could not be interpreted,
    or not even be read, ``notes`` what is merely remarkable.
    """

    files: int = 0
    imported: int = 0
    unchanged: int = 0
    ignored: int = 0
    sessions: list[tuple[str, int]] = field(default_factory=list)
    events: int = 0
    damaged: list[Problem] = field(default_factory=list)
    refused: list[Problem] = field(default_factory=list)
    notes: list[Problem] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        """True when nothing was damaged and nothing refused."""
        return not self.damaged and not self.refused

    def add(self, path: str, findings: tuple[Finding, ...] | list[Finding]) -> None:
        """Take up the findings of a file that was taken."""
        for finding in findings:
            target = self.damaged if finding.severity == "damage" else self.notes
            target.append(Problem(path, finding))

    def refuse(self, path: str, finding: Finding) -> None:
        """Take up why a file was not taken."""
        self.refused.append(Problem(path, finding))

    def to_json(self) -> dict[str, Any]:
        """The report as plain JSON."""
        return {
            "files": {
                "seen": self.files,
                "imported": self.imported,
                "unchanged": self.unchanged,
                "refused": len(self.refused),
                "ignored": self.ignored,
            },
            "sessions": [{"id": session, "generation": number} for session, number in self.sessions],
            "events": self.events,
            "damaged": [problem.to_json() for problem in self.damaged],
            "refused": [problem.to_json() for problem in self.refused],
            "notes": [problem.to_json() for problem in self.notes],
        }
