"""The helpers behind searching and tracing, held against recorded results."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from native_sessions import Native, natives, recorded
from reference import cases, vectors

from playhead.eventstore.errors import UsageError
from playhead.eventstore.recorded import Recorded
from playhead.projections import search_text, surface, titles
from playhead.projections.blanks import collapse
from playhead.projections.event_trace import Placements, trace
from playhead.projections.surface import Surface
from playhead.projections.text_filter import TextFilter, fold_case, snippet

any_text = st.text(st.characters(exclude_categories=()), max_size=30)


@pytest.mark.parametrize("case", cases("query", "text"))
def test_the_searchable_text_of_an_event(case: dict[str, Any]) -> None:
    (event,) = recorded([case["event"]])
    assert search_text.of(event) == case["text"]


@pytest.mark.parametrize("case", cases("query", "trace"))
def test_the_trace_of_an_event(case: dict[str, Any]) -> None:
    found = trace(recorded(vectors("query")["trace_log"]), case["seq"])
    assert found is not None
    assert {
        "seq": found.event.seq,
        "surface": found.placement,
        "replacedBy": found.replaced_by,
        "replacementChain": list(found.replacement_chain),
        "replacedEventSeqs": list(found.replaced),
        "sourceEventSeqs": list(found.sources),
        "derivedEventSeqs": list(found.derived),
    } == case


@pytest.mark.parametrize("case", cases("query", "textFilter"))
def test_a_text_filter_matches(case: dict[str, Any]) -> None:
    assert TextFilter(case["filter"]).matches(case["text"]) is case["matches"]


@pytest.mark.parametrize("case", cases("query", "snippet"))
def test_a_snippet_shows_the_match(case: dict[str, Any]) -> None:
    before, mark, behind = case["marked"].partition("[[")
    text = before + behind.replace("]]", "")
    assert snippet(text, len(before) if mark else None, case["maxChars"]) == case["snippet"]


@pytest.mark.parametrize("case", cases("query", "titleNormalize"))
def test_a_title_is_normalised(case: dict[str, Any]) -> None:
    assert titles.normalize(case["input"], case["maxBytes"]) == case["output"]


@pytest.mark.parametrize("case", cases("query", "titleFallback"))
def test_the_first_words_stand_in_for_a_title(case: dict[str, Any]) -> None:
    assert titles.fallback(case["input"], case["maxWords"], case["maxBytes"]) == case["output"]


def test_an_empty_filter_is_refused() -> None:
    with pytest.raises(UsageError):
        TextFilter(" \t\ufeff")


def test_letters_fold_one_by_one() -> None:
    assert fold_case("\u1e9e \u017f \u212b \u0130 \u0131 \u03a3 \u03c2") == (
        "\u00df s \u00e5 \u0130 \u0131 \u03c3 \u03c3"
    )
    assert not TextFilter("I").matches("\u0131")


def test_hits_are_counted_and_the_first_is_placed() -> None:
    assert TextFilter("na").hits("Banana NA") == (3, 2)
    assert TextFilter("na").hits("x") is None


@given(any_text, any_text, any_text)
def test_a_text_is_found_in_what_holds_it_whatever_its_case(before: str, text: str, after: str) -> None:
    assert len(fold_case(text)) == len(text)
    if not collapse(text).strip(" "):
        return
    assert TextFilter(text).matches(before + text + after)
    assert TextFilter(text).matches(before + "".join(map(_other_case, text)) + after)


def _other_case(letter: str) -> str:
    swapped = letter.swapcase()
    return swapped if len(swapped) == 1 and fold_case(swapped) == fold_case(letter) else letter


@given(any_text, st.integers(0, 40), st.integers(1, 40))
def test_a_snippet_is_short_and_on_one_line(text: str, at: int, max_chars: int) -> None:
    shown = snippet(text, min(at, len(text)), max_chars)
    assert len(shown) <= max_chars
    assert "\n" not in shown


@given(st.text("ab \n", max_size=60), st.integers(8, 30))
def test_a_snippet_holds_the_beginning_of_the_match(noise: str, max_chars: int) -> None:
    assert "X" in snippet(noise + "X" + noise, len(noise), max_chars)


@given(any_text, st.integers(0, 30))
def test_a_title_fits_and_is_normal_already(text: str, max_bytes: int) -> None:
    title = titles.normalize(text, max_bytes)
    assert len(title.encode("utf-8", "surrogatepass")) <= max_bytes
    assert titles.normalize(title, max_bytes) == title


@given(any_text)
def test_a_fallback_is_made_whatever_the_text_is(text: str) -> None:
    assert len(titles.fallback(text).split()) <= titles.FALLBACK_WORDS


def test_only_a_person_s_prompt_with_something_to_see_gives_a_title() -> None:
    def message(kind: str, text: str) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": text}], "source": {"kind": kind}}

    assert titles.prompt_text(message("user", " hi ")) == " hi "
    assert titles.prompt_text(message("user", "\u200b\x1b[0m")) is None
    assert titles.prompt_text(message("goal", "go on")) is None
    assert titles.prompt_text({"source": 3, "content": 4}) is None


def folded(events: list[Recorded]) -> Surface:
    state = Surface()
    for event in events:
        state = surface.apply(state, event)
    return state


def placed(events: list[Recorded]) -> Placements:
    return Placements(folded(events))


@given(natives())
def test_every_event_is_placed_and_every_chain_ends_on_the_surface(session: Native) -> None:
    placements = placed(session.events)
    for event in session.events:
        place = placements.of(event.seq)
        refused = event.seq in {breach.seq for breach in folded(session.events).breaches}
        assert (place == "log-only") == (event.surface_op is None or refused)
        chain = placements.chain(event.seq)
        assert bool(chain) == (place == "shadowed")
        if chain:
            assert placements.of(chain[-1]) == "current"
        for gone in placements.replaced(event.seq):
            assert placements.chain(gone)[0] == event.seq


@given(natives(), st.data())
def test_sources_and_derived_events_mirror_each_other(session: Native, data: st.DataObject) -> None:
    if not session.events:
        return
    event = data.draw(st.sampled_from(session.events))
    found = trace(session.events, event.seq)
    assert found is not None
    for later in found.derived:
        cited = trace(session.events, later)
        assert cited is not None
        assert event.seq in cited.sources


def test_a_replacement_of_what_is_not_on_the_surface_changes_nothing() -> None:
    message = {"id": "m", "role": "user", "content": [], "source": {"kind": "user"}}
    events = recorded(
        [
            {"type": "user/message", "seq": 0, "time": 0, "data": message, "surfaceOp": "append"},
            {
                "type": "user/message",
                "seq": 1,
                "time": 0,
                "data": message,
                "surfaceOp": {"op": "replace", "start": 0, "end": 7},
            },
        ]
    )
    placements = placed(events)
    assert [placements.of(seq) for seq in (0, 1)] == ["current", "log-only"]


def test_an_event_that_is_not_there_has_no_trace() -> None:
    assert trace([], 0) is None
