"""What ``playhead replay`` plays, form by form: each takes its moments, lines or bytes when they are due."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from shutil import get_terminal_size
from typing import TYPE_CHECKING

from playhead.cli import damage, log_remarks, output, units
from playhead.cli.colour import paint
from playhead.cli.paragraphs import clipped, wrap
from playhead.cli.replay_clock import PAUSED_CELLS
from playhead.cli.replay_items import TYPES
from playhead.cli.replay_text import ReplayText
from playhead.eventstore.findings import damage as damaged
from playhead.eventstore.registry import event_types
from playhead.replay.moments import call_moments, is_idle, moments
from playhead.replay.player import Clock, play
from playhead.replay.schedule import Pace, T

if TYPE_CHECKING:
    from playhead.adapters.providers.dialect import ProviderDialect
    from playhead.cli.replay_bytes import TimedBytes
    from playhead.eventstore.log import SessionInfo
    from playhead.eventstore.recorded import Recorded
    from playhead.eventstore.sql.sql_session import SqlSession
    from playhead.replay.control import Control
    from playhead.replay.part import Part

_WIDEST = 120


@dataclass(frozen=True)
class Replay:
    """What is played, and how."""

    log: SqlSession
    part: Part
    pace: Pace
    control: Control
    clock: Clock
    full: bool
    dialect: ProviderDialect | None

    def play(self, items: Iterable[T], idle: Callable[[T], bool]) -> Iterator[T]:
        """The items, each when it is due."""
        return play(items, self.pace, idle=idle, control=self.control, clock=self.clock)


def _text(replay: Replay) -> None:
    info, part = replay.log.info, replay.part

    written = 0

    def write(text: str) -> None:
        nonlocal written
        written += len(text)
        output.data(text.encode("utf-8", "backslashreplace"))

    for line in _title(info):
        write(line + "\n")
    text = ReplayText(
        part.header,
        write,
        measure=_width,
        rubs_out=moves_cursor(),
        end_seq=part.to_seq,
        full=replay.full,
        remarks=log_remarks.in_order(log_remarks.of_damage(replay.log)),
    )
    try:
        for moment in replay.play(moments(part, _is_seen), is_idle):
            before = written
            text.show(moment)
            if written == before and replay.control.paused:
                replay.control.step()  # a step is to something that shows
    except KeyboardInterrupt:
        text.break_off()
        raise
    if replay.control.stopped:
        text.break_off()
    else:
        text.end()


def _chunks(replay: Replay) -> None:
    from playhead.cli.replay_chunks import as_json

    found = damaged(replay.log.info.findings)
    if found:
        output.json_line({"event": "damaged", "damaged": [damage.as_json(finding) for finding in found]})
    for moment in replay.play(call_moments(replay.part), is_idle):
        output.json_line(as_json(moment))


def _sse(replay: Replay) -> None:
    from playhead.cli.replay_sse import timed_events

    _write(replay, timed_events(replay.log, replay.part, replay.dialect))


def _lines(replay: Replay) -> None:
    from playhead.cli.replay_lines import timed_lines

    _write(replay, timed_lines(replay.log, replay.part))


def _write(replay: Replay, pieces: Iterable[TimedBytes]) -> None:
    for piece in replay.play(pieces, lambda piece: piece.idle):
        output.data(piece.data)


FORMS: Mapping[str, Callable[[Replay], None]] = {
    "text": _text,
    "chunks": _chunks,
    "sse": _sse,
    "lines": _lines,
}
"""What ``--as`` may name."""


def _is_seen(event: Recorded) -> bool:
    """Whether an event can show in the text: one that adds to a transcript, or one that nobody knows."""
    return event.type in TYPES or (event.type not in event_types and not event.ignorable)


def _title(info: SessionInfo) -> Iterator[str]:
    """Two lines about the session."""
    facts = [
        info.dialect,
        info.header.cwd,
        units.when(info.first_ms if info.first_ms is not None else info.header.created_ms),
        units.count(info.events, "event"),
    ]
    if info.generations > 1:
        facts.append(f"generation {info.generation} of {info.generations}")
    if info.header.parent is not None:
        facts.append(f"child of {info.header.parent}")
    told = " · ".join(clipped(fact) for fact in facts if fact)
    for text, style in ((clipped(info.id), "bold"), (told, "dim")):
        for piece in wrap(text, _width()):
            yield paint(piece, style)


def moves_cursor() -> bool:
    """Whether the terminal understands more than lines."""
    return output.on_terminal() and os.environ.get("TERM", "") not in ("", "dumb")


def _width() -> int | None:
    """The width to wrap to; None where nobody looks. A sign of a pause has room behind it."""
    if not output.on_terminal():
        return None
    return min(get_terminal_size().columns - 1 - PAUSED_CELLS, _WIDEST)
