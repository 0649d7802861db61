"""A replay as JSON, one object per line: the beginning and the end of every model call, and its chunks.

``event`` is ``begin``, ``chunk`` or ``end``; ``turn``, ``step``, ``attempt`` and ``call`` say of which call. What is
unknown is left out. Source: docs/cli.md, "playhead replay".
"""

from __future__ import annotations

from typing import Any

import msgspec

from playhead.replay.attempt import Attempt
from playhead.replay.moments import Began, CallMoment, Came, Ended


def as_json(moment: CallMoment) -> dict[str, Any]:
    """The object for ``moment``."""
    match moment:
        case Began(attempt=attempt, time_ms=time_ms):
            return _known(
                _place("begin", attempt)
                | {
                    "timeMs": time_ms,
                    "kind": attempt.call.kind,
                    "provider": attempt.provider,
                    "model": attempt.model,
                    "inherited": attempt.is_inherited or None,
                }
            )
        case Came(attempt=attempt, time_ms=time_ms, chunk=chunk):
            return _known(_place("chunk", attempt)) | {"timeMs": time_ms, "chunk": chunk.to_json()}
        case Ended(attempt=attempt, time_ms=time_ms, chunks=chunks):
            call = attempt.call
            return _known(
                _place("end", attempt)
                | {
                    "timeMs": time_ms,
                    "chunks": chunks,
                    "outcome": attempt.outcome,
                    "ending": attempt.ending,
                    "finish": call.finish,
                    "failure": _plain(call.failure),
                    "retry": _plain(call.retry),
                    "tokens": _plain(call.tokens),
                    "messageSeq": call.message_seq,
                }
            )


def _place(event: str, attempt: Attempt) -> dict[str, Any]:
    return {
        "event": event,
        "turn": attempt.turn,
        "step": attempt.step,
        "attempt": attempt.number,
        "call": attempt.seq,
    }


def _plain(value: msgspec.Struct | None) -> Any:
    return None if value is None else _known(msgspec.to_builtins(value))


def _known(members: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}
