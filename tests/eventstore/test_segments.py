"""Segments give every byte back, and say of their lines what reading each line says."""

from __future__ import annotations

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from playhead.eventstore import envelope, segments
from playhead.eventstore.codecs import LINES, RUNS, body, runs
from playhead.eventstore.codecs.wanted import Wanted, is_delta
from playhead.eventstore.ids import SessionId
from playhead.eventstore.recorded import Recorded

SESSION = SessionId("s")
TIME = 1_790_000_000_000


def event(type: str, seq: int, data: Any, time: int = TIME, **tail: Any) -> bytes:
    members = {"type": type, "seq": seq, "time": time, "data": data, **tail}
    return json.dumps(members, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def delta(seq: int, literal: bytes, time: int = TIME, kind: str = "text", **tool: str) -> bytes:
    """One delta line in the bytes of the live writer; ``literal`` is the inside of the JSON string."""
    chunk: dict[str, Any] = {"type": f"{kind}-delta", "index": 0, **tool}
    chunk["argumentsDelta" if tool else "text"] = "@@"
    line = event("assistant/chunk", seq, {"turn": 1, "step": 2, "chunk": chunk}, time)
    return line.replace(b"@@", literal)


def block_of(*lines: bytes) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def stream(count: int, seq0: int = 0) -> list[bytes]:
    """A streamed answer: its start, ``count`` deltas, its end, and the message that repeats the text."""
    where = {"turn": 1, "step": 2}
    words = [f"w{at} " for at in range(count)]
    start = {"type": "block-start", "index": 0, "blockType": "text"}
    end = {"type": "block-end", "index": 0, "block": {"type": "text", "text": "".join(words)}}
    lines = [event("assistant/chunk", seq0, {**where, "chunk": start})]
    lines += [delta(seq0 + 1 + at, word.encode(), TIME + 25 * at) for at, word in enumerate(words)]
    lines.append(event("assistant/chunk", seq0 + count + 1, {**where, "chunk": end}))
    message = {**where, "message": {"content": [{"type": "text", "text": "".join(words)}]}}
    sources = list(range(seq0, seq0 + count + 2))
    lines.append(
        event("assistant/message", seq0 + count + 2, message, sourceEventSeqs=sources, surfaceOp="append")
    )
    return lines


def sealed(block: bytes, expected_seq: int = 0) -> segments.Segment:
    segment, used = segments.seal(block, expected_seq)
    assert segment is not None
    assert used == len(block)
    return segment


def unsealed(segment: segments.Segment) -> bytes:
    return segments.unseal(segment.codec, segment.body, segment.raw_len)


def facts_of(segment: segments.Segment, **wanted: Any) -> list[Recorded]:
    wants = Wanted.of(SESSION, **wanted)
    return [*chain(*segments.segment_facts(segment.codec, segment.body, segment.raw_len, wants))]


def facts_by_line(block: bytes) -> list[Recorded]:
    return [fact for line in block.split(b"\n") for fact in envelope.facts(line, SESSION)]


# --- lines that a log may hold ---------------------------------------------------------------------------

literals = st.one_of(
    st.sampled_from(
        [
            b"",
            b"word ",
            b"\\n",
            b'\\"',
            b"\\\\",
            b"\\u0041",
            b"\\ud83d",
            b"\\ude00",
            "é🙂".encode(),
            b"%",
            b"%d",
        ]
    ),
    st.sampled_from([b"\\q", b"\\u12", b'"', b"\\", b"\xff", b"\xc3", b"\x01", b"\x06", b"\t", b"x" * 300]),
)
times = st.one_of(
    st.integers(TIME - 100, TIME + 100_000),
    st.sampled_from([0, -1, 999, 10**12 - 1, 10**13, 2**53, 10**40]),
)


@st.composite
def deltas(draw: st.DrawFn, seq: int) -> list[bytes]:
    kind, tool = draw(
        st.sampled_from(
            [
                ("text", {}),
                ("reasoning", {}),
                ("tool-call", {"id": "c%1"}),
                ("tool-call", {"id": "é", "name": ""}),
            ]
        )
    )
    common = draw(st.booleans())
    texts = draw(st.lists(st.just(b"tok ") if common else literals, min_size=1, max_size=12))
    return [delta(seq + at, text, draw(times), kind, **tool) for at, text in enumerate(texts)]


@st.composite
def other_lines(draw: st.DrawFn, seq: int) -> list[bytes]:
    time = draw(times)
    row = {"turn": 1, "step": 1, "index": 0, "dt": [1, -2], "texts": ["a", "bé", ""]}
    cited = {"sourceEventSeqs": list(range(seq, seq + 5))}
    replacing = {"op": "replace", "start": 0, "end": seq}
    line = draw(
        st.sampled_from(
            [
                event("turn/start", seq, {"turn": 1}, time),
                event('type"with\\escapes', seq, None, time),
                event("user/message", seq, {"n": 10**30, "f": 1e-7}, time, surfaceOp="append"),
                event("assistant/message", seq, {}, time, sourceEventSeqs=list(range(max(0, seq - 6), seq))),
                event(
                    "assistant/message", seq, {}, time, sourceEventSeqs=[seq + 3, seq + 4, seq + 5, seq + 6]
                ),
                event("assistant/message", seq, {}, time, sourceEventSeqs=[[1, 9], 12]),
                event("assistant/message", seq, {}, time, **cited, surfaceOp="append"),
                event("assistant/message", seq, {}, time, ignorable=True, **cited, surfaceOp="append"),
                event("assistant/message", seq, {}, time, **cited, surfaceOp=replacing),
                event("assistant/message", seq, {}, time, surfaceOp=replacing),
                event("assistant/message", seq, {}, time, **cited, ignorable=True),
                event("assistant/message", seq, cited, time),
                event("assistant/message", seq, cited, time, surfaceOp="append"),
                event("assistant/message", seq, cited, time, sourceEventSeqs=[]),
                event("assistant/message", seq, cited, time, **cited),
                event("assistant/message", seq, [cited], time, surfaceOp={"sourceEventSeqs": 1}),
                event("assistant/message", seq, {}, time, **cited)[:-1]
                + b',"surfaceOp":"append","surfaceOp":1}',
                event("assistant/message", seq, {}, time, surfaceOp=1, **cited)[:-1]
                + b',"surfaceOp":"append"}',
                event("assistant/message", seq, {}, time)[:-1] + b',"sourceEventSeqs":[1,2],"data":{"b":1}}',
                event("assistant/message", seq, {}, time, sourceEventSeqs=7)[:-1]
                + b',"sourceEventSeqs":[1,2,3,4],"surfaceOp":"append"}',
                event("assistant/message", seq, {}, time)[:-1] + b' , "sourceEventSeqs" : [1,2,3,4]}',
                event("x", seq, {"a": 1}, time).replace(b'"a":1', b'"a":1,"a":2'),
                event("x", seq, {}, time).replace(b'"x"', b'"x","type":"y"'),
                event("x", seq, {}, time)[:-3],
                event("x", seq, {}, time) + event("y", seq + 1, {}, time),
                event("x", seq, {}, time) + b"\r",
                event("x", seq, {}, time).replace(b",", b", "),
                event("x", seq, {"t": "\udc80"}, time),
                b'{"seq":%d,"type":"x","time":1,"data":[]}' % seq,
                json.dumps(
                    {"type": "text-chunks", "seq0": seq, "time0": TIME, "data": row}, separators=(",", ":")
                ).encode(),
                json.dumps({"type": "text-chunks", "seq0": seq, "time0": TIME, "data": {}}).encode(),
                b"",
                b"\r",
                b"null",
                b"[[[",
                b"\xff\xfe",
                b"\x00\x01\x02\x03\x04\x05\x06",
            ]
        )
    )
    return [line]


@st.composite
def blocks(draw: st.DrawFn) -> bytes:
    """Mostly well-numbered lines of all kinds, sometimes with a byte changed."""
    lines: list[bytes] = []
    seq = 0
    for _ in range(draw(st.integers(1, 6))):
        lines += draw(st.one_of(deltas(seq), other_lines(seq)))
        view = envelope.view(lines[-1])
        seq = view.seq0 + view.n if view.n else seq + draw(st.integers(0, 2))
        seq = max(0, seq + draw(st.sampled_from([0, 0, 0, 0, 0, 1, 7, -1])))
    block = block_of(*lines)
    if draw(st.booleans()):
        at = draw(st.integers(0, max(0, len(block) - 2)))
        block = block[:at] + bytes([draw(st.integers(0, 255))]) + block[at + 1 :].rstrip(b"\n") + b"\n"
    return block


# --- promises ----------------------------------------------------------------------------------------------


@given(st.lists(st.binary(max_size=40).map(lambda line: line.replace(b"\n", b"")), min_size=1, max_size=20))
def test_any_bytes_come_back(lines: list[bytes]) -> None:
    block = block_of(*lines)
    segment, used = segments.seal(block, 0)
    if segment is None:
        assert envelope.view(lines[0]).seq0 < 0 or used == 0
    else:
        assert unsealed(segment) == block[:used]


@settings(max_examples=200)
@given(blocks())
def test_segment_agrees_with_each_of_its_lines(block: bytes) -> None:
    segment, used = segments.seal(block, 0)
    lines, expected, facts, types, stamps = 0, 0, [], Counter[str](), []
    ranges: list[tuple[int, int]] = []
    defects: list[tuple[int, int, str]] = []
    at = 0
    for line in block[:-1].split(b"\n"):
        view = envelope.view(line)
        if view.n and view.seq0 < expected:
            break
        if view.defect is not None:
            defects.append((lines, at, view.defect.kind))
        if view.n:
            if view.seq0 > expected:
                defects.append((lines, at, "seq-gap"))
            if ranges and view.seq0 == expected:
                ranges[-1] = (ranges[-1][0], ranges[-1][1] + view.n)
            else:
                ranges.append((view.seq0, view.n))
            expected = view.seq0 + view.n
            types[view.type] += view.n
            stamps += [view.t0, view.t1]
        facts += envelope.facts(line, SESSION)
        lines += 1
        at += len(line) + 1
    assert used == at
    if segment is None:
        assert lines == 0
        return
    assert unsealed(segment) == block[:used]
    assert segment.lines == lines
    assert segment.raw_len == used
    assert segment.ranges == tuple(ranges)
    assert segment.n == sum(types.values()) == len(facts)
    assert segment.seq0 == (ranges[0][0] if ranges else 0)
    assert segment.next_seq == expected
    assert segment.types == dict(types)
    assert (segment.t0, segment.t1) == ((min(stamps), max(stamps)) if stamps else (None, None))
    assert [(found.line, found.byte, found.defect.kind) for found in segment.defects] == defects
    assert facts_of(segment) == facts


@settings(max_examples=100)
@given(
    blocks(),
    st.integers(0, 12),
    st.integers(0, 30),
    st.sampled_from([None, ["assistant/chunk"], ["x", "user/message"], []]),
    st.booleans(),
    st.sets(st.sampled_from(["assistant/chunk", "x", "assistant/message", 'type"with\\escapes'])),
)
def test_a_choice_of_facts_is_what_a_filter_over_all_facts_gives(
    block: bytes, from_seq: int, to_seq: int, types: list[str] | None, deltas: bool, without: set[str]
) -> None:
    segment, used = segments.seal(block, 0)
    if segment is None:
        return
    chosen = facts_of(segment, from_seq=from_seq, to_seq=to_seq, types=types, deltas=deltas, without=without)
    assert chosen == [
        fact
        for fact in facts_by_line(block[:used])
        if from_seq <= fact.seq < to_seq
        and (types is None or fact.type in types)
        and fact.type not in without
        and (deltas or not is_delta(fact))
    ]


@settings(max_examples=50)
@given(st.integers(3, 40), st.data())
def test_any_cut_of_the_lines_gives_the_same_facts(count: int, data: st.DataObject) -> None:
    lines = stream(count)
    cut = data.draw(st.integers(1, len(lines) - 1))
    first = sealed(block_of(*lines[:cut]))
    second = sealed(block_of(*lines[cut:]), first.next_seq)
    assert unsealed(first) + unsealed(second) == block_of(*lines)
    assert facts_of(first) + facts_of(second) == facts_by_line(block_of(*lines))
    assert (first.defects, second.defects) == ((), ())


def test_pieces_are_whole_lines_and_give_the_block_together() -> None:
    block = block_of(*(line for at in range(40) for line in stream(5, 8 * at)))
    segment = sealed(block)
    pieces = list(segments.pieces(segment.codec, segment.body, segment.raw_len))
    assert segment.codec == RUNS
    assert len(pieces) > 3
    assert all(piece.endswith(b"\n") for piece in pieces)
    assert b"".join(pieces) == block


def test_facts_of_many_long_lines_come_in_batches_and_cite_what_the_lines_cite() -> None:
    lines = [
        event("assistant/message", seq, {"text": "x" * 2000}, sourceEventSeqs=[*range(seq, seq + 5)])
        for seq in range(200)
    ]
    lines.insert(100, b"")
    block = block_of(*lines, *stream(5, 200))
    segment = sealed(block)
    assert segment.codec == RUNS
    for from_seq, to_seq in ((0, None), (3, 20), (50, 150), (150, 203)):
        wanted = Wanted.of(SESSION, from_seq, to_seq)
        batches = [*segments.segment_facts(segment.codec, segment.body, segment.raw_len, wanted)]
        assert max(map(len, batches)) < 50
        assert [*chain(*batches)] == facts_by_line(block)[from_seq:to_seq]


def test_pieces_of_a_body_with_another_length_end_in_an_error() -> None:
    segment = sealed(block_of(*stream(5)))
    with pytest.raises(segments.CodecError, match="bytes of lines"):
        list(segments.pieces(segment.codec, segment.body, segment.raw_len + 1))


@pytest.mark.parametrize(
    "block", [block_of(*stream(20)), block_of(*stream(3), b"\x01 no JSON")], ids=["runs", "lines"]
)
def test_a_changed_byte_in_a_body_never_gives_other_lines(block: bytes) -> None:
    segment = sealed(block)
    for at in range(len(segment.body)):
        for flip in (0x01, 0x08, 0x10, 0x80):
            changed = bytearray(segment.body)
            changed[at] ^= flip
            try:
                assert segments.unseal(segment.codec, bytes(changed), segment.raw_len) == block
            except segments.CodecError:
                continue


def test_bodies_of_unknown_codecs_wrong_lengths_or_with_more_behind_are_refused() -> None:
    segment = sealed(block_of(*stream(5)))
    for codec, content, raw_len in [
        (99, segment.body, segment.raw_len),
        (LINES, segment.body, segment.raw_len),
        (segment.codec, segment.body, segment.raw_len - 1),
        (segment.codec, segment.body, 10**9),
        (segment.codec, segment.body + b"\0", segment.raw_len),
        (segment.codec, segment.body[:-1], segment.raw_len),
        (segment.codec, b"", segment.raw_len),
    ]:
        with pytest.raises(segments.CodecError):
            segments.unseal(codec, content, raw_len)


@given(st.binary(max_size=200))
def test_content_that_no_writer_makes_is_refused_and_never_crashes(content: bytes) -> None:
    for packed in (content, bytes(8) + content, bytes(40) + content):
        try:
            segments.unseal(RUNS, body.compress(packed), 30)
        except segments.CodecError:
            continue


def test_streamed_answers_are_stored_as_runs_and_take_little_space() -> None:
    block = block_of(*(line for at in range(20) for line in stream(97, 100 * at)))
    segment = sealed(block)
    assert segment.codec == RUNS
    assert len(segment.body) * 40 < len(block)
    assert unsealed(segment) == block


def test_lines_with_control_characters_are_stored_as_they_are() -> None:
    block = block_of(*stream(5), event("x", 8, {}).replace(b"{}", b'"\x02"'))
    segment = sealed(block)
    assert segment.codec == LINES
    assert unsealed(segment) == block


def test_a_segment_ends_before_the_line_that_runs_back() -> None:
    kept, back = stream(10), delta(4, b"again")
    segment, used = segments.seal(block_of(*kept, back, *stream(3, 13)), 0)
    assert used == len(block_of(*kept))
    assert segment is not None
    assert segment.next_seq == 13
    assert segments.seal(block_of(back, *kept), 5) == (None, 0)


def test_a_run_that_repeats_a_number_inside_ends_the_segment_there() -> None:
    lines = [delta(seq, b"x") for seq in (0, 1, 2, 2, 4)]
    segment, used = segments.seal(block_of(*lines), 0)
    assert segment is not None
    assert (segment.next_seq, used) == (3, len(block_of(*lines[:3])))


@pytest.mark.parametrize("inside", [100, 7, 1, 0])
def test_a_run_that_is_out_of_order_inside_is_read_line_by_line(inside: int) -> None:
    lines = [delta(seq, b"x") for seq in (5, 6, inside, 8, 9)]
    segment, used = segments.seal(block_of(*lines), 5)
    assert segment is not None
    assert unsealed(segment) == block_of(*lines)[:used]
    assert facts_of(segment) == facts_by_line(block_of(*lines)[:used])
    assert segment.ranges == (
        ((5, 2), (100, 1)) if inside == 100 else ((5, 5),) if inside == 7 else ((5, 2),)
    )


def test_a_run_in_which_seqs_grow_by_digits_is_stored_as_a_run() -> None:
    block = block_of(*(delta(seq, b"x") for seq in range(8, 1200)))
    segment = sealed(block, 8)
    assert segment.codec == RUNS
    assert (segment.seq0, segment.n) == (8, 1192)
    assert len(segment.body) < 300
    assert unsealed(segment) == block


def test_a_gap_begins_a_new_range_and_is_a_defect_of_the_line_behind_it() -> None:
    lines = [*stream(5), *stream(5, 20)]
    segment = sealed(block_of(*lines))
    assert segment.ranges == ((0, 8), (20, 8))
    (found,) = segment.defects
    assert (found.line, found.seq, found.defect.kind) == (8, 20, "seq-gap")
    assert "expected seq 8, got 20" in found.defect.message
    assert unsealed(segment) == block_of(*lines)


def test_a_block_without_facts_keeps_the_expected_seq() -> None:
    segment = sealed(block_of(b"", b"rubbish"), 7)
    assert (segment.seq0, segment.n, segment.next_seq, segment.ranges) == (7, 0, 7, ())
    assert (segment.t0, segment.t1, segment.types) == (None, None, {})
    assert [found.defect.kind for found in segment.defects] == ["blank-line", "bad-json"]


def test_a_block_that_does_not_end_in_a_line_end_is_an_error() -> None:
    for block in (b"", b"{}"):
        with pytest.raises(ValueError, match="ended by LF"):
            segments.seal(block, 0)


@pytest.mark.parametrize("size", [1 << 20, 1 << 24])
def test_giant_lines_come_back(size: int) -> None:
    giant = [delta(0, b"x" * size), delta(1, b'\\"' * (size // 2)), delta(2, b"z")]
    torn = delta(3, b"y" * size)[:-9]
    block = block_of(*giant, torn, event("x", 3, {}))
    segment = sealed(block)
    assert unsealed(segment) == block
    assert [found.defect.kind for found in segment.defects] == ["bad-json"]


def test_without_deltas_runs_are_left_undecoded(monkeypatch: pytest.MonkeyPatch) -> None:
    segment = sealed(block_of(*stream(50)))
    wanted = [fact for fact in facts_of(segment) if not is_delta(fact)]

    def refuse(*_: Any) -> bytes:
        raise AssertionError("a delta was decoded")

    monkeypatch.setattr(runs.delta_run, "data", refuse)
    assert facts_of(segment, deltas=False) == wanted
    assert [fact.seq for fact in facts_of(segment, types=["assistant/message"])] == [52]


def test_threads_may_seal_and_unseal_at_once() -> None:
    blocks = [block_of(*stream(400, seq0=at)) for at in range(8)]

    def work(at: int) -> bool:
        segment, _ = segments.seal(blocks[at], at)
        assert segment is not None
        return all(
            segments.unseal(segment.codec, segment.body, segment.raw_len) == blocks[at] for _ in range(40)
        )

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


def test_a_block_of_garbage_lists_the_first_defects_and_counts_the_others() -> None:
    segment, _ = segments.seal(b"?\n" * (segments.MAX_DEFECTS + 5), 0)
    assert segment is not None
    assert (len(segment.defects), segment.unlisted) == (segments.MAX_DEFECTS, 5)
