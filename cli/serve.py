"""``playhead serve``: recorded sessions as a model provider."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from playhead.cli import damage, output, place, units
from playhead.cli.app import DONE, FOUND_A_PROBLEM, command
from playhead.cli.safe_text import safe
from playhead.cli.speed import speed_of
from playhead.cli.target import GenerationOption, opened
from playhead.eventstore.errors import UsageError
from playhead.replay.schedule import Pace
from playhead.web.needed import require_web

if TYPE_CHECKING:
    from playhead.eventstore.log import Session
    from playhead.replay.claims import Unserved
    from playhead.web.endpoint import Endpoint
    from playhead.web.matching import Match
    from playhead.web.server import Server

_SHOWN = 50
"""So many sessions, misses and unserved scripts are told one by one."""


class MatchBy(StrEnum):
    """How a request is held against the recorded one."""

    ordered = "ordered"
    strict = "strict"


@command("serve")
def serve(
    replayed: Annotated[
        list[str] | None,
        typer.Option(
            "--replay",
            metavar="SESSION",
            help="A session id, the beginning of one, or a log file. The first is the primary one; repeatable.",
        ),
    ] = None,
    host: Annotated[str, typer.Option(metavar="HOST", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 is any free one.")] = 0,
    match: Annotated[
        MatchBy,
        typer.Option(help="Take every request for the next one, or compare it with the recorded one."),
    ] = MatchBy.ordered,
    speed: Annotated[
        str, typer.Option(metavar="FACTOR", help="How fast: 1x as it was recorded, or max, without a wait.")
    ] = "max",
    override: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A JSON file that says what the primary session answers instead."),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="End when every call was answered.")] = False,
    json: Annotated[
        bool, typer.Option("--json", help="JSON: one line at the start, one at the end.")
    ] = False,
    generation: GenerationOption = None,
    store: place.StoreOption = None,
) -> int:
    """Answer as a model provider with what recorded sessions were answered.

    Prints the base URL and serves until Ctrl-C, or with --once until every call was answered. Requests for which
    nothing was recorded are listed at the end, and the exit code is 1.
    """
    if not replayed:
        raise UsageError("say what to serve: playhead serve --replay SESSION")
    if generation is not None and len(replayed) > 1:
        raise UsageError("--generation goes with one session")
    if not host:
        raise UsageError(
            "--host takes an address or a name, such as 127.0.0.1; 0.0.0.0 is all of this machine"
        )
    pace = Pace(speed_of(speed))
    require_web()
    from playhead.web.recording import with_subagents

    with ExitStack() as stack:
        named = [stack.enter_context(opened(name, generation, store)) for name in replayed]
        sessions = with_subagents(named)
        damaged = [damage.tell(session.id, session.info.findings) for session in sessions]
        endpoint, server = stack.enter_context(_serving(sessions, match.value, pace, override, host, port))
        with contextlib.suppress(KeyboardInterrupt):
            _tell_start(endpoint, server, json=json, once=once)
            (endpoint.all_served if once else threading.Event()).wait()
        server.stop()
        _tell_end(endpoint, json)
        return FOUND_A_PROBLEM if any(damaged) or endpoint.misses else DONE


@contextmanager
def _serving(
    sessions: list[Session], match: Match, pace: Pace, override: Path | None, host: str, port: int
) -> Iterator[tuple[Endpoint, Server]]:
    from playhead.web.endpoint import Endpoint, Settings
    from playhead.web.override_file import read_override
    from playhead.web.recording import Recording
    from playhead.web.server import serving

    changes = None if override is None else read_override(override)
    folder = Path() if override is None else override.parent
    recordings = [Recording.of(session) for session in sessions]
    endpoint = Endpoint(recordings, Settings(match=match, pace=pace, override=changes, folder=folder))
    if not any(script.entries for script in endpoint.scripts):
        raise UsageError(f"{sessions[0].id} has no model call that could be served")
    with serving(endpoint, host, port) as server:
        yield endpoint, server


def _tell_start(endpoint: Endpoint, server: Server, *, json: bool, once: bool) -> None:
    scripts = endpoint.scripts
    if not server.is_local:
        output.note(f"other machines can reach {server.url}, and read what is served")
    if json:
        sessions = [{"session": script.session, "calls": len(script.entries)} for script in scripts]
        output.json_line({"url": server.url, "sessions": sessions})
    else:
        output.line(server.url)
    for script in scripts[:_SHOWN]:
        output.note(f"{safe(script.session)}: {units.count(len(script.entries), 'call')}")
    if len(scripts) > _SHOWN:
        output.note(f"and {units.count(len(scripts) - _SHOWN, 'more session')}")
    output.note(f"serving until {'every call was answered, or ' if once else ''}Ctrl-C")


def _tell_end(endpoint: Endpoint, json: bool) -> None:
    misses, unserved = endpoint.misses, endpoint.unserved()
    if json:
        output.json_line(
            {
                "served": len(endpoint.served),
                "misses": [miss.to_json() for miss in misses],
                "unserved": [_as_json(script) for script in unserved],
            }
        )
    output.note(f"{units.count(len(endpoint.served), 'call')} served")
    for miss in misses[:_SHOWN]:
        output.note(f"missed: {safe(str(miss))}")
    if len(misses) > _SHOWN:
        output.note(f"missed: {len(misses) - _SHOWN:,} more; --json lists all")
    for script in unserved[:_SHOWN]:
        came = "nobody took it" if not script.claimed else f"{script.served} of them were asked for"
        output.note(f"not all served: {safe(script.session)}: {units.count(script.calls, 'call')}, {came}")
    if len(unserved) > _SHOWN:
        output.note(f"not all served: {len(unserved) - _SHOWN:,} more; --json lists all")


def _as_json(script: Unserved) -> dict[str, Any]:
    return {
        "session": script.session,
        "claimed": script.claimed,
        "served": script.served,
        "calls": script.calls,
    }
