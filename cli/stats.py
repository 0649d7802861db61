"""``playhead stats``: model calls, tokens, time, failures and tools, of a session or of all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from playhead.cli import damage, output, place, prices, stats_screens
from playhead.cli.app import DONE, FOUND_A_PROBLEM, command
from playhead.cli.progress import bar
from playhead.cli.safe_text import safe
from playhead.cli.stats_figures import Key, Summary, by_day, by_model
from playhead.cli.target import GenerationOption, IgnorableOption, opened
from playhead.eventstore.errors import UsageError

if TYPE_CHECKING:
    from playhead.cli.stats_reading import Reading
    from playhead.eventstore.sql import SqlStore
    from playhead.eventstore.sql.sql_session import SqlSession


class By(StrEnum):
    """What figures are told apart by."""

    model = "model"
    day = "day"
    session = "session"
    tool = "tool"


@command("stats")
def stats(
    session: Annotated[
        str | None,
        typer.Argument(
            metavar="[SESSION]", help="A session id, the beginning of one, or a log file; else all."
        ),
    ] = None,
    by: Annotated[By | None, typer.Option(help="One row for each model, local day, session or tool.")] = None,
    price_file: Annotated[
        Path | None,
        typer.Option("--prices", metavar="FILE", help="What models cost, as JSON; costs are added."),
    ] = None,
    at: Annotated[
        int | None, typer.Option(min=0, metavar="SEQ", help="As it was after this event of the session.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    ignorable: IgnorableOption = None,
    strict: Annotated[bool, typer.Option("--strict", help="Show nothing where a log is damaged.")] = False,
    generation: GenerationOption = None,
    store: place.StoreOption = None,
) -> int:
    """Sum up model calls, tokens, time, failures, retries and tools, of a session or of the whole store.

    Calls that failed and were made again count. What a fork inherited is its parent's and does not. A figure that
    nobody reported is shown as unknown, never as 0. Exits 1 when a log is damaged or not understood in full.
    """
    from playhead.cli.stats_reading import read

    if session is None and (at is not None or generation is not None):
        raise UsageError("--at and --generation go with a SESSION")
    if price_file is not None and by is By.tool:
        raise UsageError("--prices goes with model calls: leave out --by tool")
    summary = Summary(None if price_file is None else prices.read(price_file))
    problem = False
    alone = session is not None
    with _sessions(session, generation, store) as (held, logs):
        for log in logs:
            found = read(held, log, at=at, with_speed=alone, strict=strict, ignorable=ignorable or ())
            problem |= _tell(found)
            summary.add(found, _group(by, found))
    if json:
        output.json_line(summary.to_json(alone=alone, by=by))
    elif by is By.tool:
        stats_screens.tools(summary)
    elif by is not None:
        stats_screens.groups(summary, by)
    else:
        stats_screens.overview(summary, alone=alone)
    return FOUND_A_PROBLEM if problem else DONE


def _group(by: By | None, found: Reading) -> Key:
    """Which group each call of the session belongs to."""
    match by:
        case By.model:
            return by_model
        case By.day:
            return by_day
    return lambda _call: (found.info.id,)


@contextmanager
def _sessions(
    session: str | None, generation: int | None, store: str | None
) -> Iterator[tuple[SqlStore, Iterator[SqlSession]]]:
    """The store, and the sessions to read, one by one."""
    if session is not None:
        with opened(session, generation, store) as (held, log):
            yield held, iter((log,))
        return
    with place.open_store(store) as held:
        yield held, _every(held)


def _every(held: SqlStore) -> Iterator[SqlSession]:
    infos = held.sessions()
    with bar("reading sessions", len(infos)) as advance:
        for done, info in enumerate(infos, 1):
            yield held.session(info.id, generation=info.generation)
            advance(done)


def _tell(found: Reading) -> bool:
    """Say on stderr what is wrong with the log of a session; whether anything is."""
    problem = damage.tell(found.info.id, found.info.findings)
    for type, seq in found.unknown:
        where = safe(f"unknown event type {type}, first at seq {seq}")
        output.note(f"{safe(found.info.id)}: interpretation incomplete: {where}")
    return problem or bool(found.unknown)
