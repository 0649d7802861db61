"""Folder and file names of dsh, in both directions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import cases

from playhead.adapters.dsh import paths

any_text = st.text(st.characters(exclude_categories=()), max_size=12)


@pytest.mark.parametrize("case", cases("jsonl_framing", "paths"))
def test_names_are_those_of_dsh(case: dict[str, Any]) -> None:
    if case.get("error"):
        with pytest.raises(ValueError, match="empty"):
            paths.session_segment(case["input"])
    elif case["kind"] == "segment":
        assert paths.session_segment(case["input"]) == case["output"]
    elif case["kind"] == "project":
        assert paths.project_segment(case["input"]) == case["output"]
    else:
        project, session = paths.project_segment(case["cwd"]), paths.session_segment(case["id"])
        name = paths.file_name(0, compressed=case["compression"] == "zstd")
        assert f"{project}/{session}/{name}" == case["output"]


@given(any_text.filter(bool))
def test_a_session_folder_leads_back_to_its_id_alone(session: str) -> None:
    # An id made of the two halves of a pair and one made of the character have the same UTF-16 units.
    same = session.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")
    assert paths.session_of_segment(paths.session_segment(session)) == same


@given(any_text)
def test_a_project_folder_is_one_name_of_at_most_255_units(cwd: str) -> None:
    segment = paths.project_segment(cwd * 40)
    assert len(segment) <= 255
    assert "/" not in segment
    assert paths.place(f"/x/{segment}/s/session.jsonl") is not None


@pytest.mark.parametrize("segment", ["", ".", "..", "a b", "~00e9", "~0041", "a/b", "~", "é"])
def test_a_folder_that_is_of_no_session_is_told_apart(segment: str) -> None:
    with pytest.raises(ValueError, match="no session folder"):
        paths.session_of_segment(segment)


@pytest.mark.parametrize("version", [0, 1, 4, 17])
@pytest.mark.parametrize("compressed", [True, False])
def test_a_file_name_says_version_and_encoding(version: int, compressed: bool) -> None:
    name = paths.file_name(version, compressed=compressed)
    assert paths.log_name(name) == (version, compressed)


@pytest.mark.parametrize(
    "name",
    ["session.v0.jsonl", "session.v01.jsonl", "session.jsonl.gz", "session.jsonl.zstd.0a1b.tmp", "x.jsonl"],
)
def test_other_file_names_are_none_of_a_log(name: str) -> None:
    assert paths.log_name(name) is None


@pytest.mark.parametrize(
    "path", ["session.jsonl", "/s1/session.jsonl", "/p/s1/session.jsonl", "/--w--/s1/log.jsonl"]
)
def test_a_file_outside_the_layout_has_no_place(path: str) -> None:
    assert paths.place(path) is None


def test_a_file_in_the_layout_has_a_place() -> None:
    place = paths.place("/h/sessions/_no-cwd/a~002Fb/session.v3.jsonl.zstd")
    assert place == ("_no-cwd", "a~002Fb", (3, True))
