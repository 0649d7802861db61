"""``playhead show``: what a person saw of a session, or what the model sees of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from itertools import dropwhile
from operator import not_
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated, Any

import typer

from playhead.cli import fold_report, log_remarks, model_view, output, place, transcript_markdown, units
from playhead.cli.app import DONE, FOUND_A_PROBLEM, command
from playhead.cli.colour import paint
from playhead.cli.indented_text import IndentedText
from playhead.cli.log_remarks import Remark
from playhead.cli.paragraphs import clipped, wrap
from playhead.cli.streamed_text import streamed_blocks
from playhead.cli.target import (
    AtOption,
    GenerationOption,
    IgnorableOption,
    RepairedOption,
    SessionArgument,
    StrictOption,
    opened,
    require_seq,
)
from playhead.cli.transcript_text import TranscriptText
from playhead.cli.turn_ranges import TurnOption, ranges
from playhead.eventstore.errors import UsageError
from playhead.projections.projection import Breach
from playhead.projections.transcript_items import FailedAttempt, Mark, Section, Turn, items_of

if TYPE_CHECKING:
    from playhead.eventstore.log import SessionInfo
    from playhead.eventstore.sql.sql_session import SqlSession
    from playhead.projections.folding import Foldable, Folded
    from playhead.projections.surface import Surface
    from playhead.projections.transcript_state import Transcript

_WIDEST = 120


class Format(StrEnum):
    """How to write it."""

    text = "text"
    markdown = "markdown"
    json = "json"


class View(StrEnum):
    """Whose eyes to look through."""

    transcript = "transcript"
    model = "model"


@command("show")
def show(
    session: SessionArgument,
    view: Annotated[
        View,
        typer.Option(help="What a person saw, or the messages that the model sees at that point."),
    ] = View.transcript,
    format: Annotated[Format, typer.Option("--format", "-f", help="How it is written.")] = Format.text,
    turn: TurnOption = None,
    at: AtOption = None,
    full: Annotated[
        bool,
        typer.Option("--full", help="Shorten nothing: context, arguments, results, what failed calls gave."),
    ] = False,
    repaired: RepairedOption = False,
    json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    ignorable: IgnorableOption = None,
    strict: StrictOption = False,
    generation: GenerationOption = None,
    store: place.StoreOption = None,
) -> int:
    """Show a session: what a person saw of it, turn by turn.

    What is damaged, missing or not understood is said first, on stderr, and again where it is; the exit code is 1.
    """
    from playhead.projections.folding import fold
    from playhead.projections.repaired import Repaired
    from playhead.projections.surface import messages, surface
    from playhead.projections.transcript import transcript

    wanted = ranges(turn or ())
    if wanted and view is View.model:
        raise UsageError(
            "--turn chooses from the transcript; the model sees all its messages at once: use --at"
        )
    if json and format is Format.markdown:
        raise UsageError("--json is JSON, and --format markdown is not: choose one")
    form = Format.json if json else format
    with opened(session, generation, store) as (_, log):
        info = log.info
        require_seq(info, at)
        if strict:
            log.require_sound()
        seen: Foldable = log
        last = at
        if repaired:
            seen, at = Repaired(log, None if at is None else at + 1), None
        if view is View.model:
            folded = fold(seen, surface, at=at, strict=strict, ignorable=ignorable or ())
            problem = _report(info, folded, folded.state.breaches, strict)
            _show_model(info, folded, messages(seen, folded.state), form, full)
        else:
            told = fold(seen, transcript, at=at, strict=strict, ignorable=ignorable or ())
            problem = _report(info, told, told.state.breaches, strict)
            _show_transcript(log, told, seen, last, wanted, form, full)
    return FOUND_A_PROBLEM if problem else DONE


def _report(info: SessionInfo, folded: Folded[Any], breaches: tuple[Breach, ...], strict: bool) -> bool:
    """Say what is wrong; whether anything is. Raises ``CorruptLog`` for a breach where only sound logs are shown."""
    if strict:
        fold_report.require_none(info, breaches)
    return fold_report.tell(info, folded, breaches)


def _show_model(
    info: SessionInfo, folded: Folded[Surface], sent: model_view.Sent, form: Format, full: bool
) -> None:
    if form is Format.json:
        members = model_view.as_json(folded.state, sent)
        output.json_line(_about(info, folded, folded.state.breaches, View.model) | members)
        return
    lines = model_view.lines(sent, markdown=form is Format.markdown, full=full, width=_width())
    _write(dropwhile(not_, lines))


def _show_transcript(
    log: SqlSession,
    folded: Folded[Transcript],
    seen: Foldable,
    last: int | None,
    wanted: list[range],
    form: Format,
    full: bool,
) -> None:
    from playhead.projections.transcript import document

    info, state = log.info, folded.state
    sections = _chosen(state.sections(), wanted)
    if form is Format.json:
        members = document(state, sections)
        output.json_line(_about(info, folded, state.breaches, View.transcript) | members)
        return

    def streamed(attempt: FailedAttempt) -> list[str]:
        return streamed_blocks(seen, attempt.stream)

    remarks = _remarks(log, folded, last)
    if wanted:
        remarks = tuple(remark for remark in remarks if _is_within(remark, sections))
    if not wanted:
        _write(_title(info, state, last, markdown=form is Format.markdown))
    if form is Format.markdown:
        lines = transcript_markdown.lines(
            sections,
            full=full,
            streamed=streamed,
            inherited_to=state.inherited.to_seq,
            remarks=remarks,
            retitled=_retitled(sections),
        )
    else:
        layout = IndentedText(_width(), full)
        text = TranscriptText(layout, streamed, state.inherited.to_seq, remarks, _retitled(sections))
        lines = text.lines(sections)
    _write(dropwhile(not_, lines) if wanted else lines)


def _about(
    info: SessionInfo, folded: Folded[Any], breaches: tuple[Breach, ...], view: View
) -> dict[str, Any]:
    """What every document begins with."""
    header = info.header
    return fold_report.about(info, folded) | {
        "breaches": [
            {"kind": breach.kind, "seq": breach.seq, "message": breach.message} for breach in breaches
        ],
        "dialect": info.dialect,
        "view": view.value,
        "cwd": header.cwd,
        "parent": header.parent,
        "createdMs": header.created_ms,
    }


def _remarks(log: SqlSession, folded: Folded[Transcript], last: int | None) -> tuple[Remark, ...]:
    """What is wrong with the log, once more: to be said where it is. Damage behind the event ``last`` is left out."""
    remarks = [
        remark
        for remark in log_remarks.of_damage(log)
        if last is None or (remark.seq is not None and remark.seq <= last)
    ]
    remarks += [Remark(seq, f"not understood: event of unknown type {type}") for type, seq in folded.unknown]
    remarks += [Remark(breach.seq, f"out of order: {breach.message}") for breach in folded.state.breaches]
    return log_remarks.in_order(remarks)


def _is_within(remark: Remark, sections: tuple[Section, ...]) -> bool:
    """Whether the place of the remark is in one of these turns."""
    return remark.seq is not None and any(
        turn.seq <= remark.seq and (turn.ended_seq is None or remark.seq <= turn.ended_seq)
        for turn in sections
        if isinstance(turn, Turn)
    )


def _chosen(sections: tuple[Section, ...], wanted: list[range]) -> tuple[Section, ...]:
    """The turns that were asked for, or everything. Raises ``UsageError`` where there is none."""
    if not wanted:
        return sections
    turns = [section for section in sections if isinstance(section, Turn) and section.number is not None]
    chosen = tuple(turn for turn in turns if any(turn.number in numbers for numbers in wanted))
    if not chosen:
        numbers = [turn.number for turn in turns if turn.number is not None]
        there = f"its turns are {min(numbers)} to {max(numbers)}" if numbers else "it has no turns"
        raise UsageError(f"the session has no such turn: {there}")
    return chosen


def _retitled(sections: tuple[Section, ...]) -> bool:
    """Whether the title changed on the way."""
    titles = {
        item.text
        for section in sections
        for _, item in items_of(section)
        if isinstance(item, Mark) and item.kind == "title"
    }
    return len(titles) > 1


def _title(info: SessionInfo, state: Transcript, last: int | None, *, markdown: bool) -> Iterator[str]:
    """Two lines about the session, which is shown as it was after the event ``last`` where that is given."""
    turns = sum(isinstance(section, Turn) for section in state.sections())
    facts = [
        info.dialect,
        info.header.cwd,
        units.when(info.first_ms if info.first_ms is not None else info.header.created_ms),
        units.count(turns, "turn") + (f", {units.count(info.events, 'event')}" if last is None else ""),
        None if last is None else f"as it was after seq {last}",
    ]
    if info.generations > 1:
        facts.append(f"generation {info.generation} of {info.generations}")
    if info.header.parent is not None:
        facts.append(f"child of {info.header.parent}")
    told = [clipped(fact) for fact in facts if fact]
    if markdown:
        yield f"# {transcript_markdown.inline(state.title or info.id)}"
        yield ""
        yield "Session " + " · ".join(map(transcript_markdown.inline, (info.id, *told)))
        return
    id, width = clipped(info.id), _width()
    first, *rest = wrap(id if state.title is None else f"{id}  {clipped(state.title)}", width)
    yield paint(first[: len(id)], "bold") + first[len(id) :]
    yield from rest
    for piece in wrap(" · ".join(told), width):
        yield paint(piece, "dim")


def _width() -> int | None:
    """The width to wrap to; None where nobody looks."""
    return min(get_terminal_size().columns, _WIDEST) if output.on_terminal() else None


def _write(lines: Iterable[str]) -> None:
    for line in lines:
        output.line(line)
