"""The dialects of the five log formats of dsh: stored facts in, logical events out.

The logical vocabulary is the one of format 1 with what later formats added. So:

========== ============================================================================================
``dsh-v0`` the retired shapes of ``legacy.py``; pair-encoded sources are expanded with the envelope
``dsh-v1`` the same: a log that was carried over may hold them as well
``dsh-v2`` nothing; streams stay inside ``data.stream``, the attempts view takes chunks from there
``dsh-v3`` ``tool/ptc-dispatch`` and ``tool/ptc-dispatch-start`` are ``tool/code-dispatch`` ...
``dsh-v4`` as v3; and a tool result with a message of role ``tool``, which is flat, becomes a message of
           role ``user`` with one ``tool-result`` block
========== ============================================================================================

An event that is current comes back as the same object; unknown types pass; source kinds, which are an open
set, stay as they were written. Source: docs/formats.md, "Dialects".
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from playhead.adapters.dsh import legacy
from playhead.eventstore.dialect import Dialect
from playhead.eventstore.header import NEWEST_VERSION, SessionHeader
from playhead.eventstore.ids import Seq
from playhead.eventstore.recorded import Recorded, Replace

CODE_DISPATCH = {
    "tool/ptc-dispatch": "tool/code-dispatch",
    "tool/ptc-dispatch-start": "tool/code-dispatch-start",
}
"""Types of events that formats 3 and 4 call by another name: theirs -> ours."""
_MOVED_INTO_BLOCK = frozenset({"toolCallId", "content", "isError"})


class ResultIds(NamedTuple):
    """The message ids of the tool results so far, for flat results that replace one of them.

    Two parallel lists in order of seq, of which the first ``length`` entries belong to this state. States
    grow by appending to the same lists; a state that is not the newest one copies its part first.
    """

    seqs: list[int]
    ids: list[str]
    length: int

    def of(self, seq: int) -> str | None:
        """The id of the result at ``seq``; None when there is none."""
        at = bisect_left(self.seqs, seq, 0, self.length)
        return self.ids[at] if at < self.length and self.seqs[at] == seq else None

    def with_id(self, seq: int, id: str) -> ResultIds:
        """The state in which the result at ``seq`` has this id; a seq that runs back changes nothing."""
        if self.length and seq <= self.seqs[self.length - 1]:
            return self
        seqs, ids = self.seqs, self.ids
        if len(seqs) != self.length:
            seqs, ids = seqs[: self.length], ids[: self.length]
        seqs.append(seq)
        ids.append(id)
        return ResultIds(seqs, ids, self.length + 1)


_UPCASTS: dict[str, Callable[[Recorded], Recorded]] = {
    "turn/start": legacy.turn_start,
    "turn/end": legacy.turn_end,
    "user/message": legacy.user_message,
    "assistant/message": legacy.assistant_message,
    "steering/message": legacy.steering_message,
    "request/header": legacy.request_header,
    "request/header-delta": legacy.retired,
    "mode/set": legacy.retired,
}


class EarlyDialect:
    """Formats 0 and 1: the present vocabulary, and the retired shapes of earlier releases."""

    remembers: Collection[str] = ("tool/result",)

    def __init__(self, name: str) -> None:
        self.name = name
        self.touches: Mapping[str, Collection[str]] = {
            **{type: (type,) for type in ("tool/result", *_UPCASTS)},
            "steering/message": ("user/message",),
            **{old: (new,) for old, new in legacy.COMPACTION.items()},
        }

    def initial(self, header: SessionHeader) -> ResultIds:  # noqa: ARG002 - every dialect is asked this way
        return ResultIds([], [], 0)

    def step(self, state: ResultIds, fact: Recorded) -> tuple[ResultIds, Sequence[Recorded]]:
        if fact.type == "tool/result":
            return self._result(state, fact)
        upcast = _UPCASTS.get(fact.type)
        if upcast is not None:
            return state, (upcast(fact),)
        renamed = legacy.COMPACTION.get(fact.type)
        return state, (fact if renamed is None else _renamed(fact, renamed),)

    def _result(self, state: ResultIds, fact: Recorded) -> tuple[ResultIds, Sequence[Recorded]]:
        event = fact
        if legacy.is_flat_result(fact):
            op = fact.surface_op
            event = legacy.tool_result(fact, state.of(op.start) if isinstance(op, Replace) else None)
        message = event.json.get("message") if isinstance(event.json, dict) else None
        if isinstance(message, dict) and isinstance(message.get("id"), str):
            state = state.with_id(fact.seq, message["id"])
        return state, (event,)


class LaterDialect:
    """Formats 2 to 4: one function that turns a stored fact of some types into its logical event, and no state."""

    remembers: Collection[str] = ()

    def __init__(self, name: str, upcast: Callable[[Recorded], Recorded], touches: Mapping[str, str]) -> None:
        self.name = name
        self.touches: Mapping[str, Collection[str]] = {old: (new,) for old, new in touches.items()}
        self._upcast = upcast

    def initial(self, header: SessionHeader) -> None:  # noqa: ARG002 - every dialect is asked this way
        return None

    def step(self, state: None, fact: Recorded) -> tuple[None, Sequence[Recorded]]:
        return state, (self._upcast(fact),)


def _same(fact: Recorded) -> Recorded:
    return fact


def _renamed(fact: Recorded, type: str) -> Recorded:
    return Recorded(
        fact.session,
        fact.seq,
        fact.time_ms,
        type,
        fact.raw,
        fact.surface_op,
        fact.source_seqs,
        fact.ignorable,
        fact.position,
        fact.unreadable,
    )


def _code_dispatch(fact: Recorded) -> Recorded:
    renamed = CODE_DISPATCH.get(fact.type)
    return fact if renamed is None else _renamed(fact, renamed)


def _tool_message(fact: Recorded) -> Recorded:
    if fact.type != "tool/result":
        return _code_dispatch(fact)
    data = fact.json
    message = data.get("message") if isinstance(data, dict) else None
    if not isinstance(message, dict) or message.get("role") != "tool":
        return fact
    block = {"type": "tool-result"} | {key: message[key] for key in message if key in _MOVED_INTO_BLOCK}
    wrapped = {key: value for key, value in message.items() if key not in _MOVED_INTO_BLOCK}
    return fact.with_json(data | {"message": wrapped | {"role": "user", "content": [block]}})


DIALECTS: dict[str, Dialect] = {
    dialect.name: dialect
    for dialect in (
        EarlyDialect("dsh-v0"),
        EarlyDialect("dsh-v1"),
        LaterDialect("dsh-v2", _same, {}),
        LaterDialect("dsh-v3", _code_dispatch, CODE_DISPATCH),
        LaterDialect("dsh-v4", _tool_message, {"tool/result": "tool/result", **CODE_DISPATCH}),
    )
}
"""Every dialect of dsh by its name."""


def dialect_name(header: SessionHeader) -> str:
    """The name of the dialect that a log with this header is written in."""
    if not 0 <= header.version <= NEWEST_VERSION:
        raise ValueError(f"no dialect for log format {header.version}")
    return f"dsh-v{header.version}"


def seed_length(header: SessionHeader, facts: Iterable[Recorded]) -> Seq | None:
    """How many facts at the front were inherited from the parent; None for a log that inherited none.

    Formats 0 and 1 say it in the header. From format 2 on it is the seq of the last ``session/end-seed`` with
    ``inherited: true``: a fork of a fork carries the marker of its parent as well. ``facts`` may be all facts
    of the log, or those of this type alone; they are not touched when the header answers.
    """
    if header.version < 2:
        return None if header.seed_length is None else Seq(header.seed_length)
    if header.is_seeded is False:
        return None
    found = None
    for fact in facts:
        if fact.type == "session/end-seed" and isinstance(fact.json, dict):
            found = fact.seq if fact.json.get("inherited") is True else found
    return found
