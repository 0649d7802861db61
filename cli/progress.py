"""A progress bar on stderr while something long runs, shown to people only."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)


class Advance(Protocol):
    """Takes how far the work is; ``total`` and ``label`` where they changed."""

    def __call__(self, done: int, total: int | None = None, label: str | None = None, /) -> None: ...


@contextmanager
def bar(label: str, total: int | None, *, of_bytes: bool = False) -> Iterator[Advance]:
    """A bar from 0 to ``total`` (None: unknown), gone at the end. Without a terminal there is none."""
    if not sys.stderr.isatty():
        yield lambda _done, _total=None, _label=None: None
        return
    count = DownloadColumn() if of_bytes else MofNCompleteColumn()
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), count, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(label, total=total)

        def advance(done: int, total: int | None = None, label: str | None = None, /) -> None:
            progress.update(task, completed=done, total=total, description=label)

        yield advance
