"""The surface: what the model sees, as an ordered list of events, and how replacements changed it.

Five types have a place on it: ``user/message``, ``assistant/message``, ``tool/result``, ``system/message`` and
``developer/message``. Each carries a surface operation (in a fork the last two are marked ignorable instead, and have
no place):

* ``append``: the event goes to the end.
* ``replace start end``: the events from ``start`` to ``end``, both inclusive and in the order of the surface, give way
  to the new one. ``start`` may be the higher number. ``generation`` rises by one.

An event that breaks a rule is a ``Breach`` and changes nothing. The rules, in the order in which they are checked:

* ``surface-not-eligible``: an event of another type carries an operation or sources;
* ``surface-marker-missing``, ``surface-op-invalid``: no operation, or one that makes no sense;
* ``replace-start-not-found``, ``replace-end-not-found``, ``replace-reversed``: the range is not on the surface;
* ``source-invalid``, ``source-empty`` (an answer may have no sources), ``source-duplicate``, ``source-not-earlier``,
  and for a replacement ``source-coverage``: every event that gives way is cited;
* ``tool-rewrite-arity``, ``tool-rewrite-target``, ``tool-rewrite-changed``: a ``tool/result`` that replaces something
  replaces one ``tool/result`` and changes the content of its block, nothing else.

State: the entries in blocks, so that an append does not copy them all. Of a tool result it keeps a digest of what a
rewrite must leave alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from playhead.eventstore import members
from playhead.eventstore.format_0_types import LATER_TYPES
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.recorded import Recorded, Replace
from playhead.projections import same_json
from playhead.projections.folding import Foldable
from playhead.projections.projection import EVERY_TYPE, Breach, Projection

TYPES = frozenset({"user/message", "assistant/message", "tool/result", "system/message", "developer/message"})
"""The types of events that have a place on the surface."""

_BLOCK = 256


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """An event on the surface. ``fixed`` is a digest, "" for anything but a tool result."""

    seq: int
    type: str
    fixed: str = ""


class Replacement(msgspec.Struct, frozen=True):
    """``seq`` took the place of ``shadowed``, which ran from ``start`` to ``end``; in the order of the surface."""

    seq: int
    start: int
    end: int
    shadowed: tuple[int, ...]


class Surface(msgspec.Struct, frozen=True):
    """``full`` holds blocks of entries, ``last`` the entries behind them; ``generation`` counts replacements."""

    full: tuple[tuple[Entry, ...], ...] = ()
    last: tuple[Entry, ...] = ()
    generation: int = 0
    replacements: tuple[Replacement, ...] = ()
    breaches: tuple[Breach, ...] = ()

    def entries(self) -> Iterator[Entry]:
        """The entries in order."""
        for block in self.full:
            yield from block
        yield from self.last

    @property
    def seqs(self) -> list[int]:
        """The seqs of the events that the model sees, in order."""
        return [entry.seq for entry in self.entries()]

    def with_entry(self, entry: Entry) -> Surface:
        """The surface with one more entry at its end."""
        if len(self.last) == _BLOCK:
            return msgspec.structs.replace(self, full=(*self.full, self.last), last=(entry,))
        return msgspec.structs.replace(self, last=(*self.last, entry))


def apply(state: Surface, event: Recorded) -> Surface:
    """The surface after ``event``."""
    if event.type not in TYPES or _stands_aside(event):
        marked = event.surface_op is not None or event.source_seqs is not None or event.unreadable
        if not marked:
            return state
        problem = f"{event.type} is not on the surface, and carries an operation or sources"
        return _refused(state, event, "surface-not-eligible", problem)
    op = event.surface_op
    if op is None:
        if "surfaceOp" in event.unreadable:
            return _refused(state, event, "surface-op-invalid", "the surface operation makes no sense")
        return _refused(state, event, "surface-marker-missing", f"{event.type} has no surface operation")
    if op == "append":
        refusal = _sources_refused(event, ())
        if refusal is not None:
            return _refused(state, event, *refusal)
        return state.with_entry(_entry(event))
    return _replaced(state, event, op)


def _stands_aside(event: Recorded) -> bool:
    """Whether the event has no place: one of a later type, in a session that has the form of format 0."""
    return event.ignorable and event.surface_op is None and event.type in LATER_TYPES and not event.unreadable


def _replaced(state: Surface, event: Recorded, op: Replace) -> Surface:
    entries = list(state.entries())
    at = {entry.seq: index for index, entry in enumerate(entries)}
    for name, seq in (("start", op.start), ("end", op.end)):
        if seq not in at:
            problem = f"the {name} of the range, seq {seq}, is not on the surface"
            return _refused(state, event, f"replace-{name}-not-found", problem)
    first, behind = at[op.start], at[op.end] + 1
    if behind <= first:
        problem = f"seq {op.start} stands behind seq {op.end} on the surface"
        return _refused(state, event, "replace-reversed", problem)
    gone = entries[first:behind]
    entry = _entry(event)
    refusal = _sources_refused(event, gone) or _rewrite_refused(entry, gone)
    if refusal is not None:
        return _refused(state, event, *refusal)
    entries[first:behind] = [entry]
    full = len(entries) // _BLOCK * _BLOCK
    shadowed = tuple(entry.seq for entry in gone)
    return Surface(
        full=tuple(tuple(entries[start : start + _BLOCK]) for start in range(0, full, _BLOCK)),
        last=tuple(entries[full:]),
        generation=state.generation + 1,
        replacements=(*state.replacements, Replacement(event.seq, op.start, op.end, shadowed)),
        breaches=state.breaches,
    )


def _sources_refused(event: Recorded, gone: Iterable[Entry]) -> tuple[str, str] | None:
    """Which rule the sources of ``event`` break; ``gone`` are the entries that it replaces."""
    sources = event.source_seqs
    if "sourceEventSeqs" in event.unreadable:
        return "source-invalid", "the source seqs are not a list of seqs"
    if sources is not None:
        if not sources and event.type != "assistant/message":
            return "source-empty", f"{event.type} cites an empty list of sources"
        if len(set(sources)) != len(sources):
            return "source-duplicate", "a source is cited twice"
        if sources and max(sources) >= event.seq:
            return "source-not-earlier", f"seq {max(sources)} is cited, which does not come before"
    cited = frozenset(sources or ())
    missing = [entry.seq for entry in gone if entry.seq not in cited]
    if missing:
        return "source-coverage", f"seq {missing[0]} is replaced and not cited"
    return None


def _rewrite_refused(entry: Entry, gone: list[Entry]) -> tuple[str, str] | None:
    """Which rule a replacement breaks because it is a tool result."""
    if entry.type != "tool/result":
        return None
    if len(gone) != 1:
        return "tool-rewrite-arity", f"a tool result replaces {len(gone)} entries, not one"
    (old,) = gone
    if old.type != "tool/result":
        return "tool-rewrite-target", f"a tool result replaces a {old.type}"
    if old.fixed != entry.fixed:
        return "tool-rewrite-changed", "more than the content of the tool result changes"
    return None


def _entry(event: Recorded) -> Entry:
    return Entry(event.seq, event.type, _fixed(event) if event.type == "tool/result" else "")


def _fixed(event: Recorded) -> str:
    """The digest of a tool result without the content of its block."""
    data = members.of(event)
    message = members.inner(data, "message")
    content = message.get("content")
    if isinstance(content, list) and len(content) == 1 and isinstance(content[0], dict):
        block = {key: value for key, value in content[0].items() if key != "content"}
        data = data | {"message": message | {"content": [block]}}
    return same_json.digest(data)


def _refused(state: Surface, event: Recorded, kind: str, message: str) -> Surface:
    return msgspec.structs.replace(state, breaches=(*state.breaches, Breach(kind, event.seq, message)))


def window(events: Iterable[Recorded], base_seq: int = 0) -> Surface:
    """The surface that ``events`` alone build: an unbroken run of a log, deltas included, from ``base_seq`` on.

    An event out of turn is a breach, ``seq-not-contiguous``, and changes nothing; a replacement that names an entry
    from before the window is one as well.
    """
    state = Surface()
    for seq, event in enumerate(events, base_seq):
        if event.seq == seq:
            state = apply(state, event)
        else:
            state = _refused(
                state, event, "seq-not-contiguous", f"seq {event.seq} stands where {seq} belongs"
            )
    return state


def message_of(event: Recorded) -> dict[str, Any] | None:
    """The message by which an event on the surface reaches the model, as JSON; None where it does not.

    An answer without content is kept for its usage only; notices about the list of tools are not sent; a system
    prompt without content is a place for a later one.
    """
    data = members.of(event)
    if event.type == "user/message":
        return data or None
    message = members.inner(data, "message")
    if event.type == "developer/message" or event.type not in TYPES:
        return None
    if event.type in ("assistant/message", "system/message") and message.get("content") == []:
        return None
    return message or None


def messages(session: Foldable, surface: Surface) -> list[tuple[int, dict[str, Any]]]:
    """The messages that the model sees at ``surface``, each with the seq of its event, in order."""
    seqs = surface.seqs
    wanted = frozenset(seqs)
    found: dict[int, dict[str, Any]] = {}
    for event in session.events(0, max(seqs, default=-1) + 1, deltas=False):
        message = message_of(event) if event.seq in wanted else None
        if message is not None:
            found[event.seq] = message
    return [(seq, found[seq]) for seq in seqs if seq in found]


def _initial(header: SessionHeader) -> Surface:  # noqa: ARG001 - every projection is asked this way
    return Surface()


def _view(state: Surface) -> dict[str, Any]:
    return {
        "entries": state.seqs,
        "generation": state.generation,
        "replacements": [
            {"seq": item.seq, "start": item.start, "end": item.end, "shadowedSeqs": list(item.shadowed)}
            for item in state.replacements
        ],
        "breaches": [msgspec.to_builtins(item) for item in state.breaches],
    }


surface = Projection[Surface](
    name="surface",
    version=1,
    state=Surface,
    handles=EVERY_TYPE,
    initial=_initial,
    apply=apply,
    view=_view,
)
