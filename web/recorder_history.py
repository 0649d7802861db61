"""What a request says again, and what it adds: conversations told apart by the messages that they hold.

A conversation is a chain of digests, one link for each message behind the one before, so that a request extends a
conversation when the digest of that conversation is one of its own links. What counts of a message is what every client
sends back unchanged:

==============  ==============================================================================================
``assistant``   its text without blanks at both ends, and its tool calls: id, name, arguments as a JSON value.
                Neighbours count as one message (a client may put words into the model's mouth); one with neither
                text nor calls does not count. Thinking does not: many clients leave it out
a tool result   the id of the call, its text and its other blocks; not whether the tool failed
any other       its text and its other blocks. System messages inside a history are told like a user's
==============  ==============================================================================================

System prompt, tools and settings may change from request to request. ``scope`` tells the conversations of clients apart
that name theirs. Source: docs/recording.md, "Sessions".
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from playhead.eventstore import json_text, members

_NO_CONTENT: tuple[str, list[Any]] = ("", [])


class Link(NamedTuple):
    """``digest`` stands for the first ``upto`` messages of a history."""

    digest: bytes
    upto: int


@dataclass(frozen=True, slots=True)
class History:
    """The links of a chain of messages, the first of them for no message at all."""

    links: tuple[Link, ...]

    @classmethod
    def of(cls, messages: Iterable[dict[str, Any]], scope: str | None) -> History:
        """The history that ``messages`` are, as a log or a request has them."""
        chain = Chain(scope)
        links = [Link(chain.digest, 0)]
        for count, message in enumerate(messages, 1):
            before = chain.digest
            goes_on = chain.push(message)
            if goes_on or chain.digest == before:
                links[-1] = Link(chain.digest, count)
            else:
                links.append(Link(chain.digest, count))
        return cls(tuple(links))

    @property
    def digest(self) -> bytes:
        """Stands for the whole history."""
        return self.links[-1].digest


class Chain:
    """The digest of a history that grows."""

    def __init__(self, scope: str | None) -> None:
        self._before = _hash(b"", ["scope", scope])
        self._answer: tuple[str, list[Any]] | None = None
        self.digest = self._before

    def push(self, message: dict[str, Any]) -> bool:
        """Take the next message; whether it goes on with the one before it."""
        if message.get("role") != "assistant":
            self._before, self._answer = self.digest, None
            self.digest = _hash(self._before, _told(message))
            return False
        text, calls = _answered(message)
        if not text and not calls:
            return False
        goes_on = self._answer is not None
        if self._answer is None:
            self._before = self.digest
        earlier_text, earlier_calls = self._answer or _NO_CONTENT
        self._answer = (earlier_text + text, earlier_calls + calls)
        self.digest = _hash(self._before, ["assistant", self._answer[0].strip(), self._answer[1]])
        return goes_on


def is_answer(message: dict[str, Any]) -> bool:
    """Whether ``message`` is something that a model said, so that no client can have come up with it."""
    return message.get("role") == "assistant" and _answered(message) != _NO_CONTENT


def result_of(message: dict[str, Any]) -> str | None:
    """The id of the call whose result ``message`` is; None for any other message."""
    blocks = members.objects(message, "content")
    if len(blocks) == 1 and blocks[0].get("type") == "tool-result":
        return members.text(blocks[0], "toolCallId")
    return None


def _answered(message: dict[str, Any]) -> tuple[str, list[Any]]:
    blocks = members.objects(message, "content")
    calls = [
        [block.get("id"), block.get("name"), _value(members.text(block, "arguments") or "")]
        for block in blocks
        if block.get("type") == "tool-call"
    ]
    return _text(blocks), calls


def _told(message: dict[str, Any]) -> list[Any]:
    blocks = members.objects(message, "content")
    call = result_of(message)
    if call is not None:
        blocks = members.objects(blocks[0], "content")
        return ["result", call, _text(blocks), _others(blocks)]
    return ["user", _text(blocks), _others(blocks)]


def _text(blocks: Iterable[dict[str, Any]]) -> str:
    return "".join(members.text(block, "text") or "" for block in blocks if block.get("type") == "text")


def _others(blocks: Iterable[dict[str, Any]]) -> list[Any]:
    """Blocks that are no text, without the marks by which a client says what to cache: these move."""
    return [
        {name: value for name, value in block.items() if name != "cache_control"}
        for block in blocks
        if block.get("type") != "text"
    ]


def _value(arguments: str) -> Any:
    """The arguments of a call, however they are spelled; as they are where they are no JSON."""
    try:
        return {"json": json_text.parse(arguments or "{}")}
    except ValueError:
        return arguments


def _hash(before: bytes, part: list[Any]) -> bytes:
    return hashlib.blake2b(before + json_text.dumps(_sorted(part)), digest_size=16).digest()


def _sorted(value: Any) -> Any:
    """``value`` with the members of its objects in order."""
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value
