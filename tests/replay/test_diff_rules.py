"""Every rule of the table, each on an event that holds nothing but what the rule is about."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from session_logs import recorded
from twins import Log

from playhead.eventstore.header import SessionHeader
from playhead.eventstore.ids import SessionId
from playhead.replay.diff import differences
from playhead.replay.diff_form import REPAIR_CODES
from playhead.replay.diff_rules import LEFT_OUT, RULES, SESSION, Rule, Treatment

Json = dict[str, Any]
CASES = [
    pytest.param(rule, type, path, id=f"{rule.treatment.name}-{type}-{path}")
    for rule in RULES
    for type, paths in rule.where.items()
    for path in paths
    if type != SESSION and not path.startswith("stream.")
]
IN_STREAMS = [
    pytest.param(rule, type, path, id=f"{rule.treatment.name}-{type}-{path}")
    for rule in RULES
    for type, paths in rule.where.items()
    for path in paths
    if path.startswith("stream.")
]


def cases(*treatments: Treatment) -> list[Any]:
    return [case for case in CASES if case.values[0].treatment in treatments]


def holding(path: str, value: Any) -> Any:
    """Data with ``value`` at ``path`` and nothing else."""
    for member in reversed(path.replace("[]", ".[]").split(".")):
        value = [value] if member == "[]" else {member: value}
    return value


def data_for(rule: Rule, path: str, value: Any) -> Json:
    data: Json = holding(path, value)
    if rule.treatment is Treatment.REPAIR:
        data["error"] = {"name": "n", "code": min(REPAIR_CODES)}
    return data


def log(*events: tuple[str, Any]) -> Log:
    return Log.of(
        recorded(
            [
                {"type": type, "seq": seq, "time": 7 * seq, "data": data}
                for seq, (type, data) in enumerate(events)
            ]
        )
    )


def found(a: Log, b: Log) -> list[tuple[str, str]]:
    return [(pair.kind, change.kind) for pair in differences(a, b) for change in pair.changes]


@pytest.mark.parametrize(("rule", "type", "path"), cases(Treatment.DROP, Treatment.REPAIR))
def test_what_is_dropped_may_differ(rule: Rule, type: str, path: str) -> None:
    one, other = (log((type, data_for(rule, path, value))) for value in (17, 99))
    assert found(one, other) == []


def test_only_results_of_a_repair_lose_their_content() -> None:
    def result(text: str, **error: Any) -> Log:
        block = {"type": "tool-result", "content": [{"type": "text", "text": text}]}
        return log(("tool/result", {"message": {"content": [block]}, **error}))

    assert found(result("one"), result("two")) == [("changed", "text")]
    repaired = {"error": {"code": "TOOL_NOT_STARTED"}}
    assert found(result("one", **repaired), result("two", **repaired)) == []
    assert found(result("one", **repaired), result("one", error={"code": "TOOL_OUTCOME_UNKNOWN"})) != []


@pytest.mark.parametrize(("rule", "type", "path"), cases(Treatment.ID, Treatment.CALL))
@pytest.mark.parametrize("renamed", ["other-1", str(UUID(int=7))])
def test_an_id_may_be_another_and_not_that_of_something_else(
    rule: Rule, type: str, path: str, renamed: str
) -> None:
    def twice(first: str, second: str) -> Log:
        return log(*((type, data_for(rule, path, id)) for id in (first, second)))

    mixed = [] if rule.treatment is Treatment.CALL else [("changed", "id")]
    assert found(twice("one-1", "one-1"), twice(renamed, renamed)) == []
    assert found(twice("one-1", "two-1"), twice(renamed, "third-1")) == []
    assert found(twice("one-1", "one-1"), twice(renamed, "third-1")) == mixed
    assert found(twice("one-1", "two-1"), twice(renamed, renamed)) == mixed


@pytest.mark.parametrize(("rule", "type", "path"), cases(Treatment.SEQ))
def test_a_seq_may_be_another_and_not_that_of_another_event(rule: Rule, type: str, path: str) -> None:
    remark = ("feedback/record", {"text": "fine"})
    (marker,) = LEFT_OUT

    def citing(before: int, cited: int) -> Log:
        receipts = [(marker, {"throughSeq": 0})] * before
        return log(*receipts, remark, remark, (type, data_for(rule, path, before + cited)))

    assert found(citing(0, 1), citing(3, 1)) == []
    assert found(citing(0, 1), citing(0, 0)) == [("changed", "reference")]
    assert found(citing(2, 0), citing(0, 1)) == [("changed", "reference")]


@pytest.mark.parametrize(("rule", "type", "path"), cases(Treatment.SOURCE))
def test_a_plugin_is_the_kind_that_format_4_made_of_it(rule: Rule, type: str, path: str) -> None:
    def sourced(**source: Any) -> Log:
        return log((type, data_for(rule, path, source)))

    assert found(sourced(kind="plugin", plugin="compact"), sourced(kind="compact-checkpoint")) == []
    assert (
        found(
            sourced(kind="plugin", plugin="mine", form="notice"), sourced(kind="plugin:mine", form="notice")
        )
        == []
    )
    assert found(sourced(kind="plugin", plugin="mine"), sourced(kind="mine")) == [("changed", "text")]


@pytest.mark.parametrize(("role", "kind"), [("user", "runtime-context"), ("system", "system-prompt")])
def test_the_plugin_of_the_prompt_is_a_kind_for_each_role(role: str, kind: str) -> None:
    plugin = {"kind": "plugin", "plugin": "@deepseek-ai/dsh-system-prompt"}
    one, other = (
        log(("user/message", {"role": role, "source": source})) for source in (plugin, {"kind": kind})
    )
    assert found(one, other) == []


@pytest.mark.parametrize(("rule", "type", "path"), cases(Treatment.ADDRESS))
def test_addresses_in_failure_texts_may_differ_and_nothing_else(rule: Rule, type: str, path: str) -> None:
    def failed(text: str) -> Log:
        return log((type, data_for(rule, path, text)))

    one = failed("request to http://127.0.0.1:8123/v1 failed")
    assert found(one, failed("request to https://[::1]:9/anthropic failed")) == []
    assert found(one, failed("stream from http://127.0.0.1:8123/v1 failed")) == [("changed", "text")]
    assert found(failed("connect 10.0.0.1:443 refused"), failed("connect [fe80::1]:8443 refused")) == []
    assert found(failed("status: 500"), failed("status: 503")) == [("changed", "text")]


@pytest.mark.parametrize(("rule", "type", "path"), IN_STREAMS)
def test_rules_about_streams_hold_in_streams(rule: Rule, type: str, path: str) -> None:
    """Through chunks that a log can hold: blocks and finish are what they add up to."""

    def streamed(value: str) -> Log:
        failure = {"message": value, "code": "TRANSPORT", "requestId": value}
        chunks = [
            {"type": "block-start", "index": 0, "blockType": "tool-call"},
            {"type": "tool-call-delta", "index": 0, "id": value, "name": "t", "argumentsDelta": "{}"},
            {
                "type": "block-end",
                "index": 0,
                "block": {"type": "tool-call", "id": value, "name": "t", "arguments": "{}"},
            },
            {"type": "finish", "reason": {"kind": "error", "failure": failure}},
        ]
        stream = [{"type": "chunk", "time": 1, "chunk": chunk} for chunk in chunks]
        return log((type, {"turn": 1, "step": 1, "message": {"content": []}, "stream": stream}))

    one, other = streamed("http://127.0.0.1:8123"), streamed("http://127.0.0.1:9")
    as_chunks = path.startswith("stream.chunks")
    assert list(differences(one, other, as_chunks=as_chunks)) == []
    paths = [
        change.path
        for pair in differences(one, streamed("x"), as_chunks=as_chunks)
        for change in pair.changes
    ]
    in_message = [] if rule.treatment is not Treatment.ADDRESS else [path.split("[")[0].split(".")[1]]
    assert [str(at[1]) for at in paths] == in_message or rule.treatment is not Treatment.ADDRESS


def test_the_header_is_compared_and_names_its_parent_by_what_it_stands_for() -> None:
    def session(parent: str, cwd: str = "/w") -> Log:
        header = SessionHeader(SessionId("s1"), 1, cwd=cwd, parent=SessionId(parent), seed_length=0)
        return Log.of([], header)

    assert found(session("p1"), session("p2")) == []
    (pair,) = differences(session("p1"), session("p1", "/elsewhere"))
    assert (pair.entry.type, [change.path for change in pair.changes]) == (SESSION, [("cwd",)])


def test_a_job_in_a_text_is_the_job_of_the_log() -> None:
    def jobs(first: str, second: str, named: str) -> Log:
        result = {"message": {"content": [{"type": "text", "text": f"started\n{named}"}]}}
        return log(
            ("job/registered", {"jobId": first}),
            ("job/registered", {"jobId": second}),
            ("tool/result", result),
        )

    one, two, three = (f"bash-{number:016x}" for number in (1, 2, 3))
    assert found(jobs(one, two, one), jobs(three, one, three)) == []
    assert found(jobs(one, two, one), jobs(three, two, two)) == [("changed", "text")]
    assert found(jobs(one, two, one), jobs(three, one, one)) == [("changed", "id")]


def test_an_id_that_a_person_wrote_is_a_word_like_any_other() -> None:
    def written(type: str, id: UUID, kind: str) -> Log:
        return log((type, {"content": [{"type": "text", "text": f"open {id}"}], "source": {"kind": kind}}))

    one, two = UUID(int=1), UUID(int=2)
    assert found(written("user/message", one, "user"), written("user/message", two, "user")) == [
        ("changed", "text")
    ]
    assert found(written("user/message", one, "tool-jobs"), written("user/message", two, "tool-jobs")) == []


def test_every_member_with_a_rule_is_in_the_documentation() -> None:
    page = (Path(__file__).parents[2] / "docs" / "diff.md").read_text(encoding="utf-8")
    members = {
        path.rpartition(".")[2].removesuffix("[]")
        for rule in RULES
        for paths in rule.where.values()
        for path in paths
    }
    assert [member for member in sorted(members) if f"`{member}`" not in page] == []
    assert all(f"`{type}`" in page for type in LEFT_OUT)
