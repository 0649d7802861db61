"""What a client did to the history of its own session: a part summed up, results of tools cut short.

Only for clients that name their session, so that it is known whose history it is. Requests for a summary carry a header
of their own; they ask with the messages to be summed up and one last part, the instruction. A later request shows what
came of it: messages in the place of those that were summed up, with the summary in their text. A request shows that
results were cut short when nothing else in it differs. What fits neither is another conversation.
Source: docs/recording.md, "Histories that clients change".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from playhead.eventstore import members
from playhead.eventstore.blocks import AnyBlock, TextBlock
from playhead.eventstore.exchange import Exchange
from playhead.eventstore.ids import Seq
from playhead.eventstore.request_header import CallConfig
from playhead.eventstore.usage import Usage
from playhead.web.recorder_history import History, Link

Surface = Sequence[tuple[Seq, dict[str, Any]]]
"""What the model has seen: messages, each with the seq of its event."""


@dataclass(frozen=True, slots=True)
class Summary:
    """A call that asked for a summary and got one. ``exchange`` are its bytes, if they are kept."""

    history: History
    config: CallConfig
    output: tuple[AnyBlock, ...]
    usage: Usage | None
    time_ms: int
    exchange: Exchange | None

    @property
    def text(self) -> str:
        return "".join(block.text for block in self.output if isinstance(block, TextBlock)).strip()


class SummedUp(NamedTuple):
    """``seqs`` gave way to a message with these blocks."""

    seqs: list[Seq]
    content: list[dict[str, Any]]


class CutShort(NamedTuple):
    """The result at ``seq`` has other content now."""

    seq: Seq
    content: list[dict[str, Any]]


def covers(surface: Surface, summary: Summary) -> bool:
    """Whether ``summary`` was asked for with messages from the front of ``surface``."""
    return _covered(History.of([message for _, message in surface], None), summary) is not None


def summed_up(surface: Surface, summary: Summary, asked: History, *, for_summary: bool) -> SummedUp | None:
    """What the request ``asked`` shows to have come of ``summary``; None where it does not fit.

    A request ``for_summary`` shows the front of the history alone, and the instruction.
    """
    seen = History.of([message for _, message in surface], None)
    gone = _covered(seen, summary)
    if gone is None or not summary.text:
        return None
    kept = seen.parts[len(summary.history.parts) - 1 :]
    shown = asked.parts[:-1] if for_summary else asked.parts
    for count in range(1, len(shown) + 1):
        if shown[count - 1][0] != "block":
            return None
        behind = shown[count:][: len(kept)]
        whole = bool(kept) or asked.links[count].blocks == 0 or (for_summary and count == len(shown))
        if whole and behind == kept[: len(behind)] and (for_summary or len(behind) == len(kept)):
            content = _blocks_before(asked, asked.links[count])
            if summary.text in "".join(members.text(block, "text") or "" for block in content):
                return SummedUp([seq for seq, _ in surface[: gone.upto]], content)
    return None


def cut_short(surface: Surface, asked: History) -> tuple[Link, list[CutShort]] | None:
    """Where ``asked`` goes on with ``surface``, and which results it has cut short; None where it does not fit."""
    seen = History.of([message for _, message in surface], None)
    if len(asked.parts) < len(seen.parts):
        return None
    changed = []
    for before, now, place, link in zip(
        seen.parts, asked.parts, seen.links[1:], asked.links[1:], strict=False
    ):
        if before == now:
            continue
        if (before[0], before[1]) != ("result", now[1]) or now[0] != "result":
            return None
        block = members.objects(asked.messages[link.upto - 1], "content")[0]
        changed.append(CutShort(surface[place.upto - 1][0], members.objects(block, "content")))
    return (asked.links[len(seen.parts)], changed) if changed else None


def _covered(seen: History, summary: Summary) -> Link | None:
    """Behind what of ``seen`` a summary ends that was asked for with the parts before; None where they differ."""
    covered = len(summary.history.parts) - 1
    if covered < 1 or seen.parts[:covered] != summary.history.parts[:covered]:
        return None
    return None if seen.links[covered].blocks else seen.links[covered]


def _blocks_before(history: History, link: Link) -> list[dict[str, Any]]:
    blocks = [
        block for message in history.messages[: link.upto] for block in members.objects(message, "content")
    ]
    if link.blocks:
        blocks += members.objects(history.messages[link.upto], "content")[: link.blocks]
    return blocks
