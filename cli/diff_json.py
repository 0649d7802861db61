"""The JSON of ``playhead diff``; its shape is described in docs/diff.md.

It is written piece by piece: two sessions can differ in more events than anybody wants in memory.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from playhead.cli import damage, output
from playhead.eventstore import json_text
from playhead.eventstore.findings import damage as damaged
from playhead.replay.diff_entries import END
from playhead.replay.diff_form import plain

if TYPE_CHECKING:
    from playhead.cli.diff_sides import Side
    from playhead.replay.diff import Pair
    from playhead.replay.diff_changes import Change
    from playhead.replay.diff_entries import Entry


def written(value: Any) -> bytes:
    """``value`` as JSON; a number that is too large for any reader becomes the text ``Infinity``."""
    try:
        return json_text.dumps(value)
    except ValueError:
        pass
    try:
        return json_text.dumps(json.loads(json.dumps(value), parse_constant=str))
    except RecursionError:
        return json_text.dumps("(nested too deeply, with a number that is too large for JSON)")


class Document:
    """One JSON object: the two sessions, the differences, the verdict. Its beginning comes with what is told first."""

    def __init__(self, a: Side, b: Side) -> None:
        begun = json_text.dumps({"a": _side(a), "b": _side(b), "differences": []})
        self._begun = False
        self._before = begun.removesuffix(b"]}")  # of the next difference

    def add(self, pair: Pair) -> None:
        """Write a difference."""
        output.data(self._before + written(_difference(pair)))
        self._begun, self._before = True, b","

    def end(self, *, compared: int, found: int, complete: bool) -> None:
        """Write the end; ``complete`` says that nothing was left uncompared."""
        verdict = {"equal": found == 0, "compared": compared, "complete": complete}
        rest = b"]," + json_text.dumps(verdict).removeprefix(b"{") + b"\n"
        output.data(rest if self._begun else self._before + rest)


def _side(side: Side) -> dict[str, Any]:
    info = side.info
    return {
        "session": info.id,
        "generation": info.generation,
        "dialect": info.dialect,
        "damaged": [damage.as_json(finding) for finding in damaged(info.findings)],
    }


def _difference(pair: Pair) -> dict[str, Any]:
    place = pair.entry.place
    return {
        "kind": pair.kind,
        "moved": pair.moved,
        "type": pair.entry.type,
        "turn": place.turn if place.turn > 0 else None,
        "step": place.step if 0 < place.step < END else None,
        "a": _event(pair.a, whole=pair.b is None),
        "b": _event(pair.b, whole=pair.a is None),
        "changes": [_change(change) for change in pair.changes],
    }


def _event(entry: Entry | None, *, whole: bool) -> dict[str, Any] | None:
    """Where an event stands; ``whole`` adds what it says."""
    if entry is None:
        return None
    return {"seq": entry.seq, **(plain(entry.form) if whole else {})}


def _change(change: Change) -> dict[str, Any]:
    told: dict[str, Any] = {"path": list(change.path), "kind": change.kind, "a": change.a, "b": change.b}
    if change.words:
        told["words"] = [
            {"a": word.a, "b": word.b, "aAt": word.a_at, "bAt": word.b_at} for word in change.words
        ]
    if change.expected is not None:
        told["expected"] = change.expected
    return told
