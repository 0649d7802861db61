"""``playhead fork``: into the store, files and a dsh home; and sessions made here, given to dsh by ``export``."""

from __future__ import annotations

import json
import os
import signal
import stat
from pathlib import Path
from typing import Any

import pytest
from children import frames, kill_after, log, playhead, start_playhead
from cli_runner import Play
from twins import read_log

from playhead import NewEvent, open_store
from playhead.adapters.dsh.importer import import_paths
from playhead.adapters.dsh.strict import read_strict
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId

HEADER = {"type": "session", "version": 0, "id": "s1", "createdAt": 1, "cwd": "/w", "delegationDepth": 0}


def event(seq: int, type: str, data: Any, **envelope: Any) -> dict[str, Any]:
    return {"type": type, "seq": seq, "time": 1_780_000_000_000 + seq, "data": data, **envelope}


def chunk(seq: int, text: str) -> dict[str, Any]:
    delta = {"type": "text-delta", "index": 0, "text": text}
    return event(seq, "assistant/chunk", {"turn": 1, "step": 1, "chunk": delta})


PROMPT = {"content": [{"type": "text", "text": "Hi."}], "source": {"kind": "user"}, "role": "user", "id": "u"}
OPEN = [
    event(0, "agent/inbox/spliced", {"target": "next-turn", "start": 0, "inserted": [PROMPT]}),
    event(1, "turn/start", {"turn": 1}),
    event(2, "agent/inbox/spliced", {"target": "next-turn", "start": 0, "removedCount": 1, "inserted": []}),
    event(3, "step/start", {"turn": 1, "step": 1}),
    event(4, "user/message", PROMPT, surfaceOp="append"),
    *(chunk(seq, text) for seq, text in enumerate(["one", "two", "three"], 5)),
]
CLOSED = [
    *OPEN,
    event(8, "step/end", {"turn": 1, "step": 1}),
    event(9, "turn/end", {"turn": 1, "reason": {"kind": "completed"}}),
    event(10, "feedback/record", {"text": "fine"}),
]


def write(file: Path, events: list[dict[str, Any]], tail: bytes = b"") -> Path:
    lines = [json.dumps(line).encode() + b"\n" for line in [HEADER, *events]]
    file.write_bytes(b"".join(lines) + tail)
    return file


@pytest.fixture
def held(play: Play, tmp_path: Path) -> Play:
    """``play`` on a store with a session of one closed turn."""
    assert play("import", write(tmp_path / "s1.jsonl", CLOSED)).code == 0
    return play


@pytest.fixture
def torn(play: Play, tmp_path: Path) -> Play:
    """``play`` on a store with a session whose last line is torn, in an open turn."""
    assert play("import", write(tmp_path / "torn.jsonl", OPEN, b'{"type":"assis')).code == 1
    return play


def shown(play: Play, session: str) -> list[dict[str, Any]]:
    """The events of a session, without their positions in the store."""
    lines = play("events", session, "--json").json_lines
    return [{key: value for key, value in line.items() if key != "position"} for line in lines]


# Into the store


def test_a_fork_goes_into_the_store_and_its_id_is_printed(held: Play) -> None:
    before = held("export", "s1").out
    ran = held("fork", "s1", "--id", "child")
    assert (ran.code, ran.out, ran.err) == (0, b"child\n", "")
    *events, marker = shown(held, "child")
    assert events == shown(held, "s1")
    assert (marker["type"], marker["data"]) == ("session/end-seed", {})
    (row,) = held("sessions", "--parent", "s1", "--json").json_lines
    assert (row["id"], row["seedLength"], row["parentSession"]) == ("child", 11, "s1")
    assert held("export", "s1").out == before
    assert held("verify").code == 0


def test_without_an_id_each_fork_gets_a_new_one(held: Play) -> None:
    ids = {held("fork", "s1").lines[0] for _ in range(2)}
    assert len(ids) == 2
    assert {row["id"] for row in held("sessions", "--json").json_lines} == {"s1", *ids}


def test_json_says_what_was_made(held: Play) -> None:
    assert held("fork", "s1", "--id", "child", "--at", 9, "--json").json == {
        "id": "child",
        "parent": "s1",
        "at": 9,
        "seedLength": 10,
        "events": 11,
        "closers": 0,
        "leftOut": 0,
        "lost": 0,
        "file": None,
        "refused": None,
    }


def test_a_log_file_is_forked_into_the_store_that_there_is(held: Play, tmp_path: Path) -> None:
    other = write(tmp_path / "other.jsonl", CLOSED[:1])
    assert held("fork", other, "--id", "child").code == 0
    assert [row["type"] for row in held("events", "child", "--json").json_lines] == [
        "agent/inbox/spliced",
        "session/end-seed",
    ]
    assert held("inbox", "child").code == 0


