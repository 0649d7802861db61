"""Log files as sources: their lines, their shape, and what is wrong with them."""

from __future__ import annotations

import hashlib
import io
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import shared_path

from playhead.adapters.dsh import log_file
from playhead.adapters.dsh.log_file import LogFile, open_log
from playhead.adapters.dsh.window import PIECE_BYTES
from playhead.eventstore import zstd_frames
from playhead.eventstore.errors import NotALog
from playhead.eventstore.findings import damage
from playhead.eventstore.source import FileShape

HEADER = b'{"type":"session","version":0,"id":"s1","createdAt":1,"cwd":"/w/p","delegationDepth":0}\n'
LINES = [b'{"type":"turn/start","seq":%d,"time":1,"data":{"turn":1}}\n' % seq for seq in range(6)]


def write(folder: Path, content: bytes, name: str = "log.jsonl") -> str:
    file = folder / name
    file.write_bytes(content)
    return str(file)


def frames(*contents: bytes) -> bytes:
    return b"".join(map(zstd_frames.write_frame, contents))


def opened(file: str, **options: Any) -> LogFile:
    return open_log(file, os.path.dirname(file), os.path.basename(file), **options)


def read(file: str, **options: Any) -> tuple[bytes, FileShape, bytes]:
    """The decoded lines of a file, its shape, and the file made again from both."""
    with opened(file, **options) as log:
        lines = b"".join(log.blocks())
        return lines, log.shape, rebuilt(log.header_line + b"\n" + lines, log.shape)


def rebuilt(text: bytes, shape: FileShape) -> bytes:
    """The bytes of the file, as ``FileShape`` promises that they can be made."""
    text += shape.tail
    if shape.layout == "jsonl":
        return text
    assert shape.kept is not None
    shape.kept.seek(0)
    content, out = io.BytesIO(text), io.BytesIO()
    for frame in shape.frames:
        raw = content.read(frame.raw_bytes)
        if frame.recipe:
            out.write(b"".join(zstd_frames.compress(frame.recipe, [raw])))
        else:
            out.write(shape.kept.read(frame.size_bytes))
    out.write(shape.kept.read(shape.rest_bytes))
    return out.getvalue()


def kinds(shape: FileShape) -> list[str]:
    return [finding.kind for finding in shape.findings]


def test_a_plain_log_gives_its_lines_its_tail_and_its_hash(tmp_path: Path) -> None:
    content = HEADER + b"".join(LINES) + b'{"type":"turn'
    lines, shape, again = read(write(tmp_path, content))
    assert lines == b"".join(LINES)
    assert (shape.layout, shape.size_bytes, shape.tail) == ("jsonl", len(content), b'{"type":"turn')
    assert shape.sha256 == hashlib.sha256(content).digest()
    [finding] = shape.findings
    assert (finding.kind, finding.line, finding.byte, finding.size_bytes) == (
        "torn-tail",
        8,
        len(content) - 13,
        13,
    )
    assert again == content


def test_a_record_that_lacks_only_its_line_end_is_said_to_be_whole(tmp_path: Path) -> None:
    _, shape, _ = read(write(tmp_path, HEADER + LINES[0][:-1]))
    assert "whole record" in shape.findings[0].message


def test_a_compressed_log_needs_none_of_its_bytes_kept(tmp_path: Path) -> None:
    content = frames(HEADER, LINES[0] + LINES[1], *LINES[2:])
    lines, shape, again = read(write(tmp_path, content, "log.jsonl.zstd"))
    assert lines == b"".join(LINES)
    assert [frame.raw_bytes for frame in shape.frames] == list(map(len, [HEADER, LINES[0] * 2, *LINES[2:]]))
    assert {frame.recipe for frame in shape.frames} == {1}
    assert (shape.library, shape.rest_bytes, shape.findings) == (zstd_frames.LIBRARY, 0, [])
    assert again == content


def test_kept_frames_are_kept_as_they_are(tmp_path: Path) -> None:
    content = frames(HEADER, *LINES)
    _, shape, again = read(write(tmp_path, content), keep_frames=True)
    assert {frame.recipe for frame in shape.frames} == {0}
    assert again == content


@pytest.mark.parametrize("name", ["log.jsonl", "log.jsonl.zstd"])
@pytest.mark.parametrize("compressed", [True, False])
def test_the_encoding_is_told_by_the_content_not_by_the_name(
    tmp_path: Path, name: str, compressed: bool
) -> None:
    content = frames(HEADER, *LINES) if compressed else HEADER + b"".join(LINES)
    lines, shape, _ = read(write(tmp_path, content, name))
    assert lines == b"".join(LINES)
    assert shape.layout == ("jsonl.zstd" if compressed else "jsonl")


