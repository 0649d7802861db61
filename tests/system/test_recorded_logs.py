"""Every recorded log in, and the same bytes out, on both engines; counts as the manifest has them."""

from __future__ import annotations

import hashlib
import io
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from reference import SHARED, needs_shared, shared_path
from stores import ENGINES, store_address

import playhead
from playhead.adapters.dsh.importer import import_paths
from playhead.eventstore import json_text
from playhead.eventstore.sql import SqlStore

pytestmark = needs_shared

REFUSED = {
    "0.2.1rc2/edited-header-version-5/before/sessions/--tmp-ws--/s-raw/session.v4.jsonl": "newer-format",
    "0.2.1rc2/edited-wrong-id/before/sessions/--tmp-ws--/s-raw/session.v4.jsonl": "id-mismatch",
}
"""Logs that are kept as bytes and not interpreted, and why."""


@cache
def manifest() -> list[dict[str, Any]]:
    return json_text.parse((SHARED / "corpus/dsh/MANIFEST.json").read_bytes())["files"]


def logs() -> list[dict[str, Any]]:
    return [file for file in manifest() if file["kind"] == "session-log"] if SHARED.is_dir() else []


ON_ENGINES = [pytest.param(name, marks=[pytest.mark.heavy] if name == "postgres" else []) for name in ENGINES]


@pytest.fixture(scope="module", params=ON_ENGINES)
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlStore]:
    """A store that has the whole corpus."""
    folder = tmp_path_factory.mktemp("corpus")
    with store_address(request.param, folder) as address, playhead.open_store(address) as opened:
        import_paths(opened, [shared_path("corpus/dsh")])
        yield opened


def test_every_file_comes_back_bit_for_bit(store: SqlStore) -> None:
    files = {file.path: file for file in store.files()}
    wanted = [log["path"] for log in logs()]
    wanted += [file["path"] for file in manifest() if Path(file["path"]).name.startswith("sessions.db")]
    assert len(wanted) >= 490
    for path in wanted:
        out = io.BytesIO()
        assert store.export_file(files[path], out).same, path
        assert out.getvalue() == shared_path(f"corpus/dsh/{path}").read_bytes(), path


def test_exactly_the_expected_files_are_refused(store: SqlStore) -> None:
    assert {file.path: file.refused.kind for file in store.files() if file.refused} == REFUSED


def test_decoded_lines_are_those_of_the_manifest(store: SqlStore) -> None:
    by_path = {file.path: file for file in store.files()}
    for log in logs():
        if log["path"] in REFUSED:
            continue
        whole = b"".join(store.decoded(by_path[log["path"]]))
        decoded = whole[: whole.rindex(b"\n") + 1]
        assert hashlib.sha256(decoded).hexdigest() == log["decoded_sha256"], log["path"]
        assert len(decoded) == log["decoded_bytes"]


def test_verification_is_clean_and_importing_again_adds_nothing(store: SqlStore) -> None:
    assert [problem for problem in store.verify() if problem.severity == "error"] == []
    before, position = store.status(), store.position
    report = import_paths(store, [shared_path("corpus/dsh")])
    assert (report.imported, report.events, report.sessions) == (0, 0, [])
    assert store.position == position
    assert store.status() == before


def test_each_log_alone_gives_the_events_of_the_manifest() -> None:
    for log in logs():
        if log["path"] in REFUSED:
            continue
        with playhead.open_store("sqlite://") as store:
            import_paths(store, [shared_path(f"corpus/dsh/{log['path']}")])
            assert len(store.sessions(all_generations=True)) == 1, log["path"]
            session = store.session(log["session_id"])
            facts = list(session.read())
            assert Counter(fact.type for fact in facts) == log["event_types"], log["path"]
            assert len(facts) == log["events"] == session.info.events
            assert session.info.header.version == log["format_version"]
            assert [fact.position for fact in facts] == list(range(1, len(facts) + 1))


def test_logical_events_keep_the_seqs_of_their_lines(store: SqlStore) -> None:
    """Every recorded log upcasts without an error, one logical event for each stored fact."""
    for info in store.sessions(all_generations=True):
        session = store.session(info.id, generation=info.generation)
        assert [event.seq for event in session.events()] == [fact.seq for fact in session.read()]
