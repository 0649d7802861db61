"""Where others have a say in what an agent does: awaited, each a chain around the next.

``pre_step``
    May a step begin with these messages? Gives ``Enter`` with the batch that enters, or ``Reject``.
``request``
    With which config is the model called?
``request_error``
    A model call failed: ``Retry`` makes the call again in the same open step; None lets it fail.
``turn_stopping``
    The turn is about to end; one that objects adds input for a further step.

A link is called with what is asked and with ``inner``, which asks the rest of the chain. The last link registered
is the innermost. Every question carries the turn's cancellation.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from playhead.eventstore.cancel import CancelToken
from playhead.eventstore.failures import Failure
from playhead.eventstore.messages import Message
from playhead.eventstore.registered import Registered
from playhead.eventstore.request_header import CallConfig

Q = TypeVar("Q")
A = TypeVar("A")


@dataclass(frozen=True, slots=True)
class Enter:
    """The step begins, with exactly these messages."""

    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Reject:
    """No step begins, and the turn ends as blocked."""


Decision = Enter | Reject


@dataclass(frozen=True, slots=True)
class Retry:
    """The call is made again."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A step that would begin; ``messages`` is what was claimed for it."""

    turn: int
    step: int
    messages: tuple[Message, ...]
    token: CancelToken


@dataclass(frozen=True, slots=True)
class Asking:
    """A call that is about to be made with ``config``."""

    turn: int
    step: int
    config: CallConfig
    token: CancelToken


@dataclass(frozen=True, slots=True)
class CallFailed:
    """A call that failed."""

    turn: int
    step: int
    provider: str
    failure: Failure
    token: CancelToken


@dataclass(frozen=True, slots=True)
class Stopping:
    """A turn that would end now."""

    turn: int
    token: CancelToken


Link = Callable[[Q, Callable[[Q], Awaitable[A]]], Awaitable[A]]


class Chain(Generic[Q, A]):
    """Links around an answer of last resort."""

    def __init__(self, last: Callable[[Q], A]) -> None:
        self._last = last
        self._links: Registered[Link[Q, A]] = Registered()

    def add(self, link: Link[Q, A]) -> Callable[[], None]:
        """Put ``link`` inside those that are there; gives what takes it off again."""
        return self._links.add(link)

    async def ask(self, question: Q) -> A:
        """The answer of the outermost link."""
        return await self._from(tuple(self._links), question)

    async def _from(self, links: tuple[Link[Q, A], ...], question: Q) -> A:
        if not links:
            return self._last(question)

        async def inner(asked: Q) -> A:
            return await self._from(links[1:], asked)

        return await links[0](question, inner)


def _enter(proposal: Proposal) -> Decision:
    return Enter(proposal.messages)


def _as_asked(asking: Asking) -> CallConfig:
    return asking.config


def _let_fail(_failed: CallFailed) -> Retry | None:
    return None


StoppingListener = Callable[[Stopping], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Hooks:
    """The extension points of one agent."""

    pre_step: Chain[Proposal, Decision] = field(default_factory=lambda: Chain(_enter))
    request: Chain[Asking, CallConfig] = field(default_factory=lambda: Chain(_as_asked))
    request_error: Chain[CallFailed, Retry | None] = field(default_factory=lambda: Chain(_let_fail))
    turn_stopping: Registered[StoppingListener] = field(default_factory=Registered)
