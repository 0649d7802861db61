"""Deltas that are joined while a store is read: the same streams in fewer events."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from stores import ENGINES, store_address
from streams import Session, sessions_of_calls

import playhead
from playhead.adapters.dsh.importer import import_paths
from playhead.eventstore import json_text
from playhead.eventstore.codecs.wanted import is_delta
from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId
from playhead.eventstore.log import NewEvent
from playhead.eventstore.recorded import Recorded

TEXTS = {"text", "argumentsDelta"}
"""Where a delta has its text."""


def runs(events: list[Recorded]) -> list[Any]:
    """The events, neighbouring deltas of one block as the seq and time of the first and the text of all."""

    def block(event: Recorded) -> Any:
        if not is_delta(event):
            return event.seq
        chunk = {name: value for name, value in event.json["chunk"].items() if name not in TEXTS}
        return json_text.dumps({**event.json, "chunk": chunk})

    told: list[Any] = []
    for key, group in groupby(events, block):
        first, *others = group
        if isinstance(key, int):
            told.append(first)
            continue
        chunks = [one.json["chunk"] for one in (first, *others)]
        pieces = [chunk[name] for chunk in chunks for name in TEXTS & chunk.keys()]
        told.append((first.seq, first.time_ms, first.position, key, json_text.whole("".join(pieces))))
    return told


@settings(max_examples=40)
@given(session=sessions_of_calls())
@pytest.mark.parametrize("packed", [False, True])
def test_joined_events_are_the_events_with_the_text_of_each_run_in_one(
    session: Session, packed: bool
) -> None:
    lines = (SessionHeader(SessionId("s1"), 1).line(), *session.lines(packed=packed))
    with TemporaryDirectory() as folder, playhead.open_store("sqlite://") as store:
        log = Path(folder) / "session.jsonl"
        log.write_bytes(b"".join(line + b"\n" for line in lines))
        import_paths(store, [log])
        stored = store.session("s1")
        assert runs(list(stored.joined_events())) == runs(list(stored.events()))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_long_run_is_few_events_once_its_lines_are_sealed(engine: str, tmp_path: Path) -> None:
    def chunk(**chunk: Any) -> NewEvent:
        return NewEvent("assistant/chunk", {"turn": 1, "step": 1, "chunk": chunk})

    start = chunk(type="block-start", index=0, blockType="text")
    texts = ["a", "\ud83d", "\ude00", '"', "b" * 40] * 200
    deltas = [chunk(type="text-delta", index=0, text=text) for text in texts]
    with store_address(engine, tmp_path) as url, playhead.open_store(url, create=True) as store:
        session = store.create(SessionHeader(SessionId("s1"), 1))
        session.append([start, *deltas, start])
        every = list(session.events())
        assert runs(list(session.joined_events())) == runs(every)
        session.seal()
        joined = list(session.joined_events())
        assert runs(joined) == runs(every)
        assert [event.seq for event in joined] == [0, 1, len(texts) + 1]


@pytest.mark.parametrize("tag", ["text-chunks", "tool-call-chunks"])
def test_a_row_is_one_event_however_long_it_is(tag: str, tmp_path: Path) -> None:
    texts = ["a", "\u20ac", '"'] * 100
    packed = {"args": texts, "id": "c", "name": ""} if tag == "tool-call-chunks" else {"texts": texts}
    data = {"turn": 1, "step": 1, "index": 0, "dt": [-1] * (len(texts) - 1), **packed}
    row = json_text.dumps({"type": tag, "seq0": 0, "time0": 9, "data": data})
    log = tmp_path / "session.jsonl"
    log.write_bytes(SessionHeader(SessionId("s1"), 1).line() + b"\n" + row + b"\n")
    with playhead.open_store("sqlite://") as store:
        import_paths(store, [log])
        stored = store.session("s1")
        (joined,) = stored.joined_events()
        first = next(stored.events())
        assert (joined.seq, joined.time_ms, joined.position) == (first.seq, first.time_ms, first.position)
        assert runs([joined]) == runs(list(stored.events()))