def test_reading_twice_gives_the_same(tmp_path: Path) -> None:
    with opened(write(tmp_path, frames(HEADER, *LINES) + b"\x28\xb5")) as log:
        first, shape = b"".join(log.blocks()), log.shape
        assert b"".join(log.blocks()) == first
        assert (log.shape.frames, log.shape.findings) == (shape.frames, shape.findings)


def test_lines_of_a_torn_last_frame_are_lines_of_the_log(tmp_path: Path) -> None:
    whole = frames(HEADER, LINES[0])
    torn = zstd_frames.write_frame(LINES[1] + LINES[2][:10])[:-2]
    lines, shape, again = read(write(tmp_path, whole + torn))
    assert lines == LINES[0] + LINES[1]
    assert (shape.tail, shape.rest_bytes) == (LINES[2][:10], len(torn))
    [finding] = shape.findings
    assert (finding.kind, finding.byte, finding.size_bytes) == ("torn-frame", len(whole), len(torn))
    assert again == whole + torn


def test_a_frame_with_a_wrong_checksum_is_shown_and_reported(tmp_path: Path) -> None:
    bad = bytearray(zstd_frames.write_frame(LINES[1]))
    bad[-1] ^= 1
    content = frames(HEADER, LINES[0]) + bytes(bad) + frames(LINES[2])
    lines, shape, again = read(write(tmp_path, content))
    assert lines == b"".join(LINES[:3])
    assert kinds(shape) == ["bad-frame"]
    assert "checksum" in shape.findings[0].message
    assert shape.findings[0].byte == len(frames(HEADER, LINES[0]))
    assert [frame.recipe for frame in shape.frames] == [1, 1, 0, 1]
    assert again == content


@pytest.mark.parametrize(
    ("junk", "kind"),
    [
        (b"foreign bytes", "bad-magic"),
        (b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc", "skippable-frame"),
        (b"\x28\xb5\x2f\xfd\xff and more", "bad-frame"),
        (b"\x28\xb5\x2f\xfd\x04\x58\xfd\xff\xff", "torn-frame"),
    ],
)
@pytest.mark.parametrize("more", [True, False])
def test_what_is_no_frame_is_reported_and_reading_goes_on_behind_it(
    tmp_path: Path, junk: bytes, kind: str, more: bool
) -> None:
    start = frames(HEADER, LINES[0])
    content = start + junk + (frames(LINES[1], LINES[2]) if more else b"")
    lines, shape, again = read(write(tmp_path, content))
    assert lines == b"".join(LINES[: 3 if more else 1])
    [finding] = shape.findings
    assert (finding.kind, finding.byte, finding.size_bytes) == (kind, len(start), len(junk))
    assert shape.rest_bytes == (0 if more else len(junk))
    assert again == content


def test_a_frame_torn_by_a_crash_does_not_hide_what_was_written_behind_it(tmp_path: Path) -> None:
    start = frames(HEADER, LINES[0])
    torn = zstd_frames.write_frame(LINES[1] * 50)[:-9]
    lines, shape, again = read(write(tmp_path, start + torn + frames(*LINES[2:])))
    assert lines.endswith(b"".join(LINES[2:]))
    assert len(damage(shape.findings)) == 1
    assert shape.findings[0].byte == len(start)
    assert again == start + torn + frames(*LINES[2:])


def test_a_byte_order_mark_and_crlf_are_notes_and_stay_in_the_bytes(tmp_path: Path) -> None:
    content = b"\xef\xbb\xbf" + (HEADER + b"".join(LINES)).replace(b"\n", b"\r\n")
    lines, shape, again = read(write(tmp_path, content))
    assert lines.count(b"\r\n") == len(LINES)
    assert kinds(shape) == ["bom", "crlf"]
    assert damage(shape.findings) == []
    assert again == content


def test_a_header_that_shares_its_frame_is_a_note(tmp_path: Path) -> None:
    lines, shape, _ = read(write(tmp_path, frames(HEADER + LINES[0], LINES[1])))
    assert lines == LINES[0] + LINES[1]
    assert (kinds(shape), damage(shape.findings)) == (["header-frame"], [])


def test_a_member_that_no_format_knows_is_a_note(tmp_path: Path) -> None:
    _, shape, _ = read(write(tmp_path, HEADER.replace(b'"id"', b'"future":1,"id"')))
    assert (kinds(shape), damage(shape.findings)) == (["extra-header-field"], [])


@pytest.mark.parametrize(
    ("content", "name", "kind"),
    [
        (b"", "x.jsonl", "no-header"),
        (b"", "x.jsonl.zstd", "no-header"),
        (b"\x28\xb5", "x.jsonl.zstd", "no-header"),
        (frames(HEADER)[:-10], "x.jsonl.zstd", "no-header"),
        (HEADER[:-1], "x.jsonl", "no-header"),
        (b"noise" * 60, "x.jsonl.zstd", "bad-magic"),
        (b"noise\n", "x.jsonl", "no-header"),
        (LINES[0], "x.jsonl", "no-header"),
        (HEADER.replace(b'"createdAt":1', b'"createdAt":"now"'), "x.jsonl", "bad-header"),
        (HEADER.replace(b'"version":0', b'"version":5'), "x.jsonl", "newer-format"),
    ],
)
def test_what_is_no_log_is_refused_with_its_kind(
    tmp_path: Path, content: bytes, name: str, kind: str
) -> None:
    with pytest.raises(NotALog) as caught:
        opened(write(tmp_path, content, name))
    assert caught.value.kind == kind


def test_a_first_line_without_an_end_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_file, "HEADER_LIMIT_BYTES", PIECE_BYTES)
    with pytest.raises(NotALog, match="no line ends"):
        opened(write(tmp_path, b"x" * (3 * PIECE_BYTES)))


