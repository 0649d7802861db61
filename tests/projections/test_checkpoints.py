"""Going on from a checkpoint, by the ladder of the reference cases.

A case has rows ``{ver, seq, val}``: ``ver`` is the version of a build, ``seq + 1`` the ``next_seq`` of our checkpoint,
``val`` its state. The reference reads from ``restoreFloor`` on, one event below the first that it applies, to prove
that the log reaches that far; here the session's row proves it, and reading begins with the first event applied. It
refuses a row beyond the end of the log, and its caller begins again from 0; here that is done at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from reference import cases

from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId
from playhead.eventstore.log import NewEvent
from playhead.eventstore.recorded import Recorded
from playhead.eventstore.sql import builds
from playhead.eventstore.sql.sql_session import SqlSession
from playhead.projections.materialised import Materialised, ProjectedStore
from playhead.projections.projection import Projection
from playhead.projections.runner import shape

Json = dict[str, Any]


class Count(msgspec.Struct, frozen=True):
    n: int = 0


def counter(version: int) -> Projection[Count]:
    """Counts feedback."""
    return Projection[Count](
        name="n",
        version=version,
        state=Count,
        handles=frozenset({"feedback/record"}),
        initial=lambda _header: Count(),
        apply=lambda state, _event: Count(state.n + 1),
        view=lambda state: state.n,
    )


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ProjectedStore]:
    with ProjectedStore.open(str(tmp_path / "store.sqlite")) as opened:
        yield opened


def stored(store: ProjectedStore, case: Json) -> SqlSession:
    """The session of a case, with its checkpoint in a build that readers see."""
    session = store.create(SessionHeader(SessionId("s"), 1))
    if case["storedEvents"]:
        session.append([NewEvent("feedback/record", {"text": "x"})] * case["storedEvents"])
    row = case["checkpoint"].get("n")
    if row is not None:
        held = counter(row["ver"])
        with store.database.write() as link:
            build = builds.add(link, "n", row["ver"], shape(held), ())
            builds.set_status(link, build.id, builds.LIVE)
            kept = builds.Checkpoint(row["seq"] + 1, held.dump(Count(row["val"])))
            builds.put(link, build.id, session.row_id, kept)
    return session


@pytest.mark.parametrize("case", cases("projections", "restoreLadder"))
def test_a_state_is_restored_as_the_ladder_says(
    store: ProjectedStore, case: Json, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = stored(store, case)
    projection = counter(case["unit"]["stateVersion"])
    read: list[int] = []
    real = SqlSession.events

    def events(self: SqlSession, from_seq: int = 0, *args: Any, **options: Any) -> Iterator[Recorded]:
        read.append(from_seq)
        return real(self, from_seq, *args, **options)

    monkeypatch.setattr(SqlSession, "events", events)
    folded = Materialised(store, projection).folded(session)
    end = case["storedEvents"]
    assert (folded.state.n, folded.next_seq) == (end, end)
    if isinstance(case["restore"], str):
        assert case["restore"].startswith("refused")
        assert read == [0]
        return
    assert (folded.state.n, folded.next_seq - 1) == (case["restore"]["value"], case["restore"]["asOfSeq"])
    assert max(0, read[0] - 1) == case["restoreFloor"]


@pytest.mark.parametrize("case", cases("projections", "restoreLadder"))
def test_catching_up_leaves_the_row_that_the_ladder_says(store: ProjectedStore, case: Json) -> None:
    session = stored(store, case)
    projection = counter(case["unit"]["stateVersion"])
    Materialised(store, projection).catch_up()
    with store.database.read() as link:
        (build,) = builds.of_name(link, "n")
        kept = builds.checkpoint(link, build.id, session.row_id)
    assert kept is not None
    assert kept.state is not None
    end = case["storedEvents"]
    row = {"ver": build.version, "seq": kept.next_seq - 1, "val": projection.load(kept.state).n}
    whole = {"ver": case["unit"]["stateVersion"], "seq": end - 1, "val": end}
    assert row == whole
    if not isinstance(case["restore"], str):
        assert row == case["restore"]["row"]
