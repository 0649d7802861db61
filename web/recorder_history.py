"""What a request says again, and what it adds: conversations told apart by the messages that they hold.

A conversation is a chain of digests, one link for each part behind the one before, so that a request extends a
conversation when the digest of that conversation is one of its own links. What counts as a part is what every client
sends back unchanged:

==================  ==========================================================================================
an answer           its text without blanks at both ends, and its tool calls: id, name, arguments as a JSON value.
                    Neighbours count as one (a client may put words into the model's mouth); one with neither text
                    nor calls does not count. Thinking does not: many clients leave it out
a tool result       the id of the call, its text and its other blocks; not whether the tool failed
any other message   each of its blocks is a part, for neighbours may come as one message: as what a user said next,
                    when the model could not answer. System messages inside a history are told like a user's
==================  ==========================================================================================

System prompt, tools and settings may change from request to request. ``scope`` tells the conversations of clients apart
that name theirs. Source: docs/recording.md, "Sessions".
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import msgspec

from playhead.eventstore import json_text, members

Part: TypeAlias = list[Any]
"""What counts of a part, as JSON: its kind, then the rest."""

_ANSWER = "answer"


class Link(NamedTuple):
    """``digest`` stands for the first ``upto`` messages of a history, and ``blocks`` blocks of the next one."""

    digest: bytes
    upto: int
    blocks: int = 0


@dataclass(frozen=True, slots=True)
class History:
    """Messages, as a log or a request has them, their parts, and the links of their chain.

    The first link is for no message at all, each of the others for one more part.
    """

    messages: Sequence[dict[str, Any]]
    parts: tuple[Part, ...]
    links: tuple[Link, ...]

    @classmethod
    def of(cls, messages: Sequence[dict[str, Any]], scope: str | None) -> History:
        """The history that ``messages`` are."""
        chain = Chain(scope)
        parts: list[Part] = []
        links = [Link(chain.digest, 0)]
        for upto, message in enumerate(messages):
            own = parts_of(message)
            for blocks, part in enumerate(own, 1):
                goes_on = chain.push(part)
                link = Link(chain.digest, upto, blocks) if blocks < len(own) else Link(chain.digest, upto + 1)
                parts[len(parts) - goes_on :] = [chain.part]
                links[len(links) - goes_on :] = [link]
            if not own:
                links[-1] = links[-1]._replace(upto=upto + 1)
        return cls(messages, tuple(parts), tuple(links))

    def behind(self, link: Link) -> list[dict[str, Any]]:
        """The messages behind ``link``; of one that it ends in, the blocks that are left."""
        rest = list(self.messages[link.upto :])
        if link.blocks:
            rest[0] = {**rest[0], "content": members.objects(rest[0], "content")[link.blocks :]}
        return rest


class Chain:
    """The digest of a history that grows; ``part`` is the last one in it."""

    def __init__(self, scope: str | None) -> None:
        self._before = _hash(b"", ["scope", scope])
        self._answer: tuple[str, list[Any]] | None = None
        self.part: Part = []
        self.digest = self._before

    def push(self, part: Part) -> bool:
        """Take the next part; whether it goes on with the one before it."""
        goes_on = part[0] == _ANSWER and self._answer is not None
        if not goes_on:
            self._before = self.digest
        if part[0] == _ANSWER:
            text, calls = self._answer or ("", [])
            self._answer = (text + part[1], calls + part[2])
            part = [_ANSWER, self._answer[0].strip(), self._answer[1]]
        else:
            self._answer = None
        self.part = part
        self.digest = _hash(self._before, part)
        return goes_on


def parts_of(message: dict[str, Any]) -> list[Part]:
    """What counts of ``message``."""
    blocks = members.objects(message, "content")
    if message.get("role") == "assistant":
        text = _text(blocks)
        calls = [
            [block.get("id"), block.get("name"), _value(members.text(block, "arguments") or "")]
            for block in blocks
            if block.get("type") == "tool-call"
        ]
        return [[_ANSWER, text, calls]] if text or calls else []
    call = result_of(message)
    if call is None:
        return [["block", _told(block)] for block in blocks]
    content = members.objects(blocks[0], "content")
    others = [_told(block) for block in content if block.get("type") != "text"]
    return [["result", call, _text(content), others]]


def is_answer(message: dict[str, Any]) -> bool:
    """Whether ``message`` is something that a model said, so that no client can have come up with it."""
    return message.get("role") == "assistant" and bool(parts_of(message))


def result_of(message: dict[str, Any]) -> str | None:
    """The id of the call whose result ``message`` is; None for any other message."""
    blocks = members.objects(message, "content")
    if len(blocks) == 1 and blocks[0].get("type") == "tool-result":
        return members.text(blocks[0], "toolCallId")
    return None


def _text(blocks: Iterable[dict[str, Any]]) -> str:
    return "".join(members.text(block, "text") or "" for block in blocks if block.get("type") == "text")


def _told(block: dict[str, Any]) -> dict[str, Any]:
    """``block`` without the mark by which a client says what to cache: it moves."""
    return {name: value for name, value in block.items() if name != "cache_control"}


def _value(arguments: str) -> Any:
    """The arguments of a call, however they are spelled; as they are where they are no JSON."""
    try:
        return {"json": json_text.parse(arguments or "{}")}
    except ValueError:
        return arguments


def _hash(before: bytes, part: Part) -> bytes:
    """The digest behind ``before``, whatever the order of members. Text that is no Unicode keeps its order."""
    try:
        text = msgspec.json.encode(part, order="deterministic")
    except (ValueError, RecursionError):
        text = json_text.dumps(part)
    return hashlib.blake2b(before + text, digest_size=16).digest()
