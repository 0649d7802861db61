"""``playhead events``: what a session's log says, line by line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated

import typer

from playhead.cli import damage, fold_report, moments, output, place, tracing, units
from playhead.cli.app import DONE, FOUND_A_PROBLEM, command
from playhead.cli.safe_text import safe
from playhead.cli.selection import Place, Selection
from playhead.cli.target import GenerationOption, SessionArgument, opened
from playhead.eventstore import json_text
from playhead.eventstore.codecs.wanted import is_delta
from playhead.eventstore.errors import UsageError
from playhead.eventstore.findings import damage as damaged
from playhead.eventstore.recorded import Recorded, event_object
from playhead.projections import event_trace, search_text
from playhead.projections.text_filter import TextFilter, snippet

if TYPE_CHECKING:
    from playhead.eventstore.sql import SqlStore
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
    text: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Only events whose text holds this, whatever its case.")
    ] = None,
    surface: Annotated[
        Place | None, typer.Option(help="Only events that the model sees, saw once, or never saw.")
    ] = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", help="Only events of then or later.")] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Only events of then or earlier.")] = None,
    trace: Annotated[
        int | None,
        typer.Option(min=0, metavar="SEQ", help="What became of this event, and what it came from."),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with events as they come, until Ctrl-C.")
    ] = False,
    ignorable: Annotated[
        list[str] | None,
        typer.Option(metavar="TYPE", help="This unknown type changes nothing; repeatable."),
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
    interpreted = logical or surface is not None or trace is not None
    if ignorable and not interpreted:
        raise UsageError("--ignorable goes with --logical, --surface and --trace")
    if to_seq is not None and to_seq < from_seq:
        raise UsageError(f"--to {to_seq} lies before --from {from_seq}")
    wanted = Selection(
        from_seq,
        to_seq,
        frozenset(type) if type else None,
        None if since is None else moments.first_ms(since),
        None if until is None else moments.last_ms(until),
        None if text is None else TextFilter(text),
        surface,
    )
    if trace is not None and (raw or logical or not wanted.is_everything):
        raise UsageError("--trace is about one event: leave out what selects others")
    if follow and (
        raw or interpreted or generation or replace(wanted, from_seq=0, types=None) != Selection()
    ):
        raise UsageError("--follow goes with --type, --from and --json alone")
    with opened(session, generation, store) as (held, log):
        if strict:
            log.require_sound()
        info = log.info
        broken = damage.tell(info.id, info.findings)
        if broken and json:
            output.json_line({"damaged": [damage.as_json(finding) for finding in damaged(info.findings)]})
        if interpreted:
            broken |= fold_report.tell_unknown_types(log, ignorable or (), strict=strict)
        if trace is not None:
            _show_trace(log, trace, json)
        elif follow:
            _show(_coming(held, log, wanted), json, None, at_once=True)
        elif raw:
            for line in wanted.of(log).lines():
                output.data(line + b"\n")
        elif logical:
            _show(wanted.of(log).logical(), json, wanted.text)
        else:
            _show(wanted.of(log).facts(), json, wanted.text)
    return FOUND_A_PROBLEM if broken else DONE


def _show_trace(log: SqlSession, seq: int, json: bool) -> None:
    traced = next(log.events(seq, seq + 1), None)
    found = event_trace.trace(log.events(deltas=traced is not None and is_delta(traced)), seq)
    if found is None:
        raise UsageError(f"session {log.id!r} has no event of seq {seq}")
    if json:
        output.json_line(tracing.as_json(found))
    else:
        tracing.show(found)


def _coming(store: SqlStore, log: SqlSession, wanted: Selection) -> Iterator[Recorded]:
    """The facts that fit, those that are there and those that come."""
    for item in store.subscribe(log.id, after=wanted.from_seq - 1):
        if isinstance(item, Recorded) and (wanted.types is None or item.type in wanted.types):
            yield item


def _show(facts: Iterable[Recorded], json: bool, text: TextFilter | None, *, at_once: bool = False) -> None:
    if at_once:
        facts = _flushed(facts)
    if json:
        for fact in facts:
            output.data(as_json(fact) + b"\n")
        return
    terminal = output.on_terminal()
    room = max(get_terminal_size().columns - _PREFIX, 20) if terminal else None
    for fact in facts:
        time = units.when(fact.time_ms, precise=True)
        if room is None:
            output.line(f"{fact.seq}\t{time}\t{safe(fact.type)}\t{safe(fact.raw.decode('utf-8', 'replace'))}")
        else:
            data = fact.raw.decode("utf-8", "replace") if text is None else _around(fact, text, room)
            output.line(f"{fact.seq:>8}  {time:<23}  {safe(fact.type):<26}  {safe(data, room)}")


def _flushed(facts: Iterable[Recorded]) -> Iterator[Recorded]:
    """``facts``, each shown before the next is waited for."""
    for fact in facts:
        yield fact
        output.flush()


def _around(fact: Recorded, text: TextFilter, room: int) -> str:
    """A piece of the text of an event around the first place where it holds what was looked for."""
    document = search_text.of(fact)
    hits = text.hits(document)
    return snippet(document, None if hits is None else hits.first, room)


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
