"""Lines that are damaged or strange: what can be read of them is read, and nothing takes the reader down."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playhead.eventstore import envelope
from playhead.eventstore.ids import SessionId

S = SessionId("s1")
RECORD = b'{"type":"x/y","seq":%d,"time":0,"data":%s}'


@pytest.mark.parametrize(
    "data",
    [
        b"[" * 50_000 + b"]" * 50_000,
        b'{"a":' * 3_000 + b'"}]"' + b"}" * 3_000,
        b"7" * 5_000,
        b"-" + b"7" * 5_000,
    ],
    ids=["arrays", "objects", "digits", "negative"],
)
def test_data_too_deep_or_too_long_for_the_parser_is_read_all_the_same(data: bytes) -> None:
    for line in (RECORD % (4, data), (RECORD % (4, data))[:-1] + b',"more":1}'):
        assert envelope.view(line)[:2] == (4, 1)
        (fact,) = envelope.facts(line, S)
        assert fact.raw == data
        assert fact.json is not None


def test_invalid_utf8_in_data_is_told_and_kept() -> None:
    line = RECORD % (0, b'"\xff"')
    view = envelope.view(line)
    assert view.n == 1
    assert view.defect is not None
    assert view.defect.kind == "invalid-utf8"
    assert envelope.facts(line, S)[0].raw == b'"\xff"'


@pytest.mark.parametrize("cut", [1, 20, 30])
def test_whole_records_behind_a_broken_one_are_found(cut: int) -> None:
    line = (RECORD % (7, b'"lost"'))[:cut] + RECORD % (8, b'{"a":1}') + RECORD % (9, b"[]")
    view = envelope.view(line)
    assert (view.seq0, view.n) == (8, 2)
    assert view.defect is not None
    assert view.defect.kind == "two-records-on-one-line"
    assert [(fact.seq, fact.raw) for fact in envelope.facts(line, S)] == [(8, b'{"a":1}'), (9, b"[]")]


@pytest.mark.parametrize("unit", [b"[", b'{"a":', b'{"type":', b'{"seq":[', b'"', b'{"', b"1"])
def test_a_long_line_of_rubbish_is_no_fact_and_takes_no_long_time(unit: bytes) -> None:
    line = unit * 20_000
    assert envelope.view(line).n == 0
    assert envelope.facts(line, S) == []


@given(st.binary(max_size=40), st.sampled_from([b"", RECORD % (3, b"{}"), (RECORD % (3, b"{}"))[:30]]))
def test_view_and_facts_of_any_bytes_agree(rubbish: bytes, record: bytes) -> None:
    for line in (rubbish, rubbish + record, record + rubbish):
        assert envelope.view(line).n == len(envelope.facts(line, S))


@given(st.recursive(st.none() | st.integers() | st.floats(allow_nan=False), st.lists, max_leaves=5))
def test_a_record_is_read_with_the_bytes_of_its_data(value: object) -> None:
    raw = json.dumps(value).replace("Infinity", "1e400").encode()
    (fact,) = envelope.facts(RECORD % (1, raw), S)
    assert (fact.seq, fact.raw) == (1, raw)
