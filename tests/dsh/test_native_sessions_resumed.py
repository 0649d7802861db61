"""Sessions that Playhead wrote itself, put into a dsh home: a released dsh of that format goes on with them.

dsh checks a log as it opens it, event by event. So that it does not refuse one says that our events are its own; that
it leaves the file as it was and appends says that it found nothing to repair in what was whole.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from chat_answers import said
from children import playhead_here
from dsh_runtimes import runtime
from live_sessions import SESSION, SESSIONS, live
from recordings import open_new, recorded
from recordings import said as user_said
from reference import shared_path
from scripted_server import Request, scripted_server
from twins import read_log

import playhead
from playhead.adapters.dsh.importer import import_paths
from playhead.adapters.providers.chat import DEEPSEEK_CHAT
from playhead.web.recording import Recording

pytestmark = pytest.mark.heavy

V0: Final = "0.1.2rc1"
"""The last runtime that writes format 0."""
PLUGIN: Final = Path(__file__).with_name("resume.mjs")


@dataclass(frozen=True)
class Resumed:
    """A log as it was put into a dsh home, and as dsh left it; ``requests`` are those that dsh sent."""

    before: Path
    after: Path
    requests: list[Request]

    @property
    def marks(self) -> list[int]:
        """Where processes went on with the session."""
        return [fact.seq for fact in read_log(self.after).facts if fact.type == "session/end-seed"]

    def asked(self) -> list[list[str]]:
        """Per request of dsh, what was new to the model: the texts behind its last answer that our log has not."""
        ours = [
            fact.json["content"][0]["text"]
            for fact in read_log(self.before).facts
            if fact.type == "user/message"
        ]
        told = []
        for request in self.requests:
            messages = request.json["messages"]
            answered = [at for at, message in enumerate(messages) if message["role"] in ("assistant", "tool")]
            new = [message["content"] for message in messages[max(answered, default=0) + 1 :]]
            told.append(
                [text for text in new if text not in ours and not text.startswith("Current runtime context")]
            )
        return told


@dataclass(frozen=True)
class Native:
    """A live session in its store, exported, and what dsh made of it."""

    name: str
    folder: Path
    resumed: Resumed

    @property
    def store(self) -> Path:
        return self.folder / "store.sqlite"

    @property
    def exported(self) -> Path:
        return self.folder / "exported.jsonl.zstd"


def go_on(home: Path, session: str, workspace: Path) -> Resumed:
    """Let dsh go on with the session in its home: whatever waits there, and one prompt more."""
    (log,) = home.glob(f"sessions/*/{session}/session.jsonl.zstd")
    before = home.with_name("before.jsonl.zstd")
    before.write_bytes(log.read_bytes())
    done, patch = home.with_name("done"), home.with_name("resume.patch.yml")
    config = {"session": session, "prompt": "Go on.", "done": str(done)}
    patch.write_text(json.dumps([{"insert": [{"id": "resume", "name": str(PLUGIN), "config": config}]}]))
    with scripted_server(*[said("Here ", "I am.")] * 4) as server:
        ran = runtime(V0).run(server.url, home, session, [], cwd=workspace, patches=[patch], until=done)
    assert done.read_text() == "", "dsh refused the log"
    assert ran.log == log
    return Resumed(before, log, server.requests)


@pytest.fixture(scope="module", params=SESSIONS)
def native(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Native:
    folder = tmp_path_factory.mktemp("native")
    workspace, home = folder / "workspace", folder / "home"
    workspace.mkdir()
    home.mkdir()

    def export() -> None:
        command("export", SESSION, "--dsh-home", home, store=folder / "store.sqlite")
        command("export", SESSION, "-o", folder / "exported.jsonl.zstd", store=folder / "store.sqlite")

    asyncio.run(live(folder / "store.sqlite", workspace, request.param, export))
    return Native(request.param, folder, go_on(home, SESSION, workspace))


def command(*words: object, store: Path) -> bytes:
    """What a command that finds no problem says."""
    ran = playhead_here(*words, store=store)
    assert ran.code == 0, ran.out.decode() + ran.err
    return ran.out


def told(*words: object, store: Path) -> Any:
    return json.loads(command(*words, "--json", store=store))


def test_dsh_goes_on_with_what_the_proxy_recorded_where_the_fork_is_told_to_work(tmp_path: Path) -> None:
    workspace, home = tmp_path / "workspace", tmp_path / "home"
    workspace.mkdir()
    home.mkdir()
    with open_new(tmp_path) as store, recorded(store) as recording:
        recording.call(DEEPSEEK_CHAT, [user_said("Hi.")], "Hello.")
    session = told("sessions", store=tmp_path / "store.sqlite")
    words = ("fork", session["id"], "--id", "again", "--dsh-home", home, "--cwd", workspace)
    command(*words, store=tmp_path / "store.sqlite")
    resumed = go_on(home, "again", workspace)
    ends = [fact.json["reason"] for fact in read_log(resumed.after).facts if fact.type == "turn/end"]
    assert ends == [{"kind": "completed"}, {"kind": "completed"}]
    assert resumed.asked() == [["Go on."]]


# What dsh does


def test_dsh_takes_the_log_as_it_is_and_appends_to_it(native: Native) -> None:
    before, after = native.resumed.before.read_bytes(), native.resumed.after.read_bytes()
    assert before == native.exported.read_bytes()
    assert after.startswith(before)
    assert len(after) > len(before)
    ends = [fact.json["reason"] for fact in read_log(native.resumed.after).facts if fact.type == "turn/end"]
    assert ends[-1] == {"kind": "completed"}


def test_dsh_closes_a_turn_as_we_would_and_no_other(native: Native) -> None:
    found, (mark,) = native.resumed, native.resumed.marks
    assert (mark > read_log(found.before).next_seq) == native.name.startswith("died")
    same = command("diff", found.before, found.after, "--repaired", "--at-b", mark, store=native.store)
    assert same.startswith(b"no difference")


def test_what_was_queued_runs_before_what_comes_later(native: Native) -> None:
    queued = [["By the way.", "Queued."]] if has_queue(native) else []
    assert native.resumed.asked() == [*queued, ["Go on."]]
    found = told("inbox", native.resumed.after, store=native.store)
    assert found["lists"] == {"next-turn": [], "next-step": []}
    assert set(found["verdicts"]) <= {"admitted", "cancelled"}


def test_dsh_sends_the_conversation_that_the_log_holds(native: Native) -> None:
    requests = native.resumed.requests
    with playhead.open_store("sqlite://") as store:
        import_paths(store, [native.resumed.after])
        calls = Recording.of(store.session(SESSION)).calls[-len(requests) :]
        held = [DEEPSEEK_CHAT.build_request(call.request()) for call in calls]
    assert [body["messages"] for body in held] == [request.json["messages"] for request in requests]


# What comes back


def test_an_export_that_comes_back_is_the_session_that_it_was(native: Native, tmp_path: Path) -> None:
    again = told("import", native.exported, store=native.store)
    assert (again["sessions"], again["events"]) == ([], 0)
    elsewhere = tmp_path / "elsewhere.sqlite"
    assert told("import", native.exported, store=elsewhere)["events"] == read_log(native.exported).next_seq
    assert command("export", SESSION, "--decoded", store=elsewhere) == command(
        "export", native.exported, "--decoded", store=native.store
    )
    if not native.name.startswith("died"):
        assert told("sessions", store=elsewhere)["head"] == told("sessions", store=native.store)["head"]


def test_a_log_that_dsh_went_on_with_grows_the_session_that_it_was_imported_as(
    native: Native, tmp_path: Path
) -> None:
    store = tmp_path / "store.sqlite"
    found = native.resumed
    assert told("import", found.before, store=store)["sessions"] == [{"id": SESSION, "generation": 1}]
    grown = told("import", found.after, store=store)
    assert grown["sessions"] == []
    assert grown["events"] == read_log(found.after).next_seq - read_log(found.before).next_seq
    command("verify", store=store)


def has_queue(native: Native) -> bool:
    return native.name not in ("stopped and failed", "goals")


# Forks


def test_dsh_goes_on_with_a_fork_of_a_native_session(tmp_path: Path) -> None:
    workspace, home, store = tmp_path / "workspace", tmp_path / "home", tmp_path / "store.sqlite"
    workspace.mkdir()
    home.mkdir()
    asyncio.run(live(store, workspace, "turns and a queue", lambda: None))
    first, *_ = command("events", SESSION, "--type", "turn/end", "--json", store=store).splitlines()
    end = json.loads(first)["seq"]
    command("fork", SESSION, "--at", end, "--id", "child", "--dsh-home", home, store=store)
    found = go_on(home, "child", workspace)
    assert found.after.read_bytes().startswith(found.before.read_bytes())
    assert found.asked() == [["Go on."]]
    command("verify", store=store)


def test_dsh_of_format_0_goes_on_with_a_fork_of_a_later_format(tmp_path: Path) -> None:
    (log,) = shared_path("corpus/dsh/0.2.1rc2/tool/sessions").glob("*/*/session.v4.jsonl.zstd")
    workspace, home = Path(read_log(log).header.cwd or ""), tmp_path / "home"
    workspace.mkdir(exist_ok=True)
    home.mkdir()
    command("fork", log, "--id", "child", "--dsh-home", home, store=tmp_path / "none.sqlite")
    found = go_on(home, "child", workspace)
    assert found.after.read_bytes().startswith(found.before.read_bytes())
    assert found.asked() == [["Go on."]]
