from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playhead.cli import units


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("utc")
def test_a_time_is_shown_in_local_time_and_with_milliseconds_on_request() -> None:
    assert units.when(1_746_363_731_042) == "2025-05-04 13:02:11"
    assert units.when(1_746_363_731_042, precise=True) == "2025-05-04 13:02:11.042"
    assert units.when(-1, precise=True) == "1969-12-31 23:59:59.999"


def test_no_time_is_a_dash() -> None:
    assert units.when(None) == "-"


def test_a_time_beyond_any_calendar_is_given_as_a_number() -> None:
    assert units.when(2**53 - 1) == "9007199254740991 ms"


@given(st.integers(-(2**53), 2**53), st.booleans())
def test_any_time_a_log_can_hold_has_a_spelling(time_ms: int, precise: bool) -> None:
    assert units.when(time_ms, precise=precise)


@pytest.mark.parametrize(
    ("size_bytes", "shown"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (1949, "1.9 kB"),
        (9_950, "10 kB"),
        (999_499, "999 kB"),
        (999_500, "1.0 MB"),
        (64 * 2**20, "67 MB"),
        (5 * 10**12, "5.0 TB"),
        (5 * 10**15, "5000 TB"),
    ],
)
def test_a_size_has_two_digits_at_least_and_a_decimal_unit(size_bytes: int, shown: str) -> None:
    assert units.size(size_bytes) == shown


def test_a_count_agrees_with_its_noun() -> None:
    assert [units.count(n, "event") for n in (0, 1, 2, 12_345)] == [
        "0 events",
        "1 event",
        "2 events",
        "12,345 events",
    ]


@pytest.mark.parametrize(
    ("span_ms", "shown"),
    [
        (None, "-"),
        (0, "0 ms"),
        (999, "999 ms"),
        (1000, "1.0 s"),
        (9949, "9.9 s"),
        (9950, "10 s"),
        (59_499, "59 s"),
        (59_500, "1 min"),
        (123_000, "2 min 3 s"),
        (3_600_000, "1 h"),
        (18_060_000, "5 h 1 min"),
        (273_600_000, "3 d 4 h"),
    ],
)
def test_a_duration_is_shown_in_two_units_at_most(span_ms: int | None, shown: str) -> None:
    assert units.duration(span_ms) == shown
