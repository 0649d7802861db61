"""Who stands behind a message, the same for every log format.

Told by ``message.source`` alone, and by the role where one kind served two purposes; never by the event type. A
person wrote a message exactly when ``source.kind`` is ``user``. Up to format 3 a program that injects context is
``{kind: "plugin", plugin: NAME}``; format 4 gives the known ones kinds of their own, and others ``plugin:NAME``:

========================================== ======================= =================
up to format 3                             format 4                here
========================================== ======================= =================
``user``                                   ``user``                ``prompt``
``goal``                                   ``goal``                ``goal-round``
``plugin compact``                         ``compact-checkpoint``  ``checkpoint``
``plugin ...dsh-system-prompt``, as user   ``runtime-context``     ``runtime-context``
the same, in the role ``system``           ``system-prompt``       ``system-prompt``
``plugin tool-jobs``                       ``tool-jobs``           ``job-notice``
``plugin tool-goal``                       ``tool-goal``           ``goal-notice``
``plugin NAME``                            ``plugin:NAME``         ``injected``
========================================== ======================= =================

The rest of the table is in ``_KINDS``. A kind that nobody knows is ``injected`` too: it is no person.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from playhead.eventstore import members

PROMPT = "prompt"
ANSWER = "answer"
TOOL_RESULT = "tool-result"
GOAL_ROUND = "goal-round"
CHECKPOINT = "checkpoint"
RUNTIME_CONTEXT = "runtime-context"
SYSTEM_PROMPT = "system-prompt"
INJECTED = "injected"
UNKNOWN = "unknown"
"""There is no source, or it names no kind."""


class Provenance(NamedTuple):
    """``kind`` is a stable code, ``by`` the program or session where the source names one, ``label`` is for people."""

    kind: str
    label: str
    by: str | None = None


_KINDS = {
    "user": (PROMPT, "user"),
    "model": (ANSWER, "assistant"),
    "tool": (TOOL_RESULT, "tool result"),
    "goal": (GOAL_ROUND, "goal round"),
    "system-prompt": (SYSTEM_PROMPT, "system prompt"),
    "runtime-context": (RUNTIME_CONTEXT, "runtime context"),
    "compact-checkpoint": (CHECKPOINT, "compaction checkpoint"),
    "tool-jobs": ("job-notice", "background job"),
    "tool-goal": ("goal-notice", "goal notice"),
    "tool-registry": ("tool-registry", "list of tools"),
    "coordinator": ("coordinator", "coordinator"),
    "subagent-report": ("subagent", "subagent report"),
    "subagent-settled": ("subagent", "subagent finished"),
    "team-message": ("team", "team message"),
    "skill-catalog": ("skill", "list of skills"),
    "skill-invocation": ("skill", "skill"),
    "session-reference": ("session-reference", "from other sessions"),
    "agent-instructions": ("instructions", "instructions"),
}
_PLUGINS = {
    "compact": "compact-checkpoint",
    "compact-checkpoint": "compact-checkpoint",
    "@deepseek-ai/dsh-system-prompt": "runtime-context",
    "tool-jobs": "tool-jobs",
    "tool-goal": "tool-goal",
}
_NAMED_BY = {
    "subagent-report": "senderSessionId",
    "subagent-settled": "senderSessionId",
    "team-message": "senderName",
    "skill-invocation": "name",
}
"""Kind -> the member that says who or what it is about; it goes into the label."""


def is_prompt(source: Any) -> bool:
    """Whether a person wrote the message. ``source`` is any JSON value."""
    return isinstance(source, dict) and source.get("kind") == "user"


def is_injected(source: Any) -> bool:
    """Whether a program put the message before the model: no person, no model and no tool did."""
    return classify(source).kind not in (PROMPT, ANSWER, TOOL_RESULT)


def classify(source: Any, role: str | None = None) -> Provenance:
    """The provenance of a message with this ``source``, any JSON value, and this role."""
    told = source if isinstance(source, dict) else members.NOTHING
    kind = members.text(told, "kind")
    if not kind:
        return Provenance(UNKNOWN, "source unknown")
    name = members.text(told, "plugin") if kind == "plugin" else None
    if kind.startswith("plugin:"):
        name = kind.removeprefix("plugin:")
    if name:
        known = _PLUGINS.get(name)
        if known is None:
            return Provenance(INJECTED, f"injected by {name}", name)
        kind = "system-prompt" if known == "runtime-context" and role == "system" else known
    if kind not in _KINDS:
        return Provenance(INJECTED, f"injected by {kind}", kind)
    code, label = _KINDS[kind]
    if kind == "goal":
        number = members.number(told, "round")
        return Provenance(
            code, label if number is None else f"{label} {number}", members.text(told, "goalId")
        )
    by = members.text(told, _NAMED_BY[kind]) if kind in _NAMED_BY else None
    return Provenance(code, label if by is None else f"{label}: {by}", by)