def test_a_file_that_cannot_be_opened_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    for file in (tmp_path / "pipe.jsonl", tmp_path / "missing.jsonl", tmp_path):
        with pytest.raises(NotALog) as caught:
            opened(str(file))
        assert caught.value.kind == "unreadable"


def placed(folder: Path, session: str, name: str, content: bytes = HEADER) -> str:
    where = folder / "--w-p--" / session
    where.mkdir(parents=True)
    return write(where, content, name)


def test_a_log_in_the_folder_of_another_session_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotALog, match="header id 's1' does not match its folder 's2'") as caught:
        opened(placed(tmp_path, "s2", "session.jsonl"))
    assert caught.value.kind == "id-mismatch"


def test_the_same_file_elsewhere_has_no_place_to_contradict(tmp_path: Path) -> None:
    with opened(placed(tmp_path, "s2", "copy.jsonl")) as log:
        assert log.header.id == "s1"


def test_another_project_and_another_version_are_notes(tmp_path: Path) -> None:
    content = HEADER.replace(b"/w/p", b"/w/q")
    _, shape, _ = read(placed(tmp_path, "s1", "session.v3.jsonl", content))
    assert (kinds(shape), damage(shape.findings)) == (["other-folder", "other-version"], [])


def test_a_log_that_grows_is_read_to_where_it_ended_when_it_was_opened(tmp_path: Path) -> None:
    file = write(tmp_path, HEADER + LINES[0])
    with opened(file) as log, open(file, "ab") as writer:
        writer.write(LINES[1])
        writer.flush()
        assert b"".join(log.blocks()) == LINES[0]
        assert log.shape.size_bytes == len(HEADER + LINES[0])


@pytest.mark.parametrize("compressed", [True, False])
def test_a_log_that_is_rewritten_while_it_is_read_is_refused(tmp_path: Path, compressed: bool) -> None:
    content = frames(HEADER, *LINES) if compressed else HEADER + b"".join(LINES)
    file = write(tmp_path, content)
    with opened(file) as log:
        lines = log.blocks()
        next(lines)
        Path(file).write_bytes(content[:-5] + b"12345")
        os.utime(file, ns=(1, 1))
        with pytest.raises(NotALog) as caught:
            list(lines)
    assert caught.value.kind == "changed"


@pytest.mark.parametrize("compressed", [True, False])
def test_blocks_are_whole_lines_of_about_a_mebibyte(tmp_path: Path, compressed: bool) -> None:
    long = b'"' + b"x" * (5 << 20) + b'"\n'
    body = LINES[0] * 40_000 + long + LINES[1] * 10
    content = frames(HEADER, body[: 3 << 20], body[3 << 20 :]) if compressed else HEADER + body
    with opened(write(tmp_path, content)) as log:
        blocks = list(log.blocks())
        again = rebuilt(log.header_line + b"\n" + body, log.shape)
    assert b"".join(blocks) == body
    assert all(block.endswith(b"\n") for block in blocks)
    assert max(map(len, blocks)) < len(long) + (3 << 20)
    assert again == content


@pytest.mark.parametrize("piece_bytes", [1, 2, 7, len(HEADER) - 1, len(HEADER), len(HEADER) + 1, 400, 4000])
def test_pieces_of_any_size_give_the_same_lines_findings_and_tail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece_bytes: int
) -> None:
    file = write(tmp_path, HEADER + b"".join(LINES) + b"x" * 900 + b"\r\n\n" + LINES[0] + b'{"torn')
    lines, shape, made = read(file)
    monkeypatch.setattr(log_file, "PIECE_BYTES", piece_bytes)
    monkeypatch.setattr(log_file, "_HEAD_BYTES", piece_bytes)
    again, same, _ = read(file)
    assert again == lines
    assert (same.sha256, same.tail, same.findings) == (shape.sha256, b'{"torn', shape.findings)
    assert made == Path(file).read_bytes()


