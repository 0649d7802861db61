"""A column of integers for a compressor: one byte each, the few that do not fit behind them.

::

    count      uint32    how many numbers
    wide       uint32    how many of them are not in 0 ... 254
    bytes      count     the number, or 255 for a wide one
    wide       8 each    the wide numbers in order, int64

Little-endian throughout.
"""

from __future__ import annotations

import struct

from playhead.eventstore.codecs.body import CodecError

_COUNTS = struct.Struct("<II")
_WIDE = 255


def pack(numbers: list[int]) -> bytes:
    """The column of ``numbers``, each within 64 bits."""
    wide: list[int] = []
    try:
        small = bytes(numbers)
        if _WIDE in small:
            wide = [_WIDE] * small.count(_WIDE)
    except ValueError:
        wide = [number for number in numbers if not 0 <= number < _WIDE]
        small = bytes([number if 0 <= number < _WIDE else _WIDE for number in numbers])
    return _COUNTS.pack(len(small), len(wide)) + small + struct.pack(f"<{len(wide)}q", *wide)


def unpack(content: bytes, at: int) -> tuple[list[int], int]:
    """The numbers of the column at ``at``, and where it ends. Raises ``CodecError`` when it is cut short."""
    try:
        count, wide_count = _COUNTS.unpack_from(content, at)
        at += _COUNTS.size
        small = content[at : at + count]
        at += count
        wide = struct.unpack_from(f"<{wide_count}q", content, at)
    except struct.error as error:
        raise CodecError("a column ends early") from error
    if small.count(_WIDE) != wide_count:
        raise CodecError(f"a column has {wide_count} wide numbers and {small.count(_WIDE)} places for them")
    numbers = list(small)
    place = -1
    for number in wide:
        place = small.index(_WIDE, place + 1)
        numbers[place] = number
    return numbers, at + 8 * wide_count
