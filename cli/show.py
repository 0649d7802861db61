"""``playhead show``: what a person saw of a session, or what the model sees of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated, Any

import typer

from playhead.cli import damage, model_view, output, place, transcript_markdown, units
from playhead.cli.app import DONE, FOUND_A_PROBLEM, command
from playhead.cli.colour import paint
from playhead.cli.paragraphs import clipped
from playhead.cli.safe_text import safe
from playhead.cli.streamed_text import streamed_blocks
from playhead.cli.target import GenerationOption, SessionArgument, opened
from playhead.cli.transcript_text import Remark, TranscriptText
from playhead.eventstore.errors import CorruptLog, UsageError
from playhead.eventstore.findings import damage as damaged
from playhead.projections.projection import Breach
from playhead.projections.transcript_items import Mark, Section, Turn, items_of

if TYPE_CHECKING:
    from playhead.eventstore.log import SessionInfo
    from playhead.projections.folding import Foldable
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
    turn: Annotated[
        list[str] | None,
        typer.Option(metavar="N", help="Only this turn, or a range such as 2-5, 4- or -3; repeatable."),
    ] = None,
    at: Annotated[int | None, typer.Option(min=0, metavar="SEQ", help="As it was after this event.")] = None,
    full: Annotated[
        bool,
        typer.Option("--full", help="Shorten nothing: context, arguments, results, what failed calls gave."),
    ] = False,
    repaired: Annotated[
        bool, typer.Option("--repaired", help="Close what a crash left open, as a restart does.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    ignorable: Annotated[
        list[str] | None,
        typer.Option(metavar="TYPE", help="Events of this unknown type change nothing; repeatable."),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Show nothing of a log that is damaged or breaks a rule.")
    ] = False,
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

    wanted = _ranges(turn or ())
    if wanted and view is View.model:
        raise UsageError(
            "--turn chooses from the transcript; the model sees all its messages at once: use --at"
        )
    if json and format is Format.markdown:
        raise UsageError("--json is JSON, and --format markdown is not: choose one")
    form = Format.json if json else format
    with opened(session, generation, store) as (_, log):
        info = log.info
        if at is not None and at >= info.next_seq:
            raise UsageError(f"--at {at}: the session has {units.count(info.next_seq, 'seq')}, from 0")
        if strict:
            log.require_sound()
        shown: Foldable = log
        if repaired:
            shown, at = Repaired(log, None if at is None else at + 1), None
        about = _About(info, strict)
        if view is View.model:
            seen = fold(shown, surface, at=at, strict=strict, ignorable=ignorable or ())
            about.tell(seen.unknown, seen.state.breaches)
            sent = messages(shown, seen.state)
            if form is Format.json:
                output.json_line(about.as_json("model") | model_view.as_json(seen.state, sent))
            else:
                _write(model_view.lines(sent, markdown=form is Format.markdown, full=full, width=_width()))
            return about.code
        folded = fold(shown, transcript, at=at, strict=strict, ignorable=ignorable or ())
        about.tell(folded.unknown, folded.state.breaches)
        sections = _chosen(folded.state.sections(), wanted)
        match form:
            case Format.json:
                document = transcript.view(folded.state)
                if wanted:
                    seqs = {section.seq for section in sections}
                    document["sections"] = [
                        section for section in document["sections"] if section["seq"] in seqs
                    ]
                output.json_line(about.as_json("transcript") | document)
            case Format.markdown:
                _write(_title(info, folded.state, markdown=True))
                _write(
                    transcript_markdown.lines(
                        sections,
                        full=full,
                        streamed=lambda attempt: streamed_blocks(shown, attempt.stream),
                        inherited_to=folded.state.inherited.to_seq,
                        remarks=tuple(remark.text for remark in about.remarks),
                        retitled=_retitled(sections),
                    )
                )
            case Format.text:
                if not wanted:
                    _write(_title(info, folded.state, markdown=False))
                text = TranscriptText(
                    _width(),
                    full,
                    lambda attempt: streamed_blocks(shown, attempt.stream),
                    folded.state.inherited.to_seq,
                    () if wanted else tuple(about.remarks),
                    _retitled(sections),
                )
                _write(text.lines(sections))
    return about.code


class _About:
    """What is wrong with the log that is shown; ``remarks`` say it again where it is."""

    def __init__(self, info: SessionInfo, strict: bool) -> None:
        self.info = info
        self.strict = strict
        self.unknown: tuple[tuple[str, int], ...] = ()
        self.breaches: tuple[Breach, ...] = ()
        self.findings = damaged(info.findings)
        self.remarks: list[Remark] = []

    def tell(self, unknown: tuple[tuple[str, int], ...], breaches: tuple[Breach, ...]) -> None:
        """Say on stderr what is wrong. Raises ``CorruptLog`` for a breach, when only sound logs are shown."""
        self.unknown, self.breaches = unknown, breaches
        subject = safe(self.info.id)
        if self.strict and breaches:
            first = breaches[0]
            raise CorruptLog(
                self.info.id, f"seq {first.seq}: {first.message}", seq=first.seq, kind=first.kind
            )
        damage.tell(self.info.id, self.info.findings)
        for type, seq in unknown:
            where = f"unknown event type {type}, first at seq {seq}"
            output.note(f"{subject}: interpretation incomplete: {safe(where)}")
        for breach in breaches[: damage.SHOWN]:
            output.note(f"{subject}: seq {breach.seq}: {safe(breach.message)} ({breach.kind})")
        if len(breaches) > damage.SHOWN:
            output.note(f"{subject}: {len(breaches) - damage.SHOWN:,} more of the kind; --json lists all")
        remarks = [Remark(finding.seq, f"damaged here: {finding.message}") for finding in self.findings]
        remarks += [Remark(seq, f"not understood: event of unknown type {type}") for type, seq in unknown]
        remarks += [Remark(breach.seq, f"out of order: {breach.message}") for breach in breaches]
        self.remarks = sorted(remarks, key=lambda remark: (remark.seq is None, remark.seq or 0))

    @property
    def code(self) -> int:
        """The exit code."""
        return FOUND_A_PROBLEM if self.findings or self.unknown or self.breaches else DONE

    def as_json(self, view: str) -> dict[str, Any]:
        """What every document begins with."""
        header = self.info.header
        return {
            "session": self.info.id,
            "generation": self.info.generation,
            "dialect": self.info.dialect,
            "view": view,
            "cwd": header.cwd,
            "parent": header.parent,
            "createdMs": header.created_ms,
            "damaged": [damage.as_json(finding) for finding in self.findings],
            "unknown": [{"type": type, "seq": seq} for type, seq in self.unknown],
            "breaches": [
                {"kind": breach.kind, "seq": breach.seq, "message": breach.message}
                for breach in self.breaches
            ],
        }


def _ranges(words: Iterable[str]) -> list[range]:
    """The turns that were asked for. Raises ``UsageError`` for what is neither a number nor a range."""
    found = []
    for word in words:
        first, dash, last = word.partition("-")
        numbers = [part for part in (first, last) if part]
        if not numbers or not all(part.isascii() and part.isdigit() and len(part) < 16 for part in numbers):
            raise UsageError(f"--turn {word}: give a number, or a range such as 2-5, 4- or -3")
        start = int(first) if first else 0
        end = (int(last) if last else 2**53) if dash else start
        if end < start:
            raise UsageError(f"--turn {word} runs backwards")
        found.append(range(start, end + 1))
    return found


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


def _title(info: SessionInfo, state: Transcript, *, markdown: bool) -> Iterator[str]:
    """Two lines about the session."""
    turns = sum(isinstance(section, Turn) for section in state.sections())
    facts = [
        info.dialect,
        info.header.cwd,
        units.when(info.first_ms if info.first_ms is not None else info.header.created_ms),
        f"{units.count(turns, 'turn')}, {units.count(info.events, 'event')}",
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
    title = "" if state.title is None else "  " + clipped(state.title)
    yield paint(clipped(info.id), "bold") + title
    yield paint(" · ".join(told), "dim")


def _width() -> int | None:
    """The width to wrap to; None where nobody looks."""
    return min(get_terminal_size().columns, _WIDEST) if output.on_terminal() else None


def _write(lines: Iterable[str]) -> None:
    for line in lines:
        output.line(line)
