"""Damage, said before anything else: what is lost or contradicts itself, and where."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from playhead.cli.output import note
from playhead.cli.safe_text import safe
from playhead.eventstore.findings import Finding

SHOWN = 20
"""So many findings of one log are told one by one."""


def place(finding: Finding) -> str:
    """``line 3, byte 120, seq 2``: as much as is known; "" for nothing."""
    parts = (("line", finding.line), ("byte", finding.byte), ("seq", finding.seq))
    return ", ".join(f"{name} {value}" for name, value in parts if value is not None)


def sentence(finding: Finding) -> str:
    """What was found, and in brackets its kind and place: ``... (torn-tail, line 3, byte 120)``."""
    return safe(f"{finding.message} ({', '.join(filter(None, (finding.kind, place(finding))))})")


def tell(subject: str, findings: Iterable[Finding]) -> bool:
    """Say on stderr what is damaged in ``subject``; True when anything is. Notes are passed over."""
    damaged = [finding for finding in findings if finding.severity == "damage"]
    for finding in damaged[:SHOWN]:
        note(f"{safe(subject)}: damaged: {sentence(finding)}")
    if len(damaged) > SHOWN:
        note(f"{safe(subject)}: damaged: {len(damaged) - SHOWN:,} more; --json lists all")
    return bool(damaged)


def as_json(finding: Finding) -> dict[str, Any]:
    """The finding as a JSON object; what is not known is left out."""
    members = {
        "kind": finding.kind,
        "message": finding.message,
        "line": finding.line,
        "byte": finding.byte,
        "seq": finding.seq,
        "sizeBytes": finding.size_bytes,
    }
    return {name: value for name, value in members.items() if value is not None}
