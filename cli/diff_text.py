"""``playhead diff`` as text: the events around each difference, and what differs in them.

A line is a sign, the seq in A, the seq in B, the type of the event and what it says in short. The signs: ``-`` only A
has it, ``+`` only B has it, ``!`` something in it differs, ``>`` it stands elsewhere in B.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from playhead.cli import diff_json, diff_marks, output, units
from playhead.cli.colour import paint
from playhead.cli.paragraphs import clip, clipped
from playhead.cli.safe_text import safe
from playhead.eventstore import json_text, members
from playhead.projections.message_text import calls_of, text_of
from playhead.replay.diff_entries import END
from playhead.replay.diff_form import plain

if TYPE_CHECKING:
    from playhead.cli.diff_sides import Side
    from playhead.replay.diff import Pair
    from playhead.replay.diff_changes import Change
    from playhead.replay.diff_entries import Entry, Place

CONTEXT = 3
"""So many equal events are shown before and behind a difference."""

_SIGNS = {"same": " ", "changed": "!", "moved": ">", "only-a": "-", "only-b": "+"}
_STYLES = {"same": "dim", "changed": "yellow", "moved": "cyan", "only-a": "red", "only-b": "green"}
_MOST = 12
"""So many changes of one event are shown."""

_GIST = 100
_INDENT = "    "


class Screen:
    """Takes the pairs one by one and writes those that differ, with their neighbours.

    Without ``every`` it is the first that differs, and its neighbours, differing or not, are told in short.
    """

    def __init__(self, a: Side, b: Side, *, every: bool, width: int | None, full: bool) -> None:
        self._every = every
        self._width = width
        self._full = full
        self._digits = max(len(str(side.info.next_seq)) for side in (a, b))
        self._heads = [_head(sign, side) for sign, side in (("---", a), ("+++", b))]
        self._before: deque[Pair] = deque(maxlen=CONTEXT)
        self._behind = 0
        self._place: Place | None = None
        self._skipped = False

    def add(self, pair: Pair) -> None:
        """Take the next pair."""
        if self._behind and (pair.kind == "same" or not self._every):
            self._write(pair, in_short=True)
            self._behind -= 1
        elif pair.kind != "same":
            self._open()
            self._write(pair)
            self._behind = CONTEXT
        else:
            self._skipped = self._skipped or len(self._before) == CONTEXT
            self._before.append(pair)

    @property
    def wants_more(self) -> bool:
        """Whether what comes behind the last difference has still to be shown."""
        return self._behind > 0

    def _open(self) -> None:
        """Write what leads to a difference."""
        for line in self._heads:
            output.line(line)
        self._heads = []
        if (
            self._skipped
            and self._place is not None
            and self._before
            and self._before[0].entry.place == self._place
        ):
            output.line(paint(f"{' ' * (2 * self._digits + 3)} …", "dim"))
        for pair in self._before:
            self._write(pair)
        self._before.clear()
        self._skipped = False

    def _write(self, pair: Pair, *, in_short: bool = False) -> None:
        entry = pair.entry
        if entry.place != self._place:
            self._place = entry.place
            output.line("")
            output.line(paint(place_words(entry.place), "bold"))
        output.line(self._event(pair))
        changes = () if in_short else pair.changes
        shown = changes if self._full else changes[:_MOST]
        for change in shown:
            for line in self._change(change):
                output.line(line.rstrip())
        if len(shown) < len(changes):
            more = units.count(len(changes) - len(shown), "more difference")
            output.line(f"{' ' * (2 * self._digits + 5)}… {more} in this event; --full shows all")

    def _event(self, pair: Pair) -> str:
        seqs = " ".join(f"{_seq(entry):>{self._digits}}" for entry in (pair.a, pair.b))
        sign = _SIGNS[pair.kind]
        moved = "  (stands elsewhere in B)" if pair.moved else ""
        start = f"{sign} {seqs}  {safe(pair.entry.type)}{moved}"
        whole = self._full and pair.kind in ("only-a", "only-b")
        gist = _gist(pair.entry, None if whole else _GIST)
        if self._width is not None and not whole:
            gist = clip(gist, max(self._width - len(start) - 2, 1))
        style = _STYLES[pair.kind]
        words = "  " + gist if gist else ""
        return paint(start, style) + paint(words, "dim" if pair.kind == "same" else "")

    def _change(self, change: Change) -> Iterator[str]:
        lead = " " * (2 * self._digits + 5)
        shown = list(diff_marks.lines(_pieces(change, self._full)))
        path, remark = path_words(change.path), _remark(change)
        if len(shown) == 1 and (self._width is None or len(lead + path + shown[0]) + 2 <= self._width):
            yield f"{lead}{paint(path, 'cyan')}  {shown[0]}{remark}"
            return
        yield f"{lead}{paint(path, 'cyan')}{remark}"
        for line in shown:
            yield f"{lead}{_INDENT}{line}"


def place_words(place: Place) -> str:
    """``turn 2, step 1``."""
    if place.turn < 0:
        return "header"
    if place.turn == 0:
        return "before the first turn"
    turn = f"turn {place.turn}"
    if place.step == END:
        return f"{turn}, its end and what follows"
    return f"{turn}, before its first step" if place.step == 0 else f"{turn}, step {place.step}"


def path_words(path: tuple[str | int, ...]) -> str:
    """``message.content[0].text``; the whole event for no path."""
    words = "".join(f"[{part}]" if isinstance(part, int) else f".{_member(part)}" for part in path)
    return words.removeprefix(".") or "the event"


def _member(name: str) -> str:
    return (
        safe(name, 60) if name.isidentifier() else safe(json_text.dumps(name).decode("utf-8", "replace"), 60)
    )


def _head(sign: str, side: Side) -> str:
    info = side.info
    events = units.count(info.events, "event")
    told = f"{sign} {side.name}  {clipped(info.id)} · {info.dialect} · {events}"
    if info.generations > 1:
        told += f" · generation {info.generation} of {info.generations}"
    if side.given != info.id:
        told += f" · {clipped(side.given)}"
    return paint(told, "bold")


def _seq(entry: Entry | None) -> str:
    return "" if entry is None or entry.seq is None else str(entry.seq)


def _gist(entry: Entry, limit: int | None) -> str:
    """What an event says, on one line; no part of it longer than ``limit`` characters."""
    data = entry.form["data"]
    if isinstance(data, dict):
        match entry.type:
            case "tool/call":
                words = [members.text(data, key) for key in ("name", "arguments")]
                return clipped(" ".join(word for word in words if word)[:limit])
            case "user/message" | "assistant/message" | "tool/result" | "system/message":
                message = data if entry.type == "user/message" else members.inner(data, "message")
                text, _ = text_of(message)
                calls = " ".join(f"{name}({arguments})" for _, name, arguments in calls_of(plain(message)))
                return clipped(" ".join(filter(None, (text[:limit], calls[:limit]))))
        data = {key: value for key, value in data.items() if key not in ("turn", "step")}
        if not data:
            return ""
    return clipped(_json(plain(data))[:limit])


def _pieces(change: Change, full: bool) -> list[diff_marks.Piece]:
    if change.kind == "text":
        return diff_marks.pieces(change.a, change.words, full=full)
    a = None if change.kind == "added" else _json(change.a)
    b = None if change.kind == "removed" else _json(change.b)
    return diff_marks.replaced(a, b, full=full)


def _remark(change: Change) -> str:
    match change.kind:
        case "id" if change.expected is not None:
            return "  " + safe(f"({change.a} of A is {change.expected} in B)")
        case "id":
            return "  (not the counterpart of each other)"
        case "reference":
            return "  (not counterparts: other events are meant)"
    return ""


def _json(value: Any) -> str:
    return diff_json.written(value).decode("utf-8", "replace")
