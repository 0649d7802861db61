"""Exchanges as values, and their recorder."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playhead.eventstore.errors import UsageError
from playhead.eventstore.exchange import ENDS, Exchange, ExchangeRecorder

KEY = "q8Zr-planted/0x7f"
REQUEST = [("Authorization", f"Bearer {KEY}"), ("User-Agent", "tool/1"), ("Cookie", "crumb=cookie-0001")]


def recorder(**members: Any) -> ExchangeRecorder:
    return ExchangeRecorder(
        "openai", "http://h/v1/chat/completions", REQUEST, b'{"model":"m"}', 1000, **members
    )


@given(pieces=st.lists(st.tuples(st.binary(max_size=9), st.integers(0, 2**40)), max_size=12))
def test_the_pieces_come_back_as_they_came(pieces: list[tuple[bytes, int]]) -> None:
    written = recorder()
    written.head(200, [("Content-Type", "text/event-stream")], 1001)
    for piece, time_ms in pieces:
        written.piece(piece, time_ms)
    kept = written.ended("complete", 2000)
    assert list(kept.timed_body()) == [(time_ms, piece) for piece, time_ms in pieces if piece]
    assert kept.body == b"".join(piece for piece, _ in pieces)
    assert kept.whole


def test_a_recorder_keeps_the_call_without_its_credentials() -> None:
    written = ExchangeRecorder(
        "openai",
        "https://name:pass-w0rd@h:1/v1/chat/completions?beta=true&key=query-001",
        REQUEST,
        f'{{"model":"m","user":"{KEY} cookie-0001 query-001 pass-w0rd known-01","api_key":"x"}}'.encode(),
        1000,
        secrets=["known-01"],
    )
    written.head(
        401, [("Content-Type", "text/plain"), ("Set-Cookie", "a=b"), ("Server", f"echo {KEY}")], 1100
    )
    written.piece(f"no key {KEY[:4]}".encode(), 1200)
    written.piece(f"{KEY[4:]} or cookie-0001".encode(), 1300)
    kept = written.ended("complete", 1400)
    stars = "*" * len(KEY)
    assert kept == Exchange(
        dialect="openai",
        path="/v1/chat/completions?beta=true&key=*********",
        request=f'{{"model":"m","user":"{stars} *********** ********* ********* ********","api_key":"*"}}'.encode(),
        end="complete",
        began_ms=1000,
        ended_ms=1400,
        request_headers=(("user-agent", "tool/1"),),
        status=401,
        head_ms=1100,
        headers=(("content-type", "text/plain"), ("server", f"echo {stars}")),
        body=f"no key {stars} or ***********".encode(),
        pieces=((0, 1200), (11, 1300)),
    )
    assert kept.cleaned() == kept


def test_a_call_without_an_answer_has_no_head() -> None:
    kept = recorder().ended("reset-before-response", 1500)
    assert (kept.status, kept.head_ms, kept.headers, kept.body, kept.pieces) == (None, None, (), b"", ())
    assert list(kept.timed_body()) == []


def test_what_an_answer_has_beyond_the_limit_is_not_kept_and_said_so() -> None:
    written = recorder(limit_bytes=5)
    for at, piece in enumerate((b"abc", b"def", b"ghi")):
        written.piece(piece, at)
    kept = written.ended("complete", 9)
    assert (kept.body, kept.pieces, kept.whole) == (b"abcde", ((0, 0), (3, 1)), False)


def test_an_exchange_is_placed_as_that_of_an_attempt() -> None:
    placed = recorder().ended("timeout", 2).placed(turn=1, step=2, number=3, seq=40)
    assert (placed.turn, placed.step, placed.number, placed.seq) == (1, 2, 3, 40)


@pytest.mark.parametrize(
    "wrong",
    [
        {"end": "lost"},
        {"pieces": ((1, 0),)},
        {"pieces": ()},
        {"pieces": ((0, 1), (0, 2))},
        {"pieces": ((0, 1), (4, 2))},
        {"body": b"", "pieces": ((0, 1),)},
    ],
)
def test_an_exchange_that_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    written = recorder()
    written.piece(b"body", 1)
    with pytest.raises(UsageError):
        dataclasses.replace(written.ended("complete", 2), **wrong)


@pytest.mark.parametrize("end", sorted(ENDS))
def test_every_ending_can_be_kept(end: Any) -> None:
    assert recorder().ended(end, 5).end == end


def test_escapes_in_a_body_hide_no_secret() -> None:
    body = '{"t":"' + "".join(f"\\u{ord(letter):04x}" for letter in KEY) + '"}'
    written = ExchangeRecorder("openai", "http://h/", REQUEST, body.encode(), 0)
    assert written.ended("complete", 1).request == f'{{"t":"{"*" * len(KEY)}"}}'.encode()
