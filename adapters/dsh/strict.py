"""Reads a log file as strictly as a released dsh does, and says why where it would not.

The order of the checks: the framing of the file, its header, its place, the lines (``jsonl.scan``), then of
all kept events the retired shapes, the types, and ``admission``. A tail that dsh would cut off is not a
refusal; the result says what it is. Two kinds of refusal:

* *unsupported*: the log may be whole, but this release cannot read it. ``NotALog`` of kind
  ``unsupported-format``, or ``UnknownEventType``.
* *corrupt*: ``CorruptLog``, with the physical line and the byte of the decoded log where one is known.

The whole log is held in memory. Source: docs/formats.md, "Strict reading".
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from playhead.adapters.dsh import paths
from playhead.adapters.dsh.admission import Admission, is_known
from playhead.adapters.dsh.dialects import DIALECTS, dialect_name
from playhead.adapters.dsh.frame_reader import MAGIC
from playhead.adapters.dsh.log_file import open_file
from playhead.eventstore import chunk_rows, envelope, json_text, jsonl, zstd_frames
from playhead.eventstore.errors import CorruptLog, NotALog, UnknownEventType
from playhead.eventstore.findings import Finding
from playhead.eventstore.header import NEWEST_VERSION, SessionHeader
from playhead.eventstore.ids import SessionId, is_safe_integer
from playhead.eventstore.recorded import Recorded
from playhead.eventstore.repair import FLAT_RESULTS_FROM, OpenTurn

RETIRED_KEYS = ("sandboxMode", "approvalPolicy")
"""Header members of a time before format 0; a log that has one is refused."""

_SHARED_KEYS = frozenset(
    {
        "type",
        "version",
        "id",
        "createdAt",
        "cwd",
        "parentSession",
        "origin",
        "delegationDepth",
        "agentPreset",
    }
)


@dataclass(slots=True)
class StrictLog:
    """A log that dsh opens.

    ``facts`` are the stored ones, ``events`` the same in the current vocabulary. ``safe_length`` is how many
    bytes of the decoded log are kept; ``dropped`` says what begins there, if anything does but a torn line.
    ``torn_bytes`` stand behind the last line end, ``torn_frame`` is where an unfinished last frame begins.
    ``closers`` are the events that repair would append.
    """

    header: SessionHeader
    facts: list[Recorded]
    events: list[Recorded]
    safe_length: int
    closers: list[Recorded]
    dropped: Finding | None
    torn_bytes: int
    torn_frame: int | None


@dataclass(slots=True)
class _Decoded:
    """A decoded log; the first ``framed_bytes`` came from whole frames, and so were committed."""

    log: bytes
    framed_bytes: int = 0
    torn_frame: int | None = None


def read_strict(file: str | os.PathLike[str]) -> StrictLog:
    """The log in ``file``, as dsh would open it. Raises ``CorruptLog``, ``NotALog``, ``UnknownEventType``.

    Where the file lies in the layout of dsh, its names must be those of its header. Raises ``NotALog`` of
    kind ``unreadable`` for a file that cannot be read.
    """
    file = os.path.abspath(os.fspath(file))
    try:
        with open_file(file) as opened:
            size = os.fstat(opened.fileno()).st_size
            data = b"".join(iter(lambda: opened.read(min(1 << 20, size - opened.tell())), b""))
    except OSError as error:
        raise NotALog("unreadable", error.strerror or str(error)) from error
    place = paths.place(file.replace(os.sep, "/"))
    compressed = data.startswith(MAGIC) if place is None else place.name.compressed
    return parse_strict(data, compressed=compressed, place=place)


def parse_strict(data: bytes, *, compressed: bool, place: paths.Place | None = None) -> StrictLog:
    """The log that ``data`` holds, as dsh would open it; see ``read_strict``."""
    decoded = _frames(data) if compressed else _Decoded(data)
    line, _, _ = decoded.log.partition(b"\n")
    if len(line) == len(decoded.log):
        raise _corrupt("", "there is no whole header line", line=1, byte=0, kind="no-header")
    header = strict_header(line)
    _check_place(header, place)
    scan = jsonl.scan(decoded.log, header.id, framed_bytes=decoded.framed_bytes)
    if scan.issue is not None and scan.committed:
        raise _committed(header.id, decoded.log, scan, scan.issue)
    events = _admitted(header, decoded.log[: scan.safe_length])
    turn = OpenTurn()
    for event in events:
        turn.feed(event)
    return StrictLog(
        header=header,
        facts=scan.facts,
        events=events,
        safe_length=scan.safe_length,
        closers=turn.closers(flat_results=header.version >= FLAT_RESULTS_FROM),
        dropped=scan.issue,
        torn_bytes=scan.torn_bytes,
        torn_frame=decoded.torn_frame,
    )


def strict_header(line: bytes) -> SessionHeader:
    """The header in ``line``, read without tolerance.

    Raises ``NotALog`` of kind ``unsupported-format`` for another format, ``CorruptLog`` for anything else.
    """
    try:
        members = json_text.parse_ecma(line)
    except (ValueError, RecursionError):
        raise _bad_header("it is not JSON") from None
    if not isinstance(members, dict):
        raise _bad_header("it is no object")
    version = members.get("version")
    if isinstance(version, bool) or not isinstance(version, int | float):
        raise _bad_header("it has no version")
    if version not in range(NEWEST_VERSION + 1):
        raise NotALog(
            "unsupported-format",
            f"log format {json_text.number(version)}; this release reads formats 0 to {NEWEST_VERSION}",
        )
    _check_header(members, int(version))
    return SessionHeader.parse(line)


def _check_header(members: dict[str, Any], version: int) -> None:
    if members.get("type") != "session":
        raise _bad_header("its type is not session")
    if not isinstance(members.get("id"), str):
        raise _bad_header("its id is no text")
    for key in ("createdAt", "delegationDepth", *(("seedLength",) if "seedLength" in members else ())):
        value = members.get(key)
        if value is None or not is_safe_integer(value) or math.copysign(1, value) < 0:
            raise _bad_header(f"its {key} is no whole number from 0")
    if "origin" in members and members["origin"] != "subagent":
        raise _bad_header("its origin is not subagent")
    for key in ("cwd", "parentSession", "agentPreset"):
        if key in members and not isinstance(members[key], str):
            raise _bad_header(f"its {key} is no text")
    retired = [key for key in RETIRED_KEYS if key in members]
    if retired:
        raise _bad_header(f"its member {retired[0]} is retired")
    seed_key = "seedLength" if version < 2 else "isSeeded"
    if version >= 2 and not isinstance(members.get(seed_key), bool):
        raise _bad_header("its isSeeded is neither true nor false")
    extra = sorted(members.keys() - _SHARED_KEYS - {seed_key})
    if extra and version > 0:
        raise _bad_header(f"it has an unexpected member {extra[0]!r}")


def _check_place(header: SessionHeader, place: paths.Place | None) -> None:
    if place is None:
        return
    if not header.id or paths.session_segment(header.id) != place.session:
        message = f"header id {header.id!r} does not match its folder {place.session!r}"
    elif paths.project_segment(header.cwd) != place.project:
        message = f"the working directory {header.cwd!r} does not lead to the folder {place.project!r}"
    elif header.version != place.name.version:
        message = f"the file is named for format {place.name.version}, its header says {header.version}"
    else:
        return
    raise _corrupt(header.id, message, line=1, byte=0, kind="id-mismatch")


def _frames(data: bytes) -> _Decoded:
    """The content of a compressed log, every frame but a torn last one whole and with the right checksum."""
    walk = zstd_frames.FrameWalk(data)
    content: list[bytes] = []
    for span in walk:
        try:
            frame = b"".join(zstd_frames.decode(data, span))
        except zstd_frames.BadFrame as error:
            raise _corrupt("", str(error), byte=span.start, kind="bad-frame") from error
        if not content and (frame.count(b"\n") != 1 or not frame.endswith(b"\n")):
            message = "the first frame does not hold exactly the header line"
            raise _corrupt("", message, line=1, byte=0, kind="header-frame")
        content.append(frame)
    stop = walk.stop
    if stop is not None and stop.kind not in ("end", "torn-frame"):
        raise _corrupt("", f"byte {stop.byte}: {stop.message}", byte=stop.byte, kind=stop.kind)
    if not content:
        raise _corrupt("", "the header frame is not whole", line=1, byte=0, kind="no-header")
    whole = b"".join(content)
    if stop is None or stop.kind == "end":
        return _Decoded(whole, len(whole))
    torn = b"".join(zstd_frames.salvage(data, stop.byte))
    return _Decoded(whole + torn, len(whole), stop.byte)


class _Read(NamedTuple):
    """An event in the current vocabulary, with its line, and the members of the line where it is no row."""

    event: Recorded
    line: jsonl.Line
    stored: dict[str, Any] | None


def _admitted(header: SessionHeader, kept: bytes) -> list[Recorded]:
    """The events of the kept lines in the current vocabulary, each of them known and checked."""
    read = list(_upcast(header, kept))
    for part in read:
        if not part.event.ignorable and not is_known(part.event):
            raise UnknownEventType(part.event.type, part.event.seq, header.id)
    admission = Admission(header.version)
    for part in read:
        if part.stored is None:
            continue
        try:
            admission.admit(part.event, part.stored)
        except CorruptLog as error:
            raise _placed(error, part.event.seq, part.line) from error
    return [part.event for part in read]


def _upcast(header: SessionHeader, kept: bytes) -> Iterator[_Read]:
    dialect = DIALECTS[dialect_name(header)]
    state = dialect.initial(header)
    for line in jsonl.lines(kept):
        if line.number == 1:
            continue
        stored = json_text.parse(line.text)
        is_row = stored["type"] in chunk_rows.TAGS
        for fact in envelope.facts(line.text, header.id):
            try:
                state, events = dialect.step(state, fact)
            except CorruptLog as error:
                raise _placed(error, fact.seq, line) from error
            for event in events:
                yield _Read(event, line, None if is_row else stored)


def _placed(error: CorruptLog, seq: int, line: jsonl.Line) -> CorruptLog:
    """The same error with the line that it is about."""
    text = str(error).removeprefix(f"session {error.session!r}: ")
    message = f"line {line.number}, byte {line.byte}: {text}"
    return CorruptLog(error.session, message, seq=seq, line=line.number, byte=line.byte, kind=error.kind)


def _committed(session: SessionId, log: bytes, scan: jsonl.Scan, issue: Finding) -> CorruptLog:
    """Why a log with an issue in its committed part is refused, and what lies behind it."""
    message = issue.message
    expected = len(scan.facts)
    byte = issue.byte or 0
    seen = envelope.view(log[byte : log.find(b"\n", byte)])
    if issue.kind == "seq-gap" and seen.seq0 < expected:
        message = f"the numbering ran back: expected {expected}, got {seen.seq0}: a second writer"
    where = f"line {issue.line}, byte {byte}"
    return _corrupt(
        session,
        f"{where}: {message}; {scan.whole_behind} whole records lie behind it",
        seq=expected,
        line=issue.line,
        byte=byte,
        kind=issue.kind,
    )


def _bad_header(reason: str) -> CorruptLog:
    return _corrupt("", f"the first line is no session header: {reason}", line=1, byte=0, kind="bad-header")


def _corrupt(session: str, message: str, *, kind: str, **place: int | None) -> CorruptLog:
    return CorruptLog(session, message, kind=kind, **place)
