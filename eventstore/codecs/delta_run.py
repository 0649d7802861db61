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
from itertools import chain
from operator import itemgetter
from typing import NamedTuple

import msgspec

START = b'{"type":"assistant/chunk","seq":'
_TIME = b',"time":'
_TIME_DIGITS = 13
_END = b'"}}}\n'

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
_SEQ = re.compile(re.escape(START) + b"(%s)" % _N)

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
    found = block.find(b"\n" + START, at)
    return len(block) if found < 0 else found + 1


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
    seq0, middle = int(match[1]), match[2]
    lines = block[at : end - 1].split(b"\n")
    last = _SEQ.match(lines[-1])
    if len(lines) < MIN_LINES or last is None or int(last[1]) != seq0 + len(lines) - 1:
        return None, end
    stamps, texts = _columns(lines, seq0, len(middle))
    text = b"".join(texts)
    if not (text.isascii() or _is_utf8(b'"'.join(texts))) or not _is_utf8(middle):
        return None, end
    times = _integers.decode(b"[" + b",".join(stamps) + b"]")
    return DeltaRun(seq0, times, middle, text, list(map(len, texts))), end


def _columns(lines: list[bytes], seq0: int, middle_bytes: int) -> tuple[list[bytes], list[bytes]]:
    """The times and the texts of delta lines, as they are spelled."""
    stamps: list[bytes] = []
    texts: list[bytes] = []
    while len(stamps) < len(lines):
        seq = seq0 + len(stamps)
        digits = len(str(seq))
        alike = lines[len(stamps) : 10**digits - seq0]  # as long as the seq has so many digits
        time_at = len(START) + digits + len(_TIME)
        text_at = time_at + _TIME_DIGITS + middle_bytes
        stamps += map(itemgetter(slice(time_at, time_at + _TIME_DIGITS)), alike)
        texts += map(itemgetter(slice(text_at, 1 - len(_END))), alike)
    return stamps, texts


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def render(seq0: int, times: list[int], middle: bytes, texts: Iterable[bytes]) -> bytes:
    """The delta lines of a run, each ended by LF."""
    line = START + b"%d" + _TIME + b"%d" + middle.replace(b"%", b"%%") + b"%b" + _END
    values = zip(range(seq0, seq0 + len(times)), times, texts, strict=True)
    return line * len(times) % tuple(chain.from_iterable(values))


def data(middle: bytes, text: bytes) -> bytes:
    """The JSON text of the ``data`` of one delta."""
    return middle[len(b',"data":') :] + text + _END[:3]
