"""Prices: exact sums, and no price made up."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playhead.cli import prices
from playhead.cli.prices import Cost, Prices
from playhead.eventstore.errors import UsageError
from playhead.projections.attempt import Attempt, Tokens

PRICES = {"input": "0.30", "cache_read": "0.03", "cache_write": "0.375", "output": "1.20"}


def call(tokens: Tokens | None, model: str | None = "m") -> Attempt:
    return Attempt("step", 1, 1, 1, 0, 0, provider="p", model=model, tokens=tokens)


def read(tmp_path: Path, **models: Any) -> Prices:
    file = tmp_path / "prices.json"
    file.write_text(json.dumps({"unit": "per_million_tokens", **models}))
    return prices.read(file)


def test_reasoning_is_a_part_of_the_output_and_costs_nothing_more(tmp_path: Path) -> None:
    tokens = Tokens(input=157, output=52, cache_read=740, cache_write=11, reasoning=35, total=995)
    assert read(tmp_path, m=PRICES).cost([call(tokens)]).text == "0.000135825"


def test_a_call_without_usage_model_or_price_is_left_out_and_counted(tmp_path: Path) -> None:
    some = {"input": "2", "output": 4}
    calls = [
        call(Tokens(input=1_000_000, output=500_000)),
        call(None),
        call(Tokens(input=1), model="other"),
        call(Tokens(input=1), model=None),
        call(Tokens(cache_read=1)),
        call(Tokens(cache_read=0, input=0)),
    ]
    cost = read(tmp_path, m=some).cost(calls)
    assert (cost.text, cost.unpriced) == ("4", 4)
    assert read(tmp_path, m=some).cost([call(None)]) == Cost(None, 1)


def test_a_model_of_one_provider_has_a_price_of_its_own(tmp_path: Path) -> None:
    found = read(tmp_path, **{"m": {"input": 1}, "p/m": {"input": 2}})
    assert found.cost([call(Tokens(input=1_000_000))]).text == "2"


@given(st.lists(st.integers(0, 10**12), max_size=20))
def test_the_cost_of_calls_is_the_exact_cost_of_their_sum(counts: list[int]) -> None:
    found = Prices({"m": {"input": Decimal("0.1"), "output": Decimal("0.7")}})
    each = found.cost(call(Tokens(input=count, output=count)) for count in counts)
    whole = found.cost([call(Tokens(input=sum(counts), output=sum(counts)))])
    assert (each.amount or 0) == whole.amount == Decimal(sum(counts)) * Decimal("0.8") / 10**6


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[]", "no object"),
        ("nonsense", "not JSON"),
        ("{}", '"unit" has to be'),
        ('{"unit": "per_token"}', '"unit" has to be'),
        ('{"unit": "per_million_tokens", "m": 1}', "m: its prices"),
        ('{"unit": "per_million_tokens", "m": {"reasoning": 1}}', "'reasoning' is none of"),
        ('{"unit": "per_million_tokens", "m": {"input": "cheap"}}', "m.input is no price"),
        ('{"unit": "per_million_tokens", "m": {"input": -1}}', "m.input is no price"),
        ('{"unit": "per_million_tokens", "m": {"input": "Infinity"}}', "m.input is no price"),
        ('{"unit": "per_million_tokens", "m": {"input": true}}', "m.input is no price"),
        ('{"unit": "per_million_tokens", "m": {"input": 1e999999}}', "m.input is no price"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_the_reason(text: str, told: str, tmp_path: Path) -> None:
    file = tmp_path / "prices.json"
    file.write_text(text)
    with pytest.raises(UsageError, match=told):
        prices.read(file)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        prices.read(tmp_path / "none.json")
