"""``playhead diff``: where two sessions differ."""

from __future__ import annotations

from contextlib import ExitStack
from shutil import get_terminal_size
from typing import Annotated

import typer

from playhead.cli import output, place, units
from playhead.cli.app import DONE, FOUND_A_PROBLEM, command
from playhead.cli.diff_sides import side
from playhead.cli.target import RepairedOption
from playhead.cli.turn_ranges import TurnOption, ranges
from playhead.eventstore.errors import UsageError

_WIDEST = 160

_A, _B = "A session id, the beginning of one, or a log file.", "The session to compare it with."


def _generation(name: str) -> typer.models.OptionInfo:
    return typer.Option(  # type: ignore[no-any-return]
        f"--generation-{name}",
        min=1,
        metavar="N",
        help=f"Of several differing logs of {name.upper()}, the Nth.",
    )


def _at(name: str) -> typer.models.OptionInfo:
    return typer.Option(  # type: ignore[no-any-return]
        f"--at-{name}", min=0, metavar="SEQ", help=f"The same for {name.upper()} alone."
    )


@command("diff")
def diff(
    a: Annotated[str, typer.Argument(metavar="A", help=_A)],
    b: Annotated[str, typer.Argument(metavar="B", help=_B)],
    every: Annotated[bool, typer.Option("--all", help="Every difference, not only the first.")] = False,
    chunks: Annotated[
        bool,
        typer.Option("--chunks", help="Compare what models streamed chunk by chunk, not what it adds up to."),
    ] = False,
    ignore: Annotated[
        list[str] | None,
        typer.Option(metavar="TYPE", help="Leave out events of this type (session: the header); repeatable."),
    ] = None,
    turn: TurnOption = None,
    at: Annotated[
        int | None, typer.Option(min=0, metavar="SEQ", help="Both as they were after this event.")
    ] = None,
    at_a: Annotated[int | None, _at("a")] = None,
    at_b: Annotated[int | None, _at("b")] = None,
    repaired: RepairedOption = False,
    full: Annotated[bool, typer.Option("--full", help="Shorten nothing.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    generation_a: Annotated[int | None, _generation("a")] = None,
    generation_b: Annotated[int | None, _generation("b")] = None,
    store: place.StoreOption = None,
) -> int:
    """Compare two sessions, event by event, and show where they first differ.

    Times, ids and seqs do not count, nor what only the format or the machine decides; an id in the wrong place does.
    Exits 1 when the sessions differ, or when one of them is damaged.
    """
    from playhead.cli.diff_json import Document
    from playhead.cli.diff_text import Screen
    from playhead.replay.diff import pairs

    wanted = ranges(turn or ())
    with ExitStack() as opening:
        one, other = (
            opening.enter_context(
                side(name, session, generation=generation, at=last, repaired=repaired, store=store)
            )
            for name, session, generation, last in (
                ("A", a, generation_a, at if at_a is None else at_a),
                ("B", b, generation_b, at if at_b is None else at_b),
            )
        )
        damaged = [each.tell_damage() for each in (one, other)]
        width = min(get_terminal_size().columns, _WIDEST) if output.on_terminal() else None
        document = Document(one, other) if json else None
        screen = Screen(one, other, every=every, width=width, full=full)
        compared = found = 0
        complete = True
        for pair in pairs(one.seen, other.seen, as_chunks=chunks, ignore=ignore or ()):
            if wanted and not any(pair.entry.place.turn in numbers for numbers in wanted):
                continue
            compared += 1
            found += pair.kind != "same"
            if document is None:
                screen.add(pair)
            elif pair.kind != "same":
                document.add(pair)
            if found and not every and (document is not None or not screen.wants_more):
                complete = False
                break
    if turn and not compared:
        raise UsageError(f"--turn {', '.join(turn)}: neither session has anything there to compare")
    if document is not None:
        document.end(compared=compared, found=found, complete=complete)
    elif not found:
        output.line(f"no difference in {units.count(compared, 'event')}")
    elif complete:
        output.line("")
        output.line(f"{units.count(found, 'difference')} in {units.count(compared, 'event')}")
    else:
        output.note("this is the first difference; --all shows all")
    return FOUND_A_PROBLEM if found or any(damaged) else DONE
