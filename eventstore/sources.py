"""Who produced a message. The vocabulary is open, with a tag ``kind``.

A person's prompt is recognised by ``kind: "user"`` and by nothing else; every other kind, unknown ones too,
is not a person. Up to log format 3 injected context is ``plugin {plugin}``; from 4 on each producer has a
kind of its own (``system-prompt``, ``runtime-context``, ``compact-checkpoint``, ``tool-goal``, ``tool-jobs``,
...).

Injected context may say what it is, as ``form``: ``instructions``, ``catalog``, ``snapshot`` (with
``sections``), ``notice`` (with a one-line ``summary``), ``relay`` or ``recall``. Without a form, or with an
unknown one, its content is opaque.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from playhead.eventstore.registry import Malformed, Registry, Tagged, Unknown
from playhead.eventstore.value import (
    CallIdField,
    Flag,
    GoalIdField,
    JsonList,
    MessageIdField,
    SessionIdField,
    Text,
    Value,
    Whole,
)

PROMPT_PLUGIN = "@deepseek-ai/dsh-system-prompt"
"""The plugin that produced the system prompt and the runtime context, up to log format 3."""

PLUGIN_KINDS = {"compact": "compact-checkpoint", "tool-goal": "tool-goal", "tool-jobs": "tool-jobs"}
"""The kinds of their own that plugins have from log format 4 on, but for ``PROMPT_PLUGIN``; others: ``plugin:NAME``."""


class Source(Tagged):
    """Who produced a message."""


message_sources: Registry[Source] = Registry("message source", Source, member="kind")

AnySource: TypeAlias = Source | Unknown | Malformed
SourceField = Annotated[AnySource, message_sources]


def is_person(source: AnySource) -> bool:
    """Whether a person wrote the message."""
    return source.tag == "user"


@message_sources.register("user")
class UserSource(Source):
    """A person. ``rpc_id`` and ``client_time_zone`` come from a remote client."""

    kind: Literal["user"] = "user"
    rpc_id: Text | None = None
    client_time_zone: Text | None = None


@message_sources.register("model")
class ModelSource(Source):
    """A model. ``replay_state`` is private to the adapter that made the answer: any JSON."""

    kind: Literal["model"] = "model"
    provider: Text
    model: Text
    replay_state: Any = None


@message_sources.register("tool")
class ToolSource(Source):
    """The tool that ran for the call."""

    kind: Literal["tool"] = "tool"
    call_id: CallIdField


@message_sources.register("goal")
class GoalSource(Source):
    """The goal driver: ``round`` (from 1) of a goal at a revision."""

    kind: Literal["goal"] = "goal"
    goal_id: GoalIdField
    revision: Whole
    round: Whole


@message_sources.register("coordinator")
class CoordinatorSource(Source):
    """The agent that coordinates others."""

    kind: Literal["coordinator"] = "coordinator"


@message_sources.register("team-message")
class TeamMessageSource(Source):
    """Another member of a team."""

    kind: Literal["team-message"] = "team-message"
    team_id: Text
    message_id: MessageIdField
    sender_id: Text
    sender_name: Text


class Section(Value):
    """One named part of a snapshot."""

    name: Text
    text: Text


class ContextSource(Source):
    """A producer of injected context, which may say what form it has."""

    form: Text | None = None
    sections: tuple[Section, ...] | None = None
    summary: Text | None = None


@message_sources.register("plugin")
class PluginSource(ContextSource):
    """A plugin, up to log format 3. A compaction checkpoint names its compaction."""

    kind: Literal["plugin"] = "plugin"
    plugin: Text
    compaction_id: Text | None = None
    source_command_id: Text | None = None


@message_sources.register("system-prompt")
class SystemPromptSource(ContextSource):
    """The system prompt, from log format 4 on."""

    kind: Literal["system-prompt"] = "system-prompt"


@message_sources.register("runtime-context")
class RuntimeContextSource(ContextSource):
    """A snapshot of what surrounds the agent: folder, policies, time."""

    kind: Literal["runtime-context"] = "runtime-context"


@message_sources.register("compact-checkpoint")
class CompactCheckpointSource(ContextSource):
    """The summary that took the place of a part of the conversation."""

    kind: Literal["compact-checkpoint"] = "compact-checkpoint"
    compaction_id: Text
    source_command_id: Text | None = None


@message_sources.register("tool-jobs")
class JobsSource(ContextSource):
    """A notice about a background job."""

    kind: Literal["tool-jobs"] = "tool-jobs"


@message_sources.register("tool-goal")
class GoalNoticeSource(ContextSource):
    """A notice about a goal, for example that it is complete."""

    kind: Literal["tool-goal"] = "tool-goal"


@message_sources.register("tool-registry")
class ToolRegistrySource(ContextSource):
    """The list of tools, on a ``developer/message``."""

    kind: Literal["tool-registry"] = "tool-registry"


@message_sources.register("subagent-report")
class SubagentReportSource(ContextSource):
    """A subagent that sends something to the session that started it."""

    kind: Literal["subagent-report"] = "subagent-report"
    sender_session_id: SessionIdField


@message_sources.register("subagent-settled")
class SubagentSettledSource(ContextSource):
    """The notice that a subagent finished."""

    kind: Literal["subagent-settled"] = "subagent-settled"
    sender_session_id: SessionIdField


class CatalogEntry(Value):
    """One skill on offer."""

    name: Text
    description: Text


@message_sources.register("skill-catalog")
class SkillCatalogSource(ContextSource):
    """The skills on offer; ``update`` marks a later list."""

    kind: Literal["skill-catalog"] = "skill-catalog"
    entries: tuple[CatalogEntry, ...]
    update: Flag | None = None


@message_sources.register("skill-invocation")
class SkillInvocationSource(ContextSource):
    """The instructions of a skill that was called."""

    kind: Literal["skill-invocation"] = "skill-invocation"
    name: Text


@message_sources.register("session-reference")
class SessionReferenceSource(ContextSource):
    """Parts of other sessions."""

    kind: Literal["session-reference"] = "session-reference"
    version: Whole
    references: JsonList


@message_sources.register("agent-instructions")
class AgentInstructionsSource(ContextSource):
    """The instruction files of a project, or how they changed since the baseline."""

    kind: Literal["agent-instructions"] = "agent-instructions"
    changes: JsonList
    baseline: Any = None
    baseline_identity: Any = None
