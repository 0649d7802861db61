"""Finds the reference material beside the checkout, and turns vector files into test parameters."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

SHARED = Path(__file__).resolve().parents[3] / "shared"

needs_shared = pytest.mark.skipif(
    not SHARED.is_dir(), reason="the reference material (a folder `shared` beside the checkout) is not here"
)


def shared_path(relative: str) -> Path:
    """The file or folder ``relative`` in the reference material; skips the calling test without it."""
    if not SHARED.is_dir():
        pytest.skip("the reference material (a folder `shared` beside the checkout) is not here")
    return SHARED / relative


@cache
def vectors(name: str) -> dict[str, Any]:
    """The vector file ``name`` (without .json) as JSON; an empty dict where the material is absent."""
    path = SHARED / "spec" / "vectors" / f"{name}.json"
    return json.loads(path.read_bytes()) if path.is_file() else {}


def cases(name: str, *groups: str) -> list[Any]:
    """Every case of the ``groups`` of a vector file as a pytest parameter with its id.

    Without the reference material the list holds one parameter that is skipped with the reason.
    """
    found = vectors(name)
    if not found:
        return [pytest.param(None, marks=needs_shared, id="no-reference-material")]
    params = []
    for group in groups:
        for at, case in enumerate(found[group]):
            label = case.get("id") or case.get("name") or case.get("type") or str(at)
            params.append(pytest.param(case, id=f"{group}-{label}" if len(groups) > 1 else str(label)))
    return params
