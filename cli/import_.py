"""``playhead import``: logs into the store."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import groupby
from pathlib import PurePath
from typing import Annotated

import typer

from playhead.adapters.dsh.importer import Progress, import_paths
from playhead.adapters.dsh.report import Problem, Report
from playhead.cli import damage, output, place, units
from playhead.cli.app import DONE, FOUND_A_PROBLEM, STOPPED, command
from playhead.cli.progress import Advance, bar
from playhead.cli.safe_text import safe
from playhead.eventstore.findings import Finding


@command("import")
def import_(
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATH...", help="Files, folders, a dsh home; - for standard input."),
    ],
    json: Annotated[bool, typer.Option("--json", help="What became of it, as one JSON object.")] = False,
    keep_frames: Annotated[
        bool,
        typer.Option(
            "--keep-frames",
            help="Keep compressed bytes as they are, even those that can be made again: more space, and "
            "no version of libzstd is needed to get them back.",
        ),
    ] = False,
    store: place.StoreOption = None,
) -> int:
    """Archive session logs in the store, which is made if it is not there.

    Sources are only read. Importing again adds what is new and nothing else. What cannot be interpreted is
    kept as bytes; one bad file does not stop the others. Exits 1 if something is damaged, refused or missing.
    """
    with place.open_store(store, create=True) as held:
        try:
            with bar("importing", 0, of_bytes=True) as advance:
                report = import_paths(held, paths, on_file=_follow(advance), keep_frames=keep_frames)
        except KeyboardInterrupt:
            output.note("stopped; what was finished is in the store, and the same command goes on from there")
            return STOPPED
    _tell_problems(report)
    if json:
        output.json_line(report.to_json())
    else:
        _summarise(report)
    return DONE if report.clean else FOUND_A_PROBLEM


def _follow(advance: Advance) -> Callable[[Progress], None]:
    def follow(progress: Progress) -> None:
        name = safe("/".join(PurePath(progress.path).parts[-2:]), limit=40)
        label = f"{progress.file_no}/{progress.files} {name}"
        advance(progress.total_bytes_done, progress.total_bytes, label)

    return follow


def _tell_problems(report: Report) -> None:
    for path, findings in _by_path(report.damaged):
        damage.tell(path, findings)
    for problem in report.refused:
        output.note(f"{safe(problem.path)}: not taken: {damage.sentence(problem.finding)}")


def _by_path(problems: Iterable[Problem]) -> Iterable[tuple[str, list[Finding]]]:
    for path, found in groupby(problems, key=lambda problem: problem.path):
        yield path, [problem.finding for problem in found]


def _summarise(report: Report) -> None:
    parts = [
        f"{number:,} {what}"
        for number, what in (
            (report.imported, "imported"),
            (report.unchanged, "unchanged"),
            (len(report.refused), "refused"),
            (report.ignored, "other files ignored"),
        )
        if number
    ]
    output.line(f"{units.count(report.files, 'file')}: {', '.join(parts) or 'nothing to import'}")
    new = (units.count(len(report.sessions), "new session"), units.count(report.events, "new event"))
    output.line(", ".join(new))
    if report.damaged:
        damaged = len({problem.path for problem in report.damaged})
        output.line(
            f"{units.count(damaged, 'file')} damaged: kept unchanged, and all that can be read is shown"
        )
