"""Writes what describes the read tables, from what the projections declare.

    python examples/describe_tables.py

That is a part of docs/read-models.md, and the metadata for Datasette with the example queries of that page. A test
holds both against the declarations, so run this after a table has changed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from playhead.eventstore.read_table import COMMON_COLUMNS, Column, ReadTable
from playhead.eventstore.sql import fact_view
from playhead.projections import registry

PAGE = Path(__file__).resolve().parents[1] / "docs" / "read-models.md"
METADATA = Path(__file__).resolve().parent / "datasette" / "metadata.json"
BEGIN = "<!-- The tables: made by examples/describe_tables.py. -->"
END = "<!-- End of the tables. -->"


def described() -> str:
    """All tables as Markdown: the columns that they share, each table by name, and the view of facts."""
    tables = sorted(
        ((table, projection) for projection in registry.every() for table in projection.tables),
        key=lambda pair: pair[0].name,
    )
    parts = ["### Columns of every table", "", *_columns(COMMON_COLUMNS), ""]
    for table, projection in tables:
        asked = f" Made on request: `playhead project {projection.name}`." if projection.on_request else ""
        parts += [
            f"### {table.name}",
            "",
            f"{table.meaning}{asked} Projection `{projection.name}`. {_key(table)}",
            "",
        ]
        parts += [*_columns(table.columns), ""]
    parts += ["### fact", "", "On SQLite: every stored fact, token deltas among them, wherever it lies.", ""]
    parts += ["| Column | Meaning |", "|---|---|"]
    parts += [f"| `{name}` | {meaning} |" for name, meaning in fact_view.COLUMNS.items()]
    return "\n".join(parts) + "\n"


def _key(table: ReadTable) -> str:
    names = ", ".join(f"`{name}`" for name in dict.fromkeys(("session_id", *table.key)))
    return f"Key: {names}."


def _columns(columns: Iterable[Column]) -> Iterator[str]:
    yield "| Column | Type | Meaning |"
    yield "|---|---|---|"
    for column in columns:
        kind = column.kind if column.optional is False else f"{column.kind}, NULL"
        refers = "" if column.references is None else f"; see `{'.'.join(column.references)}` of the session"
        yield f"| `{column.name}` | {kind} | {column.meaning}{refers} |"


def rewritten(page: str) -> str:
    """``page`` with the tables as they are declared now."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{described()}\n{END}{after}"


def examples(page: str) -> Iterator[tuple[str, str, str]]:
    """The example queries of the page: heading, engine ("" for both), SQL."""
    for heading, section in re.findall(r"(?ms)^### ([^\n]+)\n(.*?)(?=^##|\Z)", page):
        for engine, query in re.findall(r"(?ms)^```sql ?(\w*)\n(.*?)^```", section):
            yield heading, engine, query.strip()


def metadata(page: str) -> dict[str, Any]:
    """What Datasette shows beside the tables: their meanings, and the queries that need nothing but the tables."""
    return {
        "title": "Playhead",
        "databases": {
            "playhead": {
                "description": "What the logs of agent sessions say. Times are epoch milliseconds.",
                "queries": {
                    re.sub(r"\W+", "-", heading.lower()): {"title": heading, "sql": query}
                    for heading, engine, query in examples(page)
                    if engine != "postgres" and f"FROM {fact_view.NAME}" not in query
                },
                "tables": {
                    table.name: {
                        "description": table.meaning,
                        "columns": {
                            column.name: column.meaning for column in (*COMMON_COLUMNS, *table.columns)
                        },
                    }
                    for projection in registry.every()
                    for table in projection.tables
                },
            }
        },
    }


def as_file(value: dict[str, Any]) -> str:
    """The JSON of a file that people may read."""
    return json.dumps(value, indent=2) + "\n"


if __name__ == "__main__":
    text = rewritten(PAGE.read_text(encoding="utf-8"))
    PAGE.write_text(text, encoding="utf-8")
    METADATA.write_text(as_file(metadata(text)), encoding="utf-8")
