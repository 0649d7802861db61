"""A conversation, served again from its recording, and had again: the two sessions do not differ."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from chat_answers import DONE, calls, delta, refused, said, usage
from children import playhead_here, start_playhead
from scripted_server import LONG_S, RESET, Answer, Pause, scripted_server

SCRIPT = """\
What is here?
/followup And where?
/steer Be quick.
/inject By the way.
/wait
/goal Say it in rhyme.
/goal rounds 2
/wait
Fail now.
"""

ANSWERS = [
    Answer(steps=[delta(reasoning="Hm"), delta(content="Half an ans"), Pause(0.1), RESET]),
    calls(("list-files", {"folder": "/nowhere"}), ("read-file", {"path": "/nowhere"})),
    Answer(
        steps=[delta(content="Nothing \ud83d"), delta(content="\ude00."), delta("length"), usage(9, 1), DONE]
    ),
    said("No", "where."),
    said("Here ", "and there."),
    said("Round one."),
    said("Round two."),
    refused(400, "no"),
]


@contextmanager
def served(session: str, store: Path) -> Iterator[str]:
    """The base URL of ``playhead serve --replay``."""
    serving = start_playhead("serve", "--replay", session, "--match", "strict", "--json", store=store)
    try:
        assert serving.stdout is not None
        yield json.loads(serving.stdout.readline())["url"]
    finally:
        serving.terminate()
        serving.communicate(timeout=LONG_S)


@pytest.mark.parametrize(
    "wire",
    [pytest.param([], id="wire"), pytest.param(["--no-wire"], id="chunks", marks=pytest.mark.heavy)],
)
def test_a_conversation_that_is_had_again_does_not_differ(tmp_path: Path, wire: list[str]) -> None:
    store, script = tmp_path / "store.sqlite", tmp_path / "script"
    script.write_text(SCRIPT)
    options = ["--model", "m1", "--tool", "list-files", "--tool", "read-file", "--script", script, *wire]
    with scripted_server(*ANSWERS) as server:
        first = playhead_here("run", "--base-url", server.url, "--id", "first", *options, store=store)
        assert len(server.requests) == len(ANSWERS)
    assert first.code == 1, first.err
    with served("first", store) as url:
        again = playhead_here("run", "--base-url", url, "--id", "again", *options, store=store)
    assert again.code == 1, again.err
    diff = playhead_here("diff", "first", "again", "--chunks", "--all", store=store)
    assert (diff.code, diff.err) == (0, ""), diff.out.decode()
    for session in ("first", "again"):
        assert playhead_here("verify", session, store=store).code == 0
