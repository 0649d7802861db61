"""What the agent may do: the chosen preset, the sandbox, whether it must ask, and whether it only plans.

Each is set by events of its own, and the last one counts. A fork goes on with what its parent had. What was never
set is not in the log: the host's configuration decides, and shows as None; plan mode is off then.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from playhead.eventstore import members
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.recorded import Recorded
from playhead.projections.growing import Journal
from playhead.projections.projection import Column, Projection, ReadTable, Row

_SETTINGS = {
    "permission/preset": ("preset", "preset"),
    "sandbox/mode": ("sandbox", "mode"),
    "approval/policy": ("approval", "policy"),
    "plan/mode": ("plan", "active"),
}
"""Event type -> the setting, and the member that has its value."""


class Change(msgspec.Struct, frozen=True, rename="camel"):
    """``source`` is ``delegation`` where a parent handed the value down."""

    seq: int
    time_ms: int
    setting: str
    value: str
    source: str | None


class Permissions(msgspec.Struct, frozen=True, rename="camel"):
    """The values that count, by setting, and every change."""

    values: dict[str, str] = {}
    changes: Journal[Change] = Journal()


def _begin(_header: SessionHeader) -> Permissions:
    return Permissions()


def _apply(state: Permissions, event: Recorded) -> Permissions:
    setting, member = _SETTINGS[event.type]
    data = members.of(event)
    value = data.get(member)
    if setting == "plan":
        value = {True: "on", False: "off"}.get(value) if isinstance(value, bool) else None
    if not isinstance(value, str):
        return state
    change = Change(event.seq, event.time_ms, setting, value, members.text(data, "source"))
    return replace(state, values=state.values | {setting: value}, changes=state.changes.plus([change]))


def _view(state: Permissions) -> Any:
    settings = {setting: state.values.get(setting) for setting in ("preset", "sandbox", "approval")}
    return {**settings, "plan": state.values.get("plan") == "on"}


CHANGES = ReadTable(
    "read_permission_change",
    "Every change of what the agent may do.",
    (
        Column("time_ms", "int", "when it was changed"),
        Column("setting", "text", "preset, sandbox, approval or plan"),
        Column("value", "text", "the new value, such as workspace-write, never, on"),
        Column("source", "text", "delegation, where a parent handed it down", optional=True),
        Column("is_current", "bool", "no later change of this setting follows"),
    ),
    key=("seq",),
)


def _rows(state: Permissions) -> Iterator[Row]:
    last = {change.setting: change.seq for change in state.changes}
    for change in state.changes:
        is_current = last[change.setting] == change.seq
        yield Row(
            CHANGES.name,
            change.seq,
            (change.time_ms, change.setting, change.value, change.source, is_current),
        )


permissions: Projection[Permissions] = Projection(
    name="permissions",
    version=1,
    state=Permissions,
    handles=frozenset(_SETTINGS),
    initial=_begin,
    apply=_apply,
    view=_view,
    tables=(CHANGES,),
    rows=_rows,
)
