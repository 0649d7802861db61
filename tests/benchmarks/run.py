"""Measures Playhead against its targets, as ratios of two sides measured in one run.

    python tests/benchmarks/run.py                      everything, a million events
    python tests/benchmarks/run.py --events 100000 --only import --only size
    python tests/benchmarks/run.py --json result.json

The table shows the medians of both sides, their ratio, and whether it meets the goal, only the floor, or
neither. Exits 1 when a floor is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import appending
import peers
import replaying
import sqlalchemy
import streaming
import zstandard
from corpus import LAYOUTS, corpus
from layouts import ITEMS, LayoutBenchmark
from measure import Result
from rich.console import Console
from rich.table import Table

_TABLE_COLUMNS = 130
"""The width of the table where the terminal does not tell another."""

_ALL = (*ITEMS, "append", "stream", "replay", "peers")


def main() -> int:
    options = _options()
    notes = Console(stderr=True)
    screen = Console(width=max(_TABLE_COLUMNS, notes.width))
    folder = Path(tempfile.mkdtemp(prefix="playhead-bench-", dir=options.folder))
    found: list[Result] = []
    try:
        for result in _results(options, folder, notes):
            found.append(result)
            notes.print(f"{result.what}: {result.ratio:.3g}", highlight=False)
    finally:
        shutil.rmtree(folder)
    screen.print(_table(found))
    if options.json is not None:
        report = {
            "machine": {"system": platform.platform(), "cpus": os.cpu_count()},
            "versions": {
                "python": platform.python_version(),
                "sqlalchemy": sqlalchemy.__version__,
                "libzstd": ".".join(map(str, zstandard.ZSTD_VERSION)),
            },
            "events": options.events,
            "rounds": options.rounds,
            "results": [result.to_json() for result in found],
        }
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return 1 if any(result.verdict == "MISSED" for result in found) else 0


def _options() -> argparse.Namespace:
    summary, _, rest = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        description=summary, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--events", type=int, default=1_000_000, help="size of the corpus (default: a million)"
    )
    parser.add_argument(
        "--peer-events",
        type=int,
        default=150_000,
        help="size of the corpus for peers; the targets were set on so many",
    )
    parser.add_argument("--rounds", type=int, default=5, help="how often each side is measured (default: 5)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the corpus (default: 1)")
    parser.add_argument("--only", action="append", choices=_ALL, help="measure this item; may be repeated")
    parser.add_argument(
        "--layout", action="append", choices=LAYOUTS, help="only this layout; may be repeated"
    )
    parser.add_argument(
        "--folder", type=Path, help="where the stores are made (default: the temporary folder)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results as JSON too")
    options = parser.parse_args()
    if options.events < 1 or options.peer_events < 1 or options.rounds < 1:
        parser.error("--events, --peer-events and --rounds are at least 1")
    return options


def _results(options: argparse.Namespace, folder: Path, notes: Console) -> Iterator[Result]:
    wanted = set(options.only or _ALL)
    if wanted & set(ITEMS):
        for layout in options.layout or LAYOUTS:
            notes.print(f"corpus of {options.events:,} events, {layout} ...", highlight=False)
            logs = corpus(options.events, layout, options.seed)
            yield from LayoutBenchmark(logs, folder).results(options.rounds, wanted)
            shutil.rmtree(folder / layout)
    if "append" in wanted:
        yield from appending.results(folder / "append", options.rounds)
    if "stream" in wanted:
        yield from streaming.results(folder / "stream", options.rounds)
    if "replay" in wanted:
        for layout in options.layout or replaying.LAYOUTS:
            notes.print(f"one session of {options.events:,} events, {layout} ...", highlight=False)
            yield from replaying.results(
                options.events, layout, options.seed, folder / f"one-{layout}", options.rounds
            )
            shutil.rmtree(folder / f"one-{layout}")
    if "peers" in wanted:
        logs = corpus(options.peer_events, "live", options.seed)
        yield from peers.results(logs, folder, options.rounds, notes.print)


def _table(results: list[Result]) -> Table:
    table = Table()
    for name in ("what", "ours", "reference", "", "ratio", "floor", "goal", "meets"):
        table.add_column(name, no_wrap=True, justify="left" if name in ("what", "", "meets") else "right")
    for result in results:
        limits = ("", "")
        if result.target is not None:
            sign = "≤ " if result.target.less_is_better else "≥ "
            limits = (f"{sign}{result.target.floor:g}", f"{sign}{result.target.goal:g}")
        figures = (f"{result.ours:,.4g}", f"{result.reference:,.4g}", result.unit, f"{result.ratio:.3g}")
        table.add_row(result.what, *figures, *limits, result.verdict)
    return table


if __name__ == "__main__":
    sys.exit(main())
