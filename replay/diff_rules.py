"""What a comparison of two sessions leaves out of account, rule by rule, each with its reason.

A rule names members of events by type and path. A path goes from the data of the event inwards, ``[]`` stands for each
element of a list: ``message.content[].id``. What the rule does with the member is its treatment:

============ ==========================================================================================
``DROP``     it is not compared
``ID``       a name that somebody made up; compared by what it stands for, see below
``CALL``     the same for the id of a tool call, which an answer may give again to another call
``SEQ``      the seq of another event; compared by the event that it means
``SOURCE``   the source of a message; its kind is compared as format 4 spells it
``ADDRESS``  text that may hold the address of a provider; addresses in it are not compared
``REPAIR``   it is not compared in a result that a crash repair made up
============ ==========================================================================================

Two ids are the same when each stands for the other wherever one of them is: the first pair that meets settles it. So
a session differs in nothing from a copy with other ids, and an id in the wrong place is a difference. What looks like
an id that no person chose (a UUID, ``bash-`` and 16 hex digits) is compared in the same way inside any text; in what
persons and models wrote it may not stand for another one unless the two have met elsewhere before.

Rules that are no table of members are functions in ``diff_drafts.py``. Source: docs/diff.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

from playhead.eventstore.cited_seqs import CITING

SESSION = "session"
"""The header, compared as if it were the first event."""

LEFT_OUT = frozenset({"session-log-deepseek/delivery-accepted"})
"""Types of events that leave no trace: a provider's receipt for the log says nothing about the session."""


class Treatment(Enum):
    """What a rule does with a member; see above."""

    DROP = auto()
    ID = auto()
    CALL = auto()
    SEQ = auto()
    SOURCE = auto()
    ADDRESS = auto()
    REPAIR = auto()


@dataclass(frozen=True)
class Rule:
    """``where`` gives the paths by event type. ``role`` says of what an id is: ids of two roles never meet."""

    treatment: Treatment
    where: Mapping[str, tuple[str, ...]]
    reason: str
    role: str = ""


_MESSAGES = {
    "user/message": "",
    "assistant/message": "message.",
    "tool/result": "message.",
    "system/message": "message.",
    "developer/message": "message.",
    "agent/inbox/spliced": "inserted[].",
    "session/title-llm-request": "messages[].",
}
"""The types of events that hold messages, and where."""


def _in_messages(path: str) -> dict[str, tuple[str, ...]]:
    return {type: (at + path,) for type, at in _MESSAGES.items()}


def _in(paths: tuple[str, ...], *types: str) -> dict[str, tuple[str, ...]]:
    return dict.fromkeys(types, paths)


def _in_finishes(path: str) -> dict[str, tuple[str, ...]]:
    paths = (f"stream.finish.{path}", f"stream.chunks[].reason.{path}")
    return _in(paths, "assistant/message", "assistant/attempt")


def _cited() -> dict[str, tuple[str, ...]]:
    def paths(member: str) -> tuple[str, ...]:
        if member.endswith("Range"):
            return f"{member}.start", f"{member}.end"
        return (f"{member}[]" if member.endswith("Seqs") else member,)

    return {type: tuple(path for member in cited for path in paths(member)) for type, cited in CITING.items()}


_JOBS = ("job/registered", "job/settled")
_COMPACTIONS = ("compaction/start", "compaction/summary", "compaction/end")
_RETRIES = ("llm/retry", "llm/retry-started")
_RUNS = tuple(f"tool-workflow/{what}" for what in ("run-start", "agent-start", "agent-end", "run-end"))
_TEAM = ("team/member", "team/task", "team/message/queued", "team/message/delivered")
_SUB_CALLS = ("tool/code-dispatch-start", "tool/code-dispatch")
_SESSION_ID = "every session has its own id, and so has each of its children"

