"""A transcript as text for a terminal: turn by turn, who said what, what tools gave back, and what went wrong.

Words of people and models are wrapped and indented below the one who speaks. Tool calls, their results and what
programs put in are cut to a few lines; ``full`` shows all of it. What is missing is said where it is missing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from playhead.cli import units
from playhead.cli.colour import paint
from playhead.cli.indented_text import RESULT_LINES, SUMMARY_LINES, IndentedText
from playhead.cli.log_remarks import Remark, due
from playhead.cli.paragraphs import clipped, split, wrap
from playhead.cli.transcript_words import (
    arguments_line,
    arguments_lines,
    attempt_words,
    call_problem,
    compaction_words,
    cut_words,
    ending_words,
    failure_words,
    folded_words,
    retry_words,
)
from playhead.projections.provenance import PROMPT
from playhead.projections.transcript_items import (
    Answer,
    AnyItem,
    Compaction,
    Ending,
    FailedAttempt,
    Mark,
    Message,
    Section,
    Step,
    ToolCall,
    Turn,
)

_STREAMED_LINES = 3
_SMALL = frozenset({"context", "mark"})


@dataclass(slots=True)
class TranscriptText:
    """Makes lines of sections, laid out by ``layout``.

    ``streamed`` gives what an attempt had streamed. ``inherited_to`` is the seq up to which all is the parent's.
    ``remarks`` are in the order of their seqs.
    """

    layout: IndentedText
    streamed: Callable[[FailedAttempt], list[str]]
    inherited_to: int = 0
    remarks: tuple[Remark, ...] = ()
    retitled: bool = False
    _speaker: str = field(default="", init=False)
    _last: str = field(default="", init=False)
    _ending: Ending | None = field(default=None, init=False)
    _waiting: deque[Remark] = field(default_factory=deque, init=False)

    def lines(self, sections: tuple[Section, ...]) -> Iterator[str]:
        """Every line of ``sections``, in order."""
        self._waiting = deque(self.remarks)
        for section in sections:
            self._speaker = self._last = ""
            self._ending = section.ending if isinstance(section, Turn) else None
            if isinstance(section, Turn):
                yield from self._remarks(section.seq)
                yield ""
                yield self._heading(section)
            yield from self._items(section)
            if isinstance(section, Turn):
                if section.ended_seq is not None:
                    yield from self._remarks(section.ended_seq)
                yield from self._end(section)
        yield from self._remarks(None)

    # Turns

    def _heading(self, turn: Turn) -> str:
        word, style = ending_words(turn, self.inherited_to)
        parts = [
            paint(f"Turn {'?' if turn.number is None else turn.number}", "bold"),
            paint(units.when(turn.time_ms), "dim"),
            paint(word, style),
        ]
        if turn.duration_ms is not None:
            parts.append(paint(units.duration(turn.duration_ms), "dim"))
        elif turn.ended_ms is not None:
            parts.append(paint("duration unknown: the clock went back", "dim"))
        if turn.seq < self.inherited_to:
            parts.append(paint("inherited", "dim"))
        return paint("── ", "dim") + paint(" · ", "dim").join(parts)

    def _items(self, section: Section) -> Iterator[str]:
        for item in section.items:
            if not isinstance(item, Step):
                yield from self._item(item)
                continue
            for inner in item.items:
                yield from self._item(inner)
            if item.ended_ms is not None and not any(
                isinstance(i, Answer | FailedAttempt) for i in item.items
            ):
                yield ""
                yield from self.layout.block("no answer of the model was logged in this step", "yellow")

    def _end(self, turn: Turn) -> Iterator[str]:
        ending = turn.ending
        if not turn.steps:
            yield ""
            told = "no step was entered in this turn"
            if ending is not None and ending.reason != "completed":
                told += "; `playhead inbox` tells what it had taken from the queue"
            yield from self.layout.block(told, "dim")
        if ending is None:
            yield ""
            yield from self.layout.block("the turn has no end: it is still running, or was cut off", "yellow")
        elif ending.failure is not None:
            yield ""
            yield from self.layout.block(f"turn failed: {failure_words(ending.failure)}", "red")
        elif ending.reason == "interrupted":
            yield ""
            yield from self.layout.block(*cut_words(turn, self.inherited_to))

    # Items

    def _item(self, item: AnyItem) -> Iterator[str]:
        yield from self._remarks(item.seq)
        match item:
            case Message():
                yield from self._message(item)
            case Answer():
                yield from self._answer(item)
            case ToolCall():
                yield from self._call(item)
            case FailedAttempt():
                yield from self._attempt(item)
            case Compaction():
                yield from self._compaction(item)
            case Mark():
                yield from self._mark(item)

    def _remarks(self, seq: int | None) -> Iterator[str]:
        for remark in due(self._waiting, seq):
            yield ""
            yield from self.layout.block(remark.text, "yellow")

    def _message(self, message: Message) -> Iterator[str]:
        if message.provenance != PROMPT and not self.layout.full:
            yield from self._gap("context")
            yield paint("  " + clipped(folded_words(message), self.layout.most(2)), "dim")
            return
        name = "User" if message.provenance == PROMPT else clipped(message.label.capitalize(), 60)
        if message.steering:
            name += paint(" · steering", "dim")
        yield from self._speaks("", paint(name, "bold green" if message.provenance == PROMPT else "bold"))
        yield from self.layout.text(message.text)
        for other in message.other:
            yield from self.layout.block(other, "dim")

    def _answer(self, answer: Answer) -> Iterator[str]:
        model = clipped(answer.model or "model unknown", 60)
        speaker = f"assistant {model}"
        silent = answer.finish != "max-tokens" and all(part.kind == "tool-call" for part in answer.parts)
        if answer.parts and silent and self._speaker == speaker:
            return
        yield from self._speaks(speaker, paint("Assistant", "bold cyan") + paint(f" · {model}", "dim"))
        said = [part for part in answer.parts if part.kind != "tool-call"]
        for at, part in enumerate(said):
            if at:
                yield ""
            if part.kind == "reasoning":
                yield from self._thought(part.text)
            else:
                yield from self.layout.text(part.text, "" if part.kind == "text" else "dim")
        if answer.interrupted:
            yield from self.layout.block("interrupted: the answer was cancelled here", "yellow")
        elif answer.finish == "max-tokens":
            yield from self.layout.block("cut off: the limit of output was reached", "yellow")
        elif not answer.parts:
            yield from self.layout.block("an answer without content", "dim")
        elif silent:
            self._last = "heading"

    def _call(self, call: ToolCall) -> Iterator[str]:
        indent = 4 if call.parent is not None else 2
        yield from self._gap("call")
        time = units.duration(call.duration_ms) if call.duration_ms is not None else ""
        name = clipped(call.name or "unknown tool", 40)
        room = self.layout.most(indent + len(name) + len(time) + 6)
        head = " " * indent + paint("▸ ", "cyan") + paint(name, "bold")
        if self.layout.full:
            yield head + paint(f"  {time}", "dim") * bool(time)
            for line in arguments_lines(call.arguments):
                yield from self.layout.wrapped(line, indent + 4, "dim")
        else:
            line = arguments_line(call.arguments, room)
            yield f"{head}  {line}" + paint(f"  {time}", "dim") * bool(time)
        problem, style = call_problem(call)
        if problem:
            yield from self.layout.wrapped(problem, indent + 2, style)
        yield from self.layout.cut(call.result or "", indent + 2, RESULT_LINES)
        for other in call.result_other:
            yield from self.layout.wrapped(clipped(other), indent + 2, "dim")

    def _attempt(self, attempt: FailedAttempt) -> Iterator[str]:
        yield from self._gap("attempt")
        blocks = self.streamed(attempt)
        words = attempt_words(attempt, sum(map(len, blocks)), self._ending)
        yield from self.layout.block(words, "red")
        yield from self.layout.cut("\n".join(blocks), 4, _STREAMED_LINES)
        if attempt.retry is not None:
            yield from self.layout.block(retry_words(attempt.retry), "yellow")

    def _compaction(self, compaction: Compaction) -> Iterator[str]:
        yield from self._gap("compaction")
        style = "yellow" if compaction.outcome == "done" else "red"
        yield from self.layout.block(compaction_words(compaction), style)
        yield from self.layout.cut(compaction.summary or "", 4, SUMMARY_LINES)

    def _mark(self, mark: Mark) -> Iterator[str]:
        if mark.kind == "title" and not self.retitled:
            return
        yield from self._gap("mark")
        yield from self.layout.mark(mark)

    # Lines

    def _speaks(self, speaker: str, heading: str) -> Iterator[str]:
        """A heading, unless the same one goes on speaking; whoever has no name is always another one."""
        yield from self._gap("speech")
        if not speaker or speaker != self._speaker:
            yield heading
        self._speaker = speaker

    def _gap(self, kind: str) -> Iterator[str]:
        """A blank line, but not below a heading, and not between small things of one kind."""
        if self._last != "heading" and (kind != self._last or kind not in _SMALL):
            yield ""
        self._last = kind

    def _thought(self, text: str) -> Iterator[str]:
        """Reasoning, with a bar in front of it, so that it is no answer without colours either."""
        for line in split(text):
            for piece in wrap(line, self.layout.room(4)):
                yield "  " + paint(f"│ {piece}".rstrip(), "dim")
