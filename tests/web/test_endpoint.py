"""Recorded sessions served to clients: what they get, and what they are told when there is nothing for them."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import pytest
from patience import patiently
from reference import shared_path
from replayed import LONG_S, STOP, Json, endpoint, failed, keep, text

import playhead
from playhead.eventstore.exchange import Exchange
from playhead.eventstore.log import Session, Store
from playhead.replay.override import parse_override
from playhead.replay.schedule import Pace
from playhead.web.endpoint import Endpoint, Settings
from playhead.web.recording import Recording, subagents_of, with_subagents
from playhead.web.server import serving

SAY: Any = [{"role": "user", "content": "Hi"}]
CALL = [
    {"type": "block-start", "index": 0, "blockType": "tool-call"},
    {"type": "tool-call-delta", "index": 0, "id": "c1", "name": "look", "argumentsDelta": '{"at":'},
    {"type": "tool-call-delta", "index": 0, "id": "c1", "name": "look", "argumentsDelta": '"x"}'},
    {
        "type": "block-end",
        "index": 0,
        "block": {"type": "tool-call", "id": "c1", "name": "look", "arguments": '{"at":"x"}'},
    },
    {"type": "usage", "usage": {"inputTokens": 3, "outputTokens": 2}},
    {"type": "finish", "reason": {"kind": "tool-calls"}},
]


@pytest.fixture
def store() -> Iterator[Store]:
    with playhead.open_store("sqlite://", create=True) as opened:
        yield opened


def openai_at(url: str, **more: Any) -> openai.OpenAI:
    return openai.OpenAI(base_url=url, api_key="sk-never-shown-anywhere", **({"max_retries": 0} | more))


def anthropic_at(url: str, **more: Any) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=url, api_key="sk-never-shown-anywhere", **({"max_retries": 0} | more))


def by_openai(url: str, **more: Any) -> list[Any]:
    client = openai_at(url, **more)
    return list(client.chat.completions.create(model="any", messages=SAY, stream=True))


def by_anthropic(url: str, **more: Any) -> Any:
    client = anthropic_at(url, **more)
    with client.messages.stream(model="any", max_tokens=9, messages=SAY) as stream:
        return stream.get_final_message()


def read(url: str, got: list[bytes], timeout: float = LONG_S) -> None:
    """Collects the pieces of a stream in ``got``, until whatever ends it."""
    with httpx.stream("POST", url + "/chat/completions", json={"stream": True}, timeout=timeout) as answer:
        got.extend(answer.iter_bytes())


def post(url: str, body: Any = None, path: str = "/chat/completions", **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    asked = {"stream": True, "messages": SAY} if body is None else body
    return httpx.post(url + path, json=asked, headers=named, timeout=LONG_S)


# Answers


def test_the_official_clients_read_a_recorded_answer_in_either_dialect(store: Store) -> None:
    answer = [*text("Hel", "lo"), STOP]
    with endpoint(keep(store, "s", answer, answer, answer, answer)) as (served, url):
        parts = by_openai(f"{url}/v1")
        assert "".join(part.choices[0].delta.content or "" for part in parts) == "Hello"
        whole = openai_at(url).chat.completions.create(model="any", messages=SAY)
        assert (whole.choices[0].message.content, whole.choices[0].finish_reason) == ("Hello", "stop")
        assert by_anthropic(url).content[0].text == "Hello"
        message = anthropic_at(url).messages.create(model="any", max_tokens=9, messages=SAY)
        assert (message.content[0].text, message.stop_reason) == ("Hello", "end_turn")  # type: ignore[union-attr]
    assert (served.misses, served.unserved(), len(served.served)) == ([], [], 4)


def test_a_tool_call_arrives_whole_in_either_dialect(store: Store) -> None:
    with endpoint(keep(store, "s", CALL, CALL)) as (_, url):
        parts = by_openai(url)
        calls = [call for part in parts for choice in part.choices for call in choice.delta.tool_calls or []]
        assert "".join(call.function.arguments or "" for call in calls) == '{"at":"x"}'
        (block,) = by_anthropic(url).content
        assert (block.type, block.name, block.input) == ("tool_use", "look", {"at": "x"})


def test_usage_is_told_to_a_client_of_openai_that_asked_for_it_and_to_no_other(store: Store) -> None:
    with endpoint(keep(store, "s", CALL, CALL)) as (_, url):
        assert all(part.choices and part.usage is None for part in by_openai(url))
        wants = openai_at(url).chat.completions.create(
            model="any", messages=SAY, stream=True, stream_options={"include_usage": True}
        )
        assert [part.usage.total_tokens for part in wants if part.usage] == [5]


def test_the_models_are_listed_for_both_clients(store: Store) -> None:
    with endpoint(keep(store, "s", [*text("a"), STOP])) as (_, url):
        assert [model.id for model in openai_at(f"{url}/v1").models.list()] == ["m-1"]
        assert [model.id for model in anthropic_at(url).models.list()] == ["m-1"]


def test_a_summary_is_answered_from_its_output_and_marked(store: Store) -> None:
    session = keep(store, "s", [*text("a"), STOP])
    output = [{"type": "text", "text": "in short"}]
    shadowed = {"shadowedRange": {"start": 3, "end": 3}, "shadowedSeqs": [3], "shadowedTokenCount": 1}
    summary = {"compactionId": "c", "summary": output, "rawOutput": output, "llmStreamCall": True, **shadowed}
    session.append([playhead.NewEvent("compaction/summary", {**summary, "provider": "p", "model": "m"})])
    with endpoint(session) as (_, url):
        assert "x-playhead-synthesised" not in post(url).headers
        marked = post(url)
        assert marked.headers["x-playhead-synthesised"] == "1"
        assert '"content":"in short"' in marked.text


# Endings


STATUS_FAILURES = [
    (failed("RATE_LIMIT", status=429, providerRetryAfterMs=1500), openai.RateLimitError),
    (failed("SERVER", status=503), openai.InternalServerError),
    (failed("INVALID_REQUEST", status=400), openai.BadRequestError),
    (failed("AUTH", status=401), openai.AuthenticationError),
    (failed("HTTP_418", status=418), openai.APIStatusError),
]


@pytest.mark.parametrize(("finish", "error"), STATUS_FAILURES, ids=lambda value: str(value)[-30:])
def test_a_refusal_is_a_status_that_the_clients_raise(store: Store, finish: Json, error: Any) -> None:
    with endpoint(keep(store, "s", *[[finish]] * 4)) as (_, url):
        failure = finish["reason"]["failure"]
        for ask in (by_openai, by_anthropic):
            with pytest.raises((openai.APIStatusError, anthropic.APIStatusError)) as caught:
                ask(url)
            assert caught.value.status_code == failure["status"]
            assert failure["message"] in str(caught.value)
            if "providerRetryAfterMs" in failure:
                assert caught.value.response.headers["retry-after"] in ("2", "1.5")
        with pytest.raises(error):
            openai_at(url).chat.completions.create(model="any", messages=SAY)
        assert post(url).json()["error"]["message"] == "it failed"


def test_an_error_inside_the_stream_is_raised_by_the_clients(store: Store) -> None:
    broken = [*text("half")[:-1], failed("SERVER", "overloaded")]
    with endpoint(keep(store, "s", broken, broken, broken)) as (_, url):
        with pytest.raises(openai.APIError, match="overloaded"):
            by_openai(url)
        with pytest.raises(anthropic.APIStatusError, match="overloaded"):
            by_anthropic(url)
        with pytest.raises(openai.InternalServerError, match="overloaded"):
            openai_at(url).chat.completions.create(model="any", messages=SAY)


def test_a_broken_connection_breaks_after_the_chunks_that_came(store: Store) -> None:
    broken = [*text("half")[:-1], failed("TRANSPORT")]
    with endpoint(keep(store, "s", broken, broken, broken)) as (_, url):
        got: list[bytes] = []
        with pytest.raises(httpx.HTTPError):
            read(url, got)
        assert b'"content":"half"' in b"".join(got)
        assert b"[DONE]" not in b"".join(got)
        with pytest.raises(anthropic_http_errors()):
            by_anthropic(url)
        with pytest.raises(openai.APIConnectionError):
            openai_at(url).chat.completions.create(model="any", messages=SAY)


def anthropic_http_errors() -> tuple[type[Exception], ...]:
    """A client does not wrap what breaks while it streams."""
    base = next(kind for kind in anthropic.DefaultHttpxClient.__mro__ if "httpx" in kind.__module__)
    library = __import__(base.__module__.partition(".")[0])
    return (library.HTTPError, anthropic.APIConnectionError)


def test_a_connection_that_broke_before_anything_came_breaks_before_the_head(store: Store) -> None:
    with endpoint(keep(store, "s", [failed("TRANSPORT")], [failed("TRANSPORT")])) as (_, url):
        with pytest.raises(openai.APIConnectionError):
            by_openai(url)
        with pytest.raises(anthropic.APIConnectionError):
            by_anthropic(url)


def test_a_body_that_ended_early_ends_cleanly_without_its_last_event(store: Store) -> None:
    with endpoint(keep(store, "s", [*text("half")[:-1], failed("STREAM_CLOSED")])) as (_, url):
        answer = post(url)
        assert answer.status_code == 200
        assert '"half"' in answer.text
        assert "[DONE]" not in answer.text


@pytest.mark.parametrize(
    "chunks",
    [text("half")[:-1], [*text("half")[:-1], failed("TIMEOUT")], [*text("half")[:-1], failed("ABORTED")]],
    ids=["no-finish", "timeout", "aborted"],
)
def test_a_call_that_never_ended_says_what_it_said_and_then_nothing(store: Store, chunks: list[Json]) -> None:
    session = keep(store, "s", chunks)

    def check(silence_s: float) -> None:
        got: list[bytes] = []
        with endpoint(session) as (served, url):
            with pytest.raises(httpx.ReadTimeout):
                read(url, got, timeout=silence_s)
            assert b'"half"' in b"".join(got)
            assert served.all_served.wait(LONG_S), "the client is gone, and the answer with it"
        assert served.misses == []

    patiently(check)


@pytest.mark.parametrize("chunks", [[], [failed("TIMEOUT")]], ids=["unanswered", "timeout"])
def test_where_nothing_came_nothing_comes(store: Store, chunks: list[Json]) -> None:
    with endpoint(keep(store, "s", chunks)) as (_, url), pytest.raises(httpx.ReadTimeout):
        httpx.post(url + "/chat/completions", json={"stream": True}, timeout=0.3)


@pytest.mark.parametrize("code", ["EMPTY_RESPONSE", "MALFORMED_RESPONSE"])
def test_an_answer_that_made_no_sense_makes_none_again(store: Store, code: str) -> None:
    with endpoint(keep(store, "s", [failed(code)])) as (_, url):
        answer = post(url)
        assert answer.status_code == 200
        payloads = [line.removeprefix("data: ") for line in answer.text.splitlines() if line]
        if code == "EMPTY_RESPONSE":
            assert payloads[-1] == "[DONE]"
        else:
            with pytest.raises(ValueError, match="Expecting"):
                json.loads(payloads[-1])


# Kept bytes

SSE = b'data: {"choices":[{"index":0,"delta":{"content":"Hel"}}]}\r\n\r\n: odd\r\n\r\ndata: [DONE]\n\n'


def kept(session: Session, **more: Any) -> None:
    given: dict[str, Any] = {
        "dialect": "openai-chat",
        "path": "/v1/chat/completions",
        "request": b'{"stream":true}',
        "end": "complete",
        "began_ms": 1,
        "ended_ms": 9,
        "status": 200,
        "head_ms": 2,
        "headers": (("content-type", "text/event-stream"), ("x-request-id", "r-1")),
        "body": SSE,
        "pieces": ((0, 3), (7, 5)),
        **more,
    }
    attempt = Recording.of(session).calls[0].attempt
    session.keep_exchange(
        Exchange(**given).placed(turn=attempt.turn, step=attempt.step, number=1, seq=attempt.seq)
    )


def test_kept_bytes_are_served_as_they_came(store: Store) -> None:
    session = keep(store, "s", [*text("Hello"), STOP])
    kept(session)
    with endpoint(session) as (_, url):
        answer = post(url)
    assert answer.content == SSE
    assert answer.headers["x-request-id"] == "r-1"


def test_kept_bytes_are_for_clients_that_ask_the_same_way(store: Store) -> None:
    session = keep(store, "s", [*text("Hello"), STOP], [*text("Bye"), STOP])
    kept(session)
    with endpoint(session) as (_, url):
        assert by_anthropic(url).content[0].text == "Hello"
    with endpoint(session) as (_, url):
        whole = openai_at(url).chat.completions.create(model="any", messages=SAY)
        assert whole.choices[0].message.content == "Hello"


def test_kept_bytes_that_are_not_whole_are_not_served(store: Store) -> None:
    session = keep(store, "s", [*text("Hello"), STOP])
    kept(session, whole=False)
    with endpoint(session) as (_, url):
        assert "Hello" in post(url).text


def test_the_kept_end_of_a_connection_is_its_end_again(store: Store) -> None:
    session = keep(store, "s", [*text("Hello"), STOP])
    kept(session, end="reset")
    with endpoint(session) as (_, url), pytest.raises(httpx.HTTPError):
        post(url)
    other = keep(store, "o", [*text("Hello"), STOP])
    kept(other, end="reset-before-response", status=None, head_ms=None, headers=(), body=b"", pieces=())
    with endpoint(other) as (_, url), pytest.raises(httpx.HTTPError):
        post(url)


def test_half_an_answer_and_its_error_event_come_again_byte_for_byte_and_a_client_raises(
    store: Store,
) -> None:
    folder = shared_path("cases/12-error-in-mid-stream")
    told = json.loads((folder / "expected.json").read_bytes())
    session = keep(store, "s", [*text(told["stream"]["text"]), failed("SERVER")])
    body = (folder / "stream.sse").read_bytes()
    kept(session, dialect="anthropic-messages", path="/v1/messages", body=body, pieces=((0, 3),))
    with endpoint(session) as (_, url):
        answer = post(url, path="/v1/messages")
    assert answer.status_code == 200
    assert hashlib.sha256(answer.content).hexdigest() == told["sha256_stream"]
    with endpoint(session) as (_, url), pytest.raises(anthropic.APIError, match="busy"):
        by_anthropic(url)


# Misses


def test_a_call_too_many_is_told_at_once_to_clients_that_try_again(store: Store) -> None:
    with endpoint(keep(store, "s", [*text("a"), STOP])) as (served, url):
        by_openai(url, max_retries=5)
        for ask, error in ((by_openai, openai.APIStatusError), (by_anthropic, anthropic.APIStatusError)):
            with pytest.raises(error, match="script is exhausted, it has 1 call") as caught:
                ask(url, max_retries=5)
            assert caught.value.status_code == 422
        assert post(url).json()["error"]["code"] == "playhead_miss"
    assert [miss.path for miss in served.misses] == [
        "/chat/completions",
        "/v1/messages",
        "/chat/completions",
    ]


@pytest.mark.parametrize(
    ("path", "content", "words"),
    [
        ("/chat/completions", b"{not json", "not JSON"),
        ("/chat/completions", b"[1]", "not a JSON object"),
        ("/chat/completions", b"[" * 100_000, "nested"),
        ("/v1/responses", b"{}", "nothing is served at this path"),
    ],
)
def test_what_is_no_request_is_a_miss_that_says_so(
    store: Store, path: str, content: bytes, words: str
) -> None:
    with endpoint(keep(store, "s", [*text("a"), STOP])) as (served, url):
        answer = httpx.post(url + path, content=content, timeout=LONG_S)
        assert answer.status_code == 422
        assert words in answer.json()["error"]["message"]
        assert len(served.misses) == 1
        assert post(url).status_code == 200


def test_other_methods_and_paths_are_not_found_and_no_miss(store: Store) -> None:
    with endpoint(keep(store, "s", [*text("a"), STOP])) as (served, url):
        assert httpx.get(url, timeout=LONG_S).status_code == 404
        assert httpx.put(url + "/chat/completions", timeout=LONG_S).status_code == 404
    assert served.misses == []


def test_a_request_that_is_too_large_is_refused_and_not_kept(store: Store) -> None:
    settings = Settings(limit_bytes=1000)
    with endpoint(keep(store, "s", [*text("a"), STOP]), settings=settings) as (served, url):
        answer = post(url, {"messages": ["x" * 3000]})
        assert answer.status_code == 413
        assert "larger than" in served.misses[0].message
        assert post(url).status_code == 200


def test_no_miss_holds_a_credential_of_its_request(store: Store) -> None:
    secret = "sk-live-0123456789abcdef"
    settings = Settings(match="strict")
    with endpoint(keep(store, "s", [*text("a"), STOP]), settings=settings) as (served, url):
        body = {
            "messages": [{"role": "user", "content": f"key {secret}"}],
            "system": secret,
            "tools": [secret],
        }
        for path in ("/chat/completions", "/v1/messages", f"/v1/{secret}"):
            answer = post(
                url, body, path, authorization=f"Bearer {secret}", x_playhead_session_id=f"s-{secret}"
            )
            assert secret not in answer.text
    assert len(served.misses) == 3
    assert secret not in str(served.misses)


def test_a_credential_that_a_message_would_cut_is_blotted_out_before(store: Store) -> None:
    secret = "k7" * 60
    settings = Settings(match="strict")
    session = keep(store, "s", [*text("a"), STOP], ask="Hello there")
    with endpoint(session, settings=settings) as (served, url):
        (call,) = Recording.of(session).calls
        body = json.dumps(call.dialect.build_request(call.request()))
        changed = json.loads(body.replace("Hello there", f"key {secret}"))
        answer = post(url, changed, authorization=f"Bearer {secret}")
    assert answer.json()["error"]["code"] == "playhead_miss"
    assert "key ****" in answer.text
    for told in (answer.text, str(served.misses)):
        assert "k7k7" not in told


def test_a_recording_without_the_key_matches_the_request_that_has_it(store: Store) -> None:
    secret = "sk-live-0123456789abcdef"
    session = keep(store, "s", [*text("a"), STOP], ask=f"key {'*' * len(secret)}")
    with endpoint(session, settings=Settings(match="strict")) as (served, url):
        (call,) = Recording.of(session).calls
        body = call.dialect.build_request(call.request())
        text_of_it = json.dumps(body).replace("*" * len(secret), secret)
        assert secret in text_of_it
        assert post(url, json.loads(text_of_it), authorization=f"Bearer {secret}").status_code == 200
    assert served.misses == []


# Sessions


def asked(url: str, session: str | None = None, **headers: str) -> str:
    """The text that a call of a live session gets."""
    if session is not None:
        headers["x_deepseek_harness_session_id"] = session
    answer = post(url, {"messages": SAY}, **headers)
    content = answer.json()["choices"][0]["message"]["content"] if answer.status_code == 200 else "miss"
    assert isinstance(content, str)
    return content


def says(*words: str) -> list[list[Json]]:
    return [[*text(word), STOP] for word in words]


def test_live_sessions_claim_the_primary_script_then_the_children_by_age(store: Store) -> None:
    keep(store, "young", *says("young"), parent="p", created_ms=30)
    keep(store, "old", *says("old"), parent="p", created_ms=20)
    primary = keep(store, "p", *says("first", "second"), created_ms=10)
    sessions = with_subagents([(store, primary)])
    with endpoint(*sessions) as (served, url):
        assert [asked(url, "live-1"), asked(url, "live-2"), asked(url, "live-1")] == [
            "first",
            "old",
            "second",
        ]
        assert asked(url, "live-3") == "young"
        assert asked(url, "live-4") == "miss"
    assert served.unserved() == []


def test_a_live_session_of_a_recorded_id_gets_that_recording(store: Store) -> None:
    one, two = keep(store, "one", *says("1")), keep(store, "two", *says("2"))
    with endpoint(one, two) as (_, url):
        assert asked(url, x_playhead_session_id="t%77o") == "2"
        assert asked(url) == "1"


def test_subagents_of_subagents_belong_to_the_session_and_forks_do_not(store: Store) -> None:
    keep(store, "p", *says("1"))
    keep(store, "child", *says("2"), parent="p")
    keep(store, "grandchild", *says("3"), parent="child")
    keep(store, "stranger", *says("4"), parent="other")
    fork = playhead.SessionHeader(playhead.SessionId("fork"), 1, parent=playhead.SessionId("p"))
    store.create(fork)
    assert {info.id for info in subagents_of("p", store.sessions())} == {"child", "grandchild"}


# Overrides


def overridden(session: Session, document: Any, folder: Path = Path()) -> Any:
    settings = Settings(override=parse_override(document), folder=folder, search_s=LONG_S)
    return endpoint(session, settings=settings)


def test_an_override_replaces_one_call_and_leaves_the_others(store: Store) -> None:
    document = {"patches": [{"at": 1, "entry": {"kind": "chunks", "chunks": [*text("new"), STOP]}}]}
    with overridden(keep(store, "s", *says("1", "2", "3")), document) as (_, url):
        assert [asked(url) for _ in range(4)] == ["1", "new", "3", "miss"]


def test_a_throw_before_any_chunk_is_a_status_and_after_some_an_event(store: Store) -> None:
    document = [
        {"kind": "throw", "chunks": [], "message": "who are you", "code": "AUTH"},
        {"kind": "throw", "chunks": text("half")[:-1], "message": "slow down", "code": "RATE_LIMIT"},
        {"kind": "throw", "chunks": [], "message": "gone", "code": "TRANSPORT"},
    ]
    with overridden(keep(store, "s", *says("1")), document) as (_, url):
        with pytest.raises(openai.AuthenticationError, match="who are you"):
            by_openai(url)
        with pytest.raises(openai.APIError, match="slow down"):
            by_openai(url)
        with pytest.raises(openai.APIConnectionError):
            by_openai(url)


def test_a_hang_says_that_it_is_there_and_then_nothing(store: Store, tmp_path: Path) -> None:
    document = [{"kind": "hang", "readyFile": "ready"}]
    session = keep(store, "s", *says("1"))

    def check(silence_s: float) -> None:
        got: list[bytes] = []
        with overridden(session, document, tmp_path) as (_, url):
            with pytest.raises(httpx.ReadTimeout):
                read(url, got, timeout=silence_s)
            assert b'"content":"partial"' in b"".join(got)
            assert (tmp_path / "ready").exists()

    patiently(check)


def test_placeholders_are_filled_from_the_request(store: Store) -> None:
    chunks = [*text("goal {{fromRequest:goal ([a-z0-9]+)}}"), STOP]
    document = [{"kind": "chunks", "chunks": chunks}] * 2
    with overridden(keep(store, "s", *says("1")), document) as (served, url):
        messages = [
            {"role": "user", "content": "goal a1"},
            {"role": "user", "content": [{"text": "goal b2"}]},
        ]
        answer = post(url, {"messages": messages}).json()
        assert answer["choices"][0]["message"]["content"] == "goal b2"
        assert asked(url) == "miss"
    assert "nothing in the request fits" in served.misses[0].message


def test_a_pattern_without_end_is_a_miss_and_holds_nobody_up(store: Store) -> None:
    chunks = [*text("{{fromRequest:(a+)+$}}"), STOP]
    document = {"patches": [{"at": 0, "entry": {"kind": "chunks", "chunks": chunks}}]}
    settings = Settings(override=parse_override(document), search_s=0.5)
    with endpoint(keep(store, "s", *says("1", "2")), settings=settings) as (served, url):
        answer = post(url, {"messages": [{"role": "user", "content": "a" * 60 + "b"}]})
        assert answer.status_code == 422
        assert asked(url) == "2"
    assert "took longer than 0.5 s" in served.misses[0].message


def test_recorded_texts_are_served_as_they_are_whatever_stands_in_them(store: Store) -> None:
    with endpoint(keep(store, "s", *says("{{fromRequest:x}}"))) as (_, url):
        assert asked(url) == "{{fromRequest:x}}"


# Time, and many at once


def test_a_pace_keeps_the_recorded_order_and_content(store: Store) -> None:
    settings = Settings(pace=Pace(2.0))
    session = keep(store, "s", [*text("a", "b", "c"), STOP], gap_ms=20)
    with endpoint(session, settings=settings) as (_, url):
        paced = post(url).content
    with endpoint(session) as (_, url):
        assert post(url).content == paced


def test_every_call_of_64_clients_at_once_gets_exactly_its_own_bytes(store: Store) -> None:
    count, calls = 64, 3
    words = [[f"session {at} call {call} " + "é" * 300 for call in range(calls)] for at in range(count)]
    sessions = [
        keep(store, f"s{at}", *([*text(*word.split()), STOP] for word in words[at])) for at in range(count)
    ]

    async def client(http: httpx.AsyncClient, at: int) -> list[bytes]:
        got = []
        for _ in range(calls):
            answer = await http.post(
                "/chat/completions",
                json={"stream": True},
                headers={"x-playhead-session-id": f"s{at}"},
            )
            got.append(answer.content)
        return got

    async def run(url: str) -> list[list[bytes]]:
        limits = httpx.Limits(max_connections=count)
        async with httpx.AsyncClient(base_url=url, timeout=60, limits=limits) as http:
            return await asyncio.gather(*(client(http, at) for at in range(count)))

    with endpoint(*sessions) as (served, url):
        got = asyncio.run(run(url))
    assert (served.misses, served.unserved()) == ([], [])
    for at in range(count):
        for call in range(calls):
            deltas = [
                json.loads(line.removeprefix(b"data: "))["choices"][0]["delta"].get("content", "")
                for line in got[at][call].splitlines()
                if line.startswith(b"data: {")
            ]
            assert "".join(deltas) == "".join(words[at][call].split())


@pytest.mark.heavy
def test_64_clients_at_once_again_and_again_leave_no_memory_behind(store: Store) -> None:
    count, rounds = 64, 4
    session = keep(store, "s", [*text(*["x" * 50] * 500), STOP])
    (call,) = Recording.of(session).calls
    served = Endpoint([Recording(session, [call] * (count * rounds))])

    async def read_all(url: str) -> list[int]:
        limits = httpx.Limits(max_connections=count)
        async with httpx.AsyncClient(base_url=url, timeout=60, limits=limits) as http:
            asks = (http.post("/chat/completions", json={"stream": True}) for _ in range(count))
            return [len(answer.content) for answer in await asyncio.gather(*asks)]

    held = []
    sizes: set[int] = set()
    with serving(served) as server:
        for _ in range(rounds):
            sizes |= set(asyncio.run(read_all(server.url)))
            gc.collect()
            if not tracemalloc.is_tracing():
                tracemalloc.start()
            held.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
    assert served.all_served.is_set()
    assert min(sizes) > 500 * 50
    assert held[-1] - held[1] < 2**20


@pytest.mark.heavy
def test_64_clients_at_once_take_a_page_of_the_log_each_and_not_their_answers(store: Store) -> None:
    count, deltas = 64, 4000
    session = keep(store, "s", [*text(*["a few words of it "] * deltas), STOP])
    (call,) = Recording.of(session).calls
    served = Endpoint([Recording(session, [call] * count)])

    async def read(http: httpx.AsyncClient) -> int:
        async with http.stream("POST", "/chat/completions", json={"stream": True}) as answer:
            return sum([len(piece) async for piece in answer.aiter_raw()])

    async def read_all(url: str) -> list[int]:
        limits = httpx.Limits(max_connections=count)
        async with httpx.AsyncClient(base_url=url, timeout=60, limits=limits) as http:
            return await asyncio.gather(*(read(http) for _ in range(count)))

    with serving(served) as server:
        tracemalloc.start()
        sizes = asyncio.run(read_all(server.url))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert min(sizes) > 700 * 2**10
    assert peak < count * 2**20  # a page, the text, and what the client takes: 700 KiB
