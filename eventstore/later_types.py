"""Event types that came after format 0, for whoever writes that format.

A reader of format 0 refuses a log with a type that it does not know, unless the event is marked ignorable. So a writer
of that format marks these. Types that nobody knows are not here: what they change, nobody can say.
Source: docs/formats.md, "Forks".
"""

from __future__ import annotations

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
"""No release that writes format 0 knows these."""

NOT_IN_EVERY_FORMAT_0 = frozenset({"model/selection", "subagent/model-selection-policy"})
"""Releases from 0.1.2 on know these, and earlier ones of format 0 do not."""
