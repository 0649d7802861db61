"""How many tokens one model call took.

``inputTokens`` counts only input that was not cached: the three input figures are disjoint.
``reasoningTokens`` is a part of ``outputTokens``. None means that the provider did not say, which is not 0.
"""

from __future__ import annotations

from playhead.eventstore.value import Value, Whole


class Usage(Value):
    """Token counts of one model call. ``total_tokens`` is the provider's own sum."""

    input_tokens: Whole
    output_tokens: Whole
    cache_read_tokens: Whole | None = None
    cache_write_tokens: Whole | None = None
    reasoning_tokens: Whole | None = None
    total_tokens: Whole | None = None

    @property
    def billed_input_tokens(self) -> int:
        """All input, cached or not; a figure that was not reported adds nothing."""
        return self.input_tokens + (self.cache_read_tokens or 0) + (self.cache_write_tokens or 0)
