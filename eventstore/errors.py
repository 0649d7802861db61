"""What can go wrong, as types.

Every error has a stable ``code`` and says where it happened and what to do next. Callers decide by
type, code and fields, never by the text.
"""

from __future__ import annotations


class PlayheadError(Exception):
    """Base of every error that Playhead raises on purpose."""

    code: str = "error"


class UsageError(PlayheadError):
    """The caller asked for something that cannot be asked for."""

    code = "usage"


class SessionNotFound(UsageError):
    """No session has this id; ``candidates`` are ids that begin with it."""

    code = "session-not-found"

    def __init__(self, session: str, candidates: tuple[str, ...] = ()) -> None:
        self.session = session
        self.candidates = candidates
        if candidates:
            shown = ", ".join(candidates[:5]) + (", ..." if len(candidates) > 5 else "")
            super().__init__(f"{session!r} fits {len(candidates)} sessions: {shown}; give more of the id")
        else:
            super().__init__(f"no session {session!r} in this store; `playhead sessions` lists them")


class SessionExists(UsageError):
    """A session of this id is already there."""

    code = "session-exists"

    def __init__(self, session: str) -> None:
        self.session = session
        super().__init__(f"session {session!r} already exists; open that one, or choose another id")


class ReadOnlySession(UsageError):
    """An imported log is a record of what another program wrote; it never grows by an append."""

    code = "read-only-session"

    def __init__(self, session: str) -> None:
        self.session = session
        super().__init__(f"session {session!r} was imported and is read-only; fork it to go on from it")


class NotLosslessJson(UsageError):
    """A value that would not come back from JSON as it went in; ``path`` leads to it."""

    code = "not-lossless-json"

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path}: {reason}")


class WrongExpectedSeq(PlayheadError):
    """Another writer was first; nothing was appended. Read from ``expected`` on and decide again."""

    code = "wrong-expected-seq"

    def __init__(self, session: str, expected: int, actual: int) -> None:
        self.session = session
        self.expected = expected
        self.actual = actual
        super().__init__(
            f"session {session!r} is at seq {actual}, not {expected}; nothing was appended: "
            f"read from seq {min(expected, actual)} and try again"
        )


class IdempotencyConflict(PlayheadError):
    """The key was used before, for other events; nothing was appended."""

    code = "idempotency-conflict"

    def __init__(self, session: str, idem: str) -> None:
        self.session = session
        self.idem = idem
        super().__init__(
            f"session {session!r}: key {idem!r} was used before for other events; "
            "use a fresh key for new events, and the same events for a retry"
        )


class CorruptLog(PlayheadError):
    """Stored bytes that cannot be what was written.

    ``line`` is the physical line (the header is line 1), ``byte`` its offset in the decoded log.
    """

    code = "corrupt-log"

    def __init__(
        self,
        session: str,
        message: str,
        *,
        seq: int | None = None,
        line: int | None = None,
        byte: int | None = None,
        kind: str = "corrupt",
    ) -> None:
        self.session = session
        self.seq = seq
        self.line = line
        self.byte = byte
        self.kind = kind
        super().__init__(f"session {session!r}: {message}")


class NotALog(PlayheadError):
    """A file that is no session log we can interpret; ``kind`` says why, ``byte`` where."""

    code = "not-a-log"

    def __init__(self, kind: str, message: str, *, line: int = 1, byte: int = 0) -> None:
        self.kind = kind
        self.line = line
        self.byte = byte
        super().__init__(message)


class UnknownEventType(PlayheadError):
    """An event of a type nobody registered, and not marked ignorable: what follows may mean something else."""

    code = "unknown-event-type"

    def __init__(self, tag: str, seq: int, session: str = "") -> None:
        self.tag = tag
        self.seq = seq
        self.session = session
        where = f"session {session!r}, " if session else ""
        super().__init__(
            f"{where}seq {seq}: unknown event type {tag!r}, not marked ignorable; "
            f"register it, or pass it as ignorable if you know that it changes nothing"
        )


class StoreUnavailable(PlayheadError):
    """The store could not be opened: missing, locked, outdated, newer than this release, or unreachable."""

    code = "store-unavailable"


class StoreOutdated(StoreUnavailable):
    """The store has an older schema than this release writes."""

    code = "store-outdated"
