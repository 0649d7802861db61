"""The contract of a log, on every backend: in memory, SQLite, PostgreSQL.

The histories are drawn by hypothesis; ``MemoryLog`` is the reference that the others must agree with.
"""

from __future__ import annotations

import itertools
import tempfile
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from stores import postgres_url

from playhead.eventstore.errors import (
    IdempotencyConflict,
    NotLosslessJson,
    SessionExists,
    SessionNotFound,
    UsageError,
    WrongExpectedSeq,
)
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId
from playhead.eventstore.log import NewEvent
from playhead.eventstore.memory import MemoryLog
from playhead.eventstore.recorded import Recorded, Replace
from playhead.eventstore.sql import open_store

BACKENDS = ("memory", "sqlite", "postgres")
START_MS = 1_780_000_000_000

_shared: dict[str, Any] = {}
_names = itertools.count(1)


def ticking() -> Callable[[], int]:
    """A clock that moves 7 ms at each look."""
    ticks = itertools.count(START_MS, 7)
    return lambda: next(ticks)


def fresh(backend: str) -> Any:
    """An empty store of this backend; PostgreSQL gets a database of its own."""
    if backend == "memory":
        return MemoryLog(ticking())
    if backend == "sqlite":
        return open_store("sqlite://", clock=ticking())
    context = postgres_url()
    store = open_store(context.__enter__(), clock=ticking())
    _shared.setdefault("databases", []).append((context, store))
    return store


def teardown_module() -> None:
    for context, store in _shared.pop("databases", []):
        store.close()
        context.__exit__(None, None, None)


@pytest.fixture(params=BACKENDS)
def store(request: pytest.FixtureRequest) -> Any:
    return fresh(request.param)


def head(name: str = "s", **members: Any) -> SessionHeader:
    return SessionHeader(SessionId(name), START_MS, **members)


def note(text: str = "x", **members: Any) -> NewEvent:
    return NewEvent("feedback/record", {"text": text}, **members)


def test_seqs_begin_at_zero_and_positions_at_one(store: Any) -> None:
    session = store.create(head())
    done = session.append([note("a"), note("b")])
    assert (done.from_seq, done.to_seq, done.position) == (0, 2, 1)
    assert [(fact.seq, fact.position, fact.json["text"]) for fact in session.read()] == [
        (0, 1, "a"),
        (1, 2, "b"),
    ]
    assert store.position == 2


def test_appended_lines_are_canonical_log_lines(store: Any) -> None:
    session = store.create(head())
    session.append(
        [
            note("ü\ud83d\n", time_ms=-5),
            NewEvent("user/message", {"id": "m"}, 7, Replace(0, 0), [0], ignorable=True),
        ]
    )
    assert list(session.lines()) == [
        b'{"type":"feedback/record","seq":0,"time":-5,"data":{"text":"\xc3\xbc\\ud83d\\n"}}',
        b'{"type":"user/message","seq":1,"time":7,"data":{"id":"m"},"ignorable":true,'
        b'"sourceEventSeqs":[0],"surfaceOp":{"op":"replace","start":0,"end":0}}',
    ]
    fact = next(iter(session.read(1)))
    assert (fact.surface_op, fact.source_seqs, fact.ignorable) == (Replace(0, 0), (0,), True)


def test_events_without_a_time_get_the_clock_of_the_store(store: Any) -> None:
    session = store.create(head())
    session.append([note()])
    assert next(iter(session.read())).time_ms >= START_MS


def test_append_with_stale_expected_seq_leaves_the_log_unchanged(store: Any) -> None:
    session = store.create(head())
    session.append([note("a")], expected_seq=0)
    other = store.session("s")
    other.append([note("b")], expected_seq=1)
    with pytest.raises(WrongExpectedSeq) as raised:
        session.append([note("c")], expected_seq=1)
    assert (raised.value.expected, raised.value.actual) == (1, 2)
    assert [fact.json["text"] for fact in session.read()] == ["a", "b"]
    assert store.position == 2


def test_a_session_object_that_is_behind_appends_at_the_real_end(store: Any) -> None:
    first, second = store.create(head()), store.session("s")
    first.append([note("a")])
    second.append([note("b")])
    assert first.append([note("c")]).from_seq == 2
    assert [fact.json["text"] for fact in second.read()] == ["a", "b", "c"]


