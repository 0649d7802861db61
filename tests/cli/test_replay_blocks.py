"""Blocks whose chunks come mixed are shown one after the other, and nothing of them is lost."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from playhead.cli.replay_blocks import BlockOrder, Piece
from playhead.eventstore.chunks import decode_chunk


def shown(*chunks: dict[str, Any]) -> list[Piece]:
    order = BlockOrder()
    pieces = [piece for chunk in chunks for piece in order.feed(decode_chunk(chunk))]
    return [*pieces, *order.end()]


def blocks(pieces: list[Piece]) -> list[tuple[str, str, str]]:
    """Kind, name and text of what stands together."""
    found: list[tuple[str, str, str]] = []
    for piece in pieces:
        if piece.opens:
            found.append((piece.kind, piece.name, piece.text))
        else:
            kind, name, text = found[-1]
            assert kind == piece.kind
            found[-1] = (kind, name, text + piece.text)
    return found


def text(index: int, text: str) -> dict[str, Any]:
    return {"type": "text-delta", "index": index, "text": text}


def call(index: int, arguments: str, name: str | None = None) -> dict[str, Any]:
    named = {} if name is None else {"name": name}
    return {
        "type": "tool-call-delta",
        "index": index,
        "id": f"c{index}",
        **named,
        "argumentsDelta": arguments,
    }


def end(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "block-end", "index": index, "block": block}


def test_what_belongs_to_the_shown_block_comes_at_once() -> None:
    order = BlockOrder()
    assert list(order.feed(decode_chunk(text(0, "a")))) == [Piece("text", "", "a", True)]
    assert list(order.feed(decode_chunk(text(0, "b")))) == [Piece("text", "", "b", False)]
    assert list(order.feed(decode_chunk(call(1, "", "ls")))) == [Piece("tool-call", "ls", "", True)]
    assert list(order.feed(decode_chunk(call(1, "{")))) == [Piece("tool-call", "ls", "{", False)]


def test_calls_that_stream_at_the_same_time_are_shown_one_after_the_other() -> None:
    pieces = shown(
        call(0, '{"pa', "read"), call(1, '{"pa', "read"), call(0, 'th":1}'), call(1, 'th":2}'), call(0, " ")
    )
    assert blocks(pieces)[:2] == [("tool-call", "read", '{"path":1}'), ("tool-call", "read", '{"path":2}')]


def test_a_call_whose_arguments_never_become_whole_waits_for_no_one_at_the_end() -> None:
    closing = end(0, type="tool-call", id="c0", name="a", arguments="")
    pieces = shown(call(0, "{not json", "a"), text(1, "said"), closing)
    assert blocks(pieces) == [("tool-call", "a", "{not json"), ("text", "", "said")]


def test_a_block_that_has_no_deltas_is_shown_when_it_ends() -> None:
    pieces = shown(
        end(0, type="text", text="whole"),
        end(1, type="tool-call", id="c", name="ls", arguments="{}"),
        end(2, type="image", attachment={}),
        end(3, type="text", text=""),
    )
    assert blocks(pieces) == [("text", "", "whole"), ("tool-call", "ls", "{}"), ("image", "", "[image]")]


def test_a_call_is_shown_once_its_name_is_known() -> None:
    assert blocks(shown(call(0, '{"a'), call(0, '":1}', "ls"))) == [("tool-call", "ls", '{"a":1}')]
    assert blocks(shown(call(0, "{}"))) == [("tool-call", "", "{}")]


def test_what_comes_for_a_closed_block_is_not_shown() -> None:
    assert blocks(shown(text(0, "a"), end(0, type="text", text="a"), text(0, "b"))) == [("text", "", "a")]


@given(st.data())
def test_however_blocks_are_mixed_each_is_shown_whole_and_calls_never_in_pieces(data: st.DataObject) -> None:
    calls = {
        index: f'{{"n": {index}, "x": "{"y" * index}"}}' for index in range(data.draw(st.integers(1, 4)))
    }
    waiting = dict(calls)
    chunks = [call(index, "", f"t{index}") for index in calls]
    while waiting:
        index = data.draw(st.sampled_from(sorted(waiting)))
        size = data.draw(st.integers(1, 9))
        chunks.append(call(index, waiting[index][:size]))
        waiting[index] = waiting[index][size:]
        if not waiting[index]:
            del waiting[index]
    found = blocks(shown(*chunks))
    assert sorted(found) == [("tool-call", f"t{index}", arguments) for index, arguments in calls.items()]
