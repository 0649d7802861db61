"""The projections by name: those of this folder, and those of installed packages.

Every module of this folder is imported; a ``Projection`` that it defines at its top level joins under its name. A
package adds its own through an entry point of the group ``playhead.projections`` that names a ``Projection``. One that
does not load, or does not fit, is left out with a warning: a broken package never stops a reader. Two projections
of one name, or two tables of one name, would hide each other; in this folder that is an error.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pkgutil import iter_modules
from typing import Any

import playhead.projections
from playhead.eventstore.errors import UsageError
from playhead.projections.projection import COMMON_COLUMNS, Projection

GROUP = "playhead.projections"
"""Entry points of this group name further projections."""

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_TABLE = re.compile(r"read_[a-z0-9_]{1,35}")
_COLUMN = re.compile(r"[a-z][a-z0-9_]{0,62}")


def every() -> tuple[Projection[Any], ...]:
    """All projections, in the order of their names."""
    return tuple(_registered().values())


def find(name: str) -> Projection[Any]:
    """The projection of this name. Raises ``UsageError``, which says what there is."""
    found = _registered().get(name)
    if found is None:
        raise UsageError(f"there is no projection {name!r}; there are: {', '.join(_registered())}")
    return found


@cache
def _registered() -> dict[str, Projection[Any]]:
    known = join({}, _of_this_folder())
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        try:
            known = join(known, [entry.load()])
        except Exception as error:
            warnings.warn(
                f"the projection {entry.name} ({entry.value}) is left out: {error!r}",
                RuntimeWarning,
                stacklevel=2,
            )
    return dict(sorted(known.items()))


def _of_this_folder() -> Iterator[Projection[Any]]:
    seen: set[int] = set()
    for found in iter_modules(playhead.projections.__path__):
        module = import_module(f"playhead.projections.{found.name}")
        for value in vars(module).values():
            if isinstance(value, Projection) and id(value) not in seen:
                seen.add(id(value))
                yield value


def join(known: dict[str, Projection[Any]], more: Iterable[Projection[Any]]) -> dict[str, Projection[Any]]:
    """``known`` with ``more`` added. Raises ``UsageError`` for a taken name or an unsound declaration."""
    joined = dict(known)
    tables = {table.name: name for name, other in known.items() for table in other.tables}
    for projection in more:
        if not isinstance(projection, Projection):
            raise UsageError(f"{projection!r} is no Projection")
        _require_sound(projection)
        if projection.name in joined:
            raise UsageError(f"there are two projections named {projection.name!r}")
        for table in projection.tables:
            if table.name in tables:
                raise UsageError(
                    f"{projection.name}: the table {table.name} is one of {tables[table.name]} already"
                )
            tables[table.name] = projection.name
        joined[projection.name] = projection
    return joined


def _require_sound(projection: Projection[Any]) -> None:
    """Raise ``UsageError`` for names and tables that no store could show."""

    def no_good(what: str) -> UsageError:
        return UsageError(f"projection {projection.name!r}: {what}")

    if not _NAME.fullmatch(projection.name):
        raise no_good("a name is lower-case words joined by hyphens")
    if projection.version < 1:
        raise no_good("versions count from 1")
    common = {column.name for column in COMMON_COLUMNS}
    columns = {table.name: {column.name for column in table.columns} for table in projection.tables}
    for table in projection.tables:
        own = [column.name for column in table.columns]
        if not _TABLE.fullmatch(table.name):
            raise no_good(
                f"table {table.name!r}: a table is read_ and up to 35 lower-case letters, digits and _"
            )
        if len(set(own)) < len(own) or common & set(own) or not all(map(_COLUMN.fullmatch, own)):
            raise no_good(f"{table.name}: a column's name is taken or not lower-case")
        if not table.key or not set(table.key) <= {*own, "seq"}:
            raise no_good(f"{table.name}: the key is not among its columns")
        if any(column.kind == "json" and column.name in table.key for column in table.columns):
            raise no_good(f"{table.name}: JSON is no key")
        if table.appended and projection.emit is None:
            raise no_good(f"{table.name} is appended to, and nothing emits its rows")
        for column in table.columns:
            if column.references is not None:
                target, name = column.references
                if name not in columns.get(target, ()) and (name != "seq" or target not in columns):
                    raise no_good(
                        f"{table.name}.{column.name} references {target}.{name}, which is not there"
                    )
