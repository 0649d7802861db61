"""The pytest fixture ``playhead_replay``: recorded sessions as a model provider, for one test.

    def test_my_agent(playhead_replay):
        recorded = playhead_replay("sessions/weather.jsonl")
        run_my_agent(base_url=recorded.base_url)

pytest loads this module in every run, so it imports nothing that is not used.
Source: docs/replaying-in-tests.md, "The fixture".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

if TYPE_CHECKING:
    from playhead.web.replayed import Replayed

PlayheadReplay: TypeAlias = Callable[..., "Replayed"]


@pytest.fixture
def playhead_replay() -> Iterator[PlayheadReplay]:
    """Serves recorded sessions; call it with session ids or log files. The test fails on a request that missed."""
    from playhead.web.needed import ExtraMissing, require_web

    try:
        require_web()
    except ExtraMissing as error:
        pytest.fail(f"playhead_replay: {error}", pytrace=False)
    from playhead.eventstore.errors import PlayheadError
    from playhead.web.replayed import complaints, replaying

    with ExitStack() as stack:
        served: list[tuple[Replayed, bool]] = []

        def serve(
            *sessions: Any,
            match: Any = "ordered",
            store: Any = None,
            generation: int | None = None,
            override: Any = None,
            speed: float = math.inf,
            complete: bool = False,
        ) -> Replayed:
            __tracebackhide__ = True
            try:
                replayed = stack.enter_context(
                    replaying(
                        *sessions,
                        match=match,
                        store=store,
                        generation=generation,
                        override=override,
                        speed=speed,
                    )
                )
            except PlayheadError as error:
                # What is wrong stands in the call: pytest shows that line, and nothing of how we found out.
                raise error.with_traceback(None) from None
            served.append((replayed, complete))
            return replayed

        yield serve
        found = [line for replayed, complete in served for line in complaints(replayed, complete)]
    if found:
        pytest.fail("\n".join(found), pytrace=False)
