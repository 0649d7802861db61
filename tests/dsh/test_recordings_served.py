"""Recorded sessions served to the dsh that recorded them: it writes the same log again.

Everything that dsh logs depends on what it was answered, and on the ids, times and addresses that ``playhead diff``
passes over. So an answer that is not what the provider gave, at any place, is a difference of two logs.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from children import playhead_here
from dsh_runtimes import Turn, runtime
from reference import SHARED, needs_shared
from serving_commands import serving_command
from twins import Log, read_log

from playhead.eventstore import json_text
from playhead.replay.script import derive

pytestmark = pytest.mark.heavy

CORPUS: Final = SHARED / "corpus" / "dsh"
RUNTIMES: Final = ("0.1.1rc1", "0.2.1rc2")

STRICT: Final = (
    *("text", "reasoning", "tool", "parallel-tools", "multi-turn", "unicode", "unicode-split", "max-tokens"),
    *(
        "max-tokens-tool",
        "http-errors",
        "http-400",
        "http-exhaust",
        "disconnect",
        "disconnect-tool",
        "early-eof",
    ),
    *(
        "empty",
        "malformed",
        "bad-tool",
        "todo",
        "keepalive",
        "long-stream",
        "compaction",
        "compaction-summary",
    ),
)
"""What the model is told is the same in every run."""

ORDERED: Final = ("subagent", "background-job")
"""The model is told of ids that dsh made up: requests are never those that were recorded."""

BOTH: Final = ("text", "parallel-tools", "http-errors", "disconnect")
"""Where it is shown as well that the usual matching does."""

PATCHES: Final = {"compaction-summary": "- id: compaction-basic\n  config:\n    retainTokens: 300\n"}
"""How a runtime was set up that did not run as it comes."""


@dataclass(frozen=True)
class Recording:
    """A scenario of one runtime; ``log`` is the file of the session that was talked to."""

    runtime: str
    scenario: str

    @property
    def logs(self) -> list[Path]:
        """The file of the session that was talked to, then those of the subagents that it started."""
        files = (CORPUS / self.runtime / self.scenario / "sessions").glob("*/*/session.*jsonl*")
        return sorted(files, key=lambda file: read_log(file).header.parent is not None)

    def __str__(self) -> str:
        return f"{self.runtime}-{self.scenario}"


def recordings(*scenarios: str) -> list[Any]:
    """Those of the scenarios that were recorded, as pytest parameters."""
    if not SHARED.is_dir():
        return [pytest.param(None, marks=needs_shared, id="no-reference-material")]
    named = (Recording(version, scenario) for version in RUNTIMES for scenario in scenarios)
    return [pytest.param(one, id=str(one)) for one in named if one.logs]


@needs_shared
def test_every_scenario_that_has_to_be_shown_is_there() -> None:
    shown = [str(param.values[0]) for param in recordings(*STRICT, *ORDERED)]
    for scenario in (
        "text",
        "reasoning",
        "tool",
        "multi-turn",
        "unicode",
        "http-errors",
        "disconnect",
        "max-tokens",
    ):
        for version in RUNTIMES:
            assert f"{version}-{scenario}" in shown
    assert "0.1.1rc1-parallel-tools" in shown


@pytest.mark.parametrize("recording", recordings(*STRICT))
def test_dsh_asks_what_it_asked_and_writes_the_log_that_it_wrote(
    recording: Recording, tmp_path: Path
) -> None:
    replay(recording, tmp_path, "strict")


@pytest.mark.parametrize("recording", recordings(*ORDERED, *BOTH))
def test_dsh_that_is_answered_in_order_writes_the_log_that_it_wrote(
    recording: Recording, tmp_path: Path
) -> None:
    replay(recording, tmp_path, "ordered")


@pytest.mark.parametrize("recording", recordings("goal"))
def test_an_answer_that_names_an_id_of_dsh_takes_it_from_the_request(
    recording: Recording, tmp_path: Path
) -> None:
    log = recording.logs[0]
    calls = [entry.to_json() for entry in derive(read_log(log))]
    at = next(at for at, call in enumerate(calls) if "goal-" in json_text.dumps(call).decode())
    (goal,) = {event.json["goal"]["id"] for event in read_log(log).events() if event.type == "goal/change"}
    entry = json_text.dumps(calls[at]).replace(goal.encode(), b"{{fromRequest:goal-[0-9a-f-]{36}}}")
    override = tmp_path / "override.json"
    override.write_bytes(b'{"patches":[{"at":%d,"entry":%b}]}' % (at, entry))
    replay(recording, tmp_path, "ordered", "--override", override)


@pytest.mark.parametrize("recording", recordings("text"))
def test_dsh_that_asks_something_else_is_told_and_so_are_we(recording: Recording, tmp_path: Path) -> None:
    log = read_log(recording.logs[0])
    workspace = Path(log.header.cwd or "")
    workspace.mkdir(exist_ok=True)
    with serving_command("serve", "--replay", recording.logs[0], "--match", "strict") as served:
        ran = runtime(recording.runtime).run(
            served.url, tmp_path / "home", "s-other", ["Say goodbye."], cwd=workspace
        )
    assert ran.turns == [Turn("", "error")]
    (miss,) = served.told["misses"]
    assert "Say hello." in miss["message"]
    assert "Say goodbye." in miss["message"]
    assert served.code == 1
    compared = playhead_here("diff", recording.logs[0], ran.log, "--all", store=tmp_path / "none.sqlite")
    assert compared.code == 1


def replay(recording: Recording, folder: Path, match: str, *more: object) -> None:
    """Serve the recording to the dsh that made it, and hold what that writes against it."""
    files = recording.logs
    log = read_log(files[0])
    home, patch, session = folder / "home", folder / "patch.yml", str(log.header.id)
    patch.write_text(PATCHES.get(recording.scenario, "[]\n"))
    workspace = Path(log.header.cwd or "")
    workspace.mkdir(exist_ok=True)
    named = [word for file in files for word in ("--replay", file)]
    with serving_command("serve", *named, "--match", match, *more) as served:
        runtime(recording.runtime).run(
            served.url,
            home,
            session,
            prompts(log),
            cwd=workspace,
            turns=sum(event.type == "turn/end" for event in log.events()),
            max_tokens=ceiling(log),
            patches=[patch],
        )
    assert (served.told["misses"], served.told["unserved"], served.code) == ([], [], 0)
    written = sorted(
        home.glob("sessions/*/*/session.*jsonl*"), key=lambda file: read_log(file).header.parent is not None
    )
    assert len(written) == len(files)
    for before, after in zip(files, written, strict=True):
        compared = playhead_here("diff", before, after, "--all", store=folder / "none.sqlite")
        assert compared.code == 0, compared.out.decode() + compared.err
        assert b"no difference" in compared.out


def prompts(log: Log) -> list[str]:
    """What a person said, in order."""
    told = (event.json for event in log.events() if event.type == "user/message")
    return [message["content"][0]["text"] for message in told if message["source"]["kind"] == "user"]


def ceiling(log: Log) -> int | None:
    """The limit of tokens that was asked for; None where the runtime took its own."""
    header = next(event.json["header"] for event in log.events() if event.type == "request/header")
    own = header.get("adapterDefaults", {}).get("maxTokens", False)
    return None if own else header["config"].get("maxTokens")
