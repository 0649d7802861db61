"""Much of everything: a million events, a thousand sessions, giant lines and frames, garbage.

The memory of a command is what its process held at most. 300 MB are allowed; a giant line may add a few times its
own size.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from children import Ended, environment, frames, header_line, log, playhead, tree

from playhead import open_store
from playhead.eventstore import zstd_frames

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is measured by /proc"),
]

LIMIT_BYTES = 300_000_000
MILLION = 1_000_000


def within_limit(*words: object, store: Path, more: int = 0) -> Ended:
    """The command, run to its end and found to have held no more memory than it may."""
    ran = playhead(*words, store=store, measure=True)
    assert ran.peak_bytes < LIMIT_BYTES + more, f"{words}: {ran.peak_bytes:,} bytes"
    return ran


def million(session: str) -> Iterator[bytes]:
    """A log of a million events, in pieces of 10,000 lines."""
    yield header_line(session)
    for start in range(0, MILLION, 10_000):
        yield b"".join(
            b'{"type":"assistant/chunk","seq":%d,"time":%d,"data":{"turn":1,"step":1,"chunk":'
            b'{"type":"text-delta","index":0,"text":" word %d"}}}\n'
            % (seq, 1_780_000_000_000 + seq, seq % 997)
            for seq in range(start, start + 10_000)
        )


def plain(pieces: Iterator[bytes]) -> Iterator[bytes]:
    return pieces


def in_one_frame(pieces: Iterator[bytes]) -> Iterator[bytes]:
    yield zstd_frames.write_frame(next(pieces))
    yield from zstd_frames.compress(1, pieces)


def in_small_frames(pieces: Iterator[bytes]) -> Iterator[bytes]:
    yield zstd_frames.write_frame(next(pieces))
    for piece in pieces:
        lines = piece.split(b"\n")[:-1]
        for at in range(0, len(lines), 5):
            yield zstd_frames.write_frame(b"\n".join(lines[at : at + 5]) + b"\n")


@pytest.mark.parametrize("layout", [plain, in_one_frame, in_small_frames])
def test_a_log_of_a_million_events(
    tmp_path: Path, layout: Callable[[Iterator[bytes]], Iterator[bytes]]
) -> None:
    store, file, out = tmp_path / "store.sqlite", tmp_path / "big.jsonl", tmp_path / "out.jsonl"
    with file.open("wb") as opened:
        for piece in layout(million("big")):
            opened.write(piece)
    assert b"1,000,000 new events" in within_limit("import", file, store=store).out
    assert within_limit("import", file, store=store).out.startswith(b"1 file: 1 unchanged")
    assert within_limit("verify", store=store).code == 0
    assert within_limit("export", "big", "-o", out, store=store).code == 0
    assert out.read_bytes() == file.read_bytes()
    tail = within_limit("events", "big", "--from", MILLION - 2, "--json", store=store).out
    assert tail.count(b"\n") == 2
    with file.open("ab") as opened:
        opened.write(b"torn")
    grown = within_limit("import", file, store=store)
    assert (grown.code, b"0 new events" in grown.out) == (1, True)


def test_the_first_events_of_a_million_come_at_once_and_the_reader_may_go(tmp_path: Path) -> None:
    store, file = tmp_path / "store.sqlite", tmp_path / "big.jsonl"
    file.write_bytes(b"".join(million("big")))
    playhead("import", file, store=store)
    listing = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m playhead.cli.main events big; echo $? >&2"],
        env=environment(str(store)),
        stdout=(
            head := subprocess.Popen(["head", "-n", "3"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        ).stdin,
        stderr=subprocess.PIPE,
        timeout=600,
        check=False,
    )
    shown, _ = head.communicate(timeout=600)
    assert shown.count(b"\n") == 3
    assert listing.stderr == b"141\n"


def test_a_thousand_sessions(tmp_path: Path) -> None:
    store, logs, out = tmp_path / "store.sqlite", tmp_path / "logs", tmp_path / "out"
    for number in range(1_000):
        folder = logs / f"f{number % 10}"
        folder.mkdir(parents=True, exist_ok=True)
        content = log(f"s{number}", 40)
        (folder / f"{number}.jsonl").write_bytes(frames(content, 10) if number % 2 else content)
    ran = within_limit("import", logs, store=store)
    assert b"1,000 new sessions, 40,000 new events" in ran.out
    assert within_limit("sessions", store=store).out.count(b"\n") == 1_000
    assert within_limit("verify", store=store).code == 0
    assert within_limit("export", "--all", "-o", out, store=store).code == 0
    assert tree(out) == tree(logs)
    assert b"1,000 files: 1,000 unchanged" in within_limit("import", logs, store=store).out


GIANT = 64 << 20


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "compressed"])
def test_a_line_of_64_mib(tmp_path: Path, compressed: bool) -> None:
    store, file, out = tmp_path / "store.sqlite", tmp_path / "giant.jsonl", tmp_path / "out"
    words = os.urandom(1 << 15).hex().encode()
    giant = b'{"type":"x/giant","seq":0,"time":1,"data":"%b"}\n' % (words * (GIANT // len(words)))
    small = b'{"type":"x/small","seq":1,"time":2,"data":{}}\n'
    if compressed:
        header = zstd_frames.write_frame(header_line("giant"))
        file.write_bytes(header + zstd_frames.write_frame(giant) + zstd_frames.write_frame(small))
    else:
        file.write_bytes(header_line("giant") + giant + small)
    more = 4 * GIANT
    assert b"2 new events" in within_limit("import", file, store=store, more=more).out
    assert within_limit("export", "giant", "-o", out, store=store, more=more).code == 0
    assert out.read_bytes() == file.read_bytes()
    assert within_limit("verify", store=store, more=more).code == 0
    shown = within_limit("events", "giant", "--type", "x/small", "--json", store=store, more=more)
    assert shown.out.count(b"\n") == 1


def rle_frame(byte: bytes, blocks: int) -> bytes:
    """A valid frame of ``blocks`` times 128 KiB of one byte, 4 bytes each."""
    size = 1 << 17
    head = zstd_frames.write_frame(b"")[:4] + bytes([0, 7 << 3])
    middle = (1 << 1 | size << 3).to_bytes(3, "little") + byte
    last = (1 | 1 << 1 | size << 3).to_bytes(3, "little") + byte
    return head + middle * (blocks - 1) + last


def test_a_small_file_that_holds_a_huge_line_is_refused_and_kept(tmp_path: Path) -> None:
    store, logs = tmp_path / "store.sqlite", tmp_path / "logs"
    logs.mkdir()
    bomb = zstd_frames.write_frame(header_line("bomb")) + rle_frame(b" ", 16_000)
    (logs / "bomb.jsonl.zstd").write_bytes(bomb)
    (logs / "good.jsonl").write_bytes(log("good", 3))
    ran = within_limit("import", logs, store=store, more=GIANT * 4)
    assert ran.code == 1
    assert "bomb.jsonl.zstd: not taken: a line is longer than 268435456 bytes" in ran.err
    assert b"1 new session, 3 new events" in ran.out
    assert within_limit("export", "--all", "-o", tmp_path / "out", store=store).code == 0
    assert tree(tmp_path / "out") == tree(logs)


@pytest.mark.parametrize("line", [b"\n", b"?\n", b"{\n", b"\xff\xfe\n", b'{"type":"x","seq":1,"time":1}\n'])
def test_a_million_lines_of_garbage(tmp_path: Path, line: bytes) -> None:
    store, file, out = tmp_path / "store.sqlite", tmp_path / "garbage.jsonl", tmp_path / "out"
    file.write_bytes(header_line("garbage") + line * MILLION + b'{"type":"x/y","seq":0,"time":1,"data":1}\n')
    ran = within_limit("import", file, store=store)
    assert ran.code == 1
    assert "damaged: " in ran.err
    assert b"1 new session, 1 new event" in ran.out
    assert within_limit("export", "garbage", "-o", out, store=store).code == 0
    assert out.read_bytes() == file.read_bytes()
    with open_store(str(store)) as held:
        (message,) = [
            found.message for found in held.session("garbage").info.findings if found.kind == "more"
        ]
        assert message == f"{MILLION - 1000} more findings of this log are not listed"


@pytest.mark.parametrize(
    "begin", [b"", bytes([0x04, 7 << 3]) + (6 << 3).to_bytes(3, "little")], ids=["bare", "with a block"]
)
def test_a_file_of_beginnings_of_frames(tmp_path: Path, begin: bytes) -> None:
    store, file, out = tmp_path / "store.sqlite", tmp_path / "frames.jsonl.zstd", tmp_path / "out"
    magic = zstd_frames.write_frame(b"")[:4]
    file.write_bytes(zstd_frames.write_frame(header_line("frames")) + (magic + begin) * 200_000)
    ran = within_limit("import", file, store=store)
    assert (ran.code, "damaged: the" in ran.err) == (1, True)
    assert within_limit("export", "frames", "-o", out, store=store).code == 0
    assert out.read_bytes() == file.read_bytes()


def test_many_missing_numbers(tmp_path: Path) -> None:
    store, file = tmp_path / "store.sqlite", tmp_path / "gaps.jsonl"
    lines = (b'{"type":"x/y","seq":%d,"time":1,"data":1}\n' % seq for seq in range(0, 400_000, 2))
    file.write_bytes(header_line("gaps") + b"".join(lines))
    ran = within_limit("import", file, store=store)
    assert (ran.code, b"200,000 new events" in ran.out) == (1, True)
    assert within_limit("verify", store=store).code == 1
    assert within_limit("events", "gaps", "--from", 399_990, store=store).out.count(b"\n") == 5
