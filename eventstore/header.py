"""The header of a session: the first line of its log, and never an event.

Versions 0 and 1 carry ``seedLength``; from 2 on ``isSeeded`` stands in its place and the length follows from
the log. Keys that no version knows are kept in the stored line and named in ``extra``.
Source: docs/formats.md, "Header".
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from playhead.eventstore import json_text
from playhead.eventstore.errors import NotALog, UsageError
from playhead.eventstore.ids import SessionId, is_safe_integer

NEWEST_VERSION = 4
"""The newest log format that is interpreted; a newer log is kept as bytes."""

_KNOWN = (
    "type",
    "version",
    "id",
    "createdAt",
    "cwd",
    "parentSession",
    "seedLength",
    "isSeeded",
    "origin",
    "delegationDepth",
    "agentPreset",
)
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class SessionHeader:
    """Who a session is. ``created_ms`` is epoch milliseconds; absent members are None.

    ``seed_length`` counts the inherited events at the front; in logs of version 2 and newer it is None and
    the inherited marker in the log tells it.
    """

    id: SessionId
    created_ms: int
    version: int = 0
    cwd: str | None = None
    parent: SessionId | None = None
    seed_length: int | None = None
    is_seeded: bool | None = None
    origin: str | None = None
    delegation_depth: int | None = 0
    agent_preset: str | None = None
    extra: tuple[str, ...] = field(default=())

    @classmethod
    def parse(cls, line: bytes) -> SessionHeader:
        """The header in ``line``. Raises ``NotALog`` with kind ``no-header``, ``newer-format`` or ``bad-header``.

        A byte order mark before it and a CR behind it are passed over.
        """
        try:
            members = json_text.parse(line.removeprefix(_BOM))
        except (ValueError, RecursionError):
            raise NotALog("no-header", "the first line is not a session header: it is not JSON") from None
        if not isinstance(members, dict) or members.get("type") != "session":
            raise NotALog("no-header", "the first line is not a session header")
        version = members.get("version")
        if not is_safe_integer(version) or version < 0:
            raise NotALog("bad-header", "the header has no usable version")
        if version > NEWEST_VERSION:
            raise NotALog(
                "newer-format",
                f"log format {int(version)} is newer than {NEWEST_VERSION}, the newest this release reads",
            )
        return cls._checked(members)

    @classmethod
    def _checked(cls, members: dict[str, Any]) -> SessionHeader:
        def want(key: str, good: bool, what: str) -> None:
            if not good:
                raise NotALog("bad-header", f"the header's {key} is not {what}")

        session = members.get("id")
        want("id", isinstance(session, str), "text")
        created = members.get("createdAt")
        want("createdAt", is_safe_integer(created) and created >= 0, "epoch milliseconds")
        depth = members.get("delegationDepth")
        want("delegationDepth", depth is None or (is_safe_integer(depth) and depth >= 0), "a count")
        seed = members.get("seedLength")
        want("seedLength", seed is None or (is_safe_integer(seed) and seed >= 0), "a count")
        seeded = members.get("isSeeded")
        want("isSeeded", seeded is None or isinstance(seeded, bool), "true or false")
        for key in ("cwd", "parentSession", "origin", "agentPreset"):
            want(key, members.get(key) is None or isinstance(members[key], str), "text")
        return cls(
            id=SessionId(session),  # type: ignore[arg-type]
            created_ms=int(created),  # type: ignore[arg-type]
            version=int(members["version"]),
            cwd=members.get("cwd"),
            parent=members.get("parentSession"),
            seed_length=None if seed is None else int(seed),
            is_seeded=seeded,
            origin=members.get("origin"),
            delegation_depth=None if depth is None else int(depth),
            agent_preset=members.get("agentPreset"),
            extra=tuple(key for key in members if key not in _KNOWN),
        )

    def line(self) -> bytes:
        """The header as a log line of its version, without line end. Absent members are left out."""
        members: dict[str, Any] = {
            "type": "session",
            "version": self.version,
            "id": self.id,
            "createdAt": self.created_ms,
            "cwd": self.cwd,
            "parentSession": self.parent,
        }
        if self.version < 2:
            members["seedLength"] = self.seed_length
        else:
            members["isSeeded"] = bool(self.is_seeded)
        members |= {
            "origin": self.origin,
            "delegationDepth": self.delegation_depth,
            "agentPreset": self.agent_preset,
        }
        return json_text.dumps({key: value for key, value in members.items() if value is not None})

    def new_line(self) -> bytes:
        """``line()`` for a session that is to be made. Raises ``UsageError`` for one that nobody could open again."""
        try:
            line = self.line()
            SessionHeader.parse(line)
        except (NotALog, TypeError, ValueError) as error:
            raise UsageError(f"session {self.id!r} cannot be made: {error}") from None
        return line


def same_creation(one: bytes, other: bytes) -> bool:
    """True when two header lines differ in the time of creation at most."""
    return replace(SessionHeader.parse(one), created_ms=0) == replace(
        SessionHeader.parse(other), created_ms=0
    )
