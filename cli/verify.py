"""``playhead verify``: is every stored byte what was stored, and does each log agree with itself?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from playhead.cli import damage, output, place, units
from playhead.cli.app import DONE, FOUND_A_PROBLEM, command
from playhead.cli.new_file import new_file
from playhead.cli.progress import bar
from playhead.cli.safe_text import safe
from playhead.cli.target import GenerationOption, opened
from playhead.eventstore import json_text
from playhead.eventstore.errors import UsageError
from playhead.eventstore.findings import CHANGED, Finding
from playhead.eventstore.findings import damage as damaged
from playhead.eventstore.log import SessionInfo

if TYPE_CHECKING:
    from playhead.eventstore.sql import SqlStore
    from playhead.eventstore.sql.heads import Head
    from playhead.eventstore.sql.problem import Problem
    from playhead.eventstore.sql.sql_session import SqlSession
    from playhead.replay.reassembly import Discrepancy
    from playhead.replay.verify import Watcher


@command("verify")
def verify(
    session: Annotated[
        str | None, typer.Argument(metavar="[SESSION]", help="One session or log file; without it the store.")
    ] = None,
    heads: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Compare with heads that were written before.")
    ] = None,
    write_heads: Annotated[
        Path | None,
        typer.Option("--write-heads", metavar="FILE", help="Write the heads, unless something is wrong."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    generation: GenerationOption = None,
    store: place.StoreOption = None,
) -> int:
    """Check hashes, numbering, positions and files against what was stored, and messages against their chunks.

    A forgery that is consistent in itself shows only against heads kept elsewhere: write them with
    --write-heads, keep the file in another place, compare with --heads. Exits 1 when the store is not what it
    was (errors), when a log was damaged before it came here, or when it contradicts itself (discrepancies).
    Warnings, rules of the format that a log breaks, change nothing.
    """
    if session is None:
        if generation is not None:
            raise UsageError("--generation goes with a SESSION")
        with place.open_store(store) as held:
            return _verify(held, None, heads, write_heads, json)
    with opened(session, generation, store) as (held, log):
        return _verify(held, log, heads, write_heads, json)


def _verify(
    store: SqlStore,
    session: SqlSession | None,
    heads: Path | None,
    write_heads: Path | None,
    json: bool,
) -> int:
    from playhead.replay.verify import Watcher

    kept = [] if heads is None else read_heads(heads)
    if session is not None:
        kept = [head for head in kept if (head.id, head.generation) == (session.id, session.generation)]
    watcher = Watcher(lambda id, generation: store.session(id, generation=generation))
    with bar("verifying", None) as advance:
        problems = store.verify(session, on_session=advance, watch=watcher.watch)
        can_read = not any(problem.stops_reading for problem in problems)
        problems += store.compare_heads(kept) if can_read else ()
    infos: list[SessionInfo] = []
    if can_read:
        infos = store.sessions(all_generations=True) if session is None else [session.info]
    errors = [problem for problem in problems if problem.severity == "error"]
    contradicting = _contradicting(watcher, infos, problems)
    broken = [info for info in infos if _came_damaged(info)]
    if json:
        output.json_line(
            {
                "sessions": len(infos),
                "errors": [_as_json(problem) for problem in errors],
                "warnings": [_as_json(problem) for problem in problems if problem.severity == "warning"],
                "damaged": list(_damage_as_json(broken)),
                "discrepancies": [_discrepancy_as_json(*found) for found in contradicting],
            }
        )
    else:
        for info in broken:
            damage.tell(_name(info.id, info.generation, info.generations), _came_damaged(info))
        for problem in problems:
            output.line(f"{problem.severity}: {_sentence(problem)}")
        for info, found in contradicting:
            where = f"session {_name(info.id, info.generation)}, seq {found.seq}"
            output.line(safe(f"discrepancy: {where}: {found.kind}: {found.message}"))
        _summarise(infos, errors, len(problems) - len(errors), broken, len(contradicting))
        if not can_read:
            output.note("nothing else was looked at: put this right first, and verify again")
        if any(problem.kind != "other-store" for problem in errors):
            output.note(
                "what an error names is no longer what was stored: take it from a copy of the store, "
                "or import the file into a new one"
            )
    if write_heads is not None:
        if errors:
            output.note(f"{safe(str(write_heads))} not written: these heads are not to be trusted")
        else:
            _write_heads(write_heads, store.heads(), None if session is None else infos[0])
    return FOUND_A_PROBLEM if errors or broken or contradicting else DONE


def _contradicting(
    watcher: Watcher, infos: list[SessionInfo], problems: list[Problem]
) -> list[tuple[SessionInfo, Discrepancy]]:
    """Where logs contradict themselves. A log with errors, or that nobody can read, is not looked at."""
    unread = {
        (problem.session, problem.generation)
        for problem in problems
        if problem.severity == "error" or problem.kind == "no-dialect"
    }
    found = []
    with bar("re-assembling", len(infos)) as advance:
        for done, info in enumerate(infos, 1):
            if (info.id, info.generation) not in unread:
                found += [(info, one) for one in watcher.discrepancies(info.id, info.generation)]
            advance(done)
    return found


def read_heads(path: Path) -> list[Head]:
    """The heads in a file that ``--write-heads`` wrote. Raises ``UsageError`` for any other file."""
    from playhead.eventstore.sql.heads import Head

    try:
        return [msgspec.convert(json_text.parse(line), Head) for line in path.read_bytes().splitlines()]
    except ValueError as error:
        raise UsageError(f"{path} is no file of heads: {error}") from None


def _write_heads(path: Path, heads: Iterable[Head], only: SessionInfo | None) -> None:
    """Write heads as JSON lines; an older file of that name is replaced when the new one is whole."""
    with new_file(path, force=True) as file:
        for head in heads:
            if only is None or (head.id, head.generation) == (only.id, only.generation):
                output.write_json(file, msgspec.to_builtins(head))


def _summarise(
    infos: list[SessionInfo],
    errors: list[Problem],
    warnings: int,
    broken: list[SessionInfo],
    contradictions: int,
) -> None:
    events = sum(info.events for info in infos)
    parts = [f"{units.count(len(infos), 'session')}, {units.count(events, 'event')} verified"]
    parts.append(units.count(len(errors), "error"))
    parts.append(units.count(warnings, "warning"))
    if contradictions:
        parts.append(units.count(contradictions, "discrepancy", "discrepancies"))
    if broken:
        parts.append(f"{units.count(len(broken), 'log')} damaged before the import")
    output.note("; ".join(parts))


def _name(session: str, generation: int, generations: int = 1) -> str:
    """The session's id, with its generation unless it is the first and perhaps only one."""
    return session if max(generation, generations) == 1 else f"{session} generation {generation}"


