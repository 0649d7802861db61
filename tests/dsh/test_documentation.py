"""What docs/replaying-dsh.md shows is true."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from contained import output_of
from dsh_runtimes import ROOT, runtime
from serving_commands import serving_command

from playhead.web.override_file import read_override

PAGE = (ROOT / "docs" / "replaying-dsh.md").read_text(encoding="utf-8")


def example(language: str) -> str:
    (found,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return str(found)


@pytest.mark.heavy
def test_the_example_talks_to_a_recording(tmp_path: Path) -> None:
    dsh = runtime("0.2.1rc2")
    (tmp_path / "talk.py").write_text(example("python"))
    with serving_command("serve", "--replay", ROOT / "examples/sessions/native-pancakes.jsonl") as served:
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(dsh.folder / "home"),
            "DEEPSEEK_BASE_URL": served.url,
            "DEEPSEEK_API_KEY": "any",
        }
        said = output_of([str(dsh.python), "talk.py"], "", env, limit_s=120, cwd=tmp_path)
    assert said == "Flour and milk; the eggs are there.\n"
    assert served.told["served"] >= 1
    assert list(tmp_path.glob("home/sessions/*/s-text/session.v4.jsonl.zstd"))


def test_the_override_is_one(tmp_path: Path) -> None:
    (tmp_path / "override.json").write_text(example("json"))
    read_override(tmp_path / "override.json")


def test_the_plugin_is_mounted_as_it_says_itself() -> None:
    plugin = (ROOT / "tests" / "dsh" / "resume.mjs").read_text(encoding="utf-8")
    for member in ("session", "prompt", "done"):
        assert f"{member}: " in example("yaml")
        assert f"{member}: " in plugin
