from __future__ import annotations

import csv
import json
import signal
from pathlib import Path

import pytest
from children import start_playhead
from cli_runner import Play
from scripted_server import LONG_S
from stores import postgres_url

from playhead.cli import output

COUNT = "SELECT type, count(*) AS n FROM fact WHERE session = 'plain-v0' GROUP BY type ORDER BY n DESC, type"


def test_rows_are_tab_separated_for_a_program(full: Play) -> None:
    ran = full("sql", COUNT)
    assert ran.code == 0
    assert ran.rows[0] == ["assistant/chunk", "19"]
    assert sum(int(row[1]) for row in ran.rows) == 33


def test_a_person_sees_headings_and_numbers_to_the_right(full: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "on_terminal", lambda: True)
    heading, first, *_ = full("sql", COUNT).lines
    assert heading.split() == ["type", "n"]
    assert first.endswith(" 19")
    assert len(heading) == len(first)
    assert full("sql", f"{COUNT} LIMIT 0").lines == ["type  n"]


def test_long_cells_are_cut_for_a_person_only(full: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    wide = f"SELECT '{'x' * 300}' AS a, 1 AS b"
    assert "x" * 300 in full("sql", wide).out.decode()
    monkeypatch.setattr(output, "on_terminal", lambda: True)
    assert max(map(len, full("sql", wide).lines)) <= 100


def test_pages_follow_each_other_without_a_loss(full: Play) -> None:
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1001) SELECT i FROM n"
    assert [int(row[0]) for row in full("sql", numbers).rows] == list(range(1, 1002))


def test_json_gives_an_object_a_row_and_loses_no_column(full: Play) -> None:
    (row,) = full(
        "sql", "--json", "SELECT 1 AS a, 'b' AS a, NULL AS c, 1.5 AS d, x'00ff' AS e, 1e999 AS f"
    ).json_lines
    assert row == {"a": 1, "a_2": "b", "c": None, "d": 1.5, "e": "x'00ff'", "f": "inf"}


def test_csv_has_names_and_quotes(full: Play) -> None:
    ran = full(
        "sql",
        "--csv",
        """SELECT 'a "b", c' AS "x,y", NULL AS z, 'two
lines' AS w""",
    )
    assert list(csv.reader(ran.out.decode().splitlines(keepends=True))) == [
        ["x,y", "z", "w"],
        ['a "b", c', "", "two\nlines"],
    ]


def test_control_characters_are_escaped_in_a_table(full: Play) -> None:
    assert full("sql", "SELECT char(27) || '[31m'").out == b"\\x1b[31m\n"


def test_a_query_comes_from_standard_input(full: Play) -> None:
    assert full("sql", "-", stdin=COUNT.encode()).rows == full("sql", COUNT).rows


@pytest.mark.parametrize(
    "words", [["SELEC 1"], ["SELECT"], ["DROP TABLE event"], ["--json", "--csv", "SELECT 1"]]
)
def test_what_cannot_be_answered_is_wrong_usage_in_one_line(full: Play, words: list[str]) -> None:
    ran = full("sql", *words)
    assert (ran.code, ran.out) == (2, b"")
    assert ran.err.count("\n") == 1


def test_input_that_is_no_text_is_wrong_usage(full: Play) -> None:
    ran = full("sql", "-", stdin=b"SELECT '\xff'")
    assert ran.code == 2
    assert "not text" in ran.err


def test_the_place_of_an_error_is_told(full: Play) -> None:
    assert "line 1, column 8: no such column: missing" in full("sql", "SELECT missing").err


@pytest.mark.parametrize(
    ("table", "makes"),
    [("read_turn", "project"), ("main.READ_SESSION", "project"), ("read_event", "project events")],
)
def test_of_a_read_table_that_is_not_there_it_is_told_what_makes_it(
    full: Play, table: str, makes: str
) -> None:
    ran = full("sql", f"SELECT * FROM {table}")
    assert ran.code == 2
    assert ran.err.endswith(f"no such table: {table}; `playhead {makes}` makes it\n")
    assert full("sql", "SELECT * FROM nowhere").err.endswith("no such table: nowhere\n")


def test_a_query_that_takes_too_long_exits_3(full: Play) -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
    ran = full("sql", "--timeout", "0.1", endless)
    assert ran.code == 3
    assert "0.1 s" in ran.err


def test_without_a_store_it_says_so(play: Play) -> None:
    ran = play("sql", "SELECT 1")
    assert ran.code == 3
    assert "playhead import" in ran.err


def test_every_form_works_on_postgresql(play: Play, home: Path) -> None:
    query = """SELECT s.key AS session, count(*) AS n, sum(s.lines) AS lines, true AS yes,
                      '{"a":  1}'::json AS doc, ARRAY[1, 2] AS list, now()::date - now()::date AS days
                 FROM session s WHERE key = 'plain-v0' GROUP BY 1"""
    with postgres_url() as url:
        assert play("import", "--store", url, home).code == 1
        (row,) = play("sql", "--store", url, "--json", query).json_lines
        assert row == {
            "session": "plain-v0",
            "n": 1,
            "lines": 33,
            "yes": True,
            "doc": '{"a":  1}',
            "list": [1, 2],
            "days": 0,
        }
        assert play("sql", "--store", url, query).rows == [
            ["plain-v0", "1", "33", "true", '{"a":  1}', "[1,2]", "0"]
        ]
        assert play("sql", "--store", url, "DELETE FROM session").code == 2
        missing = play("sql", "--store", url, "SELECT * FROM read_turn")
        assert missing.code == 2
        assert "`playhead project` makes it" in missing.err
        assert "`playhead project events`" in play("sql", "--store", url, "SELECT * FROM fact").err


def interrupted(query: str, store: object) -> tuple[int, bytes]:
    """The exit code and stderr of a query that gets a Ctrl-C once its first rows are there."""
    process = start_playhead("sql", "--json", query, store=store)
    assert process.stdout is not None
    try:
        assert process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=LONG_S)
    finally:
        process.kill()
    return process.returncode, err


SOME = "WITH RECURSIVE some(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM some WHERE i < 5000)"
ENDLESS = "all_of_them(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM all_of_them)"


@pytest.mark.parametrize(
    "endless", ["SELECT max(i) FROM all_of_them", "SELECT max(a.time_ms) FROM fact a, fact b, fact c, fact d"]
)
@pytest.mark.usefixtures("full")
def test_ctrl_c_interrupts_a_query(store_file: Path, endless: str) -> None:
    assert interrupted(f"{SOME}, {ENDLESS} SELECT i FROM some UNION ALL {endless}", store_file) == (
        130,
        b"playhead: stopped\n",
    )


@pytest.mark.usefixtures("full")
def test_a_reader_that_goes_away_is_no_error(store_file: Path) -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
    process = start_playhead("sql", "--json", endless, store=store_file)
    assert process.stdout is not None
    assert json.loads(process.stdout.readline()) == {"i": 1}
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    assert process.wait(timeout=20) == 141


def test_ctrl_c_interrupts_a_query_on_postgresql(play: Play, home: Path) -> None:
    endless = "SELECT i, CASE WHEN i > 5000 THEN pg_sleep(600) END FROM generate_series(1, 6000) i"
    with postgres_url() as url:
        assert play("import", "--store", url, home).code == 1
        code, _ = interrupted(endless, url)
        assert code == 130
