"""The recorded exchanges with a model: request body, answer as it came, and the attempt that the log has of it.

Per session, listed exchanges and attempts that came to an end correspond in order; the last ones do where the session
began elsewhere (migrated, or forked from a parent). Not listed is what the client ended itself: the bytes of such an
answer stand in the next ``NNN.sse``, and its attempt, if the log has one, has no ``finish``.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import zstandard
from reference import SHARED, needs_shared
from twins import Log

import playhead
from playhead.adapters.dsh.importer import import_paths
from playhead.eventstore.chunks import FinishChunk
from playhead.projections.attempt import SUMMARY
from playhead.replay.attempt import Attempt, attempts

CORPUS = SHARED / "corpus" / "dsh"
CHAT_RUNTIMES = ("0.1.0rc6", "0.1.1rc1", "0.1.2a3", "0.1.2rc1", "0.1.5rc1")
MESSAGES_RUNTIMES = ("0.2.1rc2",)


@dataclass(frozen=True)
class Exchange:
    """One call over HTTP. ``attempt`` is None for a summary, and where the log has none (the client was killed)."""

    runtime: str
    session: str
    status: int | None
    end: str
    headers: dict[str, str]
    response_headers: dict[str, str]
    body: bytes
    request: dict[str, Any]
    attempt: Attempt | None

    @property
    def is_summary(self) -> bool:
        """The call asked for the summary of a compaction."""
        return "x-deepseek-harness-compact" in self.headers


@dataclass(frozen=True)
class Scenario:
    """A folder of the corpus with recorded bytes."""

    folder: Path

    @property
    def runtime(self) -> str:
        return self.folder.parent.name

    @cache  # noqa: B019 -- a scenario is a value, and there are few
    def logs(self) -> dict[str, Log]:
        """Every session of the newest log, by id."""
        names = ("after", "sessions", "sqlite")
        newest = next(self.folder / name for name in names if (self.folder / name).is_dir())
        with playhead.open_store("sqlite://") as store:
            import_paths(store, [newest])
            sessions = [store.session(info.id) for info in store.sessions()]
            return {session.header.id: Log(session.header, tuple(session.events())) for session in sessions}

    @cache  # noqa: B019
    def exchanges(self) -> list[Exchange]:
        """The listed exchanges, in the order in which they began."""
        listed = list(self._listed())
        paired: dict[int, Attempt] = {}
        logs = self.logs()
        calls: dict[str, list[int]] = defaultdict(list)
        for at, (entry, _, _) in enumerate(listed):
            headers = entry["request_headers"]
            if entry["end"] != "hang-until-client-gone" and "x-deepseek-harness-compact" not in headers:
                calls[headers["x-deepseek-harness-session-id"]].append(at)
        for session, places in calls.items():
            ended = [attempt for attempt in attempts(logs[session]) if _ended(attempt)]
            assert len(ended) >= len(places), f"{self.folder}: {session} has fewer attempts than exchanges"
            paired |= zip(places, ended[-len(places) :], strict=True)
        return [
            Exchange(
                self.runtime,
                entry["request_headers"]["x-deepseek-harness-session-id"],
                entry.get("status"),
                entry["end"],
                entry["request_headers"],
                entry.get("response_headers", {}),
                body,
                request,
                paired.get(at),
            )
            for at, (entry, body, request) in enumerate(listed)
        ]

    def unlisted(self) -> list[bytes]:
        """Answers that the client ended itself."""
        numbers = {(wire.name, entry["n"]) for wire in self._wires() for entry in _entries(wire)}
        return [
            read_bytes(file)
            for wire in self._wires()
            for file in sorted(wire.glob("*.sse*"))
            if (wire.name, int(file.name[:3])) not in numbers
        ]

    def bodies(self) -> list[bytes]:
        """Every recorded answer, listed or not."""
        return [read_bytes(file) for wire in self._wires() for file in sorted(wire.glob("*.sse*"))]

    def requests(self) -> list[dict[str, Any]]:
        """Every recorded request body, listed or not."""
        begins = f"{self.folder.name}/"
        return [json.loads(body) for name, body in _requests(self.runtime).items() if name.startswith(begins)]

    def _wires(self) -> list[Path]:
        return [wire for wire in (self.folder / "wire", self.folder / "wire-2") if wire.is_dir()]

    def _listed(self) -> Iterator[tuple[dict[str, Any], bytes, dict[str, Any]]]:
        requests = _requests(self.runtime)
        for wire in self._wires():
            for entry in _entries(wire):
                number = f"{entry['n']:03d}"
                files = sorted(wire.glob(f"{number}.sse*"))
                body = read_bytes(files[0]) if files else b""
                name = f"{self.folder.name}/{wire.name}/{number}.request.json"
                yield entry, body, json.loads(requests[name])


def scenarios(*runtimes: str) -> list[Any]:
    """Every scenario of ``runtimes`` with recorded bytes as a pytest parameter; one that skips without them."""
    if not SHARED.is_dir():
        return [pytest.param(None, marks=needs_shared, id="no-reference-material")]
    folders = sorted(wire.parent for runtime in runtimes for wire in CORPUS.glob(f"{runtime}/*/wire"))
    return [pytest.param(Scenario(folder), id=f"{folder.parent.name}-{folder.name}") for folder in folders]


def read_bytes(file: Path) -> bytes:
    """What a file holds, unpacked."""
    data = file.read_bytes()
    return zstandard.ZstdDecompressor().decompressobj().decompress(data) if file.suffix == ".zst" else data


def _ended(attempt: Attempt) -> bool:
    if attempt.call.kind == SUMMARY:
        return False
    last = deque(attempt.chunks(), maxlen=1)
    return bool(last) and isinstance(last[0].chunk, FinishChunk)


def _entries(wire: Path) -> list[dict[str, Any]]:
    listing = wire / "exchanges.json"
    entries: list[dict[str, Any]] = json.loads(listing.read_bytes()) if listing.is_file() else []
    return entries


@cache
def _requests(runtime: str) -> dict[str, bytes]:
    """The recorded request bodies of a runtime: ``<scenario>/<wire>/NNN.request.json`` -> JSON."""
    packed = (
        zstandard.ZstdDecompressor()
        .stream_reader((CORPUS / runtime / "requests.tar.zst").read_bytes())
        .read()
    )
    found = {}
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        for member in archive:
            file = archive.extractfile(member) if member.isfile() else None
            if file is not None:
                found[member.name.removeprefix("./")] = file.read()
    return found
