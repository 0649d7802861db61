"""``playhead doctor``: where things are, which versions work here, and what is wrong."""

from __future__ import annotations

import os
import platform
import sqlite3
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any

import typer

from playhead.adapters.dsh.discover import discover
from playhead.cli import output, place, units
from playhead.cli.app import DONE, FOUND_A_PROBLEM, command
from playhead.cli.safe_text import safe
from playhead.eventstore.errors import PlayheadError, StoreUnavailable
from playhead.eventstore.findings import damage
from playhead.eventstore.zstd_frames import LIBRARY

PACKAGES = ("SQLAlchemy", "alembic", "pydantic", "msgspec", "zstandard", "typer", "rich", "psycopg")


@dataclass(frozen=True, slots=True)
class Home:
    """A folder of dsh. ``new`` logs are not in the store, ``changed`` ones have another size there."""

    path: str
    logs: int
    new: int
    changed: int
    unreadable: list[str]


@dataclass(slots=True)
class Report:
    """All that the doctor looked at. ``store`` holds figures, or nothing when no store could be opened."""

    address: str
    versions: dict[str, str]
    store: dict[str, Any] = field(default_factory=dict)
    homes: list[Home] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


@command("doctor")
def doctor(
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    store: place.StoreOption = None,
) -> int:
    """Say where the store and dsh's logs are, which versions work here, and what is wrong.

    Changes nothing. Exits 1 when there is a problem.
    """
    report = Report(place.shown(place.store_url(store)), versions())
    imported = _examine_store(report, store)
    report.homes = [_examine_home(home, imported) for home in dsh_homes()]
    report.problems += [f"cannot be read: {path}" for home in report.homes for path in home.unreadable]
    if json:
        output.json_line(asdict(report))
    else:
        _tell(report)
    return FOUND_A_PROBLEM if report.problems else DONE


def versions() -> dict[str, str]:
    """The versions of Playhead and of what its results depend on."""
    found = {"playhead": version("playhead"), "python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found | {"SQLite": sqlite3.sqlite_version, "libzstd": LIBRARY}


def dsh_homes() -> list[Path]:
    """The dsh homes that are there: ``DSH_HOME`` if it is set, and ``~/.dsh``."""
    places = [Path.home() / ".dsh"]
    if os.environ.get("DSH_HOME"):
        places.insert(0, Path(os.environ["DSH_HOME"]).absolute())
    return [home for home in dict.fromkeys(places) if home.is_dir()]


def _examine_store(report: Report, store: str | None) -> dict[str, int]:
    """Fill in what the store says; the imported files (absolute path -> size in bytes)."""
    try:
        held = place.open_store(store)
    except StoreUnavailable as error:
        report.problems.append(str(error))
        return {}
    with held:
        try:
            report.store = held.status()
            damaged = sum(1 for info in held.sessions(all_generations=True) if damage(info.findings))
            if damaged:
                report.problems.append(
                    f"{units.count(damaged, 'session')} damaged; `playhead sessions` marks them, "
                    "`playhead events` tells what is lost"
                )
            files = held.files()
            foreign = sorted({file.library for file in files} - {"", LIBRARY})
            report.problems += [
                f"some files were compressed by libzstd {library}, and {LIBRARY} is installed here: their lines are "
                "whole, but not every compressed frame may come back as it was"
                for library in foreign
            ]
        except PlayheadError as error:
            report.problems.append(str(error))
            return {}
    return {os.path.join(file.root, file.path): file.size_bytes for file in files if file.newest}


def _examine_home(home: Path, imported: dict[str, int]) -> Home:
    found = discover(str(home))
    logs = [candidate for candidate in found.candidates if candidate.kind == "log"]
    sizes = [(log.size_bytes, imported.get(log.file)) for log in logs]
    return Home(
        path=str(home),
        logs=len(logs),
        new=sum(1 for _, stored in sizes if stored is None),
        changed=sum(1 for size, stored in sizes if stored is not None and stored != size),
        unreadable=[f"{trouble.path}: {trouble.finding.message}" for trouble in found.troubles],
    )


def _tell(report: Report) -> None:
    output.line(f"store     {safe(report.address)}")
    if report.store:
        counts = [units.count(report.store[f"{noun}s"], noun) for noun in ("session", "event", "file")]
        if report.store["size_bytes"] is not None:
            counts.append(units.size(report.store["size_bytes"]))
        output.line(f"          {', '.join(counts)}")
    for home in report.homes:
        output.line(f"dsh home  {safe(home.path)}")
        state = f": {home.new:,} not imported, {home.changed:,} changed since" if home.logs else ""
        output.line(f"          {units.count(home.logs, 'log')}{state}")
    if not report.homes:
        output.line("dsh home  none found (DSH_HOME, ~/.dsh)")
    shown = ", ".join(f"{name} {number}" for name, number in report.versions.items())
    output.line(f"versions  {shown}")
    for problem in report.problems:
        output.line(f"problem   {safe(problem)}")
    if not report.problems:
        output.line("problems  none")
