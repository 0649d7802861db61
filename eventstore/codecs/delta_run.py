"""Runs of token deltas in a block of log lines, found and taken apart in bulk.

A delta line is, byte for byte::

    {"type":"assistant/chunk","seq":SEQ,"time":TIME MIDDLE TEXT"}}}

without the blanks, where MIDDLE is constant in a run and ends in the quote that opens the text::

    ,"data":{"turn":N,"step":N,"chunk":{"type":"text-delta","index":N,"text":"
    ,"data":{"turn":N,"step":N,"chunk":{"type":"reasoning-delta","index":N,"text":"
    ,"data":{"turn":N,"step":N,"chunk":{"type":"tool-call-delta","index":N,"id":"..","argumentsDelta":"
    ,"data":{"turn":N,"step":N,"chunk":{"type":"tool-call-delta","index":N,"id":"..","name":"..","argumentsDelta":"

TIME has 13 digits; SEQ and N are integers as JSON spells them, of at most 15 digits. TEXT is the inside of a
valid JSON string and stays as it is spelled. A line that differs in one byte is no delta line; nothing is
lost by that but space.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from operator import itemgetter
from typing import NamedTuple

import msgspec

from playhead.eventstore.codecs import digits

START = b'{"type":"assistant/chunk","seq":'
_TIME = b',"time":'
_TIME_DIGITS = 13
_END = b'"}}}\n'

_LINE_START = b"\n" + START
_DELTA = b'-delta","index":'
_KIND_WITHIN = 180
"""How far into a delta line, at most, its kind ends."""

_BETWEEN = _END + START

MIN_LINES = 3
"""A shorter run costs more as a run than as lines."""

# Every repetition is possessive: a match is found in one pass, however long the lines are.
_N = rb"(?:0|[1-9][0-9]{0,14}+)"
_WHEN = rb"[1-9][0-9]{%d}" % (_TIME_DIGITS - 1)
_TEXT = rb'[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+'
_MIDDLE = (
    rb',"data":\{"turn":%(n)s,"step":%(n)s,"chunk":\{"type":'
    rb'(?:"(?:text|reasoning)-delta","index":%(n)s,"text":"'
    rb'|"tool-call-delta","index":%(n)s,"id":"%(t)s"(?:,"name":"%(t)s")?+,"argumentsDelta":")'
) % {b"n": _N, b"t": _TEXT}
_FIRST = re.escape(START) + b"(%s)" % _N + _TIME + _WHEN + b"(%s)" % _MIDDLE + _TEXT + re.escape(_END)
# Behind the first line the constant parts are passed over: whoever takes a run compares all its bytes.
_NEXT = rb"(?s:.{%d})%s(?s:.{%d})%s\2%s%s" % (len(START), _N, len(_TIME), _WHEN, _TEXT, re.escape(_END))
_RUN = re.compile(_FIRST + b"(?:" + _NEXT + b")*+")

_integers = msgspec.json.Decoder(list[int])


class DeltaRun(NamedTuple):
    """Delta lines with one middle and consecutive seqs.

    ``text`` holds their texts end to end, ``sizes`` the length of each in bytes.
    """

    seq0: int
    times: list[int]
    middle: bytes
    text: bytes
    sizes: list[int]


def next_start(block: bytes, at: int) -> int:
    """Where the first line behind the one at ``at`` begins that may be a delta line, else the end."""
    while (at := block.find(_LINE_START, at) + 1) > 0:
        if block.find(_DELTA, at, at + _KIND_WITHIN) >= 0:
            return at
    return len(block)


def take(block: bytes, at: int) -> tuple[DeltaRun | None, int]:
    """The run that begins with the line at ``at``, and where it ends.

    Lines that look like a run, but are too few or not numbered in order, give no run and their end; a line
    that is no delta line gives no run and ``at``. Only what is needed for speed is checked: ``render`` of the
    run must be compared with the lines before they are given up.
    """
    match = _RUN.match(block, at)
    if match is None:
        return None, at
    end = match.end()
    digits, middle = match.groups()
    seq0 = int(digits)
    lines = block[at : end - 1].split(b"\n")
    last = b"%d," % (seq0 + len(lines) - 1)
    if len(lines) < MIN_LINES or not lines[-1].startswith(last, len(START)):
        return None, end
    stamps: list[bytes] = []
    texts: list[bytes] = []
    for seq_digits in range(len(digits), len(last)):
        alike = lines[len(stamps) : 10**seq_digits - seq0]  # seqs of so many digits
        time_at = len(START) + seq_digits + len(_TIME)
        text_at = time_at + _TIME_DIGITS + len(middle)
        stamps += map(itemgetter(slice(time_at, time_at + _TIME_DIGITS)), alike)
        texts += map(itemgetter(slice(text_at, 1 - len(_END))), alike)
    text = b"".join(texts)
    if not (text.isascii() or _is_utf8(b'"'.join(texts))) or not (middle.isascii() or _is_utf8(middle)):
        return None, end
    try:
        times = _integers.decode(b"[" + b",".join(stamps) + b"]")
    except msgspec.DecodeError:  # inside, the seqs are not in order, and of other lengths
        return None, end
    return DeltaRun(seq0, times, middle, text, list(map(len, texts))), end


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def render(seq0: int, times: list[int], middle: bytes, texts: Iterable[bytes]) -> bytes:
    """The delta lines of a run, each ended by LF. Raises ``ValueError`` when there are not as many texts as times."""
    count = len(times)
    parts = [_TIME] * (6 * count + 1)
    parts[0::6] = [START, *[_BETWEEN] * (count - 1), _END]
    parts[1::6] = digits.consecutive(seq0, count)
    parts[3::6] = digits.of(times)
    parts[4::6] = [middle] * count
    parts[5::6] = list(texts)
    return b"".join(parts)


def data(middle: bytes, text: bytes) -> bytes:
    """The JSON text of the ``data`` of one delta."""
    return middle[len(b',"data":') :] + text + _END[:3]
