"""dsh talks to its provider through the recording proxy; what was recorded stands in for the provider afterwards.

Each runtime talks three times: through the proxy to a provider that does as it is told, to what the proxy recorded,
and to the log that dsh itself wrote the first time. It has to write the same log each time, and to get the same bytes
where they were kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from children import playhead_here
from dsh_runtimes import Turn, runtime
from dsh_talk import ENDS, PROMPTS, answers
from scripted_server import RESET, Answer, Request, scripted_server
from serving_commands import serving_command
from wiretap import Call, wiretap

import playhead
from playhead.adapters.dsh.importer import import_paths
from playhead.eventstore.chunks import Chunk, FinishChunk
from playhead.eventstore.sql.sql_session import SqlSession
from playhead.replay.attempt import attempts

pytestmark = pytest.mark.heavy

SESSION: Final = "talk"
KEY: Final = "sk-planted-5f2c9e71"
HOP_BY_HOP: Final = {"host", "connection", "keep-alive", "transfer-encoding", "content-length"}


@dataclass(frozen=True)
class Recorded:
    """A talk through the proxy: what the provider said and heard, what dsh heard and wrote, and the proxy's store."""

    version: str
    said: list[Answer]
    heard: list[Request]
    calls: list[Call]
    turns: list[Turn]
    log: Path
    store: Path
    workspace: Path
    code: int | None
    err: str


@pytest.fixture(scope="module", params=[("0.1.1rc1", "deepseek-chat"), ("0.2.1rc2", "deepseek-messages")])
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    version, dialect = request.param
    folder = tmp_path_factory.mktemp("talk")
    workspace, store = folder / "workspace", folder / "store.sqlite"
    workspace.mkdir()
    said = answers(dialect)
    with (
        scripted_server(*said) as provider,
        serving_command("record", "--upstream", provider.url, store=store) as proxy,
        wiretap(proxy.url) as tap,
    ):
        ran = runtime(version).run(tap.url, folder / "home", SESSION, PROMPTS, cwd=workspace, key=KEY)
    return Recorded(
        version,
        said,
        provider.requests,
        tap.calls,
        ran.turns,
        ran.log,
        store,
        workspace,
        proxy.code,
        proxy.err,
    )


def test_the_talk_goes_as_it_would_without_the_proxy(recorded: Recorded) -> None:
    assert [turn.reason for turn in recorded.turns] == list(ENDS)
    assert len(recorded.heard) == len(recorded.said)
    assert recorded.code == 0, recorded.err


def test_every_request_of_dsh_reaches_the_provider_byte_for_byte(recorded: Recorded) -> None:
    assert [(call.target, call.request) for call in recorded.calls] == [
        (request.path, request.body) for request in recorded.heard
    ]
    for call, request in zip(recorded.calls, recorded.heard, strict=True):
        assert end_to_end(call.headers) == end_to_end(request.headers)
        assert KEY in str(request.headers)


def test_every_answer_reaches_dsh_byte_for_byte_and_ends_as_it_did(recorded: Recorded) -> None:
    assert [(call.status, call.answer, call.end) for call in recorded.calls] == [
        (answer.status, body(answer), "reset" if RESET in answer.steps else "complete")
        for answer in recorded.said
    ]
    for call, answer in zip(recorded.calls, recorded.said, strict=True):
        assert end_to_end(call.answer_headers) == end_to_end(answer.headers)


def test_the_proxy_records_under_the_id_of_dsh_what_dsh_records(recorded: Recorded) -> None:
    with playhead.open_store(str(recorded.store)) as store, playhead.open_store("sqlite://") as own:
        import_paths(own, [recorded.log])
        assert [info.id for info in store.sessions()] == [SESSION]
        assert outcomes(store.session(SESSION)) == outcomes(own.session(SESSION))


def test_the_store_of_the_proxy_is_sound_and_holds_no_key(recorded: Recorded) -> None:
    verified = playhead_here("verify", store=recorded.store)
    assert verified.code == 0, verified.out
    assert KEY.encode() not in b"".join(
        file.read_bytes() for file in recorded.store.parent.glob("store.sqlite*")
    )


def test_what_was_recorded_is_served_to_dsh_byte_for_byte(recorded: Recorded, tmp_path: Path) -> None:
    calls, log = talk_again(recorded, tmp_path, SESSION, store=recorded.store)
    assert [(call.status, call.answer, call.end) for call in calls] == [
        (call.status, call.answer, call.end) for call in recorded.calls
    ]
    same_logs(recorded.log, log, tmp_path)


def test_the_log_that_dsh_wrote_is_served_to_dsh(recorded: Recorded, tmp_path: Path) -> None:
    calls, log = talk_again(recorded, tmp_path, recorded.log, store=tmp_path / "none.sqlite")
    assert [(call.status, call.end) for call in calls] == [(call.status, call.end) for call in recorded.calls]
    same_logs(recorded.log, log, tmp_path)


def talk_again(recorded: Recorded, folder: Path, session: object, *, store: Path) -> tuple[list[Call], Path]:
    """The same talk with the same dsh, answered from a session: what went over the wire, and the log."""
    with (
        serving_command("serve", "--replay", session, "--match", "strict", store=store) as served,
        wiretap(served.url) as tap,
    ):
        ran = runtime(recorded.version).run(
            tap.url, folder / "home", SESSION, PROMPTS, cwd=recorded.workspace
        )
    assert (served.told["misses"], served.told["unserved"], served.code) == ([], [], 0)
    assert ran.turns == recorded.turns
    return tap.calls, ran.log


def same_logs(one: Path, other: Path, folder: Path) -> None:
    compared = playhead_here("diff", one, other, "--all", store=folder / "none.sqlite")
    assert compared.code == 0, compared.out.decode() + compared.err


def end_to_end(headers: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name not in HOP_BY_HOP}


def body(answer: Answer) -> bytes:
    return b"".join(step for step in answer.steps if isinstance(step, bytes))


def outcomes(session: SqlSession) -> list[tuple[str, list[Chunk], str | None]]:
    """Every call: how it ended, its chunks but for the finish, and the code of its failure."""
    return [
        (
            attempt.outcome,
            [timed.chunk for timed in attempt.chunks() if not isinstance(timed.chunk, FinishChunk)],
            None if attempt.failure is None else attempt.failure.code,
        )
        for attempt in attempts(session)
    ]
