"""Rules that relate the events of a valid session to each other.

Every package that declares event types owns rules for them; ``core`` owns those of turns and steps. A log
that breaks a rule still loads: what is found are warnings, never errors. The rules hold for stored facts and
for logical events alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType

from playhead.eventstore.invariants.approval import Approval
from playhead.eventstore.invariants.commands import Commands
from playhead.eventstore.invariants.compaction import Compaction
from playhead.eventstore.invariants.core import Core
from playhead.eventstore.invariants.goal import Goal
from playhead.eventstore.invariants.hooks import Hooks
from playhead.eventstore.invariants.retry import Retry
from playhead.eventstore.invariants.rules import Fault, Owner, Violation
from playhead.eventstore.invariants.schedule import Schedule
from playhead.eventstore.invariants.title import Title
from playhead.eventstore.invariants.todo import Todo
from playhead.eventstore.invariants.tools import Tools
from playhead.eventstore.invariants.workflow import Workflow
from playhead.eventstore.recorded import Recorded

__all__ = ["OWNERS", "Fault", "Owner", "Violation", "check"]

OWNERS: Mapping[str, Callable[[int], Owner]] = MappingProxyType(
    {
        "core": lambda _: Core(),
        "compaction": lambda _: Compaction(),
        "approval": lambda _: Approval(),
        "hooks": lambda _: Hooks(),
        "retry": lambda _: Retry(),
        "commands": lambda _: Commands(),
        "title": lambda _: Title(),
        "todo": lambda _: Todo(),
        "workflow": lambda _: Workflow(),
        "goal": lambda _: Goal(),
        "tools": lambda _: Tools(),
        "schedule": Schedule,
    }
)
"""Who has rules. Each makes its state machine for a session that inherited so many events."""


def check(
    facts: Iterable[Recorded],
    owners: Iterable[str] | None = None,
    *,
    seed_length: int = 0,
    excused: Callable[[Recorded], bool] | None = None,
) -> Iterator[Violation]:
    """The rules that the facts of one session break, in the order of the facts; of all owners or the named.

    ``facts`` begin with the session and may have gaps. ``seed_length`` is how many of them were inherited. An
    event breaks at most one rule of each owner; what those that are ``excused`` break is not told. Raises nothing for
    any data.
    """
    machines = [(name, OWNERS[name](seed_length)) for name in (OWNERS if owners is None else owners)]
    for_all = [(name, machine.feed) for name, machine in machines if machine.types is None]
    wanted = {type for _, machine in machines for type in machine.types or ()}
    by_type = {
        type: [(name, machine.feed) for name, machine in machines if type in (machine.types or wanted)]
        for type in wanted
    }
    for fact in facts:
        for name, feed in by_type.get(fact.type, for_all):
            fault = feed(fact)
            if fault is not None and not (excused is not None and excused(fact)):
                yield Violation(name, fault.rule, fact.seq, fault.message)
