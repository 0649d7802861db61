"""Stores that earlier releases made: an upgrade keeps all that is in them. Such files are only ever added."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
import zstandard

from playhead import open_store
from playhead.eventstore.errors import StoreOutdated
from playhead.eventstore.exchange import Exchange
from playhead.eventstore.ids import Idem
from playhead.eventstore.log import NewEvent
from playhead.eventstore.sql import schema
from playhead.eventstore.sql.upgrading import migrate

DATA = Path(__file__).parent / "data"
GOLDEN = sorted(path.name.removesuffix(".sqlite.zst") for path in DATA.glob("*.sqlite.zst"))


@pytest.fixture(params=GOLDEN)
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path]:
    """The name of a golden store and a copy of its file."""
    file = tmp_path / "store.sqlite"
    packed = (DATA / f"{request.param}.sqlite.zst").read_bytes()
    file.write_bytes(zstandard.ZstdDecompressor().decompress(packed))
    return request.param, file


def test_an_upgraded_store_has_all_that_it_had(golden: tuple[str, Path]) -> None:
    name, file = golden
    with pytest.raises(StoreOutdated, match="playhead store upgrade"):
        open_store(str(file))
    assert migrate(str(file), "playhead:migrations") == (name.removeprefix("store-"), schema.REVISION)
    with open_store(str(file)) as store:
        expected = json.loads((DATA / f"{name}.heads.json").read_text())
        assert {f"{head.id}/{head.generation}": head.head for head in store.heads()} == expected
        assert [problem for problem in store.verify() if problem.severity == "error"] == []
        for stored in store.files():
            assert store.export_file(stored, io.BytesIO()).same
        assert [fact.position for fact in store.read_all()] == list(range(1, store.position + 1))


def test_an_upgraded_store_takes_appends_and_knows_the_keys_of_old_ones(golden: tuple[str, Path]) -> None:
    _, file = golden
    migrate(str(file), "playhead:migrations")
    with open_store(str(file)) as store:
        session, position = store.session("native"), store.position
        again = [NewEvent("turn/start", {"turn": 1}), NewEvent("feedback/record", {"text": "kept \ud800"})]
        assert session.append(again, idem=Idem("a key")).from_seq == 0
        assert store.position == position
        assert session.append([NewEvent("turn/start", {"turn": 2})], expected_seq=3).position == position + 1


def test_an_upgraded_store_keeps_what_earlier_releases_had_no_place_for(golden: tuple[str, Path]) -> None:
    _, file = golden
    migrate(str(file), "playhead:migrations")
    with open_store(str(file)) as store:
        session = store.session("packed-v0")
        assert list(session.exchanges()) == []
        exchange = Exchange("openai-chat", "/chat/completions", b"{}", "timeout", 1, 2).placed(turn=1)
        assert session.keep_exchange(exchange) == 0
        assert list(session.exchanges(turn=1)) == [exchange]
        assert [problem for problem in store.verify() if problem.severity == "error"] == []
