"""The words in which a transcript says what happened; they are the same in text and in Markdown.

Every text comes from a log and may hold anything; the callers make it safe.
"""

from __future__ import annotations

import json
from typing import Any

from playhead.cli import units
from playhead.cli.paragraphs import clipped, split
from playhead.eventstore import json_text
from playhead.projections.attempt import CallFailure, Retry
from playhead.projections.transcript_items import (
    Compaction,
    Ending,
    FailedAttempt,
    Mark,
    Message,
    ToolCall,
    Turn,
)

_ENDINGS = {
    "completed": ("completed", "green"),
    "aborted": ("cancelled", "yellow"),
    "error": ("failed", "red"),
    "max-tokens": ("limit of output reached", "yellow"),
    "blocked": ("refused before it began", "yellow"),
    "unknown": ("ended, nobody knows how", "yellow"),
}


_GOALS = {
    "create": "created",
    "edit": "edited",
    "pause": "paused",
    "resume": "resumed",
    "complete": "completed",
    "block": "blocked",
    "clear": "cleared",
}


def ending_words(turn: Turn, inherited_to: int) -> tuple[str, str]:
    """How the turn ended, and a style for it; the first ``inherited_to`` events are the parent's."""
    if turn.ending is None:
        return "open", "yellow"
    if turn.ending.reason == "interrupted":
        where, style = _cut(turn, inherited_to)
        return f"cut off {where}", style
    word, style = _ENDINGS.get(turn.ending.reason, (turn.ending.reason, "yellow"))
    if turn.ending.cause is not None:
        word += f" by {turn.ending.cause}"
    return clipped(word, 80), style


def cut_words(turn: Turn, inherited_to: int) -> tuple[str, str]:
    """Where a turn that a repair closed was cut off, and a style for it."""
    where, style = _cut(turn, inherited_to)
    return f"cut off here, {where}; a repair closed the turn", style


def _cut(turn: Turn, inherited_to: int) -> tuple[str, str]:
    """What cut off a turn that a repair closed. Forks repair as well; an inherited turn does not tell which it was."""
    if turn.ended_seq is None or turn.ended_seq >= inherited_to:
        return "by a crash", "red"
    return "at the fork" if turn.ended_seq == inherited_to - 1 else "by a crash or a fork", "yellow"


def failure_words(failure: CallFailure) -> str:
    """``RATE_LIMIT (HTTP 429): too many requests``."""
    status = "" if failure.status is None else f" (HTTP {failure.status})"
    return f"{failure.code or 'unknown failure'}{status}: {failure.message or 'no message'}"


def folded_words(message: Message) -> str:
    """A message that a program put in, on one line."""
    size = units.count(len(message.text), "character") if message.text else ""
    told = message.summary or ", ".join(message.other)
    if told:
        return f"{message.label}: {told}"
    return f"{message.label}: {size or 'no text'}"


def attempt_words(attempt: FailedAttempt, chars: int, ending: Ending | None) -> str:
    """What became of a model call that gave no answer, in a turn that ended so."""
    came = f"; {units.count(chars, 'character')} had come" if chars else ""
    if attempt.failure is not None:
        return f"model call failed: {failure_words(attempt.failure)}{came}"
    if attempt.finish is None:
        cancelled = ending is not None and ending.reason == "aborted"
        return f"model call {'cancelled' if cancelled else 'cut off'}{came}"
    return f"model call finished ({attempt.finish}), but no answer was logged{came}"


def retry_words(retry: Retry) -> str:
    """``retry 1 of 5 after 533 ms``."""
    number = "retry" if retry.number is None else f"retry {retry.number}"
    most = "" if retry.most is None else f" of {retry.most}"
    wait = "" if retry.delay_ms is None else f" after {units.duration(round(retry.delay_ms))}"
    return f"{number}{most}{wait}" + ("" if retry.started_ms is not None else "; the wait was not over")


def compaction_words(compaction: Compaction) -> str:
    """What a compaction did."""
    size = "" if compaction.tokens is None else f", about {units.count(compaction.tokens, 'token')}"
    if compaction.kind == "prune":
        return f"a result was shortened for the model{size}; it stands above as it was"
    if compaction.outcome == "failed":
        return f"compaction failed: {compaction.error}"
    if compaction.outcome == "unfinished":
        return "compaction without an end"
    if compaction.shadowed is None:
        return "compaction: for the model a summary takes the place of what stands above"
    what = units.count(compaction.shadowed, "message")
    return f"compaction: for the model a summary takes the place of {what}{size}"


def mark_words(mark: Mark) -> list[str]:
    """The lines of a mark, safe to print; at least one."""
    if mark.kind == "inherited":
        return ["up to here inherited from the parent session"]
    if mark.kind == "resumed":
        return [f"session opened again, {units.when(mark.time_ms)}"]
    if mark.kind == "goal":
        operation, colon, objective = mark.text.partition(":")
        return [clipped(f"goal {_GOALS.get(operation, operation)}{colon}{objective}")]
    names = {"command": "", "command-result": "", "todo": "todo list"}
    name = names.get(mark.kind, mark.kind)
    lines = split(mark.text)
    if mark.kind == "todo":
        return [name, *lines]
    first, *rest = lines or [""]
    return [f"{name}: {first}" if name else first, *rest]


def call_problem(call: ToolCall) -> tuple[str, str]:
    """What is wrong with a call, on one line that is safe to print, and a style; "" for nothing."""
    if call.result_seq is None:
        return ("no result" if call.started_seq is not None else "never started", "yellow")
    if call.is_error:
        named = ": ".join(filter(None, (call.error_name, call.error_code)))
        return clipped(f"error {named}".strip(), None), "red"
    return "", ""


def arguments_line(arguments: str, cells: int | None) -> str:
    """The arguments of a call on one line: ``command: ls · timeout: 5``; as they are where they are no object."""
    members = _object(arguments)
    if members is None:
        return clipped(arguments, cells)
    return clipped(" · ".join(f"{key}: {_value(value)}" for key, value in members.items()), cells)


def arguments_lines(arguments: str) -> list[str]:
    """The arguments of a call, one a line, safe to print; a text of several lines below its name."""
    members = _object(arguments)
    if members is None:
        return split(arguments)
    lines = []
    for key, value in members.items():
        first, *rest = split(_value(value)) or [""]
        name = clipped(key)
        lines += [f"{name}: {first}"] if not rest else [f"{name}:", *(f"  {line}" for line in (first, *rest))]
    return lines


def _object(text: str) -> dict[str, Any] | None:
    try:
        value = json_text.parse(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and value else None


def _value(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return json_text.dumps(value).decode("utf-8", "replace")
    except ValueError:
        return json.dumps(value)