def test_the_same_key_returns_the_earlier_result_whatever_the_times(store: Any) -> None:
    session = store.create(head())
    done = session.append([note("a", time_ms=1), note("b", time_ms=2)], idem="k")
    session.append([note("between")])
    assert session.append([note("a", time_ms=9), note("b")], idem="k", expected_seq=0) == done
    assert store.session("s").append([note("a"), note("b")], idem="k") == done
    assert session.next_seq == 3


@pytest.mark.parametrize(
    "events",
    [
        [note("a")],
        [note("a"), note("c")],
        [note("a"), note("b"), note("c")],
        [note("a"), NewEvent("x/y", {"text": "b"})],
        [note("a"), note("b", ignorable=True)],
    ],
)
def test_the_same_key_for_other_events_is_a_conflict(store: Any, events: list[NewEvent]) -> None:
    session = store.create(head())
    session.append([note("a"), note("b")], idem="k")
    with pytest.raises(IdempotencyConflict):
        session.append(events, idem="k")
    assert session.next_seq == 2


def test_keys_belong_to_their_session(store: Any) -> None:
    one, two = store.create(head("one")), store.create(head("two"))
    one.append([note("a")], idem="k")
    assert two.append([note("z")], idem="k").from_seq == 0


def test_a_value_that_json_would_change_fails_the_whole_append(store: Any) -> None:
    session = store.create(head())
    with pytest.raises(NotLosslessJson):
        session.append([note("fine"), NewEvent("x/y", {"n": float("nan")})])
    assert session.next_seq == 0
    assert list(store.read_all()) == []


def test_an_empty_append_is_refused(store: Any) -> None:
    with pytest.raises(UsageError):
        store.create(head()).append([])


@pytest.mark.parametrize("time_ms", [1.5, "1", True, 2**60])
def test_an_event_with_a_time_that_would_not_come_back_is_refused(store: Any, time_ms: Any) -> None:
    session = store.create(head())
    with pytest.raises(UsageError, match=r"feedback/record at .*: a time is a whole number"):
        session.append([note(), note(time_ms=time_ms)])
    assert (session.next_seq, list(store.read_all())) == (0, [])


@pytest.mark.parametrize(
    "members", [{"created_ms": 1.5}, {"created_ms": -1}, {"cwd": Path("/w")}, {"version": 99}]
)
def test_a_session_that_could_not_be_opened_again_is_not_made(store: Any, members: Any) -> None:
    made = store.create(head("sound"))
    header = replace(head(), **members)
    with pytest.raises(UsageError):
        store.create(header)
    with pytest.raises(UsageError):
        store.create_from(header, [])
    assert [info.id for info in store.sessions()] == [made.id]


def test_creating_again_needs_the_same_key_and_header(store: Any) -> None:
    made = store.create(head("a", cwd="/w"), idem="k")
    made.append([note()])
    again = store.create(SessionHeader(SessionId("a"), START_MS + 99, cwd="/w"), idem="k")
    assert again.next_seq == 1
    for header, idem in (
        (head("a", cwd="/w"), None),
        (head("a", cwd="/w"), "other"),
        (head("a", cwd="/x"), "k"),
    ):
        with pytest.raises(SessionExists):
            store.create(header, idem=idem)
    assert len(store.sessions()) == 1


def test_unknown_sessions_and_generations_are_said(store: Any) -> None:
    with pytest.raises(SessionNotFound):
        store.session("nobody")
    store.create(head())
    assert store.session("s", generation=1).id == "s"
    with pytest.raises(UsageError):
        store.session("s", generation=2)


@pytest.mark.parametrize("name", ["a\0b", "\ud83d", "~0000", "ünï/..", "", " ", "x" * 500])
def test_any_text_can_be_an_id(store: Any, name: str) -> None:
    store.create(head(name, cwd="/w\0\udc00~")).append([note()])
    assert store.session(name).id == name
    assert [info.id for info in store.sessions(id_prefix=name)] == [name]
    assert store.sessions(cwd="/w\0\udc00~")[0].header.cwd == "/w\0\udc00~"


def test_sessions_are_listed_newest_first_and_filtered(store: Any) -> None:
    for at, (name, cwd, parent) in enumerate((("b", "/x", None), ("a", "/y", "b"), ("c", "/x", "b"))):
        store.create(SessionHeader(SessionId(name), START_MS + at, cwd=cwd, parent=parent))
    assert [info.id for info in store.sessions()] == ["c", "a", "b"]
    assert [info.id for info in store.sessions(cwd="/x")] == ["c", "b"]
    assert [info.id for info in store.sessions(parent="b", id_prefix="a")] == ["a"]


