"""Imports point left: eventstore <- projections <- replay <- {live, adapters} <- web <- cli.

The checker reads source text, so that a rule also covers imports inside functions, under TYPE_CHECKING and by
name through importlib. Layers that do not exist yet have their rules already.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

MAY_IMPORT: dict[str, frozenset[str]] = {
    "eventstore": frozenset(),
    "projections": frozenset({"eventstore"}),
    "replay": frozenset({"eventstore", "projections"}),
    "live": frozenset({"eventstore", "projections", "replay"}),
    "adapters": frozenset({"eventstore", "projections", "replay"}),
    "web": frozenset({"eventstore", "projections", "replay", "live", "adapters", "playhead"}),
    "cli": frozenset({"eventstore", "projections", "replay", "live", "adapters", "web", "playhead"}),
    "migrations": frozenset({"eventstore"}),
    "playhead": frozenset({"eventstore", "projections", "replay", "live", "adapters"}),
}
"""Layer -> the layers it may import; each may import itself. ``playhead`` is the root package."""

LAYERS = frozenset(MAY_IMPORT) - {"playhead"}

AT_HOME: dict[str, tuple[str, ...]] = {
    "sqlalchemy": ("playhead.eventstore.sql", "playhead.migrations"),
    "alembic": ("playhead.eventstore.sql", "playhead.migrations"),
    "psycopg": ("playhead.eventstore.sql", "playhead.migrations"),
    "httpx": ("playhead.adapters",),
    "starlette": ("playhead.web",),
    "uvicorn": ("playhead.web",),
    "jinja2": ("playhead.web",),
    "typer": ("playhead.cli",),
    "rich": ("playhead.cli",),
    "prompt_toolkit": ("playhead.cli",),
}
"""Library -> the only packages that may import it."""

IMPURE = frozenset({"asyncio", "anyio", "datetime", "random", "secrets", "threading", "time", "uuid"})
"""Modules with a clock, randomness or concurrency: a fold in ``projections`` has no use for them."""


def imported_names(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Every module that ``tree`` imports, with its line; ``from a import b`` yields ``a.b``.

    A relative import yields a name that begins with a dot.
    """
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from ((alias.name, node.lineno) for alias in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                stem = "." * level + (module or "")
                yield from ((f"{stem}.{alias.name}", node.lineno) for alias in names)
            case ast.Call(
                func=ast.Name(id="__import__" | "import_module")
                | ast.Attribute(attr="import_module" | "__import__"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield name, node.lineno


def breaches(module: str, source: str) -> list[str]:
    """What ``source`` does that the module named ``module`` (``playhead.x.y`` or ``tests.y``) may not do."""
    tree = ast.parse(source)
    found = []
    parts = module.split(".")
    is_test = parts[0] == "tests"
    layer = parts[1] if len(parts) > 1 and parts[1] in LAYERS else "playhead"
    if module == "playhead.__main__":
        layer = "cli"  # it lies where Python looks for it, and is the command line
    for name, line in imported_names(tree):
        where = f"{module}:{line}"
        first, _, rest = name.partition(".")
        second = rest.partition(".")[0]
        if not first:
            found.append(f"{where}: relative import {name}")
        elif first in LAYERS:
            found.append(f"{where}: bare import {first}, makes a second copy of every class")
        elif is_test:
            continue
        elif first == "tests":
            found.append(f"{where}: imports tests")
        elif first == "playhead":
            target = second if second in LAYERS else "playhead"
            if target != layer and target not in MAY_IMPORT[layer]:
                found.append(f"{where}: {layer} imports {target}")
        elif first in AT_HOME and not any(f"{module}.".startswith(f"{home}.") for home in AT_HOME[first]):
            found.append(f"{where}: imports {first} outside {', '.join(AT_HOME[first])}")
        elif layer == "projections" and first in IMPURE:
            found.append(f"{where}: projections imports {first}")
    if layer == "projections" and not is_test:
        found += [
            f"{module}:{node.lineno}: projections is async"
            for node in ast.walk(tree)
            if isinstance(node, ast.AsyncFunctionDef | ast.AsyncFor | ast.AsyncWith | ast.Await)
        ]
    return found


def modules() -> Iterator[tuple[str, Path]]:
    """(dotted name, file) of every module of the package and of the tests."""
    for path in sorted((ROOT / "playhead").glob("*.py")):
        yield ("playhead" if path.stem == "__init__" else f"playhead.{path.stem}"), path
    for folder in sorted(LAYERS | {"tests"}):
        for path in sorted((ROOT / folder).rglob("*.py")):
            dotted = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            yield (dotted if folder == "tests" else f"playhead.{dotted}"), path


def test_imports_point_left_and_libraries_stay_at_home() -> None:
    found = [
        breach for name, path in modules() for breach in breaches(name, path.read_text(encoding="utf-8"))
    ]
    assert not found, "\n".join(found)


def test_every_layer_on_disk_has_its_link_and_every_link_its_layer() -> None:
    folders = {layer for layer in LAYERS if (ROOT / layer / "__init__.py").is_file()}
    links = {path.name: path.readlink() for path in (ROOT / "playhead").iterdir() if path.is_symlink()}
    assert links == {layer: Path("..") / layer for layer in folders}


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("playhead.eventstore.log", "import playhead.projections.inbox"),
        ("playhead.eventstore.log", "from playhead import projections"),
        ("playhead.eventstore.log", "from playhead import open_store"),
        ("playhead.eventstore.log", "def f():\n    from playhead.adapters.dsh import reader"),
        ("playhead.eventstore.log", "if TYPE_CHECKING:\n    from playhead.replay import player"),
        ("playhead.eventstore.log", "importlib.import_module('playhead.cli.main')"),
        ("playhead.projections.inbox", "from playhead.replay import player"),
        ("playhead.replay.player", "from playhead.live import driver"),
        ("playhead.live.driver", "from playhead.adapters.providers import deepseek"),
        ("playhead.adapters.dsh.reader", "from playhead.live import driver"),
        ("playhead.adapters.dsh.reader", "from playhead.web import app"),
        ("playhead.web.app", "from playhead.cli import main"),
        ("playhead.cli.main", "from playhead.migrations import env"),
        ("playhead.migrations.env", "from playhead.cli import main"),
        ("playhead", "from playhead.cli.main import main"),
        ("playhead", "from playhead.web.app import app"),
        ("playhead.eventstore.log", "import eventstore.ids"),
        ("playhead.cli.main", "from eventstore import ids"),
        ("tests.eventstore.test_log", "from eventstore import ids"),
        ("playhead.eventstore.log", "from . import ids"),
        ("playhead.eventstore.log", "from tests.helpers import reference"),
        ("playhead.eventstore.log", "import sqlalchemy as sa"),
        ("playhead.eventstore.sqlite_rows", "from sqlalchemy.engine import Engine"),
        ("playhead.cli.doctor", "import psycopg"),
        ("playhead.eventstore.log", "import httpx"),
        ("playhead.cli.main", "from httpx import AsyncClient"),
        ("playhead.cli.main", "from starlette.applications import Starlette"),
        ("playhead.web.app", "import typer"),
        ("playhead.replay.player", "from rich.table import Table"),
        ("playhead.projections.usage", "import time"),
        ("playhead.projections.usage", "from datetime import datetime"),
        ("playhead.projections.usage", "from random import random"),
        ("playhead.projections.usage", "import uuid"),
        ("playhead.projections.usage", "async def fold(): ..."),
    ],
)
def test_the_checker_catches_each_kind_of_breach(module: str, source: str) -> None:
    assert len(breaches(module, source)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("playhead.eventstore.sql.store", "import sqlalchemy\nfrom playhead.eventstore import ids"),
        (
            "playhead.migrations.env",
            "import alembic\nfrom playhead.eventstore.sql import schema",
        ),
        ("playhead.adapters.client", "import httpx\nfrom playhead.eventstore.ids import Seq"),
        ("playhead.cli.events", "import typer\nimport rich.table\nfrom playhead import open_store"),
        ("playhead.eventstore.clock", "import time\nimport asyncio\nasync def tick(): ..."),
        ("playhead", "from playhead.adapters.dsh import DIALECTS\nfrom playhead.eventstore import sql"),
        ("playhead.__main__", "from playhead.cli.main import main"),
        ("tests.test_cli", "import typer\nimport time\nfrom playhead.cli.main import main"),
    ],
)
def test_the_checker_lets_allowed_imports_pass(module: str, source: str) -> None:
    assert breaches(module, source) == []
