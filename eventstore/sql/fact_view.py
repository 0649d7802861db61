"""The view ``fact`` of a SQLite connection: every stored fact as a row, wherever it lies.

A fact lies in an ``event`` row or, with thousands of others, in a compressed segment. SQLite can join a table with a
JSON list that a function makes of each of its rows: here, of each segment, the list of its facts. One segment at a
time is in memory. An element of a list is one text, from which the columns are cut by place; that costs less than
to parse JSON for each fact. It has the numbers in fixed widths, the length of every text but the last, and the texts.

Only columns that a query uses are put into the text: most bytes of a log are data that a query does not look at. So
the view is made for one query. It lives in the schema ``temp`` of its connection; the store is not touched.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Collection, Iterable
from typing import Any

import msgspec

from playhead.eventstore import envelope
from playhead.eventstore.ids import SessionId
from playhead.eventstore.sql.columns import unescape
from playhead.eventstore.sql.reading import StoredSegment

NAME = "fact"

COLUMNS = {
    "session_id": "number of the session in the store: one for each generation",
    "session": "id of the session",
    "generation": "which of several differing logs of this id, from 1",
    "seq": "place in the session",
    "position": "place in the store",
    "time_ms": "when it happened",
    "type": "what kind of event it is",
    "data": "what it says: the stored JSON text",
    "line": "the stored line, with the first of its facts; NULL with the others of a packed line",
}
"""Column -> meaning."""

_NUMBERS = {"seq": 17, "position": 20, "time_ms": 17}
_TEXTS = ("type", "data", "line")
_LENGTH = 12
_PLACES = {name: place for place, name in enumerate((*_NUMBERS, *_TEXTS))}
_MERGES_COLUMNS = re.compile(r"\b(?:natural|using)\b\s*(?:\(([^()]*)\))?", re.IGNORECASE)
"""Such joins read columns that SQLite tells nobody of: those in brackets, or any."""


def create(connection: sqlite3.Connection, used: Collection[str] = tuple(COLUMNS)) -> None:
    """Make the view, in the place of an earlier one. Columns that are not ``used`` are NULL in it."""
    connection.execute(f"DROP VIEW IF EXISTS temp.{NAME}")
    connection.execute(_view(used))


def columns_used(
    connection: sqlite3.Connection, plan: str, may: Callable[[int, str | None, str | None], int]
) -> set[str]:
    """The columns of the view that a query may look at; ``plan`` is the EXPLAIN of it.

    ``connection`` has the whole view. ``may`` is the authorizer of the query. Raises what SQLite raises for a bad one.
    """
    used = {name for found in _MERGES_COLUMNS.finditer(plan) for name in _merged(found[1])}

    def note(action: int, table: str | None, column: str | None, *_: object) -> int:
        if action == sqlite3.SQLITE_READ and table == NAME and column:
            used.add(column)
        return may(action, table, column)

    connection.set_authorizer(note)
    try:
        connection.execute(plan).close()
    finally:
        connection.set_authorizer(None)
    return used


def _merged(bracket: str | None) -> Iterable[str]:
    """The columns that a join merges which names those in ``bracket``."""
    return COLUMNS if bracket is None else [name for name in COLUMNS if name in bracket.lower()]


class FactLists:
    """The functions behind the view. ``failure`` is what one of them raised: SQLite keeps no such errors."""

    def __init__(self, connection: sqlite3.Connection, used: Collection[str]) -> None:
        self.failure: BaseException | None = None
        self._used = used
        self._format = _format(used)
        connection.create_function("playhead_segment_facts", 9, self._of_segment)
        connection.create_function("playhead_line_facts", 2, self._of_line)

    def _of_segment(self, key: str, commits: str, *columns: Any) -> bytes:
        try:
            block = StoredSegment(*columns).block(unescape(key))
            return self._list(block.split(b"\n"), commits)
        except BaseException as error:
            self.failure = error
            raise

    def _of_line(self, commits: str, line: bytes) -> bytes:
        try:
            return self._list([line], commits)
        except BaseException as error:
            self.failure = error
            raise

    def _list(self, lines: Iterable[bytes], commits: str) -> bytes:
        """The facts of ``lines`` as a JSON list of texts; ``commits`` says where they are in the store."""
        text_of, encoded = self._format, _encoder.encode
        with_data, with_line, with_position = (
            column in self._used for column in ("data", "line", "position")
        )
        position, data, text = 0, "", ""
        positions = _Positions(json.loads(commits))
        facts: Iterable[tuple[int, int, str, Any]]
        texts = []
        for line in lines:
            event = envelope.plain(line)
            if event is not None:
                facts = ((event.seq, event.time, event.type, event.data),)
            else:
                facts = [
                    (fact.seq, fact.time_ms, fact.type, fact.raw) for fact in envelope.facts(line, _NOBODY)
                ]
            if with_line:
                text = line.decode("utf-8", "replace")
            for seq, time_ms, name, raw in facts:
                type = name if name.isascii() and "\0" not in name else _shown(name)
                if with_position:
                    position = positions.of(seq)
                if with_data:
                    data = bytes(raw).decode("utf-8", "replace")
                texts.append(encoded(text_of(seq, position, time_ms, type, data, text, len(type), len(data))))
                text = ""
        return b"[%b]" % b",".join(texts)


_encoder = msgspec.json.Encoder()
_NOBODY = SessionId("")


class _Positions:
    """Positions of rising seqs of one session; 0 where nobody knows it."""

    def __init__(self, commits: Iterable[tuple[int, int, int]]) -> None:
        self._coming = iter(commits)
        self._pos0 = self._seq0 = self._end = 0

    def of(self, seq: int) -> int:
        while seq >= self._end and (commit := next(self._coming, None)) is not None:
            self._pos0, self._seq0, n = commit
            self._end = self._seq0 + n
        return self._pos0 + seq - self._seq0 if self._seq0 <= seq < self._end else 0


def _shown(type: str) -> str:
    """The name of a type as a text column holds it: U+FFFD stands for what it cannot hold."""
    return type.replace("\0", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _format(used: Collection[str]) -> Any:
    """Makes the text of a fact of seq, position, time, type, data, line, and the lengths of type and data."""
    numbers = [f"{{{_PLACES[name]}:{width}d}}" for name, width in _NUMBERS.items() if name in used]
    texts = [name for name in _TEXTS if name in used]
    lengths = [f"{{{_PLACES[name] + len(_TEXTS)}:{_LENGTH}d}}" for name in texts[:-1]]
    return "".join([*numbers, *lengths, *(f"{{{_PLACES[name]}}}" for name in texts)]).format


def _columns(used: Collection[str]) -> str:
    """The SQL of all columns in their order: cut out of ``f.value``, which ``_format`` made, or NULL."""
    at = 1
    cut = {}
    for name, width in _NUMBERS.items():
        if name in used:
            cut[name] = f"CAST(substr(f.value, {at}, {width}) AS INTEGER)"
            at += width
    texts = [name for name in _TEXTS if name in used]
    start = str(at + _LENGTH * (len(texts) - 1))
    for name in texts[:-1]:
        length = f"CAST(substr(f.value, {at}, {_LENGTH}) AS INTEGER)"
        cut[name] = f"substr(f.value, {start}, {length})"
        start += f" + {length}"
        at += _LENGTH
    if texts:
        cut[texts[-1]] = f"substr(f.value, {start})"
    if "position" in cut:
        cut["position"] = f"nullif({cut['position']}, 0)"
    if "line" in cut:
        cut["line"] = f"nullif({cut['line']}, '')"
    cut |= {"session_id": "s.id", "session": "s.key", "generation": "s.generation"}
    return ", ".join(f"{cut.get(name, 'NULL')} AS {name}" for name in COLUMNS)


def _view(used: Collection[str]) -> str:
    columns = _columns(used)
    return f"""
        CREATE TEMP VIEW {NAME} AS
        SELECT {columns}
          FROM main.session s
          JOIN main.segment g ON g.session_id = s.id
          JOIN json_each(CAST(playhead_segment_facts(
              s.key, {_commits("g.seq0", "g.n")}, g.line0, g.lines, g.seq0, g.n, g.codec, g.raw_len, g.body
          ) AS TEXT)) f
        UNION ALL
        SELECT {columns}
          FROM main.session s
          JOIN main.event e ON e.session_id = s.id
          JOIN json_each(CAST(playhead_line_facts({_commits("e.seq0", "e.n")}, e.line) AS TEXT)) f
    """


def _commits(seq0: str, n: str) -> str:
    """SQL: the commits with seqs of a stretch, in order, as JSON: [[first position, first seq, how many], ...]."""
    first = f"(SELECT max(seq0) FROM main.commit_log WHERE session_id = s.id AND seq0 <= {seq0})"
    return f"""(
        SELECT json_group_array(json_array(c.pos0, c.seq0, c.n)) FROM (
            SELECT pos0, seq0, n FROM main.commit_log
             WHERE session_id = s.id AND seq0 >= coalesce({first}, 0) AND seq0 < {seq0} + {n} ORDER BY seq0
        ) c
    )"""
