"""The read tables of the transcript: turns, steps, messages and tool calls, one row each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from playhead.projections.attempt import CallFailure
from playhead.projections.projection import Column, ReadTable, Row
from playhead.projections.provenance import ANSWER, PROMPT
from playhead.projections.transcript_items import (
    Answer,
    AnyItem,
    FailedAttempt,
    Message,
    Step,
    ToolCall,
    Turn,
    items_of,
)
from playhead.projections.transcript_state import Transcript

_INHERITED = Column("inherited", "bool", "taken over from the session that this one was forked from")
_TURN = Column("turn", "int", "number of the turn", optional=True)
_STEP = Column("step", "int", "number of the step in the turn", optional=True)
_TURN_SEQ = Column(
    "turn_seq", "int", "seq of the turn; null between turns", optional=True, references=("read_turn", "seq")
)
_STEP_SEQ = Column(
    "step_seq",
    "int",
    "seq of the step; null outside of steps",
    optional=True,
    references=("read_step", "seq"),
)
_DURATION = "milliseconds from start to end; null where it has no end, or the clock went back meanwhile"
_CALLS = (
    Column("tool_calls", "int", "tool calls in it"),
    Column("tool_errors", "int", "tool calls that ended in an error"),
    Column("failed_attempts", "int", "model calls that gave no answer"),
    Column("retries", "int", "retries that were decided on"),
)

TURNS = ReadTable(
    "read_turn",
    "Every turn: when, how it ended, and what is in it.",
    (
        _TURN,
        _INHERITED,
        Column("started_ms", "int", "when it began"),
        Column("ended_ms", "int", "when it ended; null for one that was never closed", optional=True),
        Column("duration_ms", "int", _DURATION, optional=True),
        Column(
            "reason",
            "text",
            "how it ended: completed, aborted, error, max-tokens, blocked, interrupted (closed by a repair), "
            "another word, or unknown; null for one that was never closed",
            optional=True,
        ),
        Column(
            "cause", "text", "who aborted it: user, parent, hook with its reason, disposed", optional=True
        ),
        Column("error_code", "text", "why it failed, for programs", optional=True),
        Column("error_message", "text", "why it failed, for people", optional=True),
        Column("error_status", "int", "the HTTP status of the failure", optional=True),
        Column("steps", "int", "steps that were entered"),
        Column("prompts", "int", "messages that a person wrote"),
        Column("steering", "int", "prompts among them that joined the running turn"),
        Column("answers", "int", "answers of the model"),
        *_CALLS,
        Column("prompt", "text", "the first prompt", optional=True),
    ),
    key=("seq",),
)

STEPS = ReadTable(
    "read_step",
    "Every step: one request to the model, with its retries, and the tools that ran for its answer.",
    (
        _TURN,
        _STEP,
        _TURN_SEQ,
        _INHERITED,
        Column("started_ms", "int", "when it began"),
        Column("answered_ms", "int", "when its answer was there", optional=True),
        Column("ended_ms", "int", "when it ended; null for one that was never closed", optional=True),
        Column("duration_ms", "int", _DURATION, optional=True),
        Column("provider", "text", "who answered", optional=True),
        Column("model", "text", "which model answered", optional=True),
        Column("finish", "text", "how the stream of the answer ended", optional=True),
        *_CALLS,
    ),
    key=("seq",),
)

MESSAGES = ReadTable(
    "read_message",
    "Every message that was appended, but results of tools: prompts, context, answers. Copies for the model are not "
    "among them.",
    (
        _TURN,
        _STEP,
        _TURN_SEQ,
        _STEP_SEQ,
        _INHERITED,
        Column("time_ms", "int", "when it was appended"),
        Column("role", "text", "user, assistant, system or developer"),
        Column(
            "provenance",
            "text",
            "who is behind it: prompt (a person), answer, goal-round, runtime-context, system-prompt, job-notice, "
            "goal-notice, subagent, injected, ...; the same for every log format",
        ),
        Column("source_kind", "text", "its source as the log spells it", optional=True),
        Column("source_by", "text", "the program, goal or session that its source names", optional=True),
        Column("is_steering", "bool", "a prompt that joined a running turn"),
        Column("is_interrupted", "bool", "what was kept of a cancelled answer"),
        Column("message_id", "text", "its id", optional=True),
        Column("text", "text", "its text, without reasoning"),
        Column("chars", "int", "characters of its text"),
        Column("reasoning_chars", "int", "characters of its reasoning"),
        Column("tool_calls", "int", "tool calls that it asks for"),
        Column("provider", "text", "who answered", optional=True),
        Column("model", "text", "which model answered", optional=True),
        Column("finish", "text", "how its stream ended", optional=True),
        Column("stream_started_ms", "int", "the first chunk of its stream", optional=True),
        Column("first_token_ms", "int", "its first token; known from log format 2 on", optional=True),
    ),
    key=("seq",),
)

TOOL_CALLS = ReadTable(
    "read_tool_call",
    "Every tool call, with its result. The seq is that of the answer that asked for it, or of the call itself.",
    (
        Column("number", "int", "which call of the session, from 1"),
        _TURN,
        _STEP,
        _TURN_SEQ,
        _STEP_SEQ,
        _INHERITED,
        Column("call_id", "text", "its id, unique in its step", optional=True),
        Column("parent_call_id", "text", "the call from whose code it came", optional=True),
        Column("tool", "text", "name of the tool; null for a result that belongs to no call", optional=True),
        Column("arguments", "text", "what the model passed: JSON as it wrote it, valid or not"),
        Column("started_seq", "int", "seq of tool/call; null for a call that never started", optional=True),
        Column("started_ms", "int", "when it started", optional=True),
        Column("result_seq", "int", "seq of its result; null without one", optional=True),
        Column("ended_ms", "int", "when its result was there", optional=True),
        Column("duration_ms", "int", _DURATION, optional=True),
        Column("is_error", "bool", "it ended in an error; null without a result", optional=True),
        Column("error_name", "text", "name of the error", optional=True),
        Column("error_code", "text", "code of the error, such as TOOL_NOT_STARTED", optional=True),
        Column("result", "text", "text of the result", optional=True),
        Column("result_chars", "int", "characters of the result", optional=True),
    ),
    key=("number",),
)

TABLES = (TURNS, STEPS, MESSAGES, TOOL_CALLS)


def rows(state: Transcript) -> Iterator[Row]:
    """The rows of all four tables."""
    for section in state.sections():
        inherited = state.inherited.covers(section.seq)
        turn = section if isinstance(section, Turn) else None
        inside = items_of(section)
        if turn is not None:
            yield _turn(turn, inherited, [item for _, item in inside])
            for item in turn.items:
                if isinstance(item, Step):
                    yield _step(turn, item, inherited)
        for step, item in inside:
            match item:
                case Message():
                    yield _message(_place(turn, step), inherited, item)
                case Answer():
                    yield _answer(_place(turn, step), inherited, item)
                case ToolCall():
                    yield _tool_call(_place(turn, step), inherited, item)


_Place = tuple[int | None, int | None, int | None, int | None]


def _place(turn: Turn | None, step: Step | None) -> _Place:
    """Numbers and seqs of turn and step."""
    return (
        None if turn is None else turn.number,
        None if step is None else step.number,
        None if turn is None else turn.seq,
        None if step is None else step.seq,
    )


def _counts(items: Iterable[AnyItem]) -> tuple[int, int, int, int]:
    """What ``_CALLS`` counts."""
    calls = errors = failed = retries = 0
    for item in items:
        if isinstance(item, ToolCall):
            calls += 1
            errors += item.is_error is True
        elif isinstance(item, FailedAttempt):
            failed += 1
            retries += item.retry is not None
    return calls, errors, failed, retries


def _turn(turn: Turn, inherited: bool, items: list[AnyItem]) -> Row:
    ending = turn.ending
    failure = (ending and ending.failure) or CallFailure()
    prompts = [item for item in items if isinstance(item, Message) and item.provenance == PROMPT]
    return Row(
        TURNS.name,
        turn.seq,
        (
            turn.number,
            inherited,
            turn.time_ms,
            turn.ended_ms,
            turn.duration_ms,
            ending and ending.reason,
            ending and ending.cause,
            failure.code,
            failure.message,
            failure.status,
            turn.steps,
            len(prompts),
            sum(prompt.steering for prompt in prompts),
            sum(isinstance(item, Answer) for item in items),
            *_counts(items),
            prompts[0].text if prompts else None,
        ),
    )


def _step(turn: Turn, step: Step, inherited: bool) -> Row:
    answers = [item for item in step.items if isinstance(item, Answer)]
    answer = answers[-1] if answers else None
    return Row(
        STEPS.name,
        step.seq,
        (
            turn.number,
            step.number,
            turn.seq,
            inherited,
            step.time_ms,
            answer and answer.time_ms,
            step.ended_ms,
            step.duration_ms,
            answer and answer.provider,
            answer and answer.model,
            answer and answer.finish,
            *_counts(step.items),
        ),
    )


def _message(place: _Place, inherited: bool, message: Message) -> Row:
    return Row(
        MESSAGES.name,
        message.seq,
        (
            *place,
            inherited,
            message.time_ms,
            message.role,
            message.provenance,
            message.source_kind,
            message.by,
            message.steering,
            False,
            message.id,
            message.text,
            len(message.text),
            0,
            0,
            *(None,) * 5,
        ),
    )


def _answer(place: _Place, inherited: bool, answer: Answer) -> Row:
    text = "\n".join(part.text for part in answer.parts if part.kind == "text")
    stream = answer.stream
    return Row(
        MESSAGES.name,
        answer.seq,
        (
            *place,
            inherited,
            answer.time_ms,
            "assistant",
            ANSWER,
            "model",
            None,
            False,
            answer.interrupted,
            answer.id,
            text,
            len(text),
            sum(len(part.text) for part in answer.parts if part.kind == "reasoning"),
            sum(part.kind == "tool-call" for part in answer.parts),
            answer.provider,
            answer.model,
            answer.finish,
            stream and stream.started_ms,
            stream and stream.first_token_ms,
        ),
    )


def _tool_call(place: _Place, inherited: bool, call: ToolCall) -> Row:
    return Row(
        TOOL_CALLS.name,
        call.seq,
        (
            call.number,
            *place,
            inherited,
            call.call_id,
            call.parent,
            call.name,
            call.arguments,
            call.started_seq,
            call.started_ms,
            call.result_seq,
            call.ended_ms,
            call.duration_ms,
            call.is_error,
            call.error_name,
            call.error_code,
            call.result,
            None if call.result is None else len(call.result),
        ),
    )
