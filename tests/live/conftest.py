from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from live_places import PLACES, Place, live_place


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Each place where a live session may be kept."""
    with live_place(request.param, tmp_path) as made:
        yield made
