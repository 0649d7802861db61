"""The inbox from the writing side: every operation of the recorded cases, and every fold after a restart."""

from __future__ import annotations

from typing import Any

import pytest
from live_places import Place
from reference import cases
from scripted_model import ticking, user

from playhead.eventstore.errors import CorruptLog
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import MessageId, SessionId
from playhead.eventstore.log import NewEvent
from playhead.eventstore.memory import MemoryLog
from playhead.eventstore.messages import Message
from playhead.live.inbox import Inbox, InvalidSplice
from playhead.live.notices import Notice, Notices
from playhead.live.session import LiveSession

Json = dict[str, Any]
LISTS = ("next-turn", "next-step")


def in_memory() -> LiveSession:
    """An empty session in memory."""
    return LiveSession(MemoryLog(ticking()).create(SessionHeader(SessionId("s1"), 1)), ticking())


def pending(inbox: Inbox) -> Json:
    """The ids in both lists."""
    lists = (inbox.next_turn, inbox.next_step)
    return {name: [message.id for message in held] for name, held in zip(LISTS, lists, strict=True)}


def number(value: Any) -> float:
    return float(value["$num"]) if isinstance(value, dict) else value


def apply(inbox: Inbox, op: Json) -> Any:
    """What the operation of a case gives, messages as ids."""
    message = Message.decode(op["message"]) if "message" in op else None
    match op["op"]:
        case "append":
            return inbox.append(op["target"], message)  # type: ignore[arg-type]
        case "prepend":
            return inbox.prepend(op["target"], message)  # type: ignore[arg-type]
        case "replace":
            return inbox.replace(op["id"], message)  # type: ignore[arg-type]
        case "remove":
            return inbox.remove(op["id"])
        case "clear":
            return inbox.clear()
        case "claim":
            return [message.id for message in inbox.claim(op["target"], op["turn"])]
        case "splice":
            inserted = [Message.decode(message) for message in op["inserted"]]
            gone = inbox.splice(op["target"], number(op["start"]), number(op["deleteCount"]), inserted)
            return [message.id for message in gone]
    raise AssertionError(op)


@pytest.mark.parametrize("case", cases("inbox_splices", "cases"))
def test_an_operation_leaves_the_recorded_events_lists_and_notices(case: Json, place: Place) -> None:
    session, notices = place.live(), Notices("s1")
    inbox = Inbox(session, notices)
    for target in LISTS:
        for id in case["initial"][target]:
            inbox.append(target, user(id))  # type: ignore[arg-type]
    before = session.next_seq
    told: list[Notice] = []
    notices.listen(told.append)
    expected = case["expect"]
    if "error" in expected:
        with pytest.raises(InvalidSplice) as refused:
            apply(inbox, case["op"])
        assert refused.value.kind == expected["error"]
    else:
        assert apply(inbox, case["op"]) == expected["returns"]
    appended = [event.json for event in place.stored().read(before)]
    assert appended == expected["events"]
    assert pending(inbox) == expected["lists"]
    assert [
        {"kind": notice.name.removeprefix("agent/inbox/"), "id": notice.info["message"].id}
        | ({"turn": notice.info["turn"]} if "turn" in notice.info else {})
        for notice in told
    ] == expected["notifications"]


@pytest.mark.parametrize("case", cases("inbox_splices", "folds"))
def test_a_restart_finds_the_lists_that_the_log_gives_or_says_where_it_breaks(
    case: Json, place: Place
) -> None:
    events = [NewEvent(event["type"], event["data"], 1) for event in case["events"]]
    session = place.live(events, case.get("seedLength"))
    if "error_at_seq" in case["expect"]:
        with pytest.raises(CorruptLog) as found:
            Inbox(session, Notices("s1"))
        assert (found.value.seq, found.value.kind) == (
            case["expect"]["error_at_seq"],
            case["expect"]["cause"],
        )
    else:
        assert pending(Inbox(session, Notices("s1"))) == case["expect"]["lists"]


def test_a_message_without_an_id_is_refused_and_leaves_no_trace() -> None:
    session = in_memory()
    with pytest.raises(InvalidSplice, match="without an id"):
        Inbox(session, Notices("s1")).append("next-turn", user(""))
    assert session.next_seq == 0


def test_only_messages_of_users_wait_and_only_in_lists_that_there_are() -> None:
    session = in_memory()
    inbox = Inbox(session, Notices("s1"))
    answer = Message.assistant(MessageId("a"), [], provider="p", model="m")
    for target, message, kind in (
        ("next-turn", answer, "wrong-role"),
        ("next-week", user("m"), "unknown-target"),
    ):
        with pytest.raises(InvalidSplice) as refused:
            inbox.append(target, message)  # type: ignore[arg-type]
        assert refused.value.kind == kind
    assert session.next_seq == 0


def test_changing_a_message_after_it_was_sent_changes_nothing_that_is_pending() -> None:
    session = in_memory()
    inbox = Inbox(session, Notices("s1"))
    content = [{"type": "text", "text": "as sent"}]
    message = Message.decode({"id": "m", "role": "user", "content": content, "source": {"kind": "user"}})
    inbox.append("next-turn", message)
    content[0]["text"] = "changed behind its back"
    assert inbox.next_turn[0].to_json()["content"] == [{"type": "text", "text": "as sent"}]
