"""Which events are laid side by side, and how much of two sessions that takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from diff_logs import log, message, step, told, turn
from twins import Log

import playhead
from playhead.replay import diff_couples
from playhead.replay.diff import differences, pairs


def test_a_turn_that_only_one_side_has_is_its_own() -> None:
    def turns(*numbers: int) -> Log:
        return log(*(event for number in numbers for event in turn(number)))

    only = [("only-b", "turn/start"), ("only-b", "turn/end")]
    assert told(pairs(turns(1, 3), turns(1, 2, 3))) == only
    assert told(pairs(turns(1), turns(1, 2))) == only
    assert told(pairs(turns(2), turns(1, 2))) == only


def test_a_step_that_only_one_side_has_is_its_own() -> None:
    one = log(*turn(1, *step(1, 1), *step(1, 2)))
    assert told(pairs(one, log(*turn(1, *step(1, 1))))) == [("only-a", "step/start"), ("only-a", "step/end")]


def test_an_added_event_shifts_nothing() -> None:
    remarks = [("feedback/record", {"text": f"remark {number}"}) for number in range(20)]
    one = log(*turn(1, *step(1, 1, *remarks)))
    other = log(*turn(1, *step(1, 1, *remarks[:7], ("feedback/record", {"text": "new"}), *remarks[7:])))
    (pair,) = differences(one, other)
    assert (pair.kind, pair.b and pair.b.seq) == ("only-b", 9)


def test_an_event_that_differs_is_laid_beside_the_one_that_tells_of_the_same_thing() -> None:
    def calls(*names: str) -> Log:
        return log(
            *turn(
                1,
                *step(1, 1, *(("tool/call", {"name": name.split()[0], "arguments": name}) for name in names)),
            )
        )

    assert told(pairs(calls("read a", "bash x"), calls("bash y"))) == [
        ("only-a", "tool/call"),
        ("changed", "tool/call", (("arguments",), "text")),
    ]


def test_an_event_that_stands_elsewhere_in_the_step_has_moved() -> None:
    title, context = ("session/title", {"title": "t"}), ("request/context", {"model": "m"})
    header, other_header = (("request/header", {"reason": reason}) for reason in ("initial", "change"))
    one = log(*step(1, 1, title, header, context))
    assert told(pairs(one, log(*step(1, 1, header, context, title)))) == [("moved", "session/title")]
    assert told(pairs(one, log(*step(1, 1, other_header, context, title)))) == [
        ("moved", "session/title"),
        ("changed", "request/header", (("reason",), "text")),
    ]


def test_turns_that_are_out_of_order_end_and_equal_themselves() -> None:
    odd = log(
        *turn(5), *turn(1), ("turn/start", {"turn": "x"}), ("step/start", {}), *turn(1), ("turn/start", 7)
    )
    assert told(pairs(odd, odd)) == []
    assert len(told(pairs(odd, log(*turn(1), *turn(2))))) > 0


def test_ignored_types_are_left_out_and_can_still_be_cited() -> None:
    def titled(*texts: str) -> Log:
        messages = [("user/message", message(text)) for text in texts]
        return log(*messages, ("session/title", {"title": "t", "messageSeqs": [len(texts) - 1]}))

    one, other = titled("a", "b"), titled("x", "y")
    assert [type for _, type, *_ in told(pairs(one, other))] == ["user/message", "user/message"]
    assert told(pairs(one, other, ignore=["user/message"])) == []


def test_elements_of_lists_are_laid_beside_their_like() -> None:
    def tools(*names: str) -> Log:
        listed = [{"name": name, "description": f"{name} it"} for name in names]
        return log(("request/header", {"header": {"tools": listed}}))

    assert told(pairs(tools("bash", "read", "write"), tools("bash", "edit", "write"))) == [
        (
            "changed",
            "request/header",
            (("header", "tools", 1), "removed"),
            (("header", "tools", 1), "added"),
        )
    ]
    assert told(pairs(tools("read", "write"), tools("bash", "read", "write"))) == [
        ("changed", "request/header", (("header", "tools", 0), "added"))
    ]


def many(count: int, changed: int | None = None, *, steps: bool) -> Log:
    """A session of many events, in many steps or in one turn without any."""
    events: list[tuple[str, Any]] = [("turn/start", {"turn": 1})]
    for number in range(count):
        if steps and number % 20 == 0:
            events.append(("step/start", {"turn": 1, "step": number // 20 + 1}))
        text = "changed" if number == changed else f"remark {number % 1000}"
        events.append(("feedback/record", {"text": text}))
    return log(*events)


@pytest.mark.parametrize("steps", [True, False])
@pytest.mark.parametrize("count", [2_000, pytest.param(100_000, marks=pytest.mark.heavy)])
def test_only_what_lies_around_a_difference_is_laid_side_by_side(
    count: int, steps: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    laid: list[int] = []
    matching = diff_couples.matches

    def counting(a: Any, b: Any) -> Any:
        laid.append(len(a) + len(b))
        return matching(a, b)

    monkeypatch.setattr(diff_couples, "matches", counting)
    at = count // 2
    (pair,) = differences(many(count, steps=steps), many(count, at, steps=steps))
    assert [change.path for change in pair.changes] == [("text",)]
    assert sum(laid) <= (50 if steps else 2 * (count - at) + 10)


def test_a_comparison_holds_one_step_at_a_time() -> None:
    """Asked for the first difference, it reads neither session to its end."""
    seen: list[int] = []

    class Watched(Log):
        def events(self, *args: Any, **kwargs: Any) -> Iterator[playhead.Recorded]:
            for fact in super().events(*args, **kwargs):
                seen.append(fact.seq)
                yield fact

    session = many(2_000, steps=True)
    watched = Watched(session.header, session.facts)
    next(differences(watched, many(2_000, 500, steps=True)))
    assert max(seen) < 600
