"""Background jobs: what was started, and how it ended.

A ``job/settled`` says all that the ``job/registered`` of its id says, and more, so one without the other is shown as
well. A job that has not settled still ran when the log ended, or died with its process.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from playhead.eventstore import members
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.recorded import Recorded
from playhead.projections.attempt import whole
from playhead.projections.growing import Journal
from playhead.projections.inherited import MARKER, Inherited
from playhead.projections.projection import Column, Projection, ReadTable, Row
from playhead.projections.span import span


class Job(msgspec.Struct, frozen=True, rename="camel"):
    """First told of at ``seq``. ``status`` is None until it settles."""

    seq: int
    id: str
    kind: str | None
    label: str | None
    call_id: str | None
    root_call_id: str | None
    started_ms: int | None
    settled_seq: int | None = None
    finished_ms: int | None = None
    status: str | None = None
    cause: str | None = None


class Jobs(msgspec.Struct, frozen=True, rename="camel"):
    """``running`` by id, ``settled`` in the order in which they settled."""

    inherited: Inherited
    running: dict[str, Job] = {}
    settled: Journal[Job] = Journal()


def every(state: Jobs) -> list[Job]:
    """All jobs, in the order in which the log tells of them."""
    return sorted((*state.settled, *state.running.values()), key=lambda job: job.seq)


def _begin(header: SessionHeader) -> Jobs:
    return Jobs(Inherited.of(header))


def _apply(state: Jobs, event: Recorded) -> Jobs:
    if event.type == MARKER:
        inherited = state.inherited.after(event)
        return state if inherited is state.inherited else replace(state, inherited=inherited)
    data = members.of(event)
    id = members.text(data, "jobId")
    if id is None:
        return state
    job = state.running.get(id)
    if event.type == "job/registered":
        if job is not None:
            state = replace(state, settled=state.settled.plus([job]))
        return replace(state, running=state.running | {id: _begun(id, event, data)})
    settled = replace(
        job or _begun(id, event, data),
        settled_seq=event.seq,
        finished_ms=whole(data, "finishedAt"),
        status=members.text(data, "status") or "unknown",
        cause=members.text(data, "cause"),
    )
    running = {other: known for other, known in state.running.items() if other != id}
    return replace(state, running=running, settled=state.settled.plus([settled]))


def _begun(id: str, event: Recorded, data: dict[str, Any]) -> Job:
    call = members.inner(data, "toolCall")
    return Job(
        event.seq,
        id,
        members.text(data, "kind"),
        members.text(data, "label"),
        members.text(call, "callId"),
        members.text(call, "rootCallId"),
        whole(data, "startedAt"),
    )


def _view(state: Jobs) -> Any:
    return {"inheritedTo": state.inherited.to_seq, "jobs": msgspec.to_builtins(every(state))}


JOBS = ReadTable(
    "read_job",
    "Background jobs, among them every shell command, in logs of format 4 and newer.",
    (
        Column("inherited", "bool", "the parent's, taken over by a fork"),
        Column("job_id", "text", "id of the job"),
        Column("kind", "text", "what kind of job", optional=True),
        Column("label", "text", "what it does", optional=True),
        Column("call_id", "text", "the tool call that started it", optional=True),
        Column("root_call_id", "text", "the call of the model that this goes back to", optional=True),
        Column("started_ms", "int", "when it started", optional=True),
        Column("finished_ms", "int", "when it ended", optional=True),
        Column("duration_ms", "int", "how long it ran; NULL where the clock ran back", optional=True),
        Column("status", "text", "completed, failed or killed; NULL: it has not ended", optional=True),
        Column("cause", "text", "why it ended so", optional=True),
        Column("settled_seq", "int", "the event that tells its end", optional=True),
    ),
    key=("seq",),
)


def _rows(state: Jobs) -> Iterator[Row]:
    for job in every(state):
        yield Row(
            JOBS.name,
            job.seq,
            (
                state.inherited.covers(job.seq),
                job.id,
                job.kind,
                job.label,
                job.call_id,
                job.root_call_id,
                job.started_ms,
                job.finished_ms,
                span(job.started_ms, job.finished_ms),
                job.status,
                job.cause,
                job.settled_seq,
            ),
        )


jobs: Projection[Jobs] = Projection(
    name="jobs",
    version=1,
    state=Jobs,
    handles=frozenset({"job/registered", "job/settled", MARKER}),
    initial=_begin,
    apply=_apply,
    view=_view,
    tables=(JOBS,),
    rows=_rows,
)
