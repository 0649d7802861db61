"""The hash head of a session: a pure function of its header and its lines.

Lines are hashed in leaves of 256. A line never holds LF, so each is framed by the LF behind it, and a leaf is
a slice of the log as it stands::

    h_0  = H("header" + header)
    h_k  = H("leaf" + h_(k-1) + H(lines of leaf k, each with its LF))
    head = H("head" + h_last + next_seq as 8 bytes, big-endian)

H is SHA-256. The last leaf may be short; it has no part in the chain until a head is asked for. Sealing, and
the way in which a log arrived, change nothing: any cut of the same lines gives the same head.
"""

from __future__ import annotations

import hashlib

LEAF_LINES = 256


class Chain:
    """Folds lines into the chain. ``value`` is h at the last whole leaf, ``lines`` how many went in.

    To go on from a stored state give ``value`` and ``lines`` of a leaf boundary, and feed the lines since.
    """

    __slots__ = ("_leaf", "lines", "value")

    def __init__(self, value: bytes, lines: int = 0) -> None:
        if lines % LEAF_LINES:
            raise ValueError(
                f"{lines} lines end inside a leaf; a chain goes on from a multiple of {LEAF_LINES}"
            )
        self.value = value
        self.lines = lines
        self._leaf = hashlib.sha256()

    @classmethod
    def begin(cls, header: bytes) -> Chain:
        """The chain of a session without lines."""
        return cls(hashlib.sha256(b"header" + header).digest())

    def feed(self, block: bytes, lines: int | None = None) -> None:
        """Add the lines of ``block``, each ended by LF. ``lines`` is their number, where the caller knows it."""
        count = block.count(b"\n") if lines is None else lines
        at = 0
        while count:
            room = LEAF_LINES - self.lines % LEAF_LINES
            if count < room:
                self._leaf.update(memoryview(block)[at:])
                self.lines += count
                return
            end = _after_lines(block, at, room) if count > room else len(block)
            self._leaf.update(memoryview(block)[at:end])
            self.value = hashlib.sha256(b"leaf" + self.value + self._leaf.digest()).digest()
            self._leaf = hashlib.sha256()
            self.lines += room
            count -= room
            at = end

    def head(self, next_seq: int) -> bytes:
        """The head after the lines so far, of a session that goes on at ``next_seq``; 32 bytes."""
        value = self.value
        if self.lines % LEAF_LINES:
            value = hashlib.sha256(b"leaf" + value + self._leaf.digest()).digest()
        return hashlib.sha256(b"head" + value + next_seq.to_bytes(8, "big")).digest()

    def copy(self) -> Chain:
        """An independent chain in the same state."""
        twin = Chain.__new__(Chain)
        twin.value = self.value
        twin.lines = self.lines
        twin._leaf = self._leaf.copy()
        return twin


def _after_lines(block: bytes, at: int, count: int) -> int:
    """The offset in ``block`` just behind the ``count``-th LF from ``at`` on."""
    for _ in range(count):
        at = block.index(b"\n", at) + 1
    return at
