"""Settings for all tests.

Reference material (vectors, recorded logs, reported faults) lies in a folder ``shared`` beside the checkout.
Tests that need it skip without it, except under CI=true, where its absence is a failure. ``helpers/`` is on
the import path: ``from reference import cases, shared_path``.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parent / "helpers"))

os.environ.pop(
    "PYTHONUNBUFFERED", None
)  # programs that tests start keep their output in buffers, as they do for users

# Whether inputs come slowly, large, or are often passed over is a matter of chance and of the machine, not of the code.
CHANCE = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
settings.register_profile("playhead", deadline=None, suppress_health_check=CHANCE)
settings.load_profile("playhead")


def pytest_configure() -> None:
    from reference import SHARED

    if os.environ.get("CI") == "true" and not SHARED.is_dir():
        raise pytest.UsageError(
            "CI=true, but the reference material (a folder `shared`) is not beside the checkout"
        )
