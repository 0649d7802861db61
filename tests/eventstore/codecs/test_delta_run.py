"""Runs are taken only where their lines can be made again, and in one pass however long they are."""

from __future__ import annotations

import time

import pytest

from playhead.eventstore.codecs import delta_run

TIME = 1_790_000_000_000
CALL = b'"type":"tool-call-delta","index":3,"id":"c\\"1","name":"\xc3\xa9","argumentsDelta":"'


def line(
    seq: int, text: bytes, chunk: bytes = b'"type":"text-delta","index":0,"text":"', time_ms: int = TIME
) -> bytes:
    data = b'{"turn":1,"step":2,"chunk":{' + chunk + text + b'"}}'
    return b'{"type":"assistant/chunk","seq":%d,"time":%d,"data":' % (seq, time_ms) + data + b"}\n"


def rendered(run: delta_run.DeltaRun) -> bytes:
    texts, at = [], 0
    for size in run.sizes:
        texts.append(run.text[at : at + size])
        at += size
    return delta_run.render(run.seq0, run.times, run.middle, texts)


@pytest.mark.parametrize(
    "chunk", [b'"type":"reasoning-delta","index":12,"text":"', CALL, CALL.replace(b',"name":"\xc3\xa9"', b"")]
)
def test_a_run_holds_what_makes_its_lines_again(chunk: bytes) -> None:
    texts = [b"", b"a b", b'\\"\\\\\\u00e9', "é🙂".encode(), b"%d %b", b"\\ud83d"]
    lines = b"".join(line(97 + at, text, chunk, TIME - 7 * at) for at, text in enumerate(texts))
    run, end = delta_run.take(b"{}\n" + lines + b"{}\n", 3)
    assert run is not None
    assert end == 3 + len(lines)
    assert (run.seq0, run.sizes) == (97, [len(text) for text in texts])
    assert run.times == [TIME - 7 * at for at in range(len(texts))]
    assert rendered(run) == lines


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"seq":1,', b'"seq":01,'),
        (b'"seq":1,', b'"seq":1.0,'),
        (b'"seq":1,', b'"seq":-1,'),
        (b'"turn":1', b'"turn":1e0'),
        (b'"turn":1', b'"turn":01'),
        (b'"step":2', b'"step": 2'),
        (b'"index":0', b'"index":0,"index":1'),
        (b"text-delta", b"image-delta"),
        (b'"x"', b'"\\x"'),
        (b'"x"', b'"\\u12"'),
        (b'"x"', b'"\t"'),
        (b'"x"', b'"x" '),
        (b"}}}", b"}}}}"),
        (b"}}}\n", b"}}}\r\n"),
        (b'{"type"', b'{"type" '),
        (str(TIME).encode(), b"0"),
        (str(TIME).encode(), b"-%d" % TIME),
        (str(TIME).encode(), b"%d0" % TIME),
    ],
)
def test_a_line_that_differs_from_the_template_begins_no_run_and_ends_one(old: bytes, new: bytes) -> None:
    odd = line(1, b"x").replace(old, new)
    assert odd != line(1, b"x")
    rest = line(2, b"x") + line(3, b"x") + line(4, b"x")
    assert delta_run.take(odd + rest, 0) == (None, 0)
    before = line(2, b"x") + line(3, b"x") + line(4, b"x")
    run, end = delta_run.take(
        before + line(5, b"x").replace(old.replace(b"1,", b"5,"), new) + line(6, b"x"), 0
    )
    if run is not None and end != len(before):
        # The constant parts are only compared afterwards: the run must not give the odd line back.
        assert new not in rendered(run)


@pytest.mark.parametrize("texts", [[b"\xff"] * 3, [b"\xc3", b"\xa9", b"x"]], ids=["invalid", "split"])
def test_texts_that_are_not_utf8_one_by_one_are_no_run(texts: list[bytes]) -> None:
    block = b"".join(line(at, text) for at, text in enumerate(texts))
    assert delta_run.take(block, 0) == (None, len(block))


def test_too_few_lines_are_no_run() -> None:
    block = b"".join(line(at, b"x") for at in range(delta_run.MIN_LINES - 1))
    assert delta_run.take(block, 0) == (None, len(block))


@pytest.mark.parametrize(
    "block",
    [
        line(0, b"\\\\" * 2_000_000)[:-5],
        line(0, b"x" * 4_000_000)[:-5],
        line(0, b"x", CALL.replace(b'c\\"1', b'\\"' * 2_000_000))[:-5],
        b"".join(line(at, b"x") for at in range(20_000))[:-5],
        line(0, b"x") * 20_000,
    ],
    ids=["escapes", "plain", "id", "torn-run", "one-seq"],
)
def test_lines_made_to_be_slow_are_not(block: bytes) -> None:
    begin = time.process_time()
    delta_run.take(block, 0)
    assert time.process_time() - begin < 2


def test_next_start_finds_the_next_delta_line_and_passes_other_chunks() -> None:
    other = (
        b'{"type":"assistant/chunk","seq":0,"time":1,"data":{"turn":1,"step":1,"chunk":{"type":"finish"}}}\n'
    )
    block = other + other + line(2, b"x")
    assert delta_run.next_start(block, 0) == 2 * len(other)
    assert delta_run.next_start(block, 2 * len(other)) == len(block)
    wide = line(10**14, b"x", CALL.replace(b'"index":3', b'"index":999999999999999'))
    assert delta_run.next_start(other + wide, 0) == len(other)
