"""What verification finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is not as it was stored (``error``), or that breaks a rule of the log (``warning``).

    ``session`` is the id, with ``generation``; None for what concerns the whole store. Lines are physical
    lines (the header is line 1), ``to_line`` and ``to_seq`` are exclusive.
    """

    kind: str
    message: str
    session: str | None = None
    generation: int | None = None
    from_line: int | None = None
    to_line: int | None = None
    from_seq: int | None = None
    to_seq: int | None = None
    path: str | None = None
    severity: Literal["error", "warning"] = "error"

    @property
    def stops_reading(self) -> bool:
        """Whether the database itself is damaged, so that nothing else could be looked at."""
        return self.kind in ("database", "cell-type")
