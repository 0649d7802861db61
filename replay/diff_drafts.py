"""The events of a session in one vocabulary for all formats, ready to be compared.

A log and its migrated form tell the same in different ways. Here they come to the same events:

* A model call is one event, in either layout: the ``assistant/message`` with the stream it came of, or an
  ``assistant/attempt`` at its last chunk where no message did. A message that cites exactly its own chunks cites
  nothing: from format 2 on there are no chunks to cite.
* The system prompt is a ``system/message`` right before the request that it goes out with. Up to format 2 it stands
  in ``request/header``; in later formats it is an event, with an empty one before it in a migrated log. Whether it
  replaces an older prompt goes without saying, and is compared only where it does not fit.
* What a fork took over ends in ``session/end-seed {inherited: true}``; up to format 1 the header counts it.
* A resume after which nothing happened leaves no trace: the last ``session/end-seed`` with the permissions logged
  behind it, and the children that a migration lists before it.
* A type that a migration had to set aside (``plugin:TYPE``) is the type.
* Types of ``diff_rules.LEFT_OUT`` leave no trace.

Source: docs/diff.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from playhead.eventstore import chunk_rows, members
from playhead.eventstore.fork import END_SEED
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.recorded import Recorded, Replace, SurfaceOp
from playhead.projections.attempt import STREAM_ENDS, whole
from playhead.replay.diff_rules import LEFT_OUT
from playhead.replay.diff_stream import ComparedStream

_PERMISSIONS = frozenset({"permission/preset", "sandbox/mode", "approval/policy"})
_CHILD = "subagent/catalog"
_REQUESTS = frozenset({"request/header", "assistant/message", "assistant/attempt", "step/end", "turn/end"})
_PROMPT_IN_HEADER_BEFORE = 3
"""The log format from which the system prompt is an event of its own."""


@dataclass(frozen=True, slots=True)
class Draft:
    """An event to be compared. ``seq`` is where it stands, or shows; ``data`` is any JSON, its stream told apart.

    ``is_event`` is False for what no event of the log is: nothing can cite it.
    """

    seq: int
    type: str
    data: Any
    surface_op: SurfaceOp | None = None
    source_seqs: tuple[int, ...] | None = None
    ignorable: bool = False
    unreadable: tuple[str, ...] = ()
    is_event: bool = True

    @classmethod
    def of(cls, event: Recorded) -> Draft:
        """The event as it is."""
        try:
            data = event.json
        except (ValueError, RecursionError):
            data = {"notJson": event.raw.decode("utf-8", "replace")}
        return cls(
            event.seq,
            event.type.removeprefix("plugin:"),
            data,
            event.surface_op,
            event.source_seqs,
            event.ignorable,
            event.unreadable,
        )


def drafts(header: SessionHeader, events: Iterable[Recorded], *, as_chunks: bool) -> Iterator[Draft]:
    """The drafts of a session's ``events``, all of them and in order. ``as_chunks`` keeps the cuts of streams."""
    found = (event for event in events if event.type not in LEFT_OUT)
    told = _Calls(as_chunks).told(found)
    return _with_prompts(header, _without_idle_resume(_with_seed_mark(header, told)))


# Model calls


class _Calls:
    """Puts the chunks of each call together. Events that come among them wait until the place of the call is known."""

    def __init__(self, as_chunks: bool) -> None:
        self._as_chunks = as_chunks
        self._open: ComparedStream | None = None
        self._place: tuple[int | None, int | None] = (None, None)
        self._waiting: list[Draft] = []
        self._last_at = 0

    def told(self, events: Iterable[Recorded]) -> Iterator[Draft]:
        for event in events:
            if event.type == chunk_rows.EVENT_TYPE and isinstance(members.of(event).get("chunk"), dict):
                yield from self._chunk(event)
                continue
            if event.type in STREAM_ENDS:
                yield from self._end()
            match event.type:
                case "assistant/message":
                    yield from self._message(event)
                case "assistant/attempt":
                    yield from self._placed(self._attempt(event))
                case _:
                    yield from self._placed(Draft.of(event))
        yield from self._end()

    def _placed(self, draft: Draft) -> Iterator[Draft]:
        if self._open is None:
            yield draft
        else:
            self._waiting.append(draft)

    def _chunk(self, event: Recorded) -> Iterator[Draft]:
        place = _place(members.of(event))
        if self._open is not None and (self._open.finished or place != self._place):
            yield from self._end()
        if self._open is None:
            self._open, self._place = ComparedStream(as_chunks=self._as_chunks), place
        self._open.add(event)
        self._last_at = len(self._waiting)

    def _message(self, event: Recorded) -> Iterator[Draft]:
        draft, data = Draft.of(event), members.of(event)
        if isinstance(event.surface_op, Replace):  # takes the place of another one; no call made it
            yield from self._placed(replace(draft, data=_without_stream(draft.data)))
            return
        if self._open is not None and self._place != _place(data):
            yield from self._end()
        if isinstance(data.get("stream"), list):
            yield from self._end()
            stream = ComparedStream.embedded(event, as_chunks=self._as_chunks)
        else:
            stream = self._open or ComparedStream(as_chunks=self._as_chunks)
            self._open = None
            yield from self._flush()
        if data:
            draft = replace(draft, data=_without_stream(data) | {"stream": stream.told(data)})
        cited = draft.source_seqs
        yield replace(draft, source_seqs=None) if list(cited or ()) == stream.seqs else draft

    def _attempt(self, event: Recorded) -> Draft:
        draft, data = Draft.of(event), members.of(event)
        if not isinstance(data.get("stream"), list):
            return draft
        stream = ComparedStream.embedded(event, as_chunks=self._as_chunks)
        return replace(draft, data=data | {"stream": stream.told()})

    def _end(self) -> Iterator[Draft]:
        """The open call made no message: it stands where its last chunk did."""
        if self._open is not None:
            turn, step = self._place
            data = {"turn": turn, "step": step, "stream": self._open.told()}
            attempt = Draft(self._open.seqs[-1], "assistant/attempt", data)
            self._waiting.insert(self._last_at, attempt)
            self._open = None
        yield from self._flush()

    def _flush(self) -> Iterator[Draft]:
        yield from self._waiting
        self._waiting = []


