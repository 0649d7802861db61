"""The bytes of model calls, beside the log: one row for each call that was recorded on the wire.

Rows of a session are numbered from 0 in the order in which they were kept, and the store counts them all, so that one
that is gone is missed. Bodies are Zstandard frames; the pieces of an answer are a frame of MessagePack: how much the
offset and the time grow from one to the next. What a credential could be in is cleaned before it comes here.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple, cast

import msgspec
import zstandard

from playhead.eventstore.errors import CorruptLog, UsageError
from playhead.eventstore.exchange import Exchange, ExchangeEnd
from playhead.eventstore.redaction import Headers
from playhead.eventstore.sql import session_row
from playhead.eventstore.sql.columns import escape, unescape
from playhead.eventstore.sql.engine import Link, Reads
from playhead.eventstore.sql.row_check import COLUMNS, row_check

_COLUMNS = COLUMNS["exchange"]
_SELECT = f'SELECT {", ".join(_COLUMNS)}, "check" FROM exchange'
_INSERT = (
    f'INSERT INTO exchange ({", ".join(_COLUMNS)}, "check") VALUES ({", ".join("?" * (len(_COLUMNS) + 1))})'
)
_PAGE = 8

_headers = msgspec.json.Decoder(Headers)
_steps = msgspec.msgpack.Decoder(list[tuple[int, int]])


class ExchangeRow(NamedTuple):
    """All columns of an exchange but its check. Text is escaped, as it stands in the table."""

    session_id: int
    exchange_no: int
    turn: int | None
    step: int | None
    number: int | None
    seq: int | None
    dialect: str
    path: str
    began_ms: int
    head_ms: int | None
    ended_ms: int
    ending: str
    status: int | None
    request_headers: bytes
    request: bytes
    headers: bytes
    body: bytes
    body_len: int
    whole: int
    pieces: bytes

    def check(self) -> bytes:
        return row_check("exchange", self)

    @classmethod
    def of(cls, session_id: int, exchange_no: int, exchange: Exchange) -> ExchangeRow:
        """The row of an exchange that was cleaned."""
        return cls(
            session_id=session_id,
            exchange_no=exchange_no,
            turn=exchange.turn,
            step=exchange.step,
            number=exchange.number,
            seq=exchange.seq,
            dialect=escape(exchange.dialect),
            path=escape(exchange.path),
            began_ms=exchange.began_ms,
            head_ms=exchange.head_ms,
            ended_ms=exchange.ended_ms,
            ending=exchange.end,
            status=exchange.status,
            request_headers=_packed_headers(exchange.request_headers),
            request=_packed(exchange.request),
            headers=_packed_headers(exchange.headers),
            body=_packed(exchange.body),
            body_len=len(exchange.body),
            whole=int(exchange.whole),
            pieces=_packed(msgspec.msgpack.encode(_steps_of(exchange))),
        )

    def opened(self, check: bytes, session: str) -> Exchange:
        """The exchange that was kept. Raises ``CorruptLog`` when the row is not as it was written."""
        try:
            if check != self.check():
                raise ValueError("its check does not fit")
            return self._exchange()
        except (ValueError, UsageError, zstandard.ZstdError) as error:
            raise CorruptLog(
                session,
                f"the bytes of model call {self.exchange_no} were changed in the store ({error}); "
                "run `playhead verify`",
                seq=self.seq,
                kind="bad-exchange",
            ) from error

    def _exchange(self) -> Exchange:
        offset = time_ms = 0
        pieces = []
        for further, later_ms in _steps.decode(_unpacked(self.pieces)):
            offset, time_ms = offset + further, time_ms + later_ms
            pieces.append((offset, time_ms))
        return Exchange(
            dialect=unescape(self.dialect),
            path=unescape(self.path),
            request=_unpacked(self.request),
            end=cast(ExchangeEnd, self.ending),
            began_ms=self.began_ms,
            ended_ms=self.ended_ms,
            request_headers=_unpacked_headers(self.request_headers),
            status=self.status,
            head_ms=self.head_ms,
            headers=_unpacked_headers(self.headers),
            body=_unpacked(self.body),
            pieces=tuple(pieces),
            whole=bool(self.whole),
            turn=self.turn,
            step=self.step,
            number=self.number,
            seq=self.seq,
        )


def keep(link: Link, session_id: int, exchange: Exchange) -> int:
    """Write a cleaned exchange of a session; its number there."""
    session_row.load(link, session_id, lock=True)
    found = link.one(
        "SELECT coalesce(max(exchange_no) + 1, 0) FROM exchange WHERE session_id = ?", (session_id,)
    )
    row = ExchangeRow.of(session_id, int(found[0]), exchange)
    link.run(_INSERT, (*row, row.check()))
    link.run("UPDATE store SET exchanges = exchanges + 1 WHERE id = 1")
    return row.exchange_no


def of_session(
    reads: Reads, session_id: int, session: str, turn: int | None = None, step: int | None = None
) -> Iterator[Exchange]:
    """The exchanges of a session in order, those of one turn or step where these are given."""
    wanted = {column: value for column, value in (("turn", turn), ("step", step)) if value is not None}
    condition = "".join(f" AND {column} = ?" for column in wanted)
    after = -1
    while True:
        with reads() as link:
            page = link.all(
                f"{_SELECT} WHERE session_id = ? AND exchange_no > ?{condition} ORDER BY exchange_no LIMIT {_PAGE}",
                (session_id, after, *wanted.values()),
            )
        for *columns, check in page:
            row = ExchangeRow(*columns)
            yield row.opened(check, session)
            after = row.exchange_no
        if not page:
            return


def every(link: Link, session_id: int | None) -> Iterator[tuple[ExchangeRow, bytes]]:
    """All rows with their stored checks by session and number, a page at a time; of one session where it is given."""
    condition, values = ("", ()) if session_id is None else (" AND session_id = ?", (session_id,))
    at = (-(2**63), 0)
    while True:
        page = link.all(
            f"{_SELECT} WHERE (session_id, exchange_no) > (?, ?){condition} "
            f"ORDER BY session_id, exchange_no LIMIT {_PAGE}",
            (*at, *values),
        )
        for *columns, check in page:
            row = ExchangeRow(*columns)
            yield row, check
            at = (row.session_id, row.exchange_no)
        if not page:
            return


def _steps_of(exchange: Exchange) -> list[tuple[int, int]]:
    return [
        (offset - earlier, time_ms - earlier_ms)
        for (earlier, earlier_ms), (offset, time_ms) in pairwise([(0, 0), *exchange.pieces])
    ]


def _packed(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(level=3, write_checksum=True).compress(data)


def _unpacked(data: bytes) -> bytes:
    return zstandard.ZstdDecompressor().decompress(data)


def _packed_headers(headers: Headers) -> bytes:
    return msgspec.json.encode([(escape(name), escape(value)) for name, value in headers])


def _unpacked_headers(data: bytes) -> Headers:
    return tuple((unescape(name), unescape(value)) for name, value in _headers.decode(data))
