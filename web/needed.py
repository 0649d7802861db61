"""Whether what the HTTP surface is built on is installed: it comes with the extra ``web``.

Whoever is about to serve asks here first, before a module that imports one of these libraries.
"""

from __future__ import annotations

from importlib.util import find_spec

from playhead.eventstore.errors import PlayheadError

_LIBRARIES = ("starlette", "uvicorn")


class ExtraMissing(PlayheadError):
    """The extra ``web`` was not installed; ``libraries`` are those that are not there."""

    code = "extra-missing"

    def __init__(self, libraries: tuple[str, ...]) -> None:
        self.libraries = libraries
        are = "is" if len(libraries) == 1 else "are"
        super().__init__(f"{' and '.join(libraries)} {are} not installed; pip install 'playhead[web]'")


def require_web() -> None:
    """Returns where an app can be served. Raises ``ExtraMissing``."""
    missing = tuple(library for library in _LIBRARIES if find_spec(library) is None)
    if missing:
        raise ExtraMissing(missing)
