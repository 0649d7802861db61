"""``docs/store.md`` names every table and every column."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from playhead.eventstore.sql import schema

PAGE = (Path(__file__).parents[3] / "docs" / "store.md").read_text()


@pytest.mark.parametrize("table", list(schema.metadata.tables.values()), ids=lambda table: table.name)
def test_the_page_about_the_store_names_every_column(table: object) -> None:
    name, columns = table.name, [column.name for column in table.columns]  # type: ignore[attr-defined]
    section = re.search(rf"^## {name}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert section, f"docs/store.md has no section {name}"
    named = set(re.findall(r"`([a-z0-9_]+)`", section.group(1)))
    assert set(columns) <= named
