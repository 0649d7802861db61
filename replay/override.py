"""Override documents: what a user puts in the place of recorded calls.

A document is JSON, one of two:

    [ENTRY, ...]                               the whole script: nothing recorded is served
    {"patches": [{"at": N, "entry": ENTRY}]}   the recorded script with call N, counted from 0, replaced

One patch may stand right behind the last recorded call, which adds a call. Entries are those of ``script.py``, with
exactly these members. Source: docs/replaying-in-tests.md, "Overrides".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from playhead.eventstore.chunks import BlockEnd, Chunk, ChunkError, FinishChunk, decode_chunk
from playhead.eventstore.ids import is_safe_integer
from playhead.eventstore.registry import Malformed
from playhead.replay.script import Chunks, Entry, Hang, Throw
from playhead.replay.script import ScriptError as _ScriptError

T = TypeVar("T")


class OverrideError(_ScriptError):
    """A document that is no override, or one that does not fit the script; ``path`` leads to the place."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        super().__init__("override", f"the override is wrong at {path}: {reason}" if path else reason)


@dataclass(frozen=True, slots=True)
class Patch:
    """Puts ``entry`` in the place of call ``at``."""

    at: int
    entry: Entry


@dataclass(frozen=True, slots=True)
class Override:
    """``whole`` is the whole script, or None where there are ``patches``."""

    whole: tuple[Entry, ...] | None = None
    patches: tuple[Patch, ...] = ()

    def applied(self, derived: Sequence[T]) -> list[T | Entry]:
        """The script, made of the ``derived`` one. Raises ``OverrideError`` for a patch that is beyond it."""
        if self.whole is not None:
            return list(self.whole)
        script: list[T | Entry] = list(derived)
        for number, patch in enumerate(self.patches):
            if patch.at > len(derived):
                raise OverrideError(
                    f"patches[{number}].at",
                    f"{patch.at} is beyond the script, which has {len(derived)} calls",
                )
            script[patch.at : patch.at + 1] = [patch.entry]
        return script


def parse_override(document: Any) -> Override:
    """The override that the JSON value ``document`` stands for. Raises ``OverrideError``."""
    if isinstance(document, list):
        return Override(tuple(parse_entry(entry, f"[{at}]") for at, entry in enumerate(document)))
    if not isinstance(document, dict) or set(document) != {"patches"}:
        raise OverrideError("", 'an override is a list of entries, or an object with "patches" alone')
    if not isinstance(document["patches"], list):
        raise OverrideError("patches", "it is a list")
    patches: list[Patch] = []
    for number, patch in enumerate(document["patches"]):
        path = f"patches[{number}]"
        _exactly(patch, path, {"at", "entry"})
        at = patch["at"]
        if not is_safe_integer(at) or at < 0:
            raise OverrideError(f"{path}.at", "it is the number of a call, from 0")
        if any(other.at == at for other in patches):
            raise OverrideError(f"{path}.at", f"call {int(at)} is replaced twice")
        patches.append(Patch(int(at), parse_entry(patch["entry"], f"{path}.entry")))
    return Override(patches=tuple(patches))


def parse_entry(entry: Any, path: str = "entry") -> Entry:
    """The entry that the JSON value ``entry`` stands for. Raises ``OverrideError``, with ``path`` in front."""
    kind = entry.get("kind") if isinstance(entry, dict) else None
    match kind:
        case "chunks":
            _exactly(entry, path, {"kind", "chunks"})
            return Chunks(_chunks(entry["chunks"], f"{path}.chunks"))
        case "throw":
            _exactly(entry, path, {"kind", "chunks", "message", "code"})
            chunks = _chunks(entry["chunks"], f"{path}.chunks")
            return Throw(chunks, _text(entry, "message", path), _text(entry, "code", path))
        case "hang":
            _exactly(entry, path, {"kind"}, {"readyFile"})
            return Hang(_text(entry, "readyFile", path) if "readyFile" in entry else None)
        case _:
            raise OverrideError(f"{path}.kind", "it is chunks, throw or hang")


def _chunks(value: Any, path: str) -> tuple[Chunk, ...]:
    if not isinstance(value, list):
        raise OverrideError(path, "it is a list of chunks")
    chunks = []
    for at, member in enumerate(value):
        try:
            chunk = decode_chunk(member)
        except ChunkError as error:
            raise OverrideError(f"{path}[{at}]", str(error)) from None
        if chunk.more:
            raise OverrideError(f"{path}[{at}]", f"a {chunk.tag} chunk has no member {chunk.more[0][0]!r}")
        part = _part(chunk)
        if isinstance(part, Malformed):
            raise OverrideError(
                f"{path}[{at}]", f"the {part.tag} in it lacks a member, or has one of a wrong kind"
            )
        chunks.append(chunk)
    return tuple(chunks)


def _part(chunk: Chunk) -> object:
    """The part of a chunk that is read leniently."""
    match chunk:
        case BlockEnd(block=part) | FinishChunk(reason=part):
            return part
        case _:
            return None


def _text(entry: dict[str, Any], member: str, path: str) -> str:
    text = entry[member]
    if not isinstance(text, str) or not text:
        raise OverrideError(f"{path}.{member}", "it is a text that is not empty")
    return text


def _exactly(
    value: Any, path: str, needed: set[str], optional: frozenset[str] | set[str] = frozenset()
) -> None:
    if not isinstance(value, dict):
        raise OverrideError(path, "it is an object")
    for member in sorted(needed - set(value)):
        raise OverrideError(path, f"it has no {member!r}")
    for member in value:
        if member not in needed | optional:
            raise OverrideError(path, f"it has a member {member!r} that nobody knows")
