"""Sums of token counts in which what was not reported stays unknown.

A sum of figures of which none was reported is None, not 0. Beside each sum stands of how many calls it was reported,
so that a reader can tell "11" from "11, and nobody knows of the other two calls".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from playhead.projections.attempt import Tokens

FIGURES = ("input", "output", "cache_read", "cache_write", "reasoning")
"""The figures that are summed. The first four do not overlap, ``reasoning`` is a part of ``output``."""


class TokenSum(msgspec.Struct, frozen=True, rename="camel"):
    """``calls`` model calls, ``unknown`` of them without any usage; per figure its sum and who reported it."""

    calls: int = 0
    unknown: int = 0
    tokens: Tokens = Tokens()
    reported: Tokens = Tokens(0, 0, 0, 0, 0)

    @classmethod
    def of(cls, usages: Iterable[Tokens | None]) -> TokenSum:
        """The sum of what the calls took."""
        calls = unknown = 0
        sums: dict[str, int | None] = dict.fromkeys(FIGURES)
        reported = dict.fromkeys(FIGURES, 0)
        for tokens in usages:
            calls += 1
            if tokens is None:
                unknown += 1
                continue
            for name in FIGURES:
                value = getattr(tokens, name)
                if value is not None:
                    sums[name] = (sums[name] or 0) + value
                    reported[name] += 1
        return cls(calls, unknown, Tokens(**sums), Tokens(**reported))

    def plus(self, other: TokenSum) -> TokenSum:
        """The sum of both."""
        return TokenSum(
            self.calls + other.calls,
            self.unknown + other.unknown,
            _both(self.tokens, other.tokens),
            _both(self.reported, other.reported),
        )

    @property
    def billed_input(self) -> int | None:
        """All input, cached or not; None where no figure of it was reported."""
        parts = (self.tokens.input, self.tokens.cache_read, self.tokens.cache_write)
        known = [part for part in parts if part is not None]
        return sum(known) if known else None

    def to_json(self) -> dict[str, Any]:
        """The sum as a JSON object; None is what nobody reported."""
        return {
            "calls": self.calls,
            "withoutUsage": self.unknown,
            **{_CAMEL[name]: getattr(self.tokens, name) for name in FIGURES},
            "billedInput": self.billed_input,
            "reportedBy": {_CAMEL[name]: getattr(self.reported, name) for name in FIGURES},
        }


def _both(one: Tokens, other: Tokens) -> Tokens:
    pairs = ((name, getattr(one, name), getattr(other, name)) for name in FIGURES)
    return Tokens(**{name: a if b is None else b + (a or 0) for name, a, b in pairs})


_CAMEL = {
    "input": "input",
    "output": "output",
    "cache_read": "cacheRead",
    "cache_write": "cacheWrite",
    "reasoning": "reasoning",
}
