"""How much of one answer is read, so that no endpoint can fill the memory of its reader."""

from __future__ import annotations

from collections.abc import Callable

ANSWER_LIMIT_CHARS = 32 * 2**20
"""The longest answer that is read, arguments of tools and a toll for each block included."""

BLOCK_TOLL_CHARS = 256
"""What a block weighs beside its text."""


class AnswerRoom:
    """What is left of the room for one answer; ``refusal`` makes the error for an answer that needs more."""

    def __init__(self, refusal: Callable[[str], Exception]) -> None:
        self._left_chars = ANSWER_LIMIT_CHARS
        self._refusal = refusal

    def take(self, chars: int) -> None:
        """Count ``chars`` more. Raises the ``refusal`` when that is too much."""
        self._left_chars -= chars
        if self._left_chars < 0:
            raise self._refusal(f"the answer is longer than {ANSWER_LIMIT_CHARS} characters")

    def take_block(self) -> None:
        """Count one more block, which has no text yet."""
        self.take(BLOCK_TOLL_CHARS)
