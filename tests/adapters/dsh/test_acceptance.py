"""Whether dsh would open a session that was written here, told from the session; the strict reader says the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from native_sessions import Native, natives

from playhead.adapters.dsh.acceptance import refusal
from playhead.adapters.dsh.strict import parse_strict
from playhead.adapters.dsh.writer import LAYOUTS, write_log
from playhead.eventstore import envelope, json_text
from playhead.eventstore.errors import PlayheadError
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId
from playhead.eventstore.recorded import Recorded

HEADER = SessionHeader(SessionId("s1"), 1, cwd="/w")
MESSAGE = {"content": [], "source": {"kind": "user"}, "role": "user", "id": "m"}


def fact(type: str, data: Any, **more: Any) -> Recorded:
    line = json_text.dumps({"type": type, "seq": 0, "time": 5, "data": data, **more})
    (made,) = envelope.facts(line, SessionId("s1"))
    return made


@settings(max_examples=40)
@given(session=natives())
def test_native_sessions_are_accepted(session: Native) -> None:
    assert refusal(session.header, session.events) is None


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (replace(HEADER, id=SessionId("")), "the empty id"),
        (replace(HEADER, cwd="work"), "not an absolute path"),
        (replace(HEADER, delegation_depth=None), "delegationDepth"),
        (replace(HEADER, created_ms=-1), "createdAt"),
    ],
)
def test_headers_that_dsh_refuses(header: SessionHeader, said: str) -> None:
    assert said in (refusal(header, []) or "")


def test_folders_of_either_platform_are_absolute() -> None:
    assert refusal(replace(HEADER, cwd="C:\\work"), []) is None
    assert refusal(replace(HEADER, cwd=None), []) is None


REFUSED = [
    (fact("x/y", {}), "unknown to it"),
    (fact("job/settled", {}), "unknown to it"),
    (fact("system/message", {"message": MESSAGE}, surfaceOp="append"), "unknown to it"),
    (fact("user/message", MESSAGE), "without surfaceOp"),
    (fact("user/message", {**MESSAGE, "id": ""}, surfaceOp="append"), "id"),
    (fact("turn/start", {"turn": 1}, surfaceOp="append"), "no place on the surface"),
    (fact("request/header", {"header": {}}), "request/header"),
]


@pytest.mark.parametrize(("event", "said"), REFUSED, ids=[event.type for event, _ in REFUSED])
def test_events_that_dsh_refuses(event: Recorded, said: str) -> None:
    assert said in (refusal(HEADER, [event]) or "")


ACCEPTED = [
    fact("x/y", {}, ignorable=True),
    fact("developer/message", {"message": {}}, ignorable=True),
    fact("model/selection", {}),
    fact("user/message", MESSAGE, surfaceOp="append"),
]


@pytest.mark.parametrize("event", ACCEPTED, ids=lambda event: event.type)
def test_events_that_dsh_takes_or_passes_over(event: Recorded) -> None:
    assert refusal(HEADER, [event]) is None


@pytest.mark.parametrize("event", [*(event for event, _ in REFUSED[3:]), *ACCEPTED[1:2], ACCEPTED[3]])
def test_the_strict_reader_of_the_written_file_agrees(event: Recorded) -> None:
    log = write_log(LAYOUTS["v0"], HEADER, [[event]])
    if refusal(HEADER, [event]) is None:
        assert parse_strict(log, compressed=False).events == [event]
    else:
        with pytest.raises(PlayheadError):
            parse_strict(log, compressed=False)