def _sentence(problem: Problem) -> str:
    """``session "x" generation 2, lines 4 to 9, seq 3 to 8: chain: ...``."""
    where = []
    if problem.session is not None:
        where.append(f"session {_name(problem.session, problem.generation or 1)}")
    if problem.path is not None:
        where.append(f"file {problem.path}")
    for noun, start, end in (
        ("line", problem.from_line, problem.to_line),
        ("seq", problem.from_seq, problem.to_seq),
    ):
        if start is not None and end is not None and end > start:
            where.append(f"{noun} {start}" if end == start + 1 else f"{noun}s {start} to {end - 1}")
    return safe(f"{', '.join(where) or 'store'}: {problem.kind}: {problem.message}")


def _as_json(problem: Problem) -> dict[str, Any]:
    members = {
        "kind": problem.kind,
        "message": problem.message,
        "session": problem.session,
        "generation": problem.generation,
        "path": problem.path,
        "fromLine": problem.from_line,
        "toLine": problem.to_line,
        "fromSeq": problem.from_seq,
        "toSeq": problem.to_seq,
    }
    return {name: value for name, value in members.items() if value is not None}


def _discrepancy_as_json(info: SessionInfo, found: Discrepancy) -> dict[str, Any]:
    members = {
        "session": info.id,
        "generation": info.generation,
        "seq": found.seq,
        "kind": found.kind,
        "message": found.message,
        "recorded": found.recorded,
        "derived": found.derived,
    }
    return {name: value for name, value in members.items() if value is not None}


def _came_damaged(info: SessionInfo) -> list[Finding]:
    """What was damaged before the log came here; what was done to it in the store is an error."""
    return [finding for finding in damaged(info.findings) if finding.kind != CHANGED]


def _damage_as_json(broken: list[SessionInfo]) -> Iterator[dict[str, Any]]:
    for info in broken:
        for finding in _came_damaged(info):
            yield {"session": info.id, "generation": info.generation, **damage.as_json(finding)}
