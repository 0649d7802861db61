"""A transcript as Markdown: a heading for each turn, what was said and given back in fenced blocks.

Everything that comes from a log stands in a fence that is longer than any run of backticks in it, or has every mark of
Markdown and HTML escaped. So nothing that a model or a tool wrote becomes a heading, a link, a picture or a tag.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from playhead.cli import units
from playhead.cli.log_remarks import Remark, due
from playhead.cli.paragraphs import clipped, split
from playhead.cli.transcript_words import (
    attempt_words,
    call_problem,
    compaction_words,
    ending_words,
    failure_words,
    folded_words,
    mark_words,
    retry_words,
)
from playhead.eventstore import json_text
from playhead.projections.provenance import PROMPT
from playhead.projections.transcript_items import (
    Answer,
    AnyItem,
    Compaction,
    FailedAttempt,
    Mark,
    Message,
    Section,
    ToolCall,
    Turn,
    items_of,
)

_RUN = re.compile("`+")
_MARKS = re.compile(r"([\\`*_\[\]<>&|~#@]|:(?=//)|(?<=www)\.)", re.IGNORECASE)


def fence(text: str, info: str = "text") -> Iterator[str]:
    """``text`` in a fenced block, as lines; nothing for no text."""
    lines = split(text)
    if not lines:
        return
    longest = max((len(run) for line in lines for run in _RUN.findall(line)), default=0)
    ticks = "`" * max(3, longest + 1)
    yield ticks + info
    yield from lines
    yield ticks


def inline(text: str) -> str:
    """``text`` on one line, to stand behind something else: what could mark it up, or become a link, is escaped."""
    return _MARKS.sub(r"\\\1", clipped(text))


def lines(
    sections: tuple[Section, ...],
    *,
    full: bool,
    streamed: Callable[[FailedAttempt], list[str]],
    inherited_to: int = 0,
    remarks: tuple[Remark, ...] = (),
    retitled: bool = False,
) -> Iterator[str]:
    """Every line of ``sections``. ``remarks`` are in the order of their seqs.

    ``retitled`` shows each title where it was given.
    """
    waiting = deque(remarks)
    for section in sections:
        if isinstance(section, Turn):
            yield from _notes(due(waiting, section.seq))
            yield from ("", f"## {_heading(section, inherited_to)}")
        for _, item in items_of(section):
            yield from _notes(due(waiting, item.seq))
            if isinstance(item, Mark) and item.kind == "title" and not retitled:
                continue
            yield from _item(item, section, full, streamed)
        if isinstance(section, Turn):
            if section.ended_seq is not None:
                yield from _notes(due(waiting, section.ended_seq))
            yield from _end(section)
    yield from _notes(due(waiting, None))


def _notes(remarks: Iterable[Remark]) -> Iterator[str]:
    for remark in remarks:
        yield from ("", f"> **Note:** {inline(remark.text)}")


def _heading(turn: Turn, inherited_to: int) -> str:
    parts = [
        f"Turn {'?' if turn.number is None else turn.number}",
        inline(ending_words(turn, inherited_to)[0]),
    ]
    parts.append(units.when(turn.time_ms))
    if turn.duration_ms is not None:
        parts.append(units.duration(turn.duration_ms))
    if turn.seq < inherited_to:
        parts.append("inherited")
    return " · ".join(parts)


def _end(turn: Turn) -> Iterator[str]:
    if turn.ending is None:
        yield from ("", "*The turn has no end: it is still running, or was cut off.*")
    elif turn.ending.failure is not None:
        yield from ("", f"**Turn failed:** {inline(failure_words(turn.ending.failure))}")


def _item(
    item: AnyItem, section: Section, full: bool, streamed: Callable[[FailedAttempt], list[str]]
) -> Iterator[str]:
    match item:
        case Message():
            yield from _message(item, full)
        case Answer():
            yield from _answer(item)
        case ToolCall():
            yield from _call(item)
        case FailedAttempt():
            blocks = streamed(item)
            ending = section.ending if isinstance(section, Turn) else None
            words = attempt_words(item, sum(map(len, blocks)), ending)
            yield from ("", f"**{inline(words)}**")
            for text in blocks:
                yield from ("", *fence(text))
            if item.retry is not None:
                yield from ("", f"*{inline(retry_words(item.retry))}*")
        case Compaction():
            yield from ("", f"*{inline(compaction_words(item))}*", "", *fence(item.summary or ""))
        case Mark():
            told = [inline(line) for line in mark_words(item)]
            yield from ("", "  \n".join(f"*{line}*" for line in told if line))


def _message(message: Message, full: bool) -> Iterator[str]:
    if message.provenance != PROMPT and not full:
        yield from ("", f"*{inline(folded_words(message))}*")
        return
    name = "User" if message.provenance == PROMPT else inline(message.label.capitalize())
    yield from ("", f"**{name}**" + (" (steering)" if message.steering else ""), "", *fence(message.text))
    for other in message.other:
        yield from ("", f"*{inline(other)}*")


def _answer(answer: Answer) -> Iterator[str]:
    yield from ("", f"**Assistant** ({inline(answer.model or 'model unknown')})")
    for part in answer.parts:
        if part.kind == "reasoning":
            yield from ("", "Reasoning:", "", *fence(part.text))
        elif part.kind != "tool-call":
            yield from ("", *fence(part.text))
    if answer.interrupted:
        yield from ("", "*Interrupted: the answer was cancelled here.*")
    elif answer.finish == "max-tokens":
        yield from ("", "*Cut off: the limit of output was reached.*")


def _call(call: ToolCall) -> Iterator[str]:
    time = "" if call.duration_ms is None else f" · {units.duration(call.duration_ms)}"
    below = "" if call.parent is None else f" (from {inline(call.parent)})"
    yield from ("", f"**Tool {inline(call.name or 'unknown')}**{below}{time}", "")
    yield from fence(call.arguments, "json" if _is_json(call.arguments) else "text")
    problem, _ = call_problem(call)
    if problem:
        yield from ("", f"*{inline(problem)}*")
    if call.result:
        yield from ("", *fence(call.result))
    for other in call.result_other:
        yield from ("", f"*{inline(other)}*")


def _is_json(text: str) -> bool:
    try:
        json_text.parse(text)
    except (ValueError, RecursionError):
        return False
    return True
