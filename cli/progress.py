"""A progress bar on stderr while something long runs, shown to people only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

Advance = Callable[[int], None]
"""Takes by how much the work went on."""


@contextmanager
def bar(label: str, total: int | None, *, of_bytes: bool = False) -> Iterator[Advance]:
    """A bar from 0 to ``total`` (None: unknown), gone at the end. Without a terminal there is none."""
    if not sys.stderr.isatty():
        yield lambda _step: None
        return
    done = DownloadColumn() if of_bytes else MofNCompleteColumn()
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), done, TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(label, total=total)
        yield lambda step: progress.update(task, advance=step)
