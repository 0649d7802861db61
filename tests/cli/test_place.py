from __future__ import annotations

from pathlib import Path

import pytest

from playhead.cli import place


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(place, "chosen", None)
    monkeypatch.delenv("PLAYHEAD_STORE", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


def test_the_usual_store_lies_in_the_data_folder(tmp_path: Path) -> None:
    assert place.store_url() == str(tmp_path / "data" / "playhead" / "playhead.sqlite")


@pytest.mark.parametrize("value", ["", "relative/folder"])
def test_without_a_usable_data_home_the_folder_in_the_users_home_counts(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", value)
    monkeypatch.setenv("HOME", "/home/somebody")
    assert place.store_url() == "/home/somebody/.local/share/playhead/playhead.sqlite"


def test_nearer_settings_win(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAYHEAD_STORE", "sqlite:///from-environment")
    assert place.store_url() == "sqlite:///from-environment"
    monkeypatch.setattr(place, "chosen", "sqlite:///before-the-command")
    assert place.store_url() == "sqlite:///before-the-command"
    assert place.store_url("sqlite:///behind-it") == "sqlite:///behind-it"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:secret@host/db", "postgresql://me:***@host/db"),
        ("postgresql://me:sec:ret@host:5432/db", "postgresql://me:***@host:5432/db"),
        ("postgresql://me@host:5432/db", "postgresql://me@host:5432/db"),
        ("sqlite:////a/b.sqlite", "sqlite:////a/b.sqlite"),
    ],
)
def test_a_password_is_never_shown(url: str, shown: str) -> None:
    assert place.shown(url) == shown
