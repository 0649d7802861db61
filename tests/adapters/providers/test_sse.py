"""Server-sent events: the same events from the same bytes, however these are cut."""

from __future__ import annotations

import json
from itertools import chain, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import shared_path

from playhead.adapters.providers.chat import DEEPSEEK_CHAT
from playhead.adapters.providers.dialect import WireEvent
from playhead.adapters.providers.sse import EventReader, encode_event
from playhead.eventstore.chunk_source import AdapterError

CASE = "cases/11-sse-framing"


def read(*pieces: bytes) -> list[WireEvent]:
    reader = EventReader()
    return [event for piece in pieces for event in reader.push(piece)]


def bytewise(data: bytes) -> list[WireEvent]:
    return read(*(data[at : at + 1] for at in range(len(data))))


@pytest.mark.parametrize("name", ["crlf.sse", "keepalive.sse"])
def test_reported_framings_give_the_same_events_in_every_cut(name: str) -> None:
    data = shared_path(f"{CASE}/{name}").read_bytes()
    wanted = json.loads(shared_path(f"{CASE}/expected.json").read_bytes())[name]
    events = [WireEvent(data, event, id) for event, data, id in wanted]
    assert read(data) == events
    assert bytewise(data) == events
    for at in range(len(data) + 1):
        assert read(data[:at], data[at:]) == events


def test_an_event_without_text_is_skipped_by_the_layer_above() -> None:
    decoder = DEEPSEEK_CHAT.decoder()
    body = b'data: {"choices":[]}\n\ndata:\n\n: ping\n\nid: 3\n\ndata: {"choices":[]}\n\n'
    assert [list(decoder.push(event)) for event in read(body)] == [[], [], []]
    assert not decoder.done


@pytest.mark.parametrize("control", [b"id: 1", b"retry: 9", b"event: x", b": comment", b"x: y", b"datax: 1"])
def test_a_block_without_a_data_line_is_no_event(control: bytes) -> None:
    assert read(control + b"\n\n") == []


def test_a_data_line_with_nothing_is_an_event() -> None:
    assert read(b"data:\n\n", b"data\n\n", b"data: \n\n") == [WireEvent("")] * 3


def test_a_name_holds_for_one_event_and_an_id_for_all_that_follow() -> None:
    body = b"event: a\nid: 1\ndata: x\n\ndata: y\n\nid\ndata: z\n\n"
    assert read(body) == [WireEvent("x", "a", "1"), WireEvent("y", "message", "1"), WireEvent("z")]


def test_a_name_without_data_does_not_reach_the_next_event() -> None:
    assert read(b"event: a\n\ndata: x\n\n") == [WireEvent("x")]


def test_an_id_with_a_nul_is_ignored() -> None:
    assert read(b"id: 1\nid: 2\0\ndata: x\n\n") == [WireEvent("x", id="1")]


def test_only_one_blank_after_the_colon_is_dropped() -> None:
    assert read(b"data:  x \n\n") == [WireEvent(" x ")]


def test_only_a_byte_order_mark_in_front_is_dropped() -> None:
    mark = "\ufeff".encode()
    assert bytewise(mark + b"data: x\n\n" + mark + b"data: y\n\ndata: z\n\n") == [
        WireEvent("x"),
        WireEvent("z"),
    ]


def test_what_is_no_line_end_for_the_format_is_none() -> None:
    text = "a\u2028b\u2029c\x0bd\x0ce\x1cf\x85g"
    assert bytewise(f"data: {text}\n\n".encode()) == [WireEvent(text)]


@pytest.mark.parametrize("data", [b"\xff", b"\xe2\x82", b"\xed\xa0\xbd", b"\xc0\x80", b"\xf0\x9f\x98"])
def test_bytes_that_are_no_utf8_become_replacement_characters_in_every_cut(data: bytes) -> None:
    body = b"data: a" + data + b"\ndata: b\n\n"
    text = (b"a" + data).decode("utf-8", "replace") + "\nb"
    assert read(body) == bytewise(body) == [WireEvent(text)]


def test_an_event_is_given_as_soon_as_its_blank_line_began() -> None:
    assert read(b"data: x\r\n\r") == [WireEvent("x")]
    assert read(b"data: x\r\n\r", b"", b"\ndata: y\r\r") == [WireEvent("x"), WireEvent("y")]


