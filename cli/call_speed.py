"""How fast model calls answered: how long until the first token, and how many tokens a second from there on.

Each call counts for itself. Waits before retries are in no figure, nor is what a failed call of the same step had said.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from playhead.eventstore import members
from playhead.eventstore.recorded import Recorded
from playhead.projections.attempt import Attempt, whole
from playhead.projections.embedded_stream import is_token


@dataclass(frozen=True)
class CallSpeed:
    """Sums: over ``calls`` that came to a first token, and of those, over the whole answers whose output is known."""

    calls: int = 0
    first_token_ms: int = 0
    decode_ms: int = 0
    decode_tokens: int = 0

    @property
    def mean_first_token_ms(self) -> int | None:
        return round(self.first_token_ms / self.calls) if self.calls else None

    @property
    def tokens_per_second(self) -> float | None:
        return self.decode_tokens / self.decode_ms * 1000 if self.decode_ms else None

    def to_json(self) -> dict[str, int]:
        """The sums as a JSON object."""
        return {
            "calls": self.calls,
            "firstTokenMs": self.first_token_ms,
            "decodeMs": self.decode_ms,
            "decodeTokens": self.decode_tokens,
        }


class FirstTokens:
    """Finds the first token of each of ``calls`` in the deltas of their session; some have it themselves.

    A token is of the first call of its step that ends behind it: a stream may begin with a delta, of which the call
    does not know. What streams on behind the first token of a call is passed over unread.
    """

    def __init__(self, calls: Iterable[Attempt]) -> None:
        self._calls = tuple(calls)
        self._times = {call.seq: call.first_token_ms for call in self._calls}
        self._waiting = deque(call for call in self._calls if call.first_token_ms is None)
        self._read_on_at = 0

    def see(self, events: Iterable[Recorded]) -> None:
        """Look at the next events, deltas among them."""
        for event in events:
            if event.seq >= self._read_on_at and event.type == "assistant/chunk":
                self._see(event)

    def _see(self, chunk: Recorded) -> None:
        data = members.of(chunk)
        step = (whole(data, "turn"), whole(data, "step"))
        while self._waiting and _is_behind(chunk.seq, step, self._waiting[0]):
            self._waiting.popleft()
        if not self._waiting or not is_token(members.inner(data, "chunk")):
            return
        call = self._waiting[0]
        if (call.turn, call.step) == step:
            self._waiting.popleft()
            self._times[call.seq] = chunk.time_ms
            behind = self._waiting[0].from_seq if self._waiting else chunk.seq
            self._read_on_at = behind if call.to_seq is None else call.to_seq

    @property
    def speed(self) -> CallSpeed:
        """What was found so far. A span over which the clock ran back is in no sum."""
        calls = first_token_ms = decode_ms = decode_tokens = 0
        for call in self._calls:
            first_ms = self._times[call.seq]
            if first_ms is None or call.asked_ms is None or first_ms < call.asked_ms:
                continue
            calls += 1
            first_token_ms += first_ms - call.asked_ms
            output = None if call.tokens is None or call.outcome != "finished" else call.tokens.output
            if output is not None and call.ended_ms is not None and call.ended_ms >= first_ms:
                decode_ms += call.ended_ms - first_ms
                decode_tokens += output
        return CallSpeed(calls, first_token_ms, decode_ms, decode_tokens)


def _is_behind(seq: int, step: tuple[int | None, int | None], call: Attempt) -> bool:
    """Whether a chunk comes behind the call; one that was cut off has no end but that of its step."""
    if call.to_seq is not None:
        return call.to_seq <= seq
    return call.from_seq < seq and (call.turn, call.step) != step
