"""A fact as the log holds it: the envelope, and what the event says.

``Recorded`` keeps the bytes of ``data`` as they were stored. Two views of them are built on first use:
``json``, the plain JSON value, which always works; and ``data``, the typed event, which is ``Unknown`` for a
type that nobody registered and ``Malformed`` for data that does not fit its type.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from playhead.eventstore import json_text
from playhead.eventstore.ids import Position, Seq, SessionId

if TYPE_CHECKING:
    from playhead.eventstore.registry import AnyEvent

_UNREAD: Any = object()


class Replace(NamedTuple):
    """Surface operation: the new event takes the place of the nodes ``start`` to ``end``, both inclusive.

    They are seqs, and name a range of *surface positions*: ``start`` may be the higher number.
    """

    start: Seq
    end: Seq


SurfaceOp = Literal["append"] | Replace


def event_object(
    type: str,
    seq: int,
    time_ms: int,
    data: Any,
    *,
    surface_op: SurfaceOp | None = None,
    source_seqs: Sequence[int] | None = None,
    ignorable: bool = False,
) -> dict[str, Any]:
    """An event as one JSON object, in the key order of the live writer; what is absent is left out."""
    event: dict[str, Any] = {"type": type, "seq": seq, "time": time_ms, "data": data}
    if ignorable:
        event["ignorable"] = True
    if source_seqs is not None:
        event["sourceEventSeqs"] = list(source_seqs)
    if isinstance(surface_op, Replace):
        event["surfaceOp"] = {"op": "replace", "start": surface_op.start, "end": surface_op.end}
    elif surface_op is not None:
        event["surfaceOp"] = surface_op
    return event


class Recorded:
    """One fact of one session.

    ``position`` is None where no store has placed the fact. ``time_ms`` is epoch milliseconds and may run
    backwards. ``raw`` is the JSON text of ``data``, verbatim. ``unreadable`` names the envelope members
    (``surfaceOp``, ``sourceEventSeqs``) that are there and make no sense; their value here is None.
    """

    __slots__ = (
        "_data",
        "_json",
        "_source_seqs",
        "ignorable",
        "position",
        "raw",
        "seq",
        "session",
        "surface_op",
        "time_ms",
        "type",
        "unreadable",
    )

    surface_op: SurfaceOp | None

    def __init__(
        self,
        session: SessionId,
        seq: Seq,
        time_ms: int,
        type: str,
        raw: bytes,
        surface_op: SurfaceOp | None = None,
        source_seqs: tuple[Seq, ...] | range | None = None,
        ignorable: bool = False,
        position: Position | None = None,
        unreadable: tuple[str, ...] = (),
    ) -> None:
        self.session = session
        self.seq = seq
        self.time_ms = time_ms
        self.type = type
        self.raw = raw
        self.surface_op = surface_op
        self._source_seqs: tuple[Seq, ...] | range | None = source_seqs
        self.ignorable = ignorable
        self.position = position
        self.unreadable = unreadable
        self._json: Any = _UNREAD
        self._data: Any = _UNREAD

    @property
    def source_seqs(self) -> tuple[Seq, ...] | None:
        """The seqs of the facts that this one was made of; None where it names none."""
        seqs = self._source_seqs
        if isinstance(seqs, range):  # hundreds of numbers, of which most readers want none
            numbers: Any = seqs
            seqs = self._source_seqs = tuple(numbers)
        return seqs

    @property
    def json(self) -> Any:
        """``data`` as a plain JSON value. It is shared: do not change it."""
        if self._json is _UNREAD:
            self._json = json_text.parse(self.raw)
        return self._json

    @property
    def data(self) -> AnyEvent:
        """``data`` as a typed event; ``Unknown`` or ``Malformed`` where it cannot be one."""
        if self._data is _UNREAD:
            from playhead.eventstore.registry import event_types

            self._data = event_types.decode(self.type, self.json)
        return self._data  # type: ignore[no-any-return]

    def with_json(self, value: Any, *, type: str | None = None) -> Recorded:
        """The same fact with another ``data``, and another type where one is given: what an upcast yields."""
        changed = Recorded(
            self.session,
            self.seq,
            self.time_ms,
            type or self.type,
            json_text.dumps(value),
            self.surface_op,
            self._source_seqs,
            self.ignorable,
            self.position,
            self.unreadable,
        )
        changed._json = value
        return changed

    def envelope(self) -> dict[str, Any]:
        """The whole event as one JSON object, in the key order of the live writer."""
        return event_object(
            self.type,
            self.seq,
            self.time_ms,
            self.json,
            surface_op=self.surface_op,
            source_seqs=self.source_seqs,
            ignorable=self.ignorable,
        )

    def line(self) -> bytes:
        """The log line of this fact in format 0, without line end; ``raw`` stands in it as it is.

        Bytes that are not UTF-8 become U+FFFD, as they are read.
        """
        raw = self.raw
        if not raw.isascii():
            raw = raw.decode("utf-8", "replace").encode()
        parts = [
            b'{"type":',
            json_text.dumps(self.type),
            b',"seq":%d,"time":%d,"data":' % (self.seq, self.time_ms),
            raw,
        ]
        if self.ignorable:
            parts.append(b',"ignorable":true')
        if self.source_seqs is not None:
            parts.append(b',"sourceEventSeqs":[' + ",".join(map(str, self.source_seqs)).encode() + b"]")
        if isinstance(self.surface_op, Replace):
            op = (self.surface_op.start, self.surface_op.end)
            parts.append(b',"surfaceOp":{"op":"replace","start":%d,"end":%d}' % op)
        elif self.surface_op is not None:
            parts.append(b',"surfaceOp":"append"')
        parts.append(b"}")
        return b"".join(parts)

    def _key(self) -> tuple[Any, ...]:
        return (
            self.session,
            self.seq,
            self.position,
            self.time_ms,
            self.type,
            self.raw,
            self.surface_op,
            self.source_seqs,
            self.ignorable,
            self.unreadable,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Recorded) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"<{self.session}@{self.seq} {self.type} {self.raw[:60]!r}>"
