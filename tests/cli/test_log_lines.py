"""What lower layers log is a line on stderr, with its reason and without a traceback."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from playhead.cli.log_lines import LogLines
from playhead.eventstore.errors import StoreUnavailable


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[logging.Logger]:
    """A logger that is told of, and by nobody else."""
    monkeypatch.delenv("PLAYHEAD_DEBUG", raising=False)
    logger = logging.getLogger("playhead.tests.log_lines")
    handler = LogLines()
    logger.addHandler(handler)
    logger.propagate = False
    yield logger
    logger.removeHandler(handler)
    logger.propagate = True


def raised(log: logging.Logger, error: Exception) -> None:
    try:
        raise error
    except Exception:
        log.exception("session %r could not be sealed", "s-1\x1b[2J")


def test_a_failure_is_one_line_that_says_why(log: logging.Logger, capsys: pytest.CaptureFixture[str]) -> None:
    raised(log, StoreUnavailable("s.sqlite: the disk is full"))
    err = capsys.readouterr().err
    assert err.startswith("playhead: session 's-1")
    assert err.endswith("could not be sealed: s.sqlite: the disk is full\n")
    assert err.count("\n") == 1
    assert "\x1b" not in err


def test_a_failure_that_nobody_foresaw_is_called_a_bug(
    log: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    raised(log, KeyError("x"))
    err = capsys.readouterr().err
    assert "KeyError" in err
    assert "this is a bug" in err
    assert "Traceback" not in err


def test_the_traceback_is_there_for_who_asks(
    log: logging.Logger, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLAYHEAD_DEBUG", "1")
    raised(log, StoreUnavailable("s.sqlite: the disk is full"))
    assert "Traceback" in capsys.readouterr().err


def test_what_is_no_warning_is_not_told(log: logging.Logger, capsys: pytest.CaptureFixture[str]) -> None:
    log.setLevel(logging.DEBUG)
    log.info("all is well")
    log.warning("commits of others are not heard")
    assert capsys.readouterr().err == "playhead: commits of others are not heard\n"
