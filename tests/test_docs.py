"""The documentation is true: its examples run, its links lead somewhere, its options exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from itertools import chain
from pathlib import Path

import example_logs
import pytest
from typer.testing import CliRunner

from playhead.cli.app import app
from playhead.cli.main import load_commands

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])


def help_of(*words: str) -> str:
    load_commands()
    result = CliRunner().invoke(
        app, [*words, "--help"], env={"COLUMNS": "200", "TERM": "dumb", "NO_COLOR": "1"}
    )
    assert result.exit_code == 0
    return result.stdout


def listed(text: str, panel: str) -> list[str]:
    """The first words of the entries in a panel of the help."""
    body = re.search(rf"─ {panel} ─.*?\n(.*?)╰", text, re.DOTALL)
    return [] if body is None else re.findall(r"(?m)^│ (?:\* )?\s?(\S+)", body.group(1))


def commands() -> list[str]:
    """Every command, those of groups as two words."""
    found = []
    for name in listed(help_of(), "Commands"):
        inner = listed(help_of(name), "Commands")
        found += [f"{name} {sub}" for sub in inner] if inner else [name]
    return found


def sections() -> dict[str, str]:
    """Command -> its section in docs/cli.md; the part before the first is the one of the program itself."""
    parts = re.split(r"(?m)^## playhead (.+)$", (ROOT / "docs" / "cli.md").read_text(encoding="utf-8"))
    return dict(zip(["", *parts[1::2]], parts[0::2], strict=True))


def test_every_command_has_a_section_and_every_section_a_command() -> None:
    assert sorted(commands()) == sorted(name for name in sections() if name)


def test_the_readme_has_every_command_in_its_table() -> None:
    table = re.findall(r"(?m)^\| (`playhead .*?) \|", (ROOT / "README.md").read_text(encoding="utf-8"))
    told = [command.replace("`", "").removeprefix("playhead ") for command in table]
    named = {command.split()[0] for command in told if not command.startswith("store")}
    named |= {
        f"store {word}"
        for command in told
        if command.startswith("store")
        for word in re.findall(r"\w+", command)[1:]
    }
    assert named == set(commands())


@pytest.mark.parametrize("command", ["", *(name for name in sections() if name)])
def test_the_options_of_a_command_are_those_of_its_section(command: str) -> None:
    shown = set(listed(help_of(*command.split()), "Options")) - {"--help"}
    told = set(re.findall(r"(?m)^\| `(--[a-z-]+)`", sections()[command])) - {"--help"}
    assert told == shown


@pytest.mark.parametrize("command", ["", *(name for name in sections() if name)])
def test_every_option_and_command_has_a_help_text(command: str) -> None:
    rows = re.findall(r"(?m)^│ (.*) │$", help_of(*command.split()))
    assert all(re.search(r"[a-z]{3}.*\.", row) for row in rows if row.startswith("--"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def test_sections_that_the_code_refers_to_are_there() -> None:
    missing = []
    for folder in ("eventstore", "adapters", "cli", "projections", "replay", "live", "web", "migrations"):
        for module in (ROOT / folder).rglob("*.py"):
            text = " ".join(module.read_text(encoding="utf-8").split())
            for page, title in re.findall(r'(docs/[\w-]+\.md)(?:, "([^"]+)")?', text):
                file = ROOT / page
                if not file.is_file():
                    missing.append(f"{module}: {page}")
                elif title and not re.search(
                    rf"(?m)^#+ {re.escape(title)}$", file.read_text(encoding="utf-8")
                ):
                    missing.append(f"{module}: {page}, {title}")
    assert not missing


def test_the_python_example_of_the_readme_runs(tmp_path: Path) -> None:
    (example,) = re.findall(
        r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL
    )
    example_logs.write_file(tmp_path, "from-the-readme", 0)
    done = subprocess.run(
        [sys.executable, "-c", example],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:7] == [
        "1 files, 33 events, 0 damaged",
        "1 1 finished 6 chunks",
        "1 2 finished 13 chunks",
        "0 turn/start {'turn': 1}",
        "1 turn/end {'turn': 1, 'reason': {'kind': 'completed'}}",
        "1 turn",
        "{}",
    ]
    assert len(lines) == 7 + 33 + 2
    assert (lines[7], lines[-1]) == ("1 from-the-readme agent/inbox/spliced", "35 notes-1 turn/end")


def test_the_examples_of_how_to_replay_print_calls_and_chunks() -> None:
    page = (ROOT / "docs" / "replay.md").read_text(encoding="utf-8")
    first, second = (
        subprocess.run([sys.executable, "-c", example], cwd=ROOT, capture_output=True, text=True)
        for example in re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    )
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    call, *chunks = first.stdout.splitlines()
    assert call == "2 1 1 finished finish 5"
    assert len(chunks) == 10
    assert re.match(r"\d+ FinishChunk", chunks[-1])
    kinds = [line.split()[0] for line in second.stdout.splitlines()]
    assert (kinds.count("Began"), kinds.count("Ended"), len(kinds)) == (2, 2, 32)


def test_the_examples_of_how_to_extend_work(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    event_type, command, projection, *_ = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "weather_events.py").write_text(event_type)
    (tmp_path / "count_command.py").write_text(command)
    (tmp_path / "weather_skies.py").write_text(projection)
    use = """
import count_command, playhead, weather_events
from playhead.projections.materialised import Materialised
from weather_skies import skies
from playhead.cli.app import app
from playhead.eventstore.registry import event_types

print(event_types.decode("weather/observed", {"sky": "grey"}).sky)
with playhead.open_store("store.sqlite") as store, store.create(playhead.SessionHeader("s", 1)) as session:
    session.append([playhead.NewEvent("weather/observed", {"sky": "blue"})] * 2)
    print(playhead.fold(session, skies).state)
    materialised = Materialised(store, skies)
    materialised.catch_up()
    print(materialised.view("s"), materialised.status().rows, flush=True)
app(["--store", "store.sqlite", "count"])
"""
    done = subprocess.run(
        [sys.executable, "-c", use],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (
        0,
        "grey\nSkies(seen={'blue': (0, 2)})\n{'blue': 2} 1\n1\n",
    ), done.stderr


def test_the_example_of_an_agent_that_talks_to_a_recording_passes(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    *_, dialect, tool, test = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "old_server.py").write_text(dialect)
    (tmp_path / "file_tools.py").write_text(tool)
    (tmp_path / "test_shopping.py").write_text(test)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path / "test_shopping.py")],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, "1 passed" in done.stdout) == (0, True), done.stdout


def test_files_that_a_page_names_are_there() -> None:
    folders = "eventstore|projections|replay|live|adapters|web|cli|tests|docs|examples|migrations"
    missing = [
        f"{page.name}: {named}"
        for page in PAGES
        for named in re.findall(rf"`((?:{folders})/[\w./-]*)", page.read_text(encoding="utf-8"))
        if not (ROOT / named).exists()
    ]
    assert not missing


def test_every_dependency_is_named_with_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    names = {re.match(r"[\w-]+", requirement)[0] for requirement in wanted}  # type: ignore[index]
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    assert set(re.findall(r"(?m)^\| `([\w-]+)` \|", page)) == names