RULES: tuple[Rule, ...] = (
    # Times
    Rule(
        Treatment.DROP,
        {
            "job/registered": ("startedAt",),
            "job/settled": ("startedAt", "finishedAt"),
            "goal/change": ("createdAt", "updatedAt", "clearedAt"),
            "subagent/catalog": ("childCreatedAt",),
            "schedule/change": ("schedule.scheduledAt", "acceptedAt"),
        },
        "a time of day, like the time of every event",
    ),
    Rule(Treatment.DROP, {"hook/result": ("durationMs",)}, "how long something took"),
    Rule(
        Treatment.DROP,
        {"llm/retry": ("delayMs",)},
        "the wait before a retry is drawn at random around its mean",
    ),
    # Ids
    Rule(
        Treatment.ID,
        {type: paths for type, paths in _in_messages("id").items() if type != "system/message"},
        "drawn at random for each message",
        "message",
    ),
    Rule(
        Treatment.ID,
        {"feedback/message-put": ("messageId",), "feedback/message-delete": ("messageId",)},
        "names a message",
        "message",
    ),
    Rule(
        Treatment.ID,
        {
            SESSION: ("parentSession",),
            "subagent/catalog": ("childId",),
            "tool-workflow/agent-start": ("childId",),
        }
        | _in(("owner",), *_JOBS),
        _SESSION_ID,
        "session",
    ),
    Rule(Treatment.ID, _in_messages("source.senderSessionId"), _SESSION_ID, "session"),
    Rule(Treatment.ID, {"goal/change": ("goal.id", "cleared.id")}, "drawn at random for each goal", "goal"),
    Rule(Treatment.ID, _in_messages("source.goalId"), "names a goal", "goal"),
    Rule(Treatment.ID, _in(("retryId",), *_RETRIES), "drawn at random for each chain of retries", "retry"),
    Rule(
        Treatment.ID,
        _in(("compactionId",), *_COMPACTIONS),
        "drawn at random for each compaction",
        "compaction",
    ),
    Rule(Treatment.ID, _in_messages("source.compactionId"), "names a compaction", "compaction"),
    Rule(
        Treatment.ID,
        _in(("commandId",), "command/run", "command/done") | _in(("sourceCommandId",), *_COMPACTIONS),
        "drawn at random for each command of a person",
        "command",
    ),
    Rule(Treatment.ID, _in_messages("source.sourceCommandId"), "names a command", "command"),
    Rule(
        Treatment.ID,
        _in(("id",), "approval/asked", "approval/decided"),
        "drawn at random for each question",
        "approval",
    ),
    Rule(Treatment.ID, _in(("jobId",), *_JOBS), "drawn at random for each job", "job"),
    Rule(Treatment.ID, _in(("runId",), *_RUNS), "drawn at random for each run of a workflow", "run"),
    Rule(
        Treatment.ID,
        {"schedule/change": ("schedule.id", "id")},
        "drawn at random for each schedule",
        "schedule",
    ),
    Rule(Treatment.ID, _in(("teamId",), *_TEAM), "drawn at random for each team", "team"),
    Rule(
        Treatment.ID,
        {
            "team/member": ("member.id",),
            "team/task": ("task.ownerId",),
            "team/message/queued": ("message.senderId", "message.targetId"),
            "team/message/delivered": ("targetId",),
        },
        "drawn at random for each member of a team",
        "member",
    ),
    Rule(
        Treatment.ID,
        {"team/task": ("task.id", "task.blockedBy[]")},
        "drawn at random for each task of a team",
        "task",
    ),
    Rule(
        Treatment.ID,
        {"team/message/queued": ("message.id",), "team/message/delivered": ("messageId",)},
        "drawn at random for each message of a team",
        "message",
    ),
    Rule(
        Treatment.ID,
        {
            "llm/retry": ("failure.requestId",),
            "turn/end": ("reason.error.requestId", "reason.failure.requestId"),
        }
        | _in_finishes("failure.requestId"),
        "the provider names each request",
        "request",
    ),
    # Tool calls
    Rule(
        Treatment.CALL,
        {
            "assistant/message": ("message.content[].id", "stream.blocks[].id", "stream.chunks[].id"),
            "assistant/attempt": ("stream.blocks[].id", "stream.chunks[].id"),
        },
        "the provider names each tool call, and may use a name again",
        "call",
    ),
    Rule(
        Treatment.ID,
        {
            "assistant/message": ("stream.chunks[].block.id",),
            "assistant/attempt": ("stream.chunks[].block.id",),
            "tool/call": ("callId",),
            "tool/result": ("message.source.callId", "message.content[].toolCallId"),
            "approval/asked": ("callId",),
        }
        | _in(("toolCall.callId", "toolCall.rootCallId"), *_JOBS)
        | _in(("rootCallId", "parentCallId", "subCallId"), *_SUB_CALLS),
        "names a tool call",
        "call",
    ),
    # Places in the log
    Rule(
        Treatment.SEQ,
        _cited(),
        "where an event stands depends on how many chunks and receipts lie before it; which event is meant does not",
    ),
    # Formats and machines
    Rule(
        Treatment.SOURCE,
        _in_messages("source"),
        "up to format 3 a program that injects messages is a plugin with a name, in format 4 a kind of its own",
    ),
    Rule(
        Treatment.ADDRESS,
        {
            "llm/retry": ("failure.message",),
            "turn/end": ("reason.error.message", "reason.failure.message"),
            "compaction/end": ("error", "error.message"),
        }
        | _in_finishes("failure.message"),
        "failure texts name the host and port of the provider; a replay is served from another one",
    ),
    Rule(
        Treatment.REPAIR,
        {"tool/result": ("message.content[].content",)},
        "every runtime words the results of its crash repair in its own way; the code of the error tells them apart",
    ),
    Rule(
        Treatment.DROP,
        {"system/message": ("message.id",)},
        "up to format 2 the system prompt is no message and has no id",
    ),
)
"""Every rule about members; no two are about the same one."""