def _without_stream(data: Any) -> Any:
    return {key: value for key, value in data.items() if key != "stream"} if isinstance(data, dict) else data


def _place(data: dict[str, Any]) -> tuple[int | None, int | None]:
    return whole(data, "turn"), whole(data, "step")


# Seeds and resumes


def _with_seed_mark(header: SessionHeader, found: Iterable[Draft]) -> Iterator[Draft]:
    """The end of what a fork took over, as format 2 and later mark it."""
    length = header.seed_length if header.version < 2 else None
    seq = 0
    for draft in found:
        seq = draft.seq
        if length is not None and seq >= length:
            mark = Draft(seq, END_SEED, {"inherited": True}, is_event=draft.type == END_SEED)
            length = None
            yield mark
            if mark.is_event:
                continue
        yield draft
    if length is not None:
        yield Draft(seq, END_SEED, {"inherited": True}, is_event=False)


def _without_idle_resume(found: Iterable[Draft]) -> Iterator[Draft]:
    """All but what resumes wrote at the end of the log, if nothing happened afterwards."""
    tail: list[Draft] = []
    resumed = False
    for draft in found:
        mark = draft.type == END_SEED and not _inherited(draft)
        if mark or draft.type == _CHILD or (resumed and draft.type in _PERMISSIONS):
            tail.append(draft)
            resumed = resumed or mark
            continue
        yield from tail
        tail, resumed = [], False
        yield draft
    if not resumed:
        yield from tail


def _inherited(draft: Draft) -> bool:
    return isinstance(draft.data, dict) and draft.data.get("inherited") is True


# System prompts


def _with_prompts(header: SessionHeader, found: Iterable[Draft]) -> Iterator[Draft]:
    """System prompts as events, each right before the request that it goes out with."""
    current: Any = []
    place: tuple[Any, Any] = (1, 1)
    waiting: list[Draft] = []
    for draft in found:
        data = draft.data if isinstance(draft.data, dict) else members.NOTHING
        if draft.type == "step/start":
            place = (data.get("turn"), data.get("step"))
        elif draft.type == "system/message":
            content = members.inner(data, "message").get("content")
            if content != [] or current != []:
                waiting.append(_prompt_event(draft, replaces=current != []))
            current = content
            continue
        elif draft.type == "request/header" and header.version < _PROMPT_IN_HEADER_BEFORE:
            draft, content = _prompt_taken_out(draft, data)
            if content is not None and content != current:
                waiting.append(_lifted(draft, place, content))
                current = content
        if waiting and draft.type in _REQUESTS:
            yield from waiting
            waiting = []
        yield draft
    yield from waiting


def _prompt_event(draft: Draft, *, replaces: bool) -> Draft:
    """A prompt without its operation, unless it joins a prompt that is there, or has none."""
    op = draft.surface_op
    expected = isinstance(op, Replace) or (op is not None and not replaces)
    return replace(draft, surface_op=None, source_seqs=None) if expected else draft


def _prompt_taken_out(draft: Draft, data: dict[str, Any]) -> tuple[Draft, Any]:
    """A request header without its prompt, and the prompt as content; None for what is none."""
    inner = data.get("header")
    if not isinstance(inner, dict) or not isinstance(inner.get("system", ""), str):
        return draft, None
    prompt = inner.get("system", "")
    kept = {key: value for key, value in inner.items() if key != "system"}
    return replace(draft, data=data | {"header": kept}), [{"type": "text", "text": prompt}] if prompt else []


def _lifted(draft: Draft, place: tuple[Any, Any], content: Any) -> Draft:
    message = {"role": "system", "content": content, "source": {"kind": "system-prompt"}}
    data = {"turn": place[0], "step": place[1], "message": message}
    return Draft(draft.seq, "system/message", data, is_event=False)
