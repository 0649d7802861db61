"""The seqs an event cites, in the three ways in which logs store them.

* A plain list: ``[3, 5, 6]``.
* A list in which runs are inclusive pairs: ``[[12, 24], 26]`` stands for 12, 13, ..., 24 and 26.
* A blob in a database: the first seq, then the differences, each as a variable-length number of 7 bits per
  byte, low bits first, high bit set while more follow. A difference ``d`` is written ``2d`` when it is not
  negative and ``-2d - 1`` when it is.

Source: docs/formats.md, "Source seqs".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from playhead.eventstore.ids import SAFE_INTEGER, is_safe_integer

MAX_PAIRED = 1 << 20
"""How many seqs the pairs of one event may stand for. A pair of twenty bytes can name more seqs than any
memory holds, and the list is needed whole. No model call streams a million chunks."""

_MIN_RUN = 3
_MAX_VARINT_BYTES = 8


def expand(value: Any) -> list[int]:
    """The seqs in ``value``: a list of seqs, inclusive pairs, or both mixed; order and repeats are kept.

    Raises ``ValueError`` for anything else, for a pair that runs backwards, and for pairs that stand for more
    than ``MAX_PAIRED`` seqs.
    """
    if not isinstance(value, list):
        raise ValueError("source seqs are not a list")
    seqs: list[int] = []
    paired = 0
    for item in value:
        if not isinstance(item, list):
            seqs.append(_seq(item))
            continue
        if len(item) != 2:
            raise ValueError(f"a run of source seqs has {len(item)} ends, not 2")
        start, end = _seq(item[0]), _seq(item[1])
        if end < start:
            raise ValueError(f"the run {start} to {end} of source seqs goes backwards")
        paired += end - start + 1
        if paired > MAX_PAIRED:
            raise ValueError(f"the runs of source seqs stand for more than {MAX_PAIRED} seqs")
        seqs.extend(range(start, end + 1))
    return seqs


def collapse(seqs: Sequence[int]) -> list[int | list[int]]:
    """``seqs`` with every run of three or more consecutive ones as an inclusive pair.

    Only a strictly increasing list is shortened; any other comes back as it is.
    """
    if any(after <= before for before, after in pairwise(seqs)):
        return list(seqs)
    short: list[int | list[int]] = []
    at = 0
    while at < len(seqs):
        end = at + 1
        while end < len(seqs) and seqs[end] == seqs[end - 1] + 1:
            end += 1
        if end - at >= _MIN_RUN:
            short.append([seqs[at], seqs[end - 1]])
        else:
            short.extend(seqs[at:end])
        at = end
    return short


def encode_varints(seqs: Iterable[int]) -> bytes:
    """The blob of ``seqs``; no bytes for none. Raises ``ValueError`` for what is no seq."""
    blob = bytearray()
    last: int | None = None
    for item in seqs:
        seq = _seq(item)
        if last is None:
            value = seq
        else:
            difference = seq - last
            value = 2 * difference if difference >= 0 else -2 * difference - 1
        while value > 0x7F:
            blob.append(value & 0x7F | 0x80)
            value >>= 7
        blob.append(value)
        last = seq
    return bytes(blob)


def decode_varints(blob: bytes) -> list[int]:
    """The seqs of a blob. Raises ``ValueError`` for bytes that ``encode_varints`` never writes."""
    seqs: list[int] = []
    at = 0
    while at < len(blob):
        value, at = _varint(blob, at)
        if seqs:
            value = seqs[-1] + (-((value + 1) >> 1) if value & 1 else value >> 1)
        if not 0 <= value <= SAFE_INTEGER:
            raise ValueError(f"source seq {value} is out of range")
        seqs.append(value)
    return seqs


def _varint(blob: bytes, at: int) -> tuple[int, int]:
    """The number at ``at``, in its only valid spelling, and where the next one begins."""
    value = 0
    for length in range(_MAX_VARINT_BYTES):
        if at + length >= len(blob):
            raise ValueError("the source seqs end inside a number")
        byte = blob[at + length]
        value |= (byte & 0x7F) << (7 * length)
        if byte < 0x80:
            if byte == 0 and length:
                raise ValueError("a number of the source seqs has a needless last byte")
            return value, at + length + 1
    raise ValueError(f"a number of the source seqs is longer than {_MAX_VARINT_BYTES} bytes")


def _seq(value: Any) -> int:
    if not is_safe_integer(value) or value < 0:
        raise ValueError(f"{value!r} is no seq")
    return int(value)
