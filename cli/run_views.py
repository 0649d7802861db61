"""A conversation as it is shown: as the text of a replay, or as JSON lines.

The text is written by what also writes ``playhead replay``, so that both look the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice

from playhead.cli import output
from playhead.cli.colour import paint
from playhead.cli.events import as_json
from playhead.cli.paragraphs import clip, wrap
from playhead.cli.replay_items import TYPES
from playhead.cli.replay_text import ReplayText
from playhead.cli.safe_text import safe
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.recorded import Recorded
from playhead.replay.moments import Happened, Moment

_INDENT = "  "
_MOST_ROWS = 3


class TextView:
    """Writes what a person is to see; ``measure`` and ``rubs_out`` are as for ``ReplayText``.

    An answer to a command goes to ``aside``, a line each, where there is a place beside the stream; else it interrupts
    what streams.
    """

    def __init__(
        self,
        header: SessionHeader,
        write: Callable[[str], None],
        *,
        measure: Callable[[], int | None] = lambda: None,
        rubs_out: bool = False,
        aside: Callable[[str], None] | None = None,
    ) -> None:
        self._target = write
        self._aside = aside or self._interrupt
        self._muted = False
        self._begun = False
        self._measure = measure
        self._text = ReplayText(header, self._write, measure=measure, rubs_out=rubs_out)

    def _write(self, text: str) -> None:
        if self._muted or not text:
            return
        if not self._begun:
            text = text.lstrip("\n")  # there is nothing above to stand apart from
            self._begun = bool(text)
        self._target(text)

    def learn(self, event: Recorded) -> None:
        """See ``View.learn``: what later events lean on, such as tool calls and prompts that wait."""
        if event.type in TYPES:
            self._muted = True
            self._text.show(Happened(event, event.time_ms, idle=False))
            self._muted = False

    def show(self, event: Recorded, moments: Iterable[Moment]) -> None:  # noqa: ARG002 - the protocol's
        """See ``View.show``."""
        for moment in moments:
            self._text.show(moment)

    def say(self, lines: Iterable[str]) -> None:
        """See ``View.say``: each on lines of its own, dim."""
        width = self._measure()
        room = None if width is None else max(width - len(_INDENT), 1)
        for line in lines:
            for piece in _rows(safe(line), room):
                self._aside(_INDENT + paint(piece, "dim"))

    def _interrupt(self, line: str) -> None:
        self._text.break_off()
        self._write(line + "\n")

    def end(self) -> None:
        """See ``View.end``."""
        self._text.break_off()


def _rows(line: str, cells: int | None) -> list[str]:
    """``line`` wrapped, and cut where it would take more than ``_MOST_ROWS``."""
    rows = list(islice(wrap(line, cells), _MOST_ROWS + 1))
    if len(rows) > _MOST_ROWS:
        rows[-2:] = [clip(" ".join(rows[-2:]), cells)]
    return rows


class JsonView:
    """Writes every event as one line of JSON to stdout, and answers to stderr."""

    def learn(self, event: Recorded) -> None:
        """See ``View.learn``."""

    def show(self, event: Recorded, moments: Iterable[Moment]) -> None:
        """See ``View.show``."""
        for _ in moments:  # they are made as they are taken
            pass
        output.data(as_json(event) + b"\n")
        output.flush()

    def say(self, lines: Iterable[str]) -> None:
        """See ``View.say``."""
        for line in lines:
            output.note(safe(line))

    def end(self) -> None:
        """See ``View.end``."""


def to_stdout(text: str) -> None:
    """Write text to stdout, where it can be seen at once."""
    output.data(text.encode("utf-8", "backslashreplace"))
    output.flush()
