"""Which event types readers of format 0 know, for whoever writes that format.

A reader of format 0 refuses a log with a type that it does not know, unless the event is marked ignorable. So a writer
of that format marks the types that came later. Types that nobody knows are not here: what they change, nobody can say.
Source: docs/formats.md, "Forks".
"""

from __future__ import annotations

FORMAT_0_TYPES = frozenset(
    {
        "agent-preset/selected",
        "agent/inbox/spliced",
        "approval/asked",
        "approval/decided",
        "approval/policy",
        "assistant/chunk",
        "assistant/message",
        "command/done",
        "command/run",
        "compaction/end",
        "compaction/prune",
        "compaction/start",
        "compaction/summary",
        "feedback/record",
        "goal/change",
        "hook/invoked",
        "hook/result",
        "llm/retry",
        "llm/retry-started",
        "permission/preset",
        "plan/mode",
        "request/context",
        "request/header",
        "sandbox/mode",
        "schedule/change",
        "session/end-seed",
        "session/title",
        "session/title-llm-request",
        "step/end",
        "step/start",
        "subagent/descriptor",
        "team/member",
        "team/message/delivered",
        "team/message/queued",
        "team/task",
        "todo/write",
        "tool-workflow/agent-end",
        "tool-workflow/agent-start",
        "tool-workflow/run-end",
        "tool-workflow/run-start",
        "tool/call",
        "tool/code-dispatch",
        "tool/code-dispatch-start",
        "tool/result",
        "turn/end",
        "turn/start",
        "user/message",
        "web/deepseek-search-llm-request",
    }
)
"""Every release that reads format 0 knows these."""

FROM_0_1_2_TYPES = frozenset(
    {"model/selection", "session-log-deepseek/delivery-accepted", "subagent/model-selection-policy"}
)
"""Releases from 0.1.2 on know these, and earlier ones of format 0 do not."""

LATER_TYPES = frozenset(
    {
        "assistant/attempt",
        "deliverables/presented",
        "developer/message",
        "feedback/message-delete",
        "feedback/message-put",
        "image/offload",
        "job/registered",
        "job/settled",
        "subagent/catalog",
        "system/message",
        "working-directory/change",
        "workspace/changes",
    }
)
"""No release that writes format 0 knows these; all are of formats 2 to 4."""
