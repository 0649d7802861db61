"""The inbox audit on the screen: messages with their verdicts, both lists, every link, the story of one message.

On a terminal the verdict is painted, ids are as short as tells them apart, and a message that did not get through
has a second line that says why. Anywhere else each row is one line, its cells separated by tabs, and the reason is
a cell of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from shutil import get_terminal_size

from playhead.cli import inbox_words, output, paragraphs, table, units
from playhead.cli.colour import paint
from playhead.cli.inbox_words import STYLES
from playhead.cli.safe_text import safe
from playhead.projections.inbox import InboxState, Link, Message, verdict
from playhead.projections.inbox_lists import NEXT_STEP, NEXT_TURN, UNNAMED

_SHORTEST = 8
_LABEL = 20
_UNNAMED = "(a message that the log does not name)"


def messages(state: InboxState, found: Sequence[Message]) -> None:
    """One row a message, then the numbers of verdicts of all of them."""
    if not output.on_terminal():
        table.show((), (_whole_row(state, message) for message in found))
        return
    short = _shorten(state)
    rows = [_row(state, message, short) for message in found]
    if rows:
        head, *lines = table.lines(("VERDICT", "ID", "SOURCE", "FOR", ">WAITED", "TURN", "TEXT"), rows)
        output.line(paint(head, "dim"))
        for message, line in zip(found, lines, strict=True):
            given = verdict(state, message)
            output.line(paint(given, STYLES[given]) + line[len(given) :])
            told = inbox_words.why(state, message)
            if told:
                _paragraph(told, indent=" " * 9 + "└ ", style="dim")
        output.line("")
    output.line(paint(inbox_words.summary(state), "bold"))
    for told in inbox_words.beside(state):
        _paragraph(told)


def _whole_row(state: InboxState, message: Message) -> tuple[str, ...]:
    return (
        verdict(state, message),
        message.id,
        message.source,
        message.target,
        units.duration(message.waited_ms),
        _turn(message),
        inbox_words.why(state, message) or "-",
        _one_line(message.text),
    )


def _row(state: InboxState, message: Message, short: dict[str, str]) -> tuple[str, ...]:
    return (
        verdict(state, message),
        short[message.id],
        _label(message.source),
        _list(message.target),
        units.duration(message.waited_ms),
        _turn(message),
        _one_line(message.text),
    )


def _turn(message: Message) -> str:
    """``3``, or ``3, step 2`` for a claim between steps."""
    claim = message.claim
    if claim is None or claim.turn is None:
        return "-"
    return f"{claim.turn}" if claim.step == 1 else f"{claim.turn}, step {claim.step}"


def lists(state: InboxState) -> None:
    """Both lists as they stand, first in line first."""
    short = _shorten(state) if output.on_terminal() else {}
    rows = []
    for target in (NEXT_TURN, NEXT_STEP):
        for place, id in enumerate(state.lists.of(target), 1):
            message = state.live.get(id)
            if id == UNNAMED or message is None:
                rows.append((target, str(place), "-", "-", "-", _UNNAMED))
                continue
            since = f"{message.inserted_seq}"
            label = _label(message.source) if short else message.source
            rows.append((target, str(place), short.get(id, id), label, since, _one_line(message.text)))
    if rows:
        table.show(("LIST", ">PLACE", "ID", "SOURCE", ">SINCE SEQ", "TEXT"), rows)
    else:
        output.note("both lists are empty")


def events(state: InboxState) -> None:
    """Every link of every chain, in order."""
    short = _shorten(state) if output.on_terminal() else {}
    rows = [_event_row(state, link, short) for link in state.links]
    if rows:
        table.show((">SEQ", "TIME", "EVENT", "ID", "LIST", ">PLACE", "WHAT"), rows)
    else:
        output.note("no message was ever queued")


def _event_row(state: InboxState, link: Link, short: dict[str, str]) -> tuple[str, ...]:
    return (
        str(link.seq),
        units.when(link.time_ms, precise=True),
        link.kind,
        short.get(link.message, link.message),
        _list(link.target) if short else link.target,
        "-" if link.place is None else str(link.place + 1),
        _what(state, link),
    )


def _what(state: InboxState, link: Link) -> str:
    """What the other cells of a link do not say."""
    if link.kind == "claimed":
        return inbox_words.boundary(link.turn, link.step)
    if link.kind in ("refused", "lost", "replaced"):
        return inbox_words.link_words(link)
    if link.kind == "admitted" and link.turn is not None:
        return f"in turn {link.turn}"
    message = state.message(link.message)
    if message is None or link.kind not in ("inserted", "edited"):
        return "-"
    instead = "" if link.other is None else f"in the place of {link.other}: "
    return instead + _one_line(message.text)


def story(state: InboxState, message: Message) -> None:
    """All that happened to one message, and what became of it."""
    given = verdict(state, message)
    output.line(f"{paint(given, STYLES[given])}  {paint(safe(message.id), 'bold')}")
    _paragraph(inbox_words.origin(message))
    output.line("")
    for line in paragraphs.split(message.text) or ["(no text)"]:
        _paragraph(line, indent="    ")
    output.line("")
    steps = list(inbox_words.story(state, message))
    width = max(len(str(seq)) for seq, _, _ in steps)
    for seq, time_ms, words in steps:
        front = f"seq {seq:>{width}}  {units.when(time_ms, precise=True)}  "
        _paragraph(words, indent=front)
    output.line("")
    told = inbox_words.why(state, message)
    if told:
        _paragraph(f"{told[0].upper()}{told[1:]}.")
    _paragraph(inbox_words.closing(state, message))


def _paragraph(text: str, *, indent: str = "", style: str = "") -> None:
    """``text`` behind ``indent``, wrapped to the terminal; on one line where nobody looks."""
    width = max(get_terminal_size().columns - len(indent), 20) if output.on_terminal() else None
    lead = indent
    for line in paragraphs.wrap(safe(text), width):
        output.line(paint(lead + line, style))
        lead = " " * len(indent)


def _shorten(state: InboxState) -> dict[str, str]:
    """Id -> its beginning, as long as it takes to tell all ids of the session apart, but 8 characters at least."""
    ids = [message.id for message in state.messages()]
    longest = max(map(len, ids), default=0)
    lengths = (n for n in range(_SHORTEST, longest) if len({id[:n] for id in ids}) == len(ids))
    length = next(lengths, longest)
    return {id: id[:length] for id in ids}


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _label(source: str) -> str:
    return source if len(source) <= _LABEL else source[: _LABEL - 1] + "…"


def _list(target: str) -> str:
    return target.removeprefix("next-")
