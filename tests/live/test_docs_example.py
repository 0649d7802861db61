"""The Python example of docs/live.md, run as it stands against a scripted provider."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from chat_answers import calls, said
from scripted_server import scripted_server

from playhead import open_store

PAGE = Path(__file__).resolve().parents[2] / "docs" / "live.md"


def test_the_example_of_the_page_talks_uses_its_tool_and_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(example, str(PAGE), "exec"), names)
    with scripted_server(calls(("add", {"first": 2, "second": 3})), said("It is 5.")) as server:
        asyncio.run(names["main"](server.url, "some-key"))
        body = server.requests[1].json
        assert [message["role"] for message in body["messages"]] == ["user", "assistant", "tool"]
        assert body["messages"][-1]["content"] == "5"
        assert body["tools"][0]["function"]["description"] == "The sum of two numbers."
    with open_store("playhead.sqlite") as store:
        session = store.session("sums-1")
        (end,) = [fact for fact in session.read() if fact.type == "turn/end"]
        assert end.json["reason"] == {"kind": "completed"}
        assert [problem for problem in store.verify() if problem.severity == "error"] == []
