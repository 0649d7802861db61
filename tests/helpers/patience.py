"""How long silence is waited for by a test that has to see it.

Most of the time a moment is enough, and some tests see hundreds of silences. But a machine that stands still for that
moment looks like silence as well, so what was missed is no failure yet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

SOON_S: Final = 0.5
LATE_S: Final = 20.0


def patiently(check: Callable[[float], None], soon_s: float = SOON_S) -> None:
    """Run ``check`` with how long nothing may come before that is silence; should it fail, once more with ``LATE_S``.

    What fails the second time has failed. Both times ``check`` begins from the beginning.
    """
    try:
        check(soon_s)
    except (Exception, pytest.fail.Exception):
        check(LATE_S)
