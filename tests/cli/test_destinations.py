from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from playhead.cli.destinations import session_file_name, session_places

ids = st.text(st.characters(exclude_categories=()), max_size=400)


@given(ids)
@example("a/../../b")
@example("\0")
@example("é" * 400)
def test_the_file_name_of_a_session_is_one_part_of_at_most_255_bytes(session: str) -> None:
    name = session_file_name(session)
    assert len(name.encode()) <= 255
    assert not set(name) & set('/\\\0:*?"<>|')
    assert not name.startswith(".")
    assert name.isascii()
    assert name == name.lower()


@given(st.lists(ids, min_size=2, max_size=5, unique=True))
@example(["Case", "case", "cASE"])
@example(["a/b", "a_b", "a\\b", "a:b"])
@example(["x" * 300, "x" * 301])
def test_no_two_sessions_share_a_file_name(sessions: list[str]) -> None:
    assert len({session_file_name(session).casefold() for session in sessions}) == len(sessions)


@pytest.mark.parametrize("session", ["3f1c9e2a-77aa-4c1e-9a63-0d6a6a1f0f00", "notes.v2", "console", "a"])
def test_a_plain_id_is_its_own_file_name(session: str) -> None:
    assert session_file_name(session) == f"{session}.jsonl"


@pytest.mark.parametrize("session", ["con", "nul.x", "com1", "lpt9.jsonl"])
def test_a_name_that_some_systems_keep_for_a_device_is_not_used(session: str) -> None:
    assert session_file_name(session).split(".")[0] != session.split(".")[0]


def test_a_session_gives_way_to_an_imported_file_of_its_name() -> None:
    places = session_places(["a", "b"], [("A.jsonl",), ("c", "b.jsonl")])
    assert places["b"] == ("b.jsonl",)
    assert places["a"][0].startswith("a~")