def test_what_stands_behind_the_last_blank_line_is_lost() -> None:
    assert read(b"data: x\n\ndata: [DONE]\n") == [WireEvent("x")]


def test_comments_show_that_the_other_side_is_alive() -> None:
    reader = EventReader()
    assert list(reader.push(b": ping\n\n: pi")) == []
    assert reader.lines == 2
    assert list(reader.push(b"ng\n")) == []
    assert reader.lines == 3


@pytest.mark.parametrize(
    "endless", [b"data: aaaa", b": comment", b"id: 1234", b"data: aaa\n", b"data\n", b"data: a\n: comment\n"]
)
def test_an_event_that_does_not_end_is_a_failure_and_not_endless_memory(endless: bytes) -> None:
    reader = EventReader(limit_bytes=1000)
    assert list(reader.push(b"data: before\n\n")) == [WireEvent("before")]
    with pytest.raises(AdapterError, match="larger than") as raised:
        list(chain.from_iterable(map(reader.push, [endless] * 1000)))
    assert raised.value.code == "MALFORMED_RESPONSE"


def test_events_before_one_that_is_too_large_are_given() -> None:
    reader = EventReader(limit_bytes=100)
    events = reader.push(b"data: x\n\ndata: " + b"y" * 200 + b"\n\n")
    assert next(events) == WireEvent("x")
    with pytest.raises(AdapterError):
        next(events)


def test_many_comments_between_events_are_no_large_event() -> None:
    reader = EventReader(limit_bytes=100)
    body = b": comment\n\n" * 1000 + b"data: x\n\n"
    assert list(reader.push(body)) == [WireEvent("x")]


line_parts = st.sampled_from(
    [
        *(
            b"data",
            b"event",
            b"id",
            b"retry",
            b":",
            b" ",
            b"\n",
            b"\r",
            b"\r\n",
            b"\n\n",
            b"\0",
            b"{}",
            b"[DONE]",
        ),
        *(b"\xef\xbb\xbf", "é".encode(), "😀".encode(), b"\xff", b"\xf0\x9f", b"x: y"),
    ]
)
bodies = st.lists(line_parts, max_size=60).map(b"".join)


def by_the_book(data: bytes) -> list[WireEvent]:
    """The events of a whole body: the rules of the standard on text, one after the other."""
    text = data.decode("utf-8", "replace").removeprefix("\ufeff")
    *lines, _ = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    events, buffer, name, last_id = [], "", "", ""
    for line in lines:
        field, _, value = line.partition(":")
        value = value[1:] if value[:1] == " " else value
        if line == "":
            if buffer:
                events.append(WireEvent(buffer[:-1], name or "message", last_id))
            buffer, name = "", ""
        elif field == "data":
            buffer += value + "\n"
        elif field == "event":
            name = value
        elif field == "id" and "\0" not in value:
            last_id = value
    return events


@given(data=bodies, cuts=st.lists(st.integers(0, 400), max_size=8))
def test_any_bytes_in_any_cut_give_what_the_standard_says(data: bytes, cuts: list[int]) -> None:
    wanted = by_the_book(data)
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    assert read(*(data[a:b] for a, b in pairwise(places))) == wanted
    assert bytewise(data) == wanted


one_line = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\0"), max_size=8)
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"), max_size=30)


@given(
    events=st.lists(st.tuples(texts, one_line, one_line.filter(bool)), max_size=5),
)
def test_events_survive_their_bytes(events: list[tuple[str, str, str]]) -> None:
    given = [WireEvent(data, name or "message", id) for data, name, id in events]
    assert read(b"".join(map(encode_event, given))) == given


@pytest.mark.parametrize("event", [WireEvent("x", "a\nb"), WireEvent("x", id="1\r"), WireEvent("x", id="\0")])
def test_a_name_or_id_of_more_than_one_line_is_refused(event: WireEvent) -> None:
    with pytest.raises(ValueError, match="more than one line"):
        encode_event(event)


def test_half_a_surrogate_pair_has_no_bytes() -> None:
    with pytest.raises(UnicodeEncodeError):
        encode_event(WireEvent("\ud83d"))