def test_a_log_file_is_not_forked_into_a_store_that_is_not_there(play: Play, tmp_path: Path) -> None:
    ran = play("fork", write(tmp_path / "other.jsonl", CLOSED))
    assert ran.code == 3
    assert "playhead import" in ran.err


def test_a_fork_of_a_fork_names_it(held: Play) -> None:
    held("fork", "s1", "--id", "child")
    assert held("fork", "child", "--id", "grandchild").code == 0
    (row,) = held("sessions", "--parent", "child", "--json").json_lines
    assert (row["id"], row["seedLength"]) == ("grandchild", 12)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--at", "11"], "its seqs are 0 to 10"),
        (["--at", "5"], "fork at seq 0, or at the end of the turn or behind it, or let the fork close it"),
        (["--id", "s1"], "already exists"),
        (["--id", ""], "needs an id"),
        (["--cwd", ""], "needs a folder"),
        (["-o", "x.txt"], "NAME.jsonl"),
        (["-o", "x.jsonl", "--dsh-home", "."], "give one of them"),
        (["--force"], "--force goes with"),
        (["--dsh-home", "no-such-folder"], "no such folder"),
    ],
)
def test_what_cannot_be_is_wrong_usage_and_makes_nothing(
    held: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = held("fork", "s1", *words)
    assert (ran.code, ran.out) == (2, b"")
    assert said in ran.err
    assert len(held("sessions").lines) == 1
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix != ".sqlite") == ["s1.jsonl"]


# Repaired


def test_a_crashed_session_needs_repair_and_the_fork_says_what_that_did(torn: Play) -> None:
    ran = torn("fork", "s1")
    assert ran.code == 1
    assert "--repaired" in ran.err
    ran = torn("fork", "s1", "--repaired", "--id", "child", "--json")
    assert ran.code == 1, "the original is damaged, and that is said"
    assert (ran.json["closers"], ran.json["lost"]) == (2, 0)
    assert "damaged: torn tail" in ran.err
    assert "2 events added to close the turn" in ran.err
    assert [row["type"] for row in torn("events", "child", "--json").json_lines][-3:] == [
        "step/end",
        "turn/end",
        "session/end-seed",
    ]
    assert len(torn("events", "s1", "--json").json_lines) == 1 + len(OPEN), (
        "a note of the damage, and the events"
    )
    assert torn("fork", "child", "--repaired", "--json").json["closers"] == 0


def test_a_turn_cut_off_by_a_repaired_fork_is_not_said_to_have_crashed(play: Play, tmp_path: Path) -> None:
    begun = {"type": "block-start", "index": 0, "blockType": "text"}
    events = [*CLOSED[:5], event(5, "assistant/chunk", {"turn": 1, "step": 1, "chunk": begun}), *CLOSED[6:]]
    assert play("import", write(tmp_path / "s1.jsonl", events)).code == 0
    assert play("fork", "s1", "--at", "6", "--repaired", "--id", "child").code == 0
    assert play("fork", "child", "--id", "grandchild").code == 0
    for session, words in (("child", "at the fork"), ("grandchild", "by a crash or a fork")):
        shown = play("show", session).out.decode()
        assert "Turn 1" in shown
        assert f"cut off {words}" in shown
        assert f"cut off here, {words}; a repair closed the turn" in shown
        assert f"cut off {words}" in play("show", session, "--format", "markdown").out.decode()
        replayed = play("replay", session, "--speed", "max").out.decode()
        assert "cut off here, in the middle of the model's answer" in replayed
        assert f"cut off here, {words}" in replayed
        for said in (shown, replayed):
            assert "by a crash;" not in said
            assert "died" not in said


def test_an_open_turn_before_the_damage_is_wrong_usage(torn: Play) -> None:
    ran = torn("fork", "s1", "--at", "7")
    assert ran.code == 2
    assert "open turn at seq 7" in ran.err
    assert torn("fork", "s1", "--at", "7", "--repaired").code == 0


