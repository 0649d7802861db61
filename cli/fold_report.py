"""What every command that folds a session says before it shows anything: damage, gaps in meaning, broken rules."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from playhead.cli import damage, output
from playhead.cli.safe_text import safe
from playhead.eventstore.errors import CorruptLog, UnknownEventType
from playhead.eventstore.findings import damage as damaged
from playhead.eventstore.registry import event_types

if TYPE_CHECKING:
    from playhead.eventstore.log import SessionInfo
    from playhead.projections.folding import Foldable, Folded
    from playhead.projections.projection import Breach


def tell(info: SessionInfo, folded: Folded[Any], breaches: Sequence[Breach]) -> bool:
    """Say on stderr what is wrong with the log or with what was made of it; whether anything is."""
    subject = safe(info.id)
    problem = damage.tell(info.id, info.findings)
    for type, seq in folded.unknown:
        tell_unknown(info.id, type, seq)
    for breach in breaches[: damage.SHOWN]:
        output.note(f"{subject}: seq {breach.seq}: {safe(breach.message)} ({breach.kind})")
    if len(breaches) > damage.SHOWN:
        output.note(f"{subject}: {len(breaches) - damage.SHOWN:,} more of the kind; --json lists all")
    return problem or not folded.complete or bool(breaches)


def tell_unknown(session: str, type: str, seq: int) -> None:
    """Say that an event, the first of a type that nobody knows, may change what follows."""
    where = safe(f"unknown event type {type}, first at seq {seq}")
    output.note(f"{safe(session)}: interpretation incomplete: {where}")


def tell_unknown_types(
    log: Foldable, ignorable: Collection[str], *, from_seq: int = 0, strict: bool = False
) -> bool:
    """Say which events have a type that nobody knows and that may change what follows; whether any has.

    For who shows events without folding them. ``strict`` raises ``UnknownEventType`` instead.
    """
    passed = set(ignorable)
    found = False
    for event in log.events(from_seq, deltas=False, without=frozenset(event_types)):
        if event.ignorable or event.type in passed:
            continue
        if strict:
            raise UnknownEventType(event.type, event.seq, event.session)
        passed.add(event.type)
        found = True
        tell_unknown(event.session, event.type, event.seq)
    return found


def require_none(info: SessionInfo, breaches: Sequence[Breach]) -> None:
    """Raise ``CorruptLog`` for the first breach."""
    if breaches:
        first = breaches[0]
        raise CorruptLog(info.id, f"seq {first.seq}: {first.message}", seq=first.seq, kind=first.kind)


def about(info: SessionInfo, folded: Folded[Any]) -> dict[str, Any]:
    """The members with which the JSON of such a command begins."""
    return {
        "session": info.id,
        "generation": info.generation,
        "damaged": [damage.as_json(finding) for finding in damaged(info.findings)],
        "unknown": [{"type": type, "seq": seq} for type, seq in folded.unknown],
    }
