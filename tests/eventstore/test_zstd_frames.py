"""Zstandard frames: found by their headers, decoded in pieces, and made again byte for byte."""

from __future__ import annotations

import base64
import hashlib
import io
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from reference import cases, shared_path

from playhead.eventstore import zstd_frames
from playhead.eventstore.zstd_frames import PIECE_BYTES, BadFrame, FrameSpan, FrameWalk

MAGIC = b"\x28\xb5\x2f\xfd"


def _frame(content: bytes, *, level: int = 3, checksum: bool = True, size: bool = False) -> bytes:
    compressor = zstandard.ZstdCompressor(level=level, write_checksum=checksum, write_content_size=size)
    return compressor.compress(content)


def _spans(data: bytes) -> list[FrameSpan]:
    return list(FrameWalk(data))


def _walk(data: bytes) -> tuple[list[tuple[int, int]], str, int]:
    walk = FrameWalk(data)
    found = [(span.start, span.end) for span in walk]
    assert walk.stop is not None
    return found, walk.stop.kind, walk.stop.byte


_contents = st.one_of(
    st.binary(max_size=200),
    st.sampled_from([b"", MAGIC * 3, b"a" * 300, b"ab" * 40_000, bytes(300_000)]),
)
_frames = st.builds(
    _frame,
    _contents,
    level=st.sampled_from([-5, 1, 3, 19]),
    checksum=st.booleans(),
    size=st.booleans(),
)


@given(st.lists(_frames, max_size=5))
def test_a_walk_finds_exactly_the_frames_that_were_joined(frames: list[bytes]) -> None:
    starts = [sum(map(len, frames[:at])) for at in range(len(frames) + 1)]
    found, kind, byte = _walk(b"".join(frames))
    assert found == list(pairwise(starts))
    assert (kind, byte) == ("end", starts[-1])


@given(st.lists(_frames, min_size=1, max_size=4), st.data())
def test_a_cut_leaves_whole_frames_and_at_most_one_torn_one(frames: list[bytes], data: st.DataObject) -> None:
    ends = [sum(map(len, frames[: at + 1])) for at in range(len(frames))]
    cut = data.draw(st.integers(0, ends[-1]))
    found, kind, byte = _walk(b"".join(frames)[:cut])
    whole = [end for end in ends if end <= cut]
    assert [end for _, end in found] == whole
    assert byte == (whole[-1] if whole else 0)
    assert kind == ("end" if byte == cut else "torn-frame")


@given(st.binary(max_size=60), st.lists(_frames, max_size=2))
def test_a_walk_over_any_bytes_ends_and_says_why(rubbish: bytes, frames: list[bytes]) -> None:
    data = b"".join(frames) + rubbish
    found, kind, byte = _walk(data)
    assert len(found) >= len(frames)
    assert byte == (found[-1][1] if found else 0)
    assert (byte == len(data)) == (kind == "end")


@given(_contents, st.booleans(), st.booleans())
def test_content_comes_back_and_the_span_tells_what_the_header_says(
    content: bytes, checksum: bool, size: bool
) -> None:
    data = b"prefix" + _frame(content, checksum=checksum, size=size)
    span = _spans(data[6:])[0]
    assert (span.checksum, span.content_size) == (checksum, len(content) if size else None)
    moved = span._replace(start=6, end=span.end + 6)
    assert b"".join(zstd_frames.decode(data, moved)) == content
    assert b"".join(zstd_frames.frame_pieces(data, moved)) == data[6:]


@pytest.mark.parametrize(
    ("tail", "kind"),
    [
        (b"garbage", "bad-magic"),
        (b"\x50\x2a\x4d\x18\0\0\0\0", "skippable-frame"),
        (b"\x5f\x2a\x4d\x18\0\0\0\0", "skippable-frame"),
        (MAGIC + b"\x08\x58\x01\0\0", "bad-frame"),
        (MAGIC + b"\x10\x58\x01\0\0", "bad-frame"),
        (MAGIC + b"\0\x58\x07\0\0", "bad-frame"),
        (b"\x28", "torn-frame"),
        (MAGIC, "torn-frame"),
        (MAGIC + b"\x04\x58", "torn-frame"),
        (b"", "end"),
    ],
)
def test_a_walk_says_at_which_byte_it_stopped_and_why(tail: bytes, kind: str) -> None:
    good = _frame(b"one line\n")
    assert _walk(good + tail) == ([(0, len(good))], kind, len(good))


