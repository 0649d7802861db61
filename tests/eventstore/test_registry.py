"""A vocabulary takes new members from anybody, keeps what it does not know, and never falls over."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, Literal

import pytest

from playhead.eventstore import plugins, registry
from playhead.eventstore.errors import UsageError
from playhead.eventstore.registry import Malformed, Registry, Tagged, Unknown
from playhead.eventstore.value import Text, Whole


class Shape(Tagged):
    pass


def shapes() -> Registry[Shape]:
    return Registry("shape", Shape, member="kind")


def test_a_registered_class_reads_its_tag() -> None:
    known = shapes()

    @known.register("circle")
    class Circle(Shape):
        kind: Literal["circle"] = "circle"
        radius: Whole

    decoded = known.parse({"kind": "circle", "radius": 2})
    assert decoded == Circle(radius=2)
    assert (decoded.tag, "circle" in known, list(known)) == ("circle", True, ["circle"])


def test_a_value_made_in_python_writes_its_tag_and_leaves_out_what_is_none() -> None:
    class Label(Shape):
        kind: Literal["label"] = "label"
        text: Text
        font_size: Whole | None = None
        turn: Whole | None

    assert Label(text="x", font_size=None, turn=None).to_json() == {
        "kind": "label",
        "text": "x",
        "turn": None,
    }
    assert Label(text="x", font_size=3, turn=1).to_json()["fontSize"] == 3


def test_a_null_that_a_log_states_is_given_back() -> None:
    class Label(Shape):
        font_size: Whole | None = None

    assert Label.decode({"fontSize": None}).font_size is None
    assert Label.decode({"fontSize": None}).to_json() == {"fontSize": None}
    assert Label.decode({}).to_json() == {}


def test_values_cannot_be_changed() -> None:
    class Label(Shape):
        text: Text

    label = Label(text="x")
    with pytest.raises(ValueError, match="frozen"):
        label.text = "y"


def test_a_tag_has_one_class() -> None:
    known = shapes()
    known.register("dot")(Shape)
    with pytest.raises(UsageError, match="'dot'"):
        known.register("dot")(Shape)


def test_a_class_of_another_vocabulary_is_refused() -> None:
    with pytest.raises(UsageError, match="Shape"):
        shapes().register("x")(Tagged)


def test_an_unknown_tag_keeps_the_value() -> None:
    value = {"kind": "blob", "size": 1}
    assert shapes().parse(value) == Unknown("blob", value)


@pytest.mark.parametrize("value", [None, 7, "circle", [], {}, {"kind": 7}, {"kind": None}, {"kind": ["x"]}])
def test_a_value_without_a_tag_is_malformed_and_kept(value: Any) -> None:
    decoded = shapes().parse(value)
    assert isinstance(decoded, Malformed)
    assert decoded.to_json() is value


def test_what_is_decoded_is_not_decoded_again() -> None:
    for decoded in (Shape(), Unknown("x", {}), Malformed("x", {}, "why")):
        assert shapes().parse(decoded) is decoded


@pytest.fixture
def plugins_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_plugins", "not loaded")


@pytest.mark.usefixtures("plugins_not_loaded")
def test_plugins_load_once_when_a_tag_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    known, loads = shapes(), []

    def load(group: str) -> None:
        loads.append(group)
        known.register("square")(Shape)
        assert known.parse({"kind": "asked while loading"}).tag == "asked while loading"

    monkeypatch.setattr(plugins, "load", load)
    known.register("dot")(Shape)
    assert isinstance(known.parse({"kind": "dot"}), Shape)
    assert loads == []
    assert isinstance(known.parse({"kind": "square"}), Shape)
    assert isinstance(known.parse({"kind": "triangle"}), Unknown)
    assert loads == ["playhead.vocabulary"]


def entry(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value, "playhead.vocabulary")


def test_a_plugin_is_a_module_or_a_callable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "plugin_of_this_test.py").write_text("loaded = []\ndef register(): loaded.append('called')\n")
    monkeypatch.syspath_prepend(tmp_path)
    entries = [entry("b", "plugin_of_this_test:register"), entry("a", "plugin_of_this_test")]
    monkeypatch.setattr(plugins, "entry_points", lambda **_: entries)
    plugins.load("playhead.vocabulary")
    assert sys.modules["plugin_of_this_test"].loaded == ["called"]


@pytest.mark.usefixtures("plugins_not_loaded")
def test_a_plugin_that_fails_is_a_warning_and_stops_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [entry("broken", "no_such_module_anywhere"), entry("raises", "os:abort_this")]
    monkeypatch.setattr(plugins, "entry_points", lambda **_: entries)
    with pytest.warns(RuntimeWarning, match="failed to load") as warned:
        assert isinstance(shapes().parse({"kind": "x"}), Unknown)
    assert ["broken" in str(warned[0].message), "raises" in str(warned[1].message)] == [True, True]


def test_built_in_events_are_found_without_importing_their_folder() -> None:
    script = (
        "from playhead.eventstore.registry import event_types\n"
        "print(event_types.decode('turn/start', {'turn': 1}).turn)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"
