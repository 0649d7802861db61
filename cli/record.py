"""``playhead record``: a proxy that records whoever talks to a provider through it."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from typing import TYPE_CHECKING, Annotated

import typer

from playhead.cli import output, place, units
from playhead.cli.app import DONE, FOUND_A_PROBLEM, command
from playhead.cli.safe_text import safe
from playhead.eventstore.errors import UsageError
from playhead.web.needed import require_web

if TYPE_CHECKING:
    from playhead.web.proxy import Proxy

_GRACE_S = 5.0
_LOOK_AGAIN_S = 0.05


@command("record")
def record(
    upstream: Annotated[
        str | None, typer.Option(metavar="URL", help="The base URL of the provider. Must be given.")
    ] = None,
    listen: Annotated[
        str, typer.Option(metavar="[HOST:]PORT", help="Where clients come in; port 0 is any free port.")
    ] = "127.0.0.1:0",
    dialect: Annotated[
        str | None, typer.Option(metavar="NAME", help="The wire format, if the path does not tell enough.")
    ] = None,
    session: Annotated[
        str | None, typer.Option(metavar="ID", help="The session of all calls, whatever they say.")
    ] = None,
    no_wire: Annotated[
        bool, typer.Option("--no-wire", help="Keep no bytes of the calls, only what they mean.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Where it listens, as one JSON object.")] = False,
    store: place.StoreOption = None,
) -> int:
    """Pass calls on to a model provider, and record them as sessions.

    Prints the base URL that clients are given in place of the provider's, then a line on stderr for each call. Ctrl-C
    ends it, once the calls that run are over, or after a few seconds. The store is made where there is none. Exits 1
    when something could not be recorded; the calls themselves go on.
    """
    if upstream is None:
        raise UsageError("say where calls go: playhead record --upstream https://api.openai.com/v1")
    host, port = _address(listen)
    if session == "":
        raise UsageError("a session needs an id")
    require_web()
    from playhead.adapters.providers.dialects import dialect as dialect_of
    from playhead.adapters.providers.upstream import Upstream
    from playhead.web.proxy import Proxy
    from playhead.web.recorder import Recorder
    from playhead.web.recorder_call import Rules
    from playhead.web.server import serving

    wished = None if dialect is None else dialect_of(dialect)
    behind = Upstream(upstream)
    rules = Rules(behind.where, dialect=wished, group=session, keeps_wire=not no_wire)
    with place.open_store(store, create=True) as held, Recorder(held, rules, _tell) as recorder:
        proxy = Proxy(behind, recorder)
        with serving(proxy, host, port) as server:
            with contextlib.suppress(KeyboardInterrupt):
                if not server.is_local:
                    output.note(f"other machines can reach {server.url}, and keys come in unencrypted")
                if json:
                    output.json_line({"url": server.url, "upstream": behind.where, "session": session})
                else:
                    output.line(server.url)
                output.flush()
                threading.Event().wait()
            _let_end(proxy)
    return FOUND_A_PROBLEM if recorder.failed else DONE


def _tell(line: str) -> None:
    output.note(safe(line))


def _let_end(proxy: Proxy) -> None:
    """Returns when no call runs any more, or some seconds later, or after another Ctrl-C."""
    with contextlib.suppress(KeyboardInterrupt):
        if proxy.running:
            calls = units.count(proxy.running, "call")
            output.note(f"waiting up to {_GRACE_S:g} s for {calls}; Ctrl-C again breaks off")
        deadline = time.monotonic() + _GRACE_S
        while proxy.running and time.monotonic() < deadline:
            time.sleep(_LOOK_AGAIN_S)


def _address(listen: str) -> tuple[str, int]:
    """Host and port. Raises ``UsageError``."""
    found = re.fullmatch(r"(?:(?P<host>\[[0-9A-Fa-f:.]+\]|[^:\[\]]+):)?(?P<port>\d{1,5})", listen)
    if found is None or int(found["port"]) > 65535:
        raise UsageError(f"--listen takes PORT or HOST:PORT, such as 8080 or 127.0.0.1:8080, not {listen!r}")
    return (found["host"] or "127.0.0.1").strip("[]"), int(found["port"])