@pytest.mark.parametrize("size", [10, 300_000, 3 * PIECE_BYTES])
def test_a_wrong_checksum_is_told_and_the_content_can_still_be_read(size: int) -> None:
    content = b"".join(b"%d\n" % n for n in range(size // 7 + 1))[:size]
    frame = bytearray(_frame(content))
    frame[-1] ^= 1
    data = bytes(frame)
    span = _spans(data)[0]
    pieces: list[bytes] = []
    with pytest.raises(BadFrame) as caught:
        pieces.extend(zstd_frames.decode(data, span))
    assert caught.value.checksum
    assert caught.value.start == 0
    assert b"".join(zstd_frames.decode(data, span, verify_checksum=False)) == content
    assert b"".join(zstd_frames.salvage(data, 0)) == content


def test_a_bad_block_is_told_after_the_blocks_before_it() -> None:
    content = b"".join(hashlib.sha256(b"%d" % n).digest() for n in range(10_000))
    data = bytearray(_frame(content))
    span = _spans(bytes(data))[0]
    first_block = 3 + (int.from_bytes(data[span.header_bytes : span.header_bytes + 3], "little") >> 3)
    data[span.header_bytes + first_block] |= (
        0x04  # the second block, stored as it is, now claims to be compressed
    )
    pieces: list[bytes] = []
    with pytest.raises(BadFrame) as caught:
        pieces.extend(zstd_frames.decode(bytes(data), span))
    assert not caught.value.checksum
    assert b"".join(pieces) == content[: 128 * 1024]
    assert b"".join(zstd_frames.salvage(bytes(data), 0)) == content[: 128 * 1024]


def test_a_torn_frame_gives_the_content_of_its_whole_blocks() -> None:
    content = b"".join(hashlib.sha256(b"%d" % n).digest() for n in range(10_000))
    good, torn = _frame(b"header\n"), _frame(content)
    for lost, kept in ((1, content), (4, content), (5, content[: 2 * 128 * 1024]), (len(torn) - 6, b"")):
        data = good + torn[: len(torn) - lost]
        assert b"".join(zstd_frames.salvage(data, len(good))) == kept


@given(st.binary(max_size=80), _frames)
def test_salvage_never_raises(rubbish: bytes, frame: bytes) -> None:
    for data in (rubbish, MAGIC + rubbish, frame[:9] + rubbish, frame[: len(frame) // 2] + rubbish):
        assert isinstance(b"".join(zstd_frames.salvage(data, 0)), bytes)


def test_a_frame_that_expands_a_thousandfold_comes_in_pieces() -> None:
    data = _frame(bytes(40 * PIECE_BYTES), checksum=False)
    sizes = [len(piece) for piece in zstd_frames.decode(data, _spans(data)[0])]
    assert sum(sizes) == 40 * PIECE_BYTES
    assert max(sizes) <= 2 * PIECE_BYTES


def _cut(content: bytes, at: list[int]) -> list[bytes]:
    marks = sorted({0, len(content), *(place % (len(content) + 1) for place in at)})
    return [content[start:end] for start, end in pairwise(marks)]


@given(
    st.sampled_from([1, 2]),
    _contents | st.just(b"0123456789abcdef\n" * 200_000),
    st.lists(st.integers(0, 4_000_000), max_size=5),
    st.lists(st.integers(0, 4_000_000), max_size=5),
)
def test_a_frame_made_by_a_recipe_is_recognised_however_both_are_cut(
    recipe: int, content: bytes, cuts: list[int], frame_cuts: list[int]
) -> None:
    frame = b"".join(zstd_frames.compress(recipe, _cut(content, cuts)))
    assert b"".join(zstd_frames.compress(recipe, [content])) == frame
    span = _spans(frame)[0]
    assert b"".join(zstd_frames.decode(frame, span)) == content
    declared = span.content_size is not None
    assert declared == (recipe == 2)
    assert zstd_frames.recipe_for(_cut(content, frame_cuts), _cut(frame, frame_cuts)) == recipe


def test_a_frame_written_in_another_way_has_no_recipe() -> None:
    content = b"".join(b'{"seq":%d}\n' % n for n in range(500))
    for frame in (
        _frame(content, level=1, size=True),
        _frame(content, level=19),
        _frame(content, checksum=False, size=True),
        zstd_frames.write_frame(content)[:-1] + b"\0",
        zstd_frames.write_frame(content) + b"\0",
        b"",
        b"no frame",
    ):
        assert zstd_frames.recipe_for([content], frame) == 0
    assert zstd_frames.recipe_for([content[:-1]], zstd_frames.write_frame(content)) == 0


def test_content_too_long_for_one_call_has_no_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zstd_frames, "ONE_SHOT_BYTES", 100)
    assert zstd_frames.recipe_for([bytes(101)], _frame(bytes(101), size=True)) == 0
    assert zstd_frames.recipe_for([bytes(100)], _frame(bytes(100), size=True)) == 2
    with pytest.raises(ValueError, match="at most 100 bytes"):
        list(zstd_frames.compress(2, [bytes(60), bytes(60)]))


def test_a_number_that_is_no_recipe_is_refused() -> None:
    with pytest.raises(ValueError, match="0 is no way"):
        list(zstd_frames.compress(0, [b""]))


def test_two_frames_can_be_made_at_the_same_time() -> None:
    contents = (b"a" * 2_500_000, b"b" * 2_500_000)
    made: list[list[bytes]] = [[], []]
    for pieces in zip(*(zstd_frames.compress(1, [content]) for content in contents), strict=True):
        for which, piece in zip(made, pieces, strict=True):
            which.append(piece)
    assert [b"".join(pieces) for pieces in made] == [zstd_frames.write_frame(content) for content in contents]


@pytest.mark.parametrize("case", cases("jsonl_framing", "zstd"))
def test_vector(case: dict[str, Any]) -> None:
    data = base64.b64decode(case["base64"])
    found, kind, byte = _walk(data)
    if "frames" in case:
        assert found == [(frame["start"], frame["end"]) for frame in case["frames"]]
    if "tornStart" in case:
        assert (kind, byte) == ("torn-frame", case["tornStart"])
    expected = {
        "bad-magic": "bad-magic",
        "skippable-frame": "skippable-frame",
        "torn-header-frame": "torn-frame",
    }
    if case["id"] in expected:
        assert kind == expected[case["id"]]
    if case["id"] == "bad-checksum":
        with pytest.raises(BadFrame) as caught:
            list(zstd_frames.decode(data, _spans(data)[-1]))
        assert caught.value.checksum
        return
    for span in _spans(data):
        content = b"".join(zstd_frames.decode(data, span))
        assert zstd_frames.recipe_for([content], data[span.start : span.end]) == 1


def test_frames_of_a_log_are_all_read() -> None:
    folder = shared_path("cases/04-zstd-many-frames")
    expected = json.loads((folder / "expected.json").read_bytes())
    data = (folder / "session.jsonl.zstd").read_bytes()
    spans = _spans(data)
    assert len(spans) == expected["frames"]
    plain = b"".join(piece for span in spans for piece in zstd_frames.decode(data, span))
    assert plain == (folder / "plain.jsonl").read_bytes()


def test_the_magic_inside_a_frame_starts_no_frame() -> None:
    folder = shared_path("cases/05-frame-magic-inside-a-frame")
    expected = json.loads((folder / "expected.json").read_bytes())
    data = (folder / "session.jsonl.zstd").read_bytes()
    spans = _spans(data)
    assert [span.start for span in spans] == expected["frame_starts"]
    plain = b"".join(piece for span in spans for piece in zstd_frames.decode(data, span))
    assert plain == (folder / "plain.jsonl").read_bytes()
    for span in spans:
        assert _walk(data[: span.end])[1:] == ("end", span.end)


def test_every_whole_frame_of_every_recorded_log_has_a_recipe() -> None:
    root = shared_path("corpus/dsh")
    files = json.loads((root / "MANIFEST.json").read_bytes())["files"]
    frames = 0
    for file in files:
        if not file["path"].endswith(".jsonl.zstd"):
            continue
        with open(root / file["path"], "rb") as log:
            spans = list(FrameWalk(log))
            assert len(spans) == file["zstd_frames"], file["path"]
            for span in spans:
                recipe = zstd_frames.recipe_for(
                    zstd_frames.decode(log, span), zstd_frames.frame_pieces(log, span)
                )
                assert recipe, (file["path"], span)
        frames += len(spans)
    assert frames > 3000


def test_a_walk_reads_a_file_without_holding_it(tmp_path: Path) -> None:
    path = tmp_path / "log.zstd"
    frame = _frame(hashlib.sha256(b"x").digest() * 1000 + bytes(range(256)) * 2000)
    path.write_bytes(frame * 50)

    class Counting(io.BufferedReader):
        taken = 0

        def read(self, size: int | None = -1, /) -> bytes:
            assert size is not None
            assert 0 <= size <= 18
            Counting.taken += size
            return super().read(size)

    with Counting(io.FileIO(path)) as file:
        spans = list(FrameWalk(file))
    assert len(spans) == 50
    assert Counting.taken < 50 * (18 + 3 * 10)