# Into files


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.zstd"])
def test_a_file_comes_back_as_the_events_that_went_out(held: Play, tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"out{suffix}"
    ran = held("fork", "s1", "--id", "child", "-o", file, "--json")
    assert ran.code == 0
    assert ran.json["file"] == str(file)
    strict = read_strict(file)
    assert strict.header == SessionHeader(
        SessionId("child"), strict.header.created_ms, cwd="/w", parent=SessionId("s1"), seed_length=11
    )
    assert [event.envelope() for event in strict.events[:-1]] == CLOSED
    assert held("events", file, "--raw").out.count(b"text-chunks") == 1, "packed as dsh packs"
    assert held("import", file).code == 0
    assert len(held("sessions", "--prefix", "child").lines) == 1


def test_a_file_that_is_there_is_kept_unless_force_is_given(held: Play, tmp_path: Path) -> None:
    file = tmp_path / "out.jsonl"
    file.write_bytes(b"mine")
    ran = held("fork", "s1", "-o", file)
    assert (ran.code, file.read_bytes()) == (2, b"mine")
    assert "--force" in ran.err
    assert held("fork", "s1", "-o", file, "--force").code == 0
    assert read_strict(file).header.parent == "s1"


def test_a_file_that_dsh_would_not_open_is_written_and_that_is_said(play: Play, tmp_path: Path) -> None:
    source = write(tmp_path / "odd.jsonl", [*CLOSED, event(11, "x/odd", {})])
    file = tmp_path / "out.jsonl"
    ran = play("fork", source, "-o", file, "--json")
    assert (ran.code, file.exists()) == (1, True)
    assert "seq 11: the type x/odd is unknown to it" in ran.json["refused"]
    assert "dsh will not open" in ran.err


def test_a_dsh_home_gets_the_file_where_dsh_looks_and_for_nobody_else(held: Play, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    assert held("fork", "s1", "--id", "a/b", "--dsh-home", home).code == 0
    file = home / "sessions" / "--w--" / "a~002Fb" / "session.jsonl.zstd"
    assert read_strict(file).header.id == "a/b"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in [*file.parents][:3]} == {0o700}
    assert held("import", home).code == 0


def without_cwd(file: Path) -> Path:
    told = {name: value for name, value in HEADER.items() if name != "cwd"}
    file.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in [told, *CLOSED]))
    return file


