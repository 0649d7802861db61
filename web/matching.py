"""Whether a request is the one that was recorded, and where it is not.

``ordered`` takes every request for the next one. ``strict`` compares conversations (``request_form.py``): what the log
says that the model was asked, written in the dialect of the client, against what the client asks. A summary is asked
for with a header, and ends in an instruction that is in no log: everything but that is compared.
Source: docs/replaying-in-tests.md, "Matching".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from playhead.adapters.providers.dialect import ProviderDialect
from playhead.eventstore import json_text
from playhead.eventstore.chunk_source import AdapterError, ModelRequest
from playhead.replay import excerpts
from playhead.web.request_form import INSTRUCTION, comparable, without_instruction

Match: TypeAlias = Literal["ordered", "strict"]

_THINKING = "reasoning_content"
_SHOWN = 60
"""So many characters of a value are shown."""


class _Missing:
    def __repr__(self) -> str:
        return "nothing"


MISSING: Final = _Missing()
"""In the place of a value that one side does not have."""


class Difference(NamedTuple):
    """The first place at which two values part. ``path`` is ``messages[2].content``; "" is the whole."""

    path: str
    recorded: Any
    asked: Any

    def __str__(self) -> str:
        recorded, asked = _shown(self.recorded, self.asked)
        return f"{self.path or 'the request'}: recorded {recorded}, asked {asked}"


def mismatch(
    recorded: ModelRequest, body: Mapping[str, Any], dialect: ProviderDialect, *, for_summary: bool
) -> str | None:
    """Where ``body`` is not what was ``recorded``, in words; None for a match.

    ``dialect`` is that of the client, and ``for_summary`` whether it says that it asks for a summary.
    """
    is_summary = recorded.purpose == "compaction"
    if for_summary != is_summary:
        asked, was = ("a summary", "an answer") if for_summary else ("an answer", "a summary")
        return f"it asks for {asked}, and the next recorded call gave {was}"
    try:
        expected = comparable(_written(recorded, dialect), dialect.path)
    except AdapterError as error:
        return f"the recorded request has no form in this dialect: {error}"
    asked_for = comparable(body, dialect.path)
    if is_summary:
        expected, asked_for = without_instruction(expected), without_instruction(asked_for)
    found = first_difference(_as_far_as_sent_back(expected, asked_for), asked_for)
    return None if found is None else str(found)


def _written(recorded: ModelRequest, dialect: ProviderDialect) -> dict[str, Any]:
    if recorded.purpose == "compaction":
        instruction = {"role": "user", "content": [{"type": "text", "text": INSTRUCTION}]}
        recorded = dataclasses.replace(recorded, messages=(*recorded.messages, instruction))
    return dialect.build_request(recorded)


def _as_far_as_sent_back(expected: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    """What is expected without the thinking of answers that a client of chat completions does not send back.

    Most do not; dsh 0.1.0 does it only beside tool calls, and not every log tells which release wrote it.
    """
    messages = list(expected["messages"])
    for at, (one, other) in enumerate(zip(messages, asked["messages"], strict=False)):
        if isinstance(one, dict) and isinstance(other, dict) and _THINKING not in other:
            messages[at] = {name: member for name, member in one.items() if name != _THINKING}
    return {**expected, "messages": messages}


def first_difference(recorded: Any, asked: Any, path: str = "") -> Difference | None:
    """The first difference of two JSON values, in the order of the recorded one; None where they say the same."""
    for name, one, other in _pairs(recorded, asked):
        found = first_difference(one, other, _below(path, name))
        if found is not None:
            return found
    of_one_kind = _is_both(dict, recorded, asked) or _is_both(list, recorded, asked)
    return None if of_one_kind or _same(recorded, asked) else Difference(path, recorded, asked)


def _pairs(recorded: Any, asked: Any) -> Iterator[tuple[str | int, Any, Any]]:
    if _is_both(dict, recorded, asked):
        for name in dict.fromkeys([*recorded, *asked]):
            yield name, recorded.get(name, MISSING), asked.get(name, MISSING)
    elif _is_both(list, recorded, asked):
        for at in range(max(len(recorded), len(asked))):
            one = recorded[at] if at < len(recorded) else MISSING
            yield at, one, asked[at] if at < len(asked) else MISSING


def _is_both(kind: type, one: Any, other: Any) -> bool:
    return isinstance(one, kind) and isinstance(other, kind)


def _below(path: str, name: str | int) -> str:
    if isinstance(name, int):
        return f"{path}[{name}]"
    return f"{path}.{name}" if path else name


def _shown(recorded: Any, asked: Any) -> tuple[str, str]:
    """Two values that differ, short; of two texts the part around the place where they part."""
    if isinstance(recorded, str) and isinstance(asked, str):
        one, other = excerpts.difference(recorded, asked)
        return excerpts.spelled(one), excerpts.spelled(other)
    return _cut(recorded), _cut(asked)


def _cut(value: Any) -> str:
    if value is MISSING:
        return "nothing"
    text = json_text.dumps(value).decode("utf-8", "replace")
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def _same(one: Any, other: Any) -> bool:
    """Whether two values of which at most one is a list, or an object, are equal as JSON."""
    return one is other or (type(one) is not bool and type(other) is not bool and bool(one == other))
