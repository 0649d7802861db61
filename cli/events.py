"""``playhead events``: what a session's log says, line by line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated

import typer

from playhead.cli import damage, output, place, units
from playhead.cli.app import DONE, FOUND_A_PROBLEM, command
from playhead.cli.safe_text import safe
from playhead.cli.target import GenerationOption, SessionArgument, opened
from playhead.eventstore import envelope, json_text
from playhead.eventstore.errors import UnknownEventType, UsageError
from playhead.eventstore.findings import damage as damaged
from playhead.eventstore.log import Session
from playhead.eventstore.recorded import Recorded, event_object

if TYPE_CHECKING:
    from playhead.eventstore.sql.sql_session import SqlSession


@command("events")
def events(
    session: SessionArgument,
    type: Annotated[
        list[str] | None, typer.Option(metavar="TYPE", help="Only this type; repeatable.")
    ] = None,
    from_seq: Annotated[int, typer.Option("--from", min=0, metavar="SEQ", help="The first seq.")] = 0,
    to_seq: Annotated[
        int | None, typer.Option("--to", min=0, metavar="SEQ", help="The seq to stop before.")
    ] = None,
    raw: Annotated[bool, typer.Option("--raw", help="The stored lines, verbatim.")] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object per event and line.")] = False,
    logical: Annotated[
        bool, typer.Option("--logical", help="Events in the current vocabulary, whatever the log's format.")
    ] = False,
    ignorable: Annotated[
        list[str] | None,
        typer.Option(metavar="TYPE", help="With --logical: this unknown type changes nothing; repeatable."),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Show nothing of a damaged log.")] = False,
    generation: GenerationOption = None,
    store: place.StoreOption = None,
) -> int:
    """Show the events of a session: seq, time, type and the beginning of the data.

    What is damaged is said first, on stderr; then all that could be read is shown, and the exit code is 1.
    """
    if raw and (json or logical):
        raise UsageError("--raw shows stored lines as they are: leave out --json and --logical")
    if ignorable and not logical:
        raise UsageError("--ignorable goes with --logical")
    if to_seq is not None and to_seq < from_seq:
        raise UsageError(f"--to {to_seq} lies before --from {from_seq}")
    types = frozenset(type) if type else None
    with opened(session, generation, store) as (_, log):
        if strict:
            log.require_sound()
        info = log.info
        broken = damage.tell(info.id, info.findings)
        if broken and json:
            output.json_line({"damaged": [damage.as_json(finding) for finding in damaged(info.findings)]})
        if raw:
            for line in _lines(log, from_seq, to_seq, types):
                output.data(line + b"\n")
        elif logical:
            broken |= _tell_unknown(log, frozenset(ignorable or ()), strict)
            _show((e for e in log.events(from_seq, to_seq) if types is None or e.type in types), json)
        else:
            _show(log.read(from_seq, to_seq, types=types), json)
    return FOUND_A_PROBLEM if broken else DONE


def _tell_unknown(log: SqlSession, ignorable: Iterable[str], strict: bool) -> bool:
    """Say which events have a type that nobody knows and that may change what follows; True if any has.

    ``strict`` raises ``UnknownEventType`` instead.
    """
    from playhead.eventstore.registry import event_types

    passed = set(ignorable)
    unknown = False
    for event in log.events(deltas=False):
        if event.ignorable or event.type in passed:
            continue
        passed.add(event.type)
        if event.type in event_types:
            continue
        if strict:
            raise UnknownEventType(event.type, event.seq, log.id)
        unknown = True
        where = f"unknown event type {event.type}, first at seq {event.seq}"
        output.note(f"{safe(log.id)}: interpretation incomplete: {safe(where)}")
    return unknown


def _lines(log: Session, from_seq: int, to_seq: int | None, types: frozenset[str] | None) -> Iterator[bytes]:
    """The stored lines with a fact in the range; without any filter those that stand for no fact as well."""
    everything = from_seq == 0 and to_seq is None and types is None
    for line in log.lines():
        if not everything:
            view = envelope.view(line)
            in_range = view.seq0 + view.n > from_seq and (to_seq is None or view.seq0 < to_seq)
            if view.n == 0 or not in_range or (types is not None and view.type not in types):
                continue
        yield line


def _show(facts: Iterable[Recorded], json: bool) -> None:
    if json:
        for fact in facts:
            output.data(as_json(fact) + b"\n")
        return
    terminal = output.on_terminal()
    room = get_terminal_size().columns - _PREFIX if terminal else None
    for fact in facts:
        time = units.when(fact.time_ms, precise=True)
        data = safe(fact.raw.decode("utf-8", "replace"), None if room is None else max(room, 20))
        if terminal:
            output.line(f"{fact.seq:>8}  {time:<23}  {safe(fact.type):<26}  {data}")
        else:
            output.line(f"{fact.seq}\t{time}\t{safe(fact.type)}\t{data}")


_PREFIX = 8 + 2 + 23 + 2 + 26 + 2


def as_json(fact: Recorded) -> bytes:
    """The fact as one JSON object on one line; ``data`` is its stored text, so that no number changes."""
    members = event_object(
        fact.type,
        fact.seq,
        fact.time_ms,
        None,
        surface_op=fact.surface_op,
        source_seqs=fact.source_seqs,
        ignorable=fact.ignorable,
    )
    del members["data"]
    if fact.position is not None:
        members["position"] = fact.position
    data = fact.raw.decode("utf-8", "replace").encode()
    return json_text.dumps(members)[:-1] + b',"data":' + data + b"}"