def test_a_log_for_dsh_without_a_working_folder_comes_with_a_warning_and_cwd_gives_it_one(
    play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    home = tmp_path / "home"
    home.mkdir()
    log = without_cwd(tmp_path / "s1.jsonl")
    for number, place in enumerate((["-o", tmp_path / "out.jsonl"], ["--dsh-home", home])):
        ran = play("fork", log, "--id", f"bare-{number}", *place)
        assert ran.code == 0
        assert "names no working folder" in ran.err
        assert "--cwd DIR" in ran.err
    ran = play("fork", log, "--id", "child", "--dsh-home", home, "--cwd", "work", "--json")
    assert (ran.code, ran.err) == (0, f"playhead: written to {ran.json['file']}\n")
    file = Path(ran.json["file"])
    assert file.parent.parent.name == "--" + str(tmp_path / "work").strip("/").replace("/", "-") + "--"
    assert read_log(file).header.cwd == str(tmp_path / "work")
    assert play("import", log).code == 0
    ran = play("fork", "s1", "--id", "stored")
    assert (ran.code, ran.err) == (0, ""), "the store needs no folder"


def test_a_fork_works_where_its_parent_did_unless_told(held: Play) -> None:
    assert held("fork", "s1", "--id", "there").code == 0
    assert held("fork", "s1", "--id", "here", "--cwd", "/elsewhere").code == 0
    assert held("fork", "s1", "--id", "windows", "--cwd", "C:\\work").code == 0
    told = {row["id"]: row["cwd"] for row in held("sessions", "--json").json_lines}
    assert told == {"s1": "/w", "there": "/w", "here": "/elsewhere", "windows": "C:\\work"}


def test_export_of_a_session_without_a_working_folder_into_a_dsh_home_warns(
    play: Play, tmp_path: Path, store_file: Path
) -> None:
    with open_store(str(store_file)) as store, store.create(SessionHeader(SessionId("n1"), 1)) as session:
        session.append([NewEvent("turn/start", {"turn": 1})])
    home = tmp_path / "home"
    home.mkdir()
    ran = play("export", "n1", "--dsh-home", home)
    assert ran.code == 0
    assert "names no working folder" in ran.err


def test_a_dsh_home_with_plain_logs_gets_a_plain_one(held: Play, tmp_path: Path) -> None:
    home = tmp_path / "home"
    place = home / "sessions" / "--w--" / "s1"
    place.mkdir(parents=True)
    write(place / "session.jsonl", CLOSED)
    assert held("fork", "s1", "--id", "child", "--dsh-home", home).code == 0
    assert (home / "sessions" / "--w--" / "child" / "session.jsonl").is_file()
    ran = held("fork", "s1", "--id", "child", "--dsh-home", home)
    assert ran.code == 2
    assert "--force" in ran.err


@pytest.mark.parametrize(
    "other", ["--w--/child/session.v4.jsonl.zstd", "--elsewhere--/child/session.jsonl.zstd"]
)
def test_a_dsh_home_never_gets_two_logs_of_one_session(held: Play, tmp_path: Path, other: str) -> None:
    file = tmp_path / "home" / "sessions" / other
    file.parent.mkdir(parents=True)
    file.touch()
    ran = held("fork", "s1", "--id", "child", "--dsh-home", tmp_path / "home", "--force")
    assert ran.code == 2
    assert str(file) in ran.err
    assert [path for path in (tmp_path / "home").rglob("*") if path.is_file()] == [file]


# Sessions made here, given to dsh


@pytest.fixture
def native(store_file: Path) -> str:
    """A session that was written through the Python API."""
    with open_store(str(store_file)) as store:
        session = store.create(SessionHeader(SessionId("mine"), 1_780_000_000_000, cwd="/w"))
        for made in CLOSED:
            session.append(
                [NewEvent(made["type"], made["data"], made["time"], surface_op=made.get("surfaceOp"))]
            )
    return "mine"


@pytest.mark.parametrize("name", ["mine.jsonl", "mine.jsonl.zstd"])
def test_a_native_session_comes_back_with_the_same_lines_and_the_same_head(
    play: Play, native: str, store_file: Path, tmp_path: Path, name: str
) -> None:
    file = tmp_path / name
    assert play("export", native, "-o", file).code == 0
    assert file.read_bytes().startswith(b"\x28\xb5\x2f\xfd") == name.endswith(".zstd")
    strict = read_strict(file)
    assert [event.envelope() for event in strict.events] == CLOSED
    with open_store(str(store_file)) as store, open_store("sqlite://") as other:
        import_paths(other, [file])
        mine, back = store.session(native), other.session(native)
        assert (list(back.lines()), back.info.head) == (list(mine.lines()), mine.info.head)
        assert back.header == mine.header


def test_a_native_session_is_put_into_a_dsh_home(play: Play, native: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    ran = play("export", native, "--dsh-home", home)
    assert (ran.code, ran.out) == (0, b"")
    file = home / "sessions" / "--w--" / "mine" / "session.jsonl.zstd"
    assert str(file) in ran.err
    assert [event.envelope() for event in read_strict(file).events] == CLOSED
    assert play("export", native, "--dsh-home", home).code == 2
    assert play("export", native, "--dsh-home", home, "--force").code == 0


def test_a_native_session_that_dsh_would_not_open_is_named(
    play: Play, native: str, store_file: Path, tmp_path: Path
) -> None:
    with open_store(str(store_file)) as store:
        store.session(native).append([NewEvent("user/message", PROMPT)])
    (tmp_path / "home").mkdir()
    ran = play("export", native, "--dsh-home", tmp_path / "home")
    assert ran.code == 1
    assert "seq 11, user/message: a surface event without surfaceOp" in ran.err


def test_only_sessions_made_here_are_put_into_a_dsh_home_by_export(held: Play, tmp_path: Path) -> None:
    ran = held("export", "s1", "--dsh-home", tmp_path)
    assert ran.code == 2
    assert "playhead fork" in ran.err
    for words in (
        ["s1", "--dsh-home", tmp_path, "--decoded"],
        ["--all", "-o", tmp_path, "--dsh-home", tmp_path],
    ):
        assert held("export", *words).code == 2


# In processes of their own

ROUNDS = 60 if os.environ.get("PLAYHEAD_SOAK") == "1" else 8


@pytest.mark.heavy
def test_a_fork_that_is_killed_leaves_all_of_the_new_session_or_nothing(tmp_path: Path) -> None:
    store = tmp_path / "store.sqlite"
    (tmp_path / "large.jsonl.zstd").write_bytes(frames(log("large", 40_000), 400))
    assert playhead("import", tmp_path / "large.jsonl.zstd", store=store).code == 0
    whole = 0
    for number in range(ROUNDS):
        process = start_playhead("fork", "large", "--repaired", "--id", f"child{number}", store=store)
        if number < ROUNDS - 1:  # the last one is left alone
            kill_after(process, 0.6 + 0.25 * number, signal.SIGKILL)
        process.communicate()
        with open_store(str(store)) as opened:
            for info in opened.sessions(parent="large"):
                whole += 1
                assert info.events == 40_002
            assert [problem for problem in opened.verify() if problem.severity == "error"] == []
    assert whole


@pytest.mark.heavy
def test_a_large_fork_holds_little_in_memory(tmp_path: Path) -> None:
    (tmp_path / "large.jsonl.zstd").write_bytes(frames(log("large", 400_000), 4_000))
    small = playhead("fork", "--help", measure=True)
    for place in (["--id", "child"], ["-o", str(tmp_path / "out.jsonl.zstd")]):
        store = tmp_path / "store.sqlite"
        assert playhead("import", tmp_path / "large.jsonl.zstd", store=store).code == 0
        ran = playhead("fork", "large", "--repaired", *place, store=store, measure=True)
        assert ran.code == 0
        assert ran.peak_bytes < small.peak_bytes + (120 << 20)
