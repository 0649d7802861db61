"""Broken answers of chat completions: whatever comes gives chunks or a failure, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from chat_payloads import bodies, mutated
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wire import check_grammar, cut, received

from playhead.adapters.providers.chat import DEEPSEEK_CHAT, OPENAI_CHAT, ChatDialect

both = st.sampled_from([DEEPSEEK_CHAT, OPENAI_CHAT])
places = st.lists(st.integers(0, 2000), max_size=6)


def check(dialect: ChatDialect, body: bytes, places: Sequence[int]) -> None:
    chunks, failure = received(dialect, [body])
    check_grammar(chunks, failure)
    assert failure is None or failure.is_valid
    for chunk in chunks:
        chunk.to_json()
    assert received(dialect, cut(body, places)) == (chunks, failure)


@settings(max_examples=200)
@given(dialect=both, body=bodies, places=places)
def test_answers_that_an_endpoint_may_send_keep_the_grammar_in_any_cut(
    dialect: ChatDialect, body: bytes, places: list[int]
) -> None:
    check(dialect, body, places)


@settings(max_examples=200)
@given(dialect=both, body=mutated(), places=places)
def test_broken_answers_give_chunks_or_a_failure(
    dialect: ChatDialect, body: bytes, places: list[int]
) -> None:
    check(dialect, body, places)


@pytest.mark.heavy
@settings(max_examples=5000, suppress_health_check=list(HealthCheck))
@given(dialect=both, body=mutated(), places=places)
def test_thousands_of_broken_answers_give_chunks_or_a_failure(
    dialect: ChatDialect, body: bytes, places: list[int]
) -> None:
    check(dialect, body, places)
