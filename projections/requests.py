"""The request that a model call was sent, as the log tells it: header, system prompt, tools and messages.

It is the latest ``request/header`` before the call, and what the surface gave to the model then, without the replay
state of other providers. Up to format 2 the system prompt stands in the header; later it is a ``system/message`` on the
surface. The request of a compaction is not among them: its last message, the instruction, is in no log.

This is no fold with a state of its own, because it would hold every message twice. It is computed when asked for, in
one pass over a session, for as many calls as wanted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from playhead.eventstore import members
from playhead.projections import message_text
from playhead.projections import surface as surfaces
from playhead.projections.folding import Foldable
from playhead.projections.replay_state import for_provider
from playhead.projections.surface import Surface


@dataclass(frozen=True, slots=True)
class Request:
    """``before_seq`` is the seq of the call; ``header_seq`` and ``header`` are None where no header was logged.

    ``header`` is the snapshot as logged, ``tools`` its tools. ``messages`` are (seq, message) in order, without the
    system prompt, which is None where there is none.
    """

    before_seq: int
    header_seq: int | None
    header: dict[str, Any] | None
    system: str | None
    messages: tuple[tuple[int, dict[str, Any]], ...]

    @property
    def config(self) -> dict[str, Any]:
        """Provider, model and settings."""
        return members.inner(self.header or members.NOTHING, "config")

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The tools on offer."""
        return members.objects(self.header or members.NOTHING, "tools")


def requests(session: Foldable, calls: Iterable[int]) -> Iterator[Request]:
    """The requests of the model calls that begin at the seqs ``calls``, in the order of the log.

    A call is named by its first chunk, or by the event that holds its stream.
    """
    wanted = sorted(set(calls))
    if not wanted:
        return
    surface = Surface()
    sent: dict[int, dict[str, Any]] = {}
    header_seq: int | None = None
    header: dict[str, Any] | None = None
    at = 0
    for event in session.events(0, wanted[-1], deltas=False):
        while wanted[at] <= event.seq:
            yield _request(wanted[at], header_seq, header, surface, sent)
            at += 1
        if event.type == "request/header":
            header_seq, header = event.seq, members.inner(members.of(event), "header")
        surface = surfaces.apply(surface, event)
        message = surfaces.message_of(event)
        if message is not None:
            sent[event.seq] = message
    for seq in wanted[at:]:
        yield _request(seq, header_seq, header, surface, sent)


def request_before(session: Foldable, seq: int) -> Request:
    """The request that a model call beginning at ``seq`` is sent."""
    return next(requests(session, [seq]))


def _request(
    before_seq: int,
    header_seq: int | None,
    header: dict[str, Any] | None,
    surface: Surface,
    sent: dict[int, dict[str, Any]],
) -> Request:
    system = members.text(header or members.NOTHING, "system")
    provider = members.text(members.inner(header or members.NOTHING, "config"), "provider")
    messages = []
    for entry in surface.entries():
        message = sent.get(entry.seq)
        if message is None:
            continue
        if entry.type == "system/message":
            system = message_text.text_of(message)[0]
        else:
            messages.append((entry.seq, for_provider(message, provider)))
    return Request(before_seq, header_seq, header, system or None, tuple(messages))
