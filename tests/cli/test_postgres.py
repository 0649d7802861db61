"""The commands on PostgreSQL: the same words, the same bytes."""

from __future__ import annotations

from pathlib import Path

from cli_runner import Play
from stores import postgres_url


def test_every_command_works_on_postgresql(play: Play, home: Path, tmp_path: Path) -> None:
    with postgres_url() as url:
        assert play("--store", url, "sessions").code == 3
        assert play("import", "--store", url, home).code == 1
        assert len(play("sessions", "--store", url).rows) == 9
        assert len(play("events", "packed-v0", "--store", url).rows) == 33
        assert play("export", "--all", "-o", tmp_path / "out", "--store", url).code == 0
        for file in home.rglob("*.jsonl*"):
            assert (tmp_path / "out" / file.relative_to(home)).read_bytes() == file.read_bytes()
        assert play("verify", "plain-v0", "--store", url).code == 0
        for words in (["seal"], ["status"], ["upgrade"]):
            assert play("store", *words, "--store", url).code == 0
        assert play("doctor", "--json", "--store", url).json["store"]["sessions"] == 9


def test_a_server_out_of_reach_exits_3_in_one_line_without_the_password(play: Play) -> None:
    ran = play("sessions", "--store", "postgresql://me:secret@127.0.0.1:1/none")
    assert ran.code == 3
    assert ran.err.count("\n") == 1
    assert "secret" not in ran.err
