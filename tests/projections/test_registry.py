"""Projections are found by being there, and no two of them get into each other's way."""

from __future__ import annotations

import dataclasses
import importlib.metadata
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import EntryPoint
from pkgutil import iter_modules
from typing import Any

import pytest
from sample_projections import TALLY, seen, tally

import playhead.projections
from playhead.eventstore.errors import UsageError
from playhead.projections import registry
from playhead.projections.projection import Column, Projection, ReadTable


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[EntryPoint]]:
    """Entry points of the group, as other packages would bring them."""
    entries: list[EntryPoint] = []
    real = importlib.metadata.entry_points
    monkeypatch.setattr(
        registry,
        "entry_points",
        lambda group: entries if group == registry.GROUP else real(group=group),
    )
    registry._registered.cache_clear()
    yield entries
    registry._registered.cache_clear()


def test_every_projection_of_the_folder_is_found_by_its_name() -> None:
    defined = {
        value.name: value
        for module in iter_modules(playhead.projections.__path__)
        for value in vars(import_module(f"playhead.projections.{module.name}")).values()
        if isinstance(value, Projection)
    }
    assert defined
    assert {found.name for found in registry.every()} >= set(defined)
    for name, value in defined.items():
        assert registry.find(name) is value
    assert [found.name for found in registry.every()] == sorted(found.name for found in registry.every())


def test_a_name_that_nobody_has_is_answered_with_those_there_are() -> None:
    with pytest.raises(UsageError, match=registry.every()[0].name):
        registry.find("nobody")


def test_a_package_adds_a_projection(installed: list[EntryPoint]) -> None:
    installed.append(EntryPoint("mine", "sample_projections:seen", registry.GROUP))
    assert registry.find("seen") is seen


@pytest.mark.parametrize(
    "value", ["no_such_module:it", "sample_projections:nothing", "sample_projections:tally"]
)
def test_a_package_that_is_broken_is_left_out_with_a_warning(installed: list[EntryPoint], value: str) -> None:
    installed += [
        EntryPoint("broken", value, registry.GROUP),
        EntryPoint("mine", "sample_projections:seen", registry.GROUP),
    ]
    with pytest.warns(RuntimeWarning, match="broken"):
        assert registry.find("seen") is seen


def test_a_name_or_a_table_that_is_taken_is_an_error() -> None:
    known = registry.join({}, [tally()])
    with pytest.raises(UsageError, match="two projections named 'tally'"):
        registry.join(known, [tally()])
    with pytest.raises(UsageError, match="read_tally is one of tally already"):
        registry.join(known, [tally(name="other")])
    assert registry.join(known, [tally(name="other", tables=())]).keys() == {"tally", "other"}


def _table(**changes: Any) -> ReadTable:
    return dataclasses.replace(TALLY, **changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "Tally"},
        {"name": ""},
        {"version": 0},
        {"tables": (_table(name="tally"),)},
        {"tables": (_table(name="read_" + "x" * 36),)},
        {"tables": (_table(key=()),)},
        {"tables": (_table(key=("nobody",)),)},
        {"tables": (_table(key=("detail",)),)},
        {"tables": (_table(appended=True),)},
        {"tables": (_table(columns=(Column("text", "text", "x"), Column("text", "int", "x"))),)},
        {"tables": (_table(columns=(Column("text", "text", "x"), Column("seq", "int", "x"))),)},
        {"tables": (_table(columns=(Column("text", "text", "x"), Column('"', "int", "x"))),)},
        {"tables": (_table(columns=(Column("text", "text", "x", references=("read_other", "x")),)),)},
        {"tables": (_table(columns=(Column("text", "text", "x", references=("read_tally", "x")),)),)},
    ],
    ids=str,
)
def test_a_declaration_that_no_store_could_show_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        registry.join({}, [tally(**changes)])


def test_a_reference_to_a_column_of_the_same_projection_is_fine() -> None:
    columns = (Column("text", "text", "x"), Column("other", "text", "x", references=("read_tally", "text")))
    registry.join({}, [tally(tables=(_table(columns=columns),))])
