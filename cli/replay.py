"""``playhead replay``: a session again, as it streamed."""

from __future__ import annotations

import math
import re
from contextlib import ExitStack
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from playhead.cli import damage, fold_report, output, place
from playhead.cli.app import DONE, FOUND_A_PROBLEM, command
from playhead.cli.speed import speed_of
from playhead.cli.target import (
    AtOption,
    GenerationOption,
    IgnorableOption,
    SessionArgument,
    StrictOption,
    opened,
    require_seq,
)
from playhead.cli.turn_ranges import LAST, ranges
from playhead.eventstore.errors import UsageError
from playhead.replay.control import Control
from playhead.replay.schedule import Pace

if TYPE_CHECKING:
    from playhead.adapters.providers.dialect import ProviderDialect
    from playhead.replay.player import Clock

_IDLE_S = "2"
_NUMBER = r"(\d+(?:\.\d*)?|\.\d+)"


class As(StrEnum):
    """What is played. Every one has its function in ``replay_forms.py``."""

    text = "text"
    chunks = "chunks"
    sse = "sse"
    lines = "lines"


@command("replay")
def replay(
    session: SessionArgument,
    form: Annotated[
        As,
        typer.Option(
            "--as",
            help="What a person saw, the chunks of every model call as JSON lines, the same as server-sent "
            "events of its provider, or the stored lines.",
        ),
    ] = As.text,
    speed: Annotated[
        str | None,
        typer.Option(
            metavar="FACTOR",
            help="How fast: 4x, 0.5, or max. In a terminal 1, else max, which waits for nothing.",
        ),
    ] = None,
    idle: Annotated[
        str,
        typer.Option(
            metavar="SECONDS",
            help="Shorten gaps in which nothing streamed to this; keep leaves them as they were.",
        ),
    ] = _IDLE_S,
    paused: Annotated[bool, typer.Option("--paused", help="Begin paused, in a terminal.")] = False,
    turn: Annotated[
        str | None, typer.Option(metavar="N", help="Only this turn, or a range such as 2-5, 4- or -3.")
    ] = None,
    from_turn: Annotated[
        int | None, typer.Option("--from-turn", metavar="N", help="Begin at this turn.")
    ] = None,
    at: AtOption = None,
    dialect: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="With --as sse: the dialect, if not the recorded one."),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Shorten no context and no result.")] = False,
    json: Annotated[bool, typer.Option("--json", help="The same as --as chunks.")] = False,
    ignorable: IgnorableOption = None,
    strict: StrictOption = False,
    generation: GenerationOption = None,
    store: place.StoreOption = None,
) -> int:
    """Play a session again as it streamed, its failures and retries too.

    In a terminal space pauses, s or enter steps, q leaves. What is damaged, missing or not understood is said first,
    on stderr, and the exit code is 1.
    """
    from playhead.cli.replay_clock import KeyClock, PipeClock, has_keys
    from playhead.cli.replay_forms import FORMS, Replay, moves_cursor
    from playhead.replay.part import part

    if json and form in (As.lines, As.sse):
        raise UsageError(f"--json is the same as --as chunks: leave out --as {form}")
    form = As.chunks if json else form
    if full and form is not As.text:
        raise UsageError("--full goes with --as text: nothing else is shortened")
    if dialect is not None and form is not As.sse:
        raise UsageError("--dialect goes with --as sse: nothing else is encoded")
    spoken = None if dialect is None else _dialect(dialect)
    if ignorable and form is As.lines:
        raise UsageError("--ignorable does not go with --as lines: they are not interpreted")
    if turn is not None and from_turn is not None:
        raise UsageError("--turn is one turn and --from-turn is all from one on: choose one")
    if paused and not has_keys():
        raise UsageError("--paused needs a terminal, whose keys play on")
    pace = Pace(_speed(speed), _idle_ms(idle))
    turns = {"from_turn": from_turn} if turn is None else _turns(turn)
    with opened(session, generation, store) as (_, log), ExitStack() as stack:
        info = log.info
        require_seq(info, at)
        if strict:
            log.require_sound()
        wanted = part(log, **turns, at=at)
        problem = damage.tell(info.id, info.findings)
        if form is not As.lines:
            # Strict is about all of the log, whatever is played of it.
            read, from_seq = (log, 0) if strict else (wanted, wanted.from_seq)
            problem |= fold_report.tell_unknown_types(read, ignorable or (), from_seq=from_seq, strict=strict)
        control = Control(paused=paused)
        if has_keys() and (paused or pace.speed != math.inf):
            clock: Clock = stack.enter_context(KeyClock(control, signs=moves_cursor()))
        else:
            clock = PipeClock()
        FORMS[form](Replay(log, wanted, pace, control, clock, full, spoken))
    return FOUND_A_PROBLEM if problem else DONE


def _dialect(name: str) -> ProviderDialect:
    from playhead.adapters.providers.dialects import dialect

    return dialect(name)


def _turns(word: str) -> dict[str, int | None]:
    """The turns that ``word`` names, as ``part`` takes them."""
    (numbers,) = ranges([word])
    if len(numbers) == 1:
        return {"turn": numbers.start}
    return {"from_turn": numbers.start, "to_turn": None if numbers.stop > LAST else numbers.stop - 1}


def _speed(word: str | None) -> float:
    """The factor that ``word`` names; without one what fits where the output goes."""
    if word is None:
        return 1.0 if output.on_terminal() else math.inf
    return speed_of(word)


def _idle_ms(word: str) -> float:
    """The milliseconds that ``word`` names."""
    if word == "keep":
        return math.inf
    found = re.fullmatch(_NUMBER + "(s|ms)?", word, re.ASCII)
    if found is None:
        raise UsageError(f"--idle {word}: give seconds, such as 2 or 0.5, 300ms, or keep")
    return float(found[1]) * (1 if found[2] == "ms" else 1000)