def test_read_all_follows_commit_order_from_any_position(store: Any) -> None:
    one, two = store.create(head("one")), store.create(head("two"))
    for at in range(6):
        (one if at % 2 else two).append([note(f"{at}a"), note(f"{at}b")])
    texts = [f"{at}{half}" for at in range(6) for half in "ab"]
    assert [fact.json["text"] for fact in store.read_all()] == texts
    for after in range(13):
        facts = list(store.read_all(after))
        assert [fact.json["text"] for fact in facts] == texts[after:]
        assert [fact.position for fact in facts] == list(range(after + 1, 13))
        assert [fact.json["text"] for fact in store.read_all(after, limit=3)] == texts[after : after + 3]
    assert list(store.read_all(99)) == []


def test_read_filters_by_half_open_range_and_type(store: Any) -> None:
    session = store.create(head())
    session.append([NewEvent("a/a" if at % 3 else "b/b", {"n": at}) for at in range(10)])
    assert [fact.seq for fact in session.read(2, 5)] == [2, 3, 4]
    assert [fact.seq for fact in session.read(types=["b/b"])] == [0, 3, 6, 9]
    assert [fact.seq for fact in session.read(4, types=("a/a",))] == [4, 5, 7, 8]
    assert list(session.read(10)) == list(session.read(5, 5)) == list(session.read(3, 1)) == []


def test_events_leave_out_token_deltas_where_nobody_wants_them(store: Any) -> None:
    session = store.create(head())
    chunk = {"turn": 1, "step": 1}
    session.append(
        [
            NewEvent("turn/start", {"turn": 1}),
            NewEvent(
                "assistant/chunk", chunk | {"chunk": {"type": "block-start", "index": 0, "blockType": "text"}}
            ),
            *(
                NewEvent(
                    "assistant/chunk", chunk | {"chunk": {"type": "text-delta", "index": 0, "text": text}}
                )
                for text in ("a", "b", "c", "d")
            ),
            NewEvent("assistant/chunk", chunk | {"chunk": {"type": "usage", "usage": {"text-delta": 1}}}),
        ]
    )
    for _ in range(2):
        assert [event.seq for event in session.events()] == list(range(7))
        assert [event.seq for event in session.events(deltas=False)] == [0, 1, 6]
        assert [event.seq for event in session.events(3, 7, deltas=False)] == [6]
        if hasattr(session, "seal"):
            session.seal()


def test_events_come_without_the_types_that_nobody_wants(store: Any) -> None:
    session = store.create(head())
    chunk = {"turn": 1, "step": 1, "chunk": {"type": "text-delta", "index": 0, "text": "a"}}
    kinds = [
        NewEvent("turn/start", {"turn": 1}),
        *[NewEvent("assistant/chunk", chunk)] * 4,
        NewEvent("nobody/knows", None),
        NewEvent("turn/end", {"turn": 1}),
    ]
    session.append(kinds * 3)
    choices: list[list[str]] = [
        [],
        ["turn/start"],
        ["assistant/chunk", "nobody/knows"],
        ["turn/start", "turn/end", "x/y"],
    ]
    for _ in range(2):
        events = list(session.events())
        assert len(events) == 21
        for without, deltas in itertools.product(choices, (True, False)):
            assert list(session.events(2, 20, deltas=deltas, without=without)) == [
                event
                for event in events[2:20]
                if event.type not in without and (deltas or event.type != "assistant/chunk")
            ]
        if hasattr(session, "seal"):
            session.seal()