def test_the_header_is_found_without_reading_the_whole_file(tmp_path: Path) -> None:
    file = write(tmp_path, HEADER + LINES[0] * 20_000)
    with open(file, "rb", buffering=0) as plain, LogFile(plain, "/", "log.jsonl") as log:
        assert log.header_line + b"\n" == HEADER
        assert plain.tell() < PIECE_BYTES / 4


def test_progress_runs_up_to_the_size_of_the_file(tmp_path: Path) -> None:
    for content in (HEADER + LINES[0] * 50_000, frames(HEADER, *LINES)):
        done: list[int] = []
        with opened(write(tmp_path, content), advance=done.append) as log:
            list(log.blocks())
        assert done == sorted(done)
        assert done[-1] == len(content)


def test_a_source_file_is_never_touched(tmp_path: Path) -> None:
    file = write(tmp_path, frames(HEADER, *LINES) + b"junk")
    before = os.stat(file)
    os.chmod(file, 0o400)
    read(file)
    after = os.stat(file)
    assert (after.st_mtime_ns, after.st_size, after.st_ino) == (
        before.st_mtime_ns,
        before.st_size,
        before.st_ino,
    )


contents = st.lists(st.sampled_from([*LINES, b"\n", b"rest", b"\xff\x00", b"caf\xc3\xa9\r\n"]), max_size=8)


@given(parts=contents, compressed=st.booleans(), junk=st.binary(max_size=40))
def test_any_file_with_a_header_can_be_made_again(
    tmp_path_factory: pytest.TempPathFactory, parts: list[bytes], compressed: bool, junk: bytes
) -> None:
    body = frames(HEADER, *parts) if compressed else HEADER + b"".join(parts)
    file = write(tmp_path_factory.mktemp("log"), body + junk)
    assert read(file)[2] == body + junk


@given(data=st.binary(max_size=120), magic=st.booleans(), name=st.sampled_from(["x.jsonl", "x.jsonl.zstd"]))
def test_any_bytes_are_a_log_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, magic: bool, name: str
) -> None:
    file = write(tmp_path_factory.mktemp("any"), (b"\x28\xb5\x2f\xfd" if magic else b"") + data, name)
    with pytest.raises(NotALog):
        read(file)


@given(st.data())
def test_a_byte_changed_anywhere_is_reported_or_changes_no_line(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content = bytearray(frames(HEADER, *LINES))
    content[data.draw(st.integers(len(frames(HEADER)), len(content) - 1))] ^= data.draw(st.integers(1, 255))
    file = write(tmp_path_factory.mktemp("flip"), bytes(content))
    lines, shape, again = read(file)
    assert again == content
    assert damage(shape.findings) or lines == b"".join(LINES)


@pytest.mark.parametrize("compressed", [True, False])
def test_a_file_cut_anywhere_gives_a_prefix_of_its_lines(tmp_path: Path, compressed: bool) -> None:
    content = frames(HEADER, *LINES) if compressed else HEADER + b"".join(LINES)
    whole = b"".join(LINES)
    before = b""
    for size in range(len(frames(HEADER) if compressed else HEADER), len(content) + 1):
        lines, shape, again = read(write(tmp_path, content[:size]))
        assert whole.startswith(lines)
        assert lines.startswith(before)
        assert again == content[:size]
        assert bool(damage(shape.findings)) == (not whole.startswith(lines + shape.tail) or _torn(shape))
        before = lines
    assert before == whole


def _torn(shape: FileShape) -> bool:
    return bool(shape.tail or shape.rest_bytes)


def test_frames_are_found_by_walking_not_by_their_magic() -> None:
    file = str(shared_path("cases/05-frame-magic-inside-a-frame/session.jsonl.zstd"))
    lines, shape, _ = read(file)
    plain = shared_path("cases/05-frame-magic-inside-a-frame/plain.jsonl").read_bytes()
    assert plain.endswith(lines)
    assert [frame.size_bytes for frame in shape.frames] == [110, 220, 180, 177, 295]
    assert shape.findings == []


@pytest.mark.parametrize(
    ("case", "lines"),
    [
        ("04-zstd-many-frames/session.jsonl.zstd", 12),
        ("06-unicode-line-separators/log.jsonl", 9),
        ("07-half-a-surrogate-pair/log.jsonl", 0),
        ("08-numbers-and-key-order/log.jsonl", 10),
    ],
)
def test_reported_faults_leave_the_bytes_alone(case: str, lines: int) -> None:
    file = shared_path(f"cases/{case}")
    decoded, shape, again = read(str(file))
    assert again == file.read_bytes()
    assert shape.findings == []
    if lines:
        assert decoded.count(b"\n") == lines
