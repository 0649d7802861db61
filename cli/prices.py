"""Prices of models, from a file, and what calls cost by them, in exact decimal arithmetic.

The file is a JSON object: ``unit`` is ``per_million_tokens``, every other member is a model by its name, or by
``provider/model``, with the prices ``input`` (uncached), ``cache_read``, ``cache_write`` and ``output``, as texts or
numbers::

    {"unit": "per_million_tokens", "demo-1": {"input": "0.30", "cache_read": "0.03", "output": "1.20"}}

The four buckets do not overlap, and reasoning is a part of the output, so nothing is charged twice. A call has no
price when it reports no usage, when its model is not in the file, or when it used a bucket that has no price there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Context, Decimal, InvalidOperation
from functools import reduce
from pathlib import Path
from typing import Any

from playhead.eventstore.errors import UsageError
from playhead.projections.attempt import Attempt, Tokens

UNIT = "per_million_tokens"
BUCKETS = ("input", "cache_read", "cache_write", "output")

_EXACT = Context(prec=200)
_MILLION = Decimal(1_000_000)
_HIGHEST = Decimal(10**12)


@dataclass(frozen=True)
class Cost:
    """The sum of what calls cost. ``unpriced`` calls are not in it; ``amount`` is None when none is."""

    amount: Decimal | None = None
    unpriced: int = 0

    def plus(self, other: Cost) -> Cost:
        """The cost of both."""
        amounts = [cost.amount for cost in (self, other) if cost.amount is not None]
        amount = reduce(_EXACT.add, amounts) if amounts else None
        return Cost(amount, self.unpriced + other.unpriced)

    @property
    def text(self) -> str | None:
        """The amount in plain digits, without zeros at its end; None for none."""
        if self.amount is None:
            return None
        plain = f"{self.amount:f}"
        return plain.rstrip("0").rstrip(".") if "." in plain else plain


class Prices:
    """What a token of each bucket costs, by model."""

    def __init__(self, models: Mapping[str, Mapping[str, Decimal]]) -> None:
        self._models = models

    def cost(self, calls: Iterable[Attempt]) -> Cost:
        """What the calls cost together."""
        return reduce(Cost.plus, map(self._cost, calls), Cost())

    def _cost(self, call: Attempt) -> Cost:
        prices = self._models.get(f"{call.provider}/{call.model}") or self._models.get(call.model or "")
        amount = None if prices is None or call.tokens is None else _price(call.tokens, prices)
        return Cost(amount, 1 if amount is None else 0)


def _price(tokens: Tokens, price: Mapping[str, Decimal]) -> Decimal | None:
    total, known = Decimal(0), False
    for bucket in BUCKETS:
        count = getattr(tokens, bucket)
        if count is None:
            continue
        known = True
        if count and bucket not in price:
            return None
        of_bucket = _EXACT.multiply(Decimal(count), price.get(bucket, Decimal(0)))
        total = _EXACT.add(total, _EXACT.divide(of_bucket, _MILLION))
    return total if known else None


def read(path: Path) -> Prices:
    """The prices in a file. Raises ``UsageError`` for one that cannot be used, naming what is wrong in it."""
    try:
        found = json.loads(path.read_bytes(), parse_float=Decimal, parse_int=Decimal)
    except OSError as error:
        raise UsageError(f"--prices {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--prices {path}: it is not JSON") from error
    if not isinstance(found, dict):
        raise UsageError(f"--prices {path}: it is no object of models")
    unit = found.pop("unit", None)
    if unit != UNIT:
        raise UsageError(f'--prices {path}: "unit" has to be "{UNIT}"')
    return Prices({model: _model(path, model, prices) for model, prices in found.items()})


def _model(path: Path, model: str, prices: Any) -> dict[str, Decimal]:
    if not isinstance(prices, dict):
        raise UsageError(f"--prices {path}: {model}: its prices are no object")
    strange = sorted(set(prices) - set(BUCKETS))
    if strange:
        raise UsageError(f"--prices {path}: {model}: {strange[0]!r} is none of {', '.join(BUCKETS)}")
    return {bucket: _amount(path, f"{model}.{bucket}", value) for bucket, value in prices.items()}


def _amount(path: Path, name: str, value: Any) -> Decimal:
    try:
        amount = value if isinstance(value, Decimal) else Decimal(value) if isinstance(value, str) else None
    except InvalidOperation:
        amount = None
    if (
        amount is None
        or not amount.is_finite()
        or not 0 <= amount < _HIGHEST
        or len(amount.as_tuple().digits) > 50
    ):
        raise UsageError(f"--prices {path}: {name} is no price")
    return amount