def test_threads_that_fight_for_one_session_lose_no_update(store: Any) -> None:
    store.create(head())
    failures: list[BaseException] = []

    def work(name: int) -> None:
        session = store.session("s")
        try:
            for at in range(10):
                while True:
                    try:
                        session.append([note(f"{name}-{at}")], expected_seq=session.next_seq)
                        break
                    except WrongExpectedSeq:
                        continue
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    facts = list(store.session("s").read())
    assert [fact.seq for fact in facts] == list(range(40))
    assert sorted(fact.json["text"] for fact in facts) == sorted(
        f"{n}-{at}" for n in range(4) for at in range(10)
    )
    assert [fact.position for fact in store.read_all()] == list(range(1, 41))


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False).filter(lambda value: str(value) != "-0.0")
    | st.text(st.characters(), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(), max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
new_events = st.builds(
    NewEvent,
    type=st.sampled_from(["turn/start", "x/y", "assistant/chunk"]),
    data=json_values,
    time_ms=st.none() | st.integers(-(2**53) + 1, 2**53 - 1),
    ignorable=st.booleans(),
)


class Histories(RuleBasedStateMachine):
    """Random histories on all backends at once; each must give what ``MemoryLog`` gives."""

    @initialize()
    def begin(self) -> None:
        self.names: list[str] = []
        self.folder = tempfile.TemporaryDirectory()
        self.prefix = f"h{next(_names)}-"
        if "postgres" not in _shared:
            _shared["postgres"] = fresh("postgres")
        self.file = Path(self.folder.name) / "store.sqlite"
        self.stores = [
            MemoryLog(lambda: START_MS),
            open_store(str(self.file), clock=lambda: START_MS),
            _shared["postgres"],
        ]
        _shared["postgres"].clock = lambda: START_MS
        self.base = _shared["postgres"].position

    @rule(name=st.text(st.characters(), max_size=3))
    def create(self, name: str) -> None:
        results = []
        for store in self.stores:
            try:
                store.create(head(self.prefix + name))
                results.append("made")
            except SessionExists:
                results.append("taken")
        assert len(set(results)) == 1
        if results[0] == "made":
            self.names.append(self.prefix + name)

    @precondition(lambda self: self.names)
    @rule(
        data=st.data(),
        events=st.lists(new_events, min_size=1, max_size=4),
        idem=st.none() | st.sampled_from("kl"),
        shift=st.none() | st.integers(-1, 1),
    )
    def append(
        self, data: st.DataObject, events: list[NewEvent], idem: str | None, shift: int | None
    ) -> None:
        name = data.draw(st.sampled_from(self.names))
        results: list[Any] = []
        for store in self.stores:
            session = store.session(name)
            expected = None if shift is None else session.next_seq + shift
            try:
                done = session.append(events, expected_seq=expected, idem=idem)
                base = self.base if store is self.stores[2] else 0
                results.append((done.from_seq, done.to_seq, done.position - base))
            except (WrongExpectedSeq, IdempotencyConflict) as error:
                results.append(type(error))
        assert results[0] == results[1] == results[2]

    @precondition(lambda self: self.names)
    @rule(data=st.data())
    def seal(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self.names))
        for store in self.stores[1:]:
            before = store.session(name).info
            store.session(name).seal()
            assert store.session(name).info == before

    @rule()
    def reopen(self) -> None:
        self.stores[1].close()
        self.stores[1] = open_store(str(self.file), clock=lambda: START_MS)

    @invariant()
    def all_agree(self) -> None:
        if not self.names:
            return
        reference, *others = self.stores
        for name in self.names:
            session = reference.session(name)
            for store in others:
                other = store.session(name)
                assert list(other.lines()) == list(session.lines())
                assert other.info == session.info
                assert [self._fact(fact, store) for fact in other.read()] == list(session.read())
        for store in others:
            base = self.base if store is self.stores[2] else 0
            assert [self._fact(fact, store) for fact in store.read_all(base)] == list(reference.read_all())

    def _fact(self, fact: Recorded, store: Any) -> Recorded:
        if store is self.stores[2] and fact.position is not None:
            fact.position -= self.base
        return fact

    def teardown(self) -> None:
        if hasattr(self, "stores"):
            self.stores[1].close()
            self.folder.cleanup()


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=25, stateful_step_count=15, deadline=None)


@given(events=st.lists(new_events, min_size=1, max_size=20), cuts=st.lists(st.integers(0, 20), max_size=4))
@settings(max_examples=40)
def test_heads_do_not_depend_on_how_the_lines_arrived(events: list[NewEvent], cuts: list[int]) -> None:
    events = [NewEvent(event.type, event.data, 5) for event in events]
    with open_store("sqlite://") as whole, open_store("sqlite://") as parts:
        one, two = whole.create(head()), parts.create(head())
        one.append(events)
        edges = sorted({0, len(events), *(cut for cut in cuts if cut < len(events))})
        for start, end in itertools.pairwise(edges):
            two.append(events[start:end])
            if start % 2:
                two.seal()
        assert one.info.head == two.info.head
        assert list(one.lines()) == list(two.lines())
