"""The two sessions that ``playhead diff`` compares, each as it was asked for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from playhead.cli import damage
from playhead.cli.target import opened, require_seq

if TYPE_CHECKING:
    from playhead.eventstore.log import SessionInfo
    from playhead.projections.folding import Foldable


@dataclass(frozen=True)
class Side:
    """``name`` is A or B, ``given`` what the user called the session, ``seen`` what is compared of it."""

    name: str
    given: str
    info: SessionInfo
    seen: Foldable

    def tell_damage(self) -> bool:
        """Say on stderr what is damaged; whether anything is."""
        return damage.tell(f"{self.name}: {self.info.id}", self.info.findings)


@contextmanager
def side(
    name: str, session: str, *, generation: int | None, at: int | None, repaired: bool, store: str | None
) -> Iterator[Side]:
    """A session to compare, open as long as the context lasts. ``at`` is its last event, ``repaired`` closes it."""
    from playhead.projections.repaired import Repaired
    from playhead.replay.part import Part

    with opened(session, generation, store) as (_, log):
        info = log.info
        require_seq(info, at, f"session {name}, {info.id},")
        end_seq = None if at is None else at + 1
        seen: Foldable = log
        if repaired:
            seen = Repaired(log, end_seq)
        elif end_seq is not None:
            seen = Part(log, to_seq=end_seq)
        yield Side(name, session, info, seen)
