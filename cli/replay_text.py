"""A replay as text: what a person saw, in the order in which it came, as it comes.

Answers are written piece by piece: reasoning dim and with a bar in front, text, tool calls with their arguments as the
model wrote them. Between them stand prompts, results, what programs put in (one line each), and in colour what went
wrong: calls that failed and were made again, answers that were stopped or cut off. What ended as it should is not said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from playhead.cli import units
from playhead.cli.colour import paint
from playhead.cli.indented_text import INDENT, RESULT_LINES, SUMMARY_LINES, IndentedText
from playhead.cli.log_remarks import Remark
from playhead.cli.paragraphs import clipped
from playhead.cli.replay_blocks import REASONING, TEXT, TOOL_CALL, BlockOrder, Piece
from playhead.cli.replay_flow import Flow
from playhead.cli.replay_items import TYPES, Items
from playhead.cli.transcript_words import (
    arguments_line,
    call_problem,
    compaction_words,
    cut_words,
    failure_words,
    folded_words,
    retry_words,
)
from playhead.eventstore.chunks import Chunk
from playhead.eventstore.header import SessionHeader
from playhead.projections.attempt import CallFailure
from playhead.projections.provenance import PROMPT
from playhead.projections.transcript_items import (
    Answer,
    AnyItem,
    Compaction,
    Ending,
    Mark,
    Message,
    ToolCall,
    Turn,
)
from playhead.replay.attempt import Attempt
from playhead.replay.moments import Began, Came, Ended, Happened, Moment

_UNSEEN = frozenset({"system", "developer"})
"""The roles of messages that are for the model alone."""

_CLOSE = {
    ("speech", "ending"),
    ("call", "ending"),
    ("ending", "ending"),
    ("ending", "remark"),
    ("remark", "remark"),
    ("call", "call"),
    ("context", "context"),
    ("mark", "mark"),
}
"""What stands below what without a blank line between."""


class ReplayText:
    """Writes moments. ``measure`` gives the width of the terminal, which may change; None does not wrap lines.

    ``end_seq`` is where the session is cut, None where all of it is shown. ``full`` shortens nothing. ``remarks`` about
    the log come before the events that they are about, in this order.
    """

    def __init__(
        self,
        header: SessionHeader,
        write: Callable[[str], None],
        *,
        measure: Callable[[], int | None] = lambda: None,
        rubs_out: bool = False,
        end_seq: int | None = None,
        full: bool = False,
        remarks: tuple[Remark, ...] = (),
    ) -> None:
        self._write = write
        self._measure = measure
        self._layout = IndentedText(measure(), full)
        self._end_seq = end_seq
        self._remarks = list(reversed(remarks))
        self._flow = Flow(rubs_out=rubs_out)
        self._items = Items(header)
        self._order = BlockOrder()
        self._streaming: str | None = None  # the kind of the block that the flow is in
        self._said = 0  # characters that the present call has said
        self._answered_seq: int | None = None  # the message whose stream was shown
        self._failure: CallFailure | None = None  # the one that was told last
        self._speaker, self._last = "", "title"
        self._title: str | None = None
        self._several_calls = False

    # Moments

    def show(self, moment: Moment) -> None:
        """Write what ``moment`` adds."""
        match moment:
            case Began(attempt=attempt):
                self._tell_remarks(attempt.seq)
                self._order, self._said = BlockOrder(), 0
            case Came(attempt=attempt, chunk=chunk):
                self._chunk(attempt, chunk)
            case Ended(attempt=attempt, chunks=chunks):
                self._ended(attempt, chunks)
            case Happened(event=event):
                self._tell_remarks(event.seq)
                if event.type not in TYPES:
                    self._remark(f"not understood: event of unknown type {event.type}", "yellow")
                    return
                for item in self._items.after(event):
                    self._item(item)
                if event.type == "turn/start":
                    self._heading(self._items.turn)

    def end(self) -> None:
        """Write what is left where the moments end."""
        if self._end_seq is None:
            for item in self._items.rest():
                self._item(item)
            self._tell_remarks(None)
        self.break_off()

    def break_off(self) -> None:
        """End the line that is being written."""
        self._streaming = None
        self._write(self._flow.end())

    # Model calls

    def _chunk(self, attempt: Attempt, chunk: Chunk) -> None:
        for piece in self._order.feed(chunk):
            self._piece(attempt.model, piece)

    def _piece(self, model: str | None, piece: Piece) -> None:
        """Write a piece of an answer; one that goes on after something else begins a paragraph of its own."""
        if piece.opens or self._streaming != piece.kind:
            self._open(model, piece)
        self._said += len(piece.text)
        self._write(self._flow.feed(piece.text))

    def _open(self, model: str | None, piece: Piece) -> None:
        speaker = clipped(model or "model unknown", 60)
        if self._speaker != speaker:
            self._gap("speech")
            self._put([paint("Assistant", "bold cyan") + paint(f" · {speaker}", "dim")])
            self._speaker, self._last = speaker, "heading"
        if piece.kind == TOOL_CALL:
            self._gap("call")
            name = clipped(piece.name or "unknown tool", 40)
            painted = "  " + paint("▸ ", "cyan") + paint(name, "bold") + "  "
            self._write(self._flow.begin(" " * 6, "dim", first=f"  ▸ {name}  ", painted=painted))
        else:
            self._gap("speech")
            lead, style = ("  │ ", "dim") if piece.kind == REASONING else ("  ", "")
            self._write(self._flow.begin(lead, style if piece.kind in (TEXT, REASONING) else "dim"))
        self._streaming = piece.kind

    def _ended(self, attempt: Attempt, chunks: int) -> None:
        """Write what was still waiting, and how the call ended unless it ended well."""
        for piece in self._order.end():
            self._piece(attempt.model, piece)
        call = attempt.call
        if chunks:
            self._answered_seq = call.message_seq
        if attempt.is_summary:
            return
        kept = call.message_seq is not None
        match call.outcome:
            case "failed":
                self._failed(call.failure)
            case "cancelled":
                rest = "what stands above was kept" if kept else "nothing of it was kept"
                self._ending(
                    f"cancelled here; {rest}" if self._said else "cancelled before anything came", "yellow"
                )
            case "crashed" if attempt.is_inherited:  # the process died, or the fork was made here
                self._ending("cut off here, in the middle of the model's answer", "yellow")
            case "crashed":
                self._ending("the process died here, in the middle of the model's answer", "red")
            case "open":
                what = "the log ends here" if self._end_seq is None else "stopped here, as was asked for"
                self._ending(f"{what}, in the middle of the model's answer", "yellow")
            case "unanswered" if call.failure is not None:
                self._failed(call.failure)
            case "unanswered" if call.to_seq is not None:
                self._ending("no answer of the model was logged in this step", "yellow")
            case "finished" if call.finish == "max-tokens":
                self._ending("cut off: the limit of output was reached", "yellow")
            case "finished" if not kept and call.to_seq != self._end_seq:
                self._ending(
                    f"finished ({clipped(call.finish or '?', 40)}), but no answer was logged", "yellow"
                )
        if call.retry is not None:
            self._ending(retry_words(call.retry), "yellow")

    def _failed(self, failure: CallFailure | None) -> None:
        told = "unknown failure" if failure is None else failure_words(failure)
        lost = f"; the {units.count(self._said, 'character')} above are no answer" if self._said else ""
        self._ending(f"model call failed: {told}{lost}", "red")
        self._failure = failure

    # Items of the transcript

    def _heading(self, turn: Turn | None) -> None:
        if turn is None:
            return
        self._gap("turn")
        number = "?" if turn.number is None else turn.number
        self._put([paint(f"── Turn {number} · {units.when(turn.time_ms)}", "dim")])
        self._speaker = ""
        self._failure = None

    def _item(self, item: AnyItem | Turn) -> None:
        match item:
            case Message():
                self._message(item)
            case Answer():
                self._answer(item)
            case ToolCall():
                self._result(item)
            case Compaction():
                self._remark(compaction_words(item), "yellow" if item.outcome == "done" else "red")
                self._put(self._layout.cut(item.summary or "", 4, SUMMARY_LINES))
            case Mark():
                self._mark(item)
            case Turn():
                for left in item.items:
                    self._item(left)  # type: ignore[arg-type]
                self._turn_ended(item)

    def _message(self, message: Message) -> None:
        if message.role in _UNSEEN:
            return
        if message.provenance != PROMPT and not self._layout.full:
            self._gap("context")
            self._put([paint("  " + clipped(folded_words(message), self._layout.most(INDENT)), "dim")])
            return
        name = "User" if message.provenance == PROMPT else clipped(message.label.capitalize(), 60)
        steering = paint(" · steering", "dim") if message.steering else ""
        self._gap("heading")
        self._put([paint(name, "bold green" if message.provenance == PROMPT else "bold") + steering])
        self._speaker, self._last = "", "heading"
        self._put(self._layout.text(message.text))
        for other in message.other:
            self._put(self._layout.block(other, "dim"))
        self._last = "speech"

    def _answer(self, answer: Answer) -> None:
        """An answer without a stream; any other stands there by now."""
        self._several_calls = len(self._items.pending) > 1
        if answer.seq == self._answered_seq:
            return
        calls = {call.call_id: call for call in self._items.pending if call.seq == answer.seq}
        for part in answer.parts:
            call = calls.get(part.text) if part.kind == TOOL_CALL else None
            text = part.text if call is None else call.arguments
            name = "" if call is None else call.name or ""
            self._piece(answer.model, Piece(part.kind, name, text, opens=True))
        if answer.interrupted:
            self._ending("the answer was cancelled", "yellow")
        elif not answer.parts:
            self._ending("an answer without content", "dim")

    def _result(self, call: ToolCall) -> None:
        """What came of a tool call."""
        indent = 2 if call.parent is None else 4
        self._gap("call")
        name = clipped(call.name or "unknown tool", 40)
        head = " " * indent + paint("◂ ", "cyan") + paint(name, "bold")
        time = units.duration(call.duration_ms) if call.duration_ms is not None else ""
        if self._several_calls or call.seq == call.started_seq:
            room = self._layout.most(indent + len(name) + len(time) + 6)
            head += "  " + arguments_line(call.arguments, room)
        self._put([head + paint(f"  {time}", "dim") * bool(time)])
        problem, style = call_problem(call)
        if problem:
            self._put(self._layout.wrapped(problem, indent + 2, style))
        self._put(self._layout.cut(call.result or "", indent + 2, RESULT_LINES))
        for other in call.result_other:
            self._put(self._layout.wrapped(clipped(other), indent + 2, "dim"))

    def _mark(self, mark: Mark) -> None:
        if mark.kind == "title":
            first, self._title = self._title is None, mark.text
            if first:
                return
        self._gap("mark")
        self._put(self._layout.mark(mark))

    def _turn_ended(self, turn: Turn) -> None:
        """How a turn ended, unless that is plain from what stands above."""
        match turn.ending:
            case None:
                self._remark("the turn has no end: it is still running, or was cut off", "yellow")
            case Ending(reason="error", failure=failure) if failure is not None:
                again = failure == self._failure
                self._remark("turn failed" if again else f"turn failed: {failure_words(failure)}", "red")
            case Ending(reason="aborted", cause=cause):
                self._remark(f"turn cancelled by {cause}" if cause else "turn cancelled", "yellow")
            case Ending(reason="interrupted"):
                self._remark(*cut_words(turn, self._items.inherited_to))
            case Ending(reason="blocked"):
                self._remark("turn refused before the model was called", "yellow")
            case Ending(reason="completed" | "max-tokens"):
                pass
            case Ending(reason=reason):
                self._remark(f"turn ended: {clipped(reason, 60)}", "yellow")

    def _tell_remarks(self, seq: int | None) -> None:
        while self._remarks:
            at = self._remarks[-1].seq
            if seq is not None and (at is None or at > seq):
                return
            self._remark(self._remarks.pop().text, "yellow")

    # Lines

    def _gap(self, kind: str) -> None:
        """End what streams, and leave a blank line above what follows unless the two belong together."""
        self.break_off()
        self._layout = replace(self._layout, width=self._measure())
        self._flow.resize(self._layout.width)
        if self._last != "heading" and (self._last, kind) not in _CLOSE:
            self._put([""])
        self._last = kind

    def _ending(self, text: str, style: str) -> None:
        """A line about how a model call ended."""
        self._tell("ending", text, style)

    def _remark(self, text: str, style: str) -> None:
        """A line about something else."""
        self._tell("remark", text, style)

    def _tell(self, kind: str, text: str, style: str) -> None:
        self._gap(kind)
        self._put(self._layout.block(text, style))

    def _put(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._write(line + "\n")
