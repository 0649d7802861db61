"""Playhead as a model provider: an app that answers with what was recorded.

    POST /chat/completions    DeepSeek, OpenAI and whoever speaks like them
    POST /v1/messages         Anthropic, and DeepSeek as dsh speaks with it from 0.2 on
    GET  /models              the recorded models

A prefix such as ``/v1`` or ``/anthropic`` makes no difference. Which recorded session answers a request is told in
``replay/claims.py``, whether a request is the recorded one in ``matching.py``, and how an answer ends in
``answers.py``. Source: docs/replaying-in-tests.md.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, get_args
from urllib.parse import unquote

from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send

from playhead.adapters.providers.chat import OPENAI_CHAT
from playhead.adapters.providers.client import COMPACT_HEADER, SESSION_HEADER
from playhead.adapters.providers.dialect import ProviderDialect
from playhead.adapters.providers.dialects import dialect_at
from playhead.adapters.providers.payload import parse_payload
from playhead.eventstore import json_text
from playhead.eventstore.errors import PlayheadError, UsageError
from playhead.eventstore.redaction import Secrets
from playhead.replay import placeholders
from playhead.replay.claims import Claims, Script, Unanswerable, Unserved, in_line
from playhead.replay.override import Override, parse_entry
from playhead.replay.schedule import UNPACED, Pace
from playhead.replay.script import Chunks, Entry, Hang, Throw
from playhead.web import answers
from playhead.web.answers import Answer, Wanted
from playhead.web.bounded_search import search
from playhead.web.matching import Match, mismatch
from playhead.web.misses import MISSED, TOO_LARGE, Miss
from playhead.web.playing import play
from playhead.web.recording import RecordedCall, Recording

BODY_LIMIT_BYTES = 64 * 2**20
SEARCH_S = 5.0

_DROPPED_TIMES = 4
"""How many times the limit is read of a request that is beyond it, before the connection is given up."""

_SERVED_PATHS = "there are POST /chat/completions, POST /v1/messages and GET /models"

_DSH_SESSION = "x-deepseek-harness-session-id"
_DSH_COMPACT = "x-deepseek-harness-compact"

Served: TypeAlias = RecordedCall | Chunks | Throw | Hang


@dataclass(frozen=True, slots=True)
class Settings:
    """How recordings are served. ``override`` is for the first of them; files that it names lie in ``folder``.

    ``limit_bytes`` is the largest request that is read, ``search_s`` how long its placeholders may take. Raises
    ``UsageError`` for a way to match that there is not.
    """

    match: Match = "ordered"
    pace: Pace = UNPACED
    override: Override | None = None
    folder: Path = field(default_factory=Path)
    limit_bytes: int = BODY_LIMIT_BYTES
    search_s: float = SEARCH_S

    def __post_init__(self) -> None:
        ways = get_args(Match)
        if self.match not in ways:
            raise UsageError(f"no way to match is called {self.match!r}; there are {' and '.join(ways)}")


class Endpoint:
    """An ASGI app that serves ``recordings``: the first is the primary session, the others are further ones.

    ``misses`` and ``served`` grow while it runs, ``all_served`` is set once every call was answered to its end. An
    endpoint plays its recordings once. Raises ``OverrideError`` for an override that does not fit.
    """

    def __init__(self, recordings: Sequence[Recording], settings: Settings | None = None) -> None:
        self.recordings = tuple(recordings)
        self.settings = settings or Settings()
        self.misses: list[Miss] = []
        self.served: list[Served] = []
        self.all_served = threading.Event()
        primary, *others = self.recordings
        override = self.settings.override
        calls: Sequence[Served] = primary.calls if override is None else override.applied(primary.calls)
        further = [_script(recording, recording.calls) for recording in others]
        self._claims: Claims[Served] = Claims(in_line(_script(primary, calls), further))
        self._by_session: dict[str, Recording] = {
            recording.session.id: recording for recording in self.recordings
        }
        self._answering = 0
        self._look_whether_all_is_served()

    @property
    def scripts(self) -> tuple[Script[Served], ...]:
        """What is served, in the order in which live sessions take it."""
        return self._claims.scripts

    def unserved(self) -> list[Unserved]:
        """What nobody has asked for so far."""
        return self._claims.unserved()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        if request.method == "POST":
            await self._ask(request, send)
        elif request.method == "GET" and request.url.path.rstrip("/").endswith("/models"):
            await _give(answers.of_json(200, self._models()), request, send)
        else:
            what = f"nothing is served for {request.method} {request.url.path}; {_SERVED_PATHS}"
            await _give(answers.of_json(404, {"error": {"message": f"playhead: {what}"}}), request, send)

    # A call

    async def _ask(self, request: Request, send: Send) -> None:
        session, dialect = _session(request.headers), dialect_at(request.url.path)
        try:
            body = await self._read(request)
            if dialect is None:
                raise Unanswerable(f"nothing is served at this path; {_SERVED_PATHS}")
            asked = _parsed(body)
            call, owner = self._take(request, session, asked, dialect)
            answer = await self._answer(call, owner, request.url.path, asked)
        except ClientDisconnect:
            return
        except _TooLarge as error:
            miss = self._note(request, session, str(error), TOO_LARGE)
            await _give(miss.answer(dialect), request, send)
            return
        except (PlayheadError, RecursionError) as error:
            miss = self._note(request, session, str(error))
            await _give(miss.answer(dialect), request, send)
            return
        self._answering += 1
        try:
            failed = await play(answer, self.settings.pace, request.scope, request.receive, send)
        finally:
            self._answering -= 1
            self._look_whether_all_is_served()
        if failed is not None:
            self._note(request, session, f"the answer broke off: {failed or type(failed).__name__}")

    def _take(
        self, request: Request, session: str | None, asked: Mapping[str, Any], dialect: ProviderDialect
    ) -> tuple[Served, Recording]:
        """The call that answers a request, and of which recording. The cursor moves on, unless there is no match."""
        cursor = self._claims.cursor(session)
        call, script = cursor.next, cursor.script
        if self.settings.match == "strict" and isinstance(call, RecordedCall):
            spoken = dialect_at(request.url.path, call.dialect) or dialect
            for_summary = any(request.headers.get(name) == "1" for name in (_DSH_COMPACT, COMPACT_HEADER))
            recorded = call.request()
            found = mismatch(recorded, asked, spoken, for_summary=for_summary)
            if found is not None:
                # What the proxy recorded has no credentials; nor has what is said of a request, however it is cut.
                hidden = _without_credentials(asked, request)
                found = mismatch(recorded, hidden, spoken, for_summary=for_summary)
            if found is not None:
                where = f"call {cursor.at + 1} of session {script.session!r} ({call.place})"
                raise Unanswerable(f"{where} does not match: {found}")
        cursor.advance()
        self.served.append(call)
        return call, self._by_session[script.session]

    async def _answer(self, call: Served, owner: Recording, path: str, asked: Mapping[str, Any]) -> Answer:
        known = call if isinstance(call, RecordedCall) else next(iter(owner.calls), None)
        dialect = dialect_at(path, None if known is None else known.dialect)
        assert dialect is not None, "a request at another path gets no call"
        wanted = _wanted(asked, dialect, call, len(self.served))
        if not isinstance(call, RecordedCall):
            return answers.of_entry(await self._filled(call, asked), wanted, self.settings.folder)
        exchange = call.exchange()
        if exchange is not None and answers.serves(exchange, dialect.path, wanted.stream):
            return answers.of_exchange(exchange)
        asked_ms = call.attempt.call.asked_ms
        return answers.of_chunks(call.chunks(), wanted, asked_ms=asked_ms, synthesised=call.is_synthesised)

    async def _filled(self, entry: Entry, asked: Mapping[str, Any]) -> Entry:
        """The entry with its placeholders filled in. Raises ``PlaceholderError``."""
        value = entry.to_json()
        patterns = list(dict.fromkeys(placeholders.patterns(value)))
        if not patterns:
            return entry
        text = placeholders.request_text(asked.get("messages"))
        found = await search(patterns, text, self.settings.search_s)
        return parse_entry(placeholders.filled(value, found))

    async def _read(self, request: Request) -> bytes:
        """The body of a request. What is beyond the limit is read and dropped, so that the client hears of it."""
        limit, size, body = self.settings.limit_bytes, 0, bytearray()
        async for part in request.stream():
            size += len(part)
            if size <= limit:
                body += part
            elif size > _DROPPED_TIMES * limit:
                break
        if size > limit:
            raise _TooLarge(f"the request is larger than {limit / 2**20:g} MiB")
        return bytes(body)

    # What is told

    def _models(self) -> dict[str, Any]:
        """The recorded models, as both kinds of clients read a list of models."""
        named = dict(pair for recording in self.recordings for pair in recording.models)
        data = [
            {
                "id": model,
                "object": "model",
                "type": "model",
                "display_name": model,
                "created": 0,
                "created_at": "1970-01-01T00:00:00Z",
                "owned_by": provider,
            }
            for model, provider in named.items()
        ]
        ends = {"first_id": data[0]["id"], "last_id": data[-1]["id"]} if data else {}
        return {"object": "list", "data": data, "has_more": False, **ends}

    def _note(self, request: Request, session: str | None, message: str, status: int = MISSED) -> Miss:
        miss = Miss.of(request, session, message, status)
        self.misses.append(miss)
        return miss

    def _look_whether_all_is_served(self) -> None:
        if self._answering == 0 and not self._claims.unserved():
            self.all_served.set()


class _TooLarge(PlayheadError):
    """A request that is not read to its end."""


async def _give(answer: Answer, request: Request, send: Send) -> None:
    """Answer at once, with something that was not recorded."""
    await play(answer, UNPACED, request.scope, request.receive, send)


def _script(recording: Recording, calls: Sequence[Served]) -> Script[Served]:
    return Script(recording.session.id, recording.session.header.created_ms, calls)


def _session(headers: Mapping[str, str]) -> str | None:
    """The session that a request names."""
    named = headers.get(SESSION_HEADER)
    return headers.get(_DSH_SESSION) if named is None else unquote(named, errors="replace")


def _parsed(body: bytes) -> Mapping[str, Any]:
    try:
        parsed = parse_payload(body)
    except ValueError as error:
        raise Unanswerable(f"the request is not JSON: {error}") from None
    if not isinstance(parsed, dict):
        raise Unanswerable("the request is not a JSON object")
    return parsed


def _without_credentials(asked: Mapping[str, Any], request: Request) -> Mapping[str, Any]:
    """What is asked, with everything blotted out that the head of the request proves to be secret."""
    secrets = Secrets.of_request(str(request.url), request.headers.items())
    return _parsed(secrets.hidden(json_text.dumps(asked)))


def _wanted(asked: Mapping[str, Any], dialect: ProviderDialect, call: Served, number: int) -> Wanted:
    """How the answer is to be spelled. Answer ``number`` of this endpoint gets an id that is made of that."""
    options = asked.get("stream_options")
    tells_usage = isinstance(options, dict) and options.get("include_usage") is True
    recorded = call.model if isinstance(call, RecordedCall) else ""
    named = asked.get("model")
    return Wanted(
        dialect,
        stream=asked.get("stream") is True,
        usage=tells_usage or dialect != OPENAI_CHAT,
        model=recorded or (named if isinstance(named, str) else ""),
        id=f"{'chatcmpl' if dialect.path == OPENAI_CHAT.path else 'msg'}-{number}",
    )
