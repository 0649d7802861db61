"""The proxy changes nothing on the way: bytes, order, moments and ends are those of the other side."""

from __future__ import annotations

import gzip
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import pytest
import zstandard
from recordings import (
    KEY,
    answered,
    check,
    chunks_of,
    events_of,
    only,
    open_new,
    problems,
    proxied,
    request_of,
    result,
    said,
    sessions,
    streamed,
    transcript,
)
from scripted_server import (
    CUT,
    GARBLE,
    HANG,
    LONG_S,
    RESET,
    Answer,
    Signal,
    Until,
    cut_everywhere,
    scripted_server,
)

from playhead.adapters.providers.dialects import dialect
from playhead.eventstore import json_text
from playhead.eventstore.sql.store import SqlStore
from playhead.replay.attempt import attempts
from playhead.web.endpoint import Endpoint
from playhead.web.recording import Recording
from playhead.web.server import serving

OPENAI = dialect("openai-chat")
CHAT = "/v1/chat/completions"
ASKED = {"model": "m", "messages": [{"role": "user", "content": "Hi."}], "stream": True}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlStore]:
    with open_new(tmp_path) as opened:
        yield opened


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that is slow to send its request is still heard."""
    monkeypatch.setattr("playhead.web.proxy._PATIENCE_S", LONG_S)


def post(url: str, body: Any = None, **more: Any) -> httpx.Response:
    return httpx.post(url, json=ASKED if body is None else body, timeout=LONG_S, **more)


def connected(url: str) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])))


def to_the_end(client: socket.socket) -> bytes:
    """Everything that comes before the other side closes the connection."""
    client.settimeout(LONG_S)
    return b"".join(iter(lambda: client.recv(2**16), b""))


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LONG_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def outcomes(store: SqlStore) -> list[tuple[str, str | None]]:
    """How each call ended, and the code of its failure."""
    return [(call.outcome, call.failure.code if call.failure else None) for call in attempts(only(store))]


# Through and back


def test_request_and_answer_are_the_same_on_both_sides(store: SqlStore) -> None:
    spelled = (
        b'{ "model":"m",\n "messages": [ {"role":"user","content":"\\u00e4\xc3\xa4"} ] , "stream" : true }'
    )
    body = b"".join(events_of(OPENAI, "one two three"))
    given = {"content-type": "text/event-stream", "x-request-id": "r-1", "x-odd": "a, b"}
    with (
        scripted_server(Answer(steps=cut_everywhere(body), headers=given)) as upstream,
        proxied(store, upstream.url) as proxy,
    ):
        got = httpx.post(
            f"{proxy.url}{CHAT}?beta=1&x=%20%2Fa+b",
            content=spelled,
            headers={"authorization": "Bearer k", "content-type": "application/json", "x-mine": "1"},
            timeout=LONG_S,
        )
    assert got.content == body
    assert got.status_code == 200
    assert {name: got.headers[name] for name in given} == given
    (asked,) = upstream.requests
    assert (asked.method, asked.path, asked.body) == ("POST", f"{CHAT}?beta=1&x=%20%2Fa+b", spelled)
    assert asked.headers["authorization"] == "Bearer k"
    assert asked.headers["x-mine"] == "1"
    assert asked.headers["host"] == upstream.url.removeprefix("http://")
    assert transcript(only(store)) == ["user: ää", "model: one two three"]


def test_headers_are_neither_added_nor_lost(store: SqlStore) -> None:
    with (
        scripted_server(Answer.json(200, {"data": []})) as upstream,
        proxied(store, upstream.url) as proxy,
        connected(proxy.url) as client,
    ):
        client.sendall(
            b"GET /models HTTP/1.1\r\nHost: me\r\nX-One: 1\r\nX-One: 2\r\n"
            b"Connection: close, X-Gone\r\nX-Gone: 1\r\n\r\n"
        )
        while client.recv(2**16):
            pass
    (asked,) = upstream.requests
    assert asked.raw_headers == [
        ("host", upstream.url.removeprefix("http://")),
        ("x-one", "1"),
        ("x-one", "2"),
    ]


@pytest.mark.parametrize("streams_up", [True, False], ids=["chunked", "with-a-length"])
def test_a_large_request_goes_up_while_it_comes(store: SqlStore, streams_up: bool) -> None:
    text = "x" * 3_000_000
    content = json.dumps(
        {"model": "m", "messages": [{"role": "user", "content": text}], "stream": True}
    ).encode()
    pieces = (content[at : at + 50_000] for at in range(0, len(content), 50_000))
    with scripted_server(streamed(OPENAI, "long")) as upstream, proxied(store, upstream.url) as proxy:
        got = httpx.post(proxy.url + CHAT, content=pieces if streams_up else content, timeout=LONG_S)
    assert got.status_code == 200
    assert upstream.requests[0].body == content
    assert transcript(only(store))[0] == f"user: {text}"


def test_a_piece_is_with_the_client_before_the_upstream_sends_the_next(store: SqlStore) -> None:
    pieces = events_of(OPENAI, "one two three")
    gates = [threading.Event() for _ in pieces]
    steps = [step for gate, piece in zip(gates, pieces, strict=True) for step in (Until(gate), piece)]
    gates[0].set()
    with (
        scripted_server(Answer(steps=steps)) as upstream,
        proxied(store, upstream.url) as proxy,
        httpx.stream("POST", proxy.url + CHAT, json=ASKED, timeout=LONG_S) as got,
    ):
        for number, piece in enumerate(got.iter_raw()):
            assert piece == pieces[number]
            if number + 1 < len(gates):
                gates[number + 1].set()
    assert outcomes(store) == [("finished", None)]


def test_the_head_is_with_the_client_before_there_is_a_body(store: SqlStore) -> None:
    gate = threading.Event()
    with (
        scripted_server(Answer(steps=[Until(gate), *events_of(OPENAI, "Hello.")])) as upstream,
        proxied(store, upstream.url) as proxy,
        httpx.stream("POST", proxy.url + CHAT, json=ASKED, timeout=LONG_S) as got,
    ):
        assert got.status_code == 200
        gate.set()
        got.read()


@pytest.mark.parametrize(
    ("encoding", "packed"),
    [
        ("gzip", gzip.compress(b"".join(events_of(OPENAI, "packed words")))),
        ("zstd", zstandard.ZstdCompressor().compress(b"".join(events_of(OPENAI, "packed words")))),
    ],
)
def test_an_encoded_answer_passes_as_it_is(store: SqlStore, encoding: str, packed: bytes) -> None:
    headers = {"content-type": "text/event-stream", "content-encoding": encoding}
    steps = [packed[:7], packed[7:40], packed[40:]]
    with (
        scripted_server(Answer(steps=steps, headers=headers)) as upstream,
        proxied(store, upstream.url) as proxy,
        httpx.stream(
            "POST",
            proxy.url + CHAT,
            json=ASKED,
            headers={"accept-encoding": "gzip, br, zstd;q=0.5"},
            timeout=LONG_S,
        ) as got,
    ):
        assert b"".join(got.iter_raw()) == packed
        assert got.headers["content-encoding"] == encoding
    assert upstream.requests[0].headers["accept-encoding"] == "gzip, zstd;q=0.5"
    assert transcript(only(store))[-1] == "model: packed words"


@pytest.mark.parametrize(
    ("base", "asked", "target"),
    [
        ("", "/v1/models", "/v1/models"),
        ("/v1", "/models", "/v1/models"),
        ("/v1/", "/v1/models?a=b", "/v1/models?a=b"),
        ("/deep/v1", "/v1", "/deep/v1"),
        ("/anthropic", "/v1/messages", "/anthropic/v1/messages"),
        ("", "/", "/"),
        ("", "/a%2Fb/%E4?q=%20+", "/a%2Fb/%E4?q=%20+"),
    ],
)
def test_any_path_is_appended_to_the_upstream(store: SqlStore, base: str, asked: str, target: str) -> None:
    with (
        scripted_server(Answer.json(200, {})) as upstream,
        proxied(store, upstream.url + base) as proxy,
        connected(proxy.url) as client,
    ):
        client.sendall(f"GET {asked} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".encode())
        assert client.recv(2**16).startswith(b"HTTP/1.1 200")
    assert upstream.requests[0].path == target
    assert not sessions(store)


@pytest.mark.parametrize(
    ("method", "status"),
    [
        ("HEAD", 200),
        ("DELETE", 200),
        ("PUT", 404),
        ("OPTIONS", 204),
        ("GET", 204),
        ("GET", 304),
        ("GET", 307),
    ],
)
def test_other_methods_and_answers_without_a_body_pass(store: SqlStore, method: str, status: int) -> None:
    headers = {"location": "/elsewhere", "content-length": "0"}
    with (
        scripted_server(Answer(status, [], headers, "length")) as upstream,
        proxied(store, upstream.url) as proxy,
        httpx.Client(timeout=LONG_S) as client,
    ):
        got = client.request(method, proxy.url + "/v1/files")
        assert (got.status_code, got.content, got.headers["location"]) == (status, b"", "/elsewhere")
    assert [asked.method for asked in upstream.requests] == [method]


@pytest.mark.parametrize(
    "asked", ["CONNECT api.example.com:443", "GET http://api.example.com/v1/models", "OPTIONS *"]
)
def test_who_takes_it_for_a_forward_proxy_is_told_what_it_is(store: SqlStore, asked: str) -> None:
    with scripted_server() as upstream, proxied(store, upstream.url) as proxy, connected(proxy.url) as client:
        client.sendall(f"{asked} HTTP/1.1\r\nhost: api.example.com\r\nconnection: close\r\n\r\n".encode())
        answer = to_the_end(client)
    assert answer.startswith(b"HTTP/1.1 400")
    assert b"base URL" in answer
    assert not upstream.requests


def test_a_length_beside_chunks_does_not_pass(store: SqlStore) -> None:
    body = json.dumps(ASKED).encode()
    answer = Answer(200, [b"data: [DONE]\n\n"], {"content-type": "text/event-stream", "content-length": "3"})
    with (
        scripted_server(answer) as upstream,
        proxied(store, upstream.url) as proxy,
        connected(proxy.url) as client,
    ):
        head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 3\r\n"
        client.sendall(f"{head}transfer-encoding: chunked\r\n\r\n{len(body):x}\r\n".encode() + body)
        client.sendall(b"\r\n0\r\n\r\n")
        got = to_the_end(client)
    assert b"content-length" not in got
    assert b"data: [DONE]\n\n" in got
    [request] = upstream.requests
    assert request.body == body
    assert "content-length" not in request.headers


# Ends


def test_an_upstream_that_is_not_there_resets_the_client(store: SqlStore) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # taken, so that nobody else gets it, and nobody listens
        port = silent.getsockname()[1]
        where = f"http://127.0.0.1:{port}"
        with proxied(store, where, group="s") as proxy:
            for path in (CHAT, "/v1/models"):
                with pytest.raises(httpx.ReadError):
                    post(proxy.url + path)
    asked, other = proxy.told
    why = f"the request to {where} failed: "
    assert asked.startswith(f"s turn 1: reset before response, 1 chunk, TRANSPORT: {why}")
    assert other.startswith(f"POST /v1/models: reset before response, passed on: {why}")
    assert outcomes(store) == [("failed", "TRANSPORT")]
    assert [kept.end for kept in only(store).exchanges()] == ["reset-before-response"]


@pytest.mark.parametrize("end", [RESET, CUT], ids=["reset", "closed"])
def test_an_upstream_that_gives_no_answer_resets_the_client(store: SqlStore, end: Any) -> None:
    with (
        scripted_server(Answer(None, [end])) as upstream,
        proxied(store, upstream.url) as proxy,
        pytest.raises(httpx.ReadError),
    ):
        post(proxy.url + CHAT)
    assert outcomes(store) == [("failed", "TRANSPORT")]


def test_why_a_call_broke_is_told_without_a_credential(store: SqlStore) -> None:
    def echo(reader: socket.socket) -> None:
        with reader, reader.accept()[0] as client:
            client.recv(2**16)
            client.sendall(f"no HTTP {KEY}\r\n\r\n".encode())

    with socket.create_server(("127.0.0.1", 0)) as listening:
        upstream = threading.Thread(target=echo, args=(listening,))
        upstream.start()
        with (
            proxied(store, f"http://127.0.0.1:{listening.getsockname()[1]}") as proxy,
            pytest.raises(httpx.ReadError),
        ):
            post(proxy.url + "/v1/models", headers={"authorization": f"Bearer {KEY}"})
        upstream.join(LONG_S)
    [line] = proxy.told
    assert "passed on: the request to" in line
    assert "no HTTP" in line
    assert KEY not in line


def test_an_answer_with_a_status_that_there_is_not_resets_the_client(store: SqlStore) -> None:
    with (
        scripted_server(Answer(999, [b"denied"])) as upstream,
        proxied(store, upstream.url) as proxy,
        pytest.raises(httpx.ReadError),
    ):
        post(proxy.url + CHAT)
    [call] = attempts(only(store))
    assert call.failure is not None
    assert (call.failure.code, call.failure.status) == ("TRANSPORT", None)
    assert "status 999" in (call.failure.message or "")


@pytest.mark.parametrize("end", [RESET, CUT, GARBLE], ids=["reset", "cut", "garbled"])
def test_an_upstream_that_breaks_off_breaks_off_at_the_client_behind_what_came(
    store: SqlStore, end: Any
) -> None:
    pieces = events_of(OPENAI, "one two three")[:3]
    seen = threading.Event()
    with (
        scripted_server(Answer(steps=[*pieces, Until(seen), end])) as upstream,
        proxied(store, upstream.url) as proxy,
        httpx.stream("POST", proxy.url + CHAT, json=ASKED, timeout=LONG_S) as got,
    ):
        arrived = bytearray()

        def read() -> None:
            for piece in got.iter_raw():
                arrived.extend(piece)
                if arrived == b"".join(pieces):
                    seen.set()

        with pytest.raises((httpx.ReadError, httpx.RemoteProtocolError)):
            read()
        assert arrived == b"".join(pieces)
    assert outcomes(store) == [("failed", "TRANSPORT")]
    assert [kept.end for kept in only(store).exchanges()] == ["reset"]


def test_an_answer_that_ends_too_early_ends_so_at_the_client(store: SqlStore) -> None:
    pieces = events_of(OPENAI, "one two three")[:3]
    with scripted_server(Answer(steps=pieces)) as upstream, proxied(store, upstream.url) as proxy:
        assert post(proxy.url + CHAT).content == b"".join(pieces)
    assert outcomes(store) == [("failed", "STREAM_CLOSED")]


def test_a_refusal_passes_with_its_status_headers_and_body(store: SqlStore) -> None:
    refusal = Answer.json(429, {"error": {"message": "slow down"}}, retry_after="7", x_request_id="r-9")
    with scripted_server(refusal) as upstream, proxied(store, upstream.url) as proxy:
        got = post(proxy.url + CHAT)
    assert (got.status_code, got.json()) == (429, {"error": {"message": "slow down"}})
    assert (got.headers["retry-after"], got.headers["x-request-id"]) == ("7", "r-9")
    assert outcomes(store) == [("failed", "RATE_LIMIT")]


@pytest.mark.parametrize("has_begun", [True, False], ids=["in-the-answer", "before-it"])
def test_a_client_that_goes_away_takes_the_call_to_the_upstream_with_it(
    store: SqlStore, has_begun: bool
) -> None:
    reached = threading.Event()
    begun = Answer(steps=[*events_of(OPENAI, "one two three")[:3], Signal(reached), HANG])
    hanging = begun if has_begun else Answer(None, [Signal(reached), HANG])
    with scripted_server(hanging) as upstream, proxied(store, upstream.url) as proxy:
        body = json.dumps(ASKED).encode()
        with connected(proxy.url) as client:
            head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
            client.sendall(head.encode() + body)
            assert reached.wait(LONG_S)
            while has_begun and b"two" not in client.recv(2**16):
                pass
        assert upstream.wait_client_gone()
    (call,) = attempts(only(store))
    assert call.outcome == ("cancelled" if has_begun else "unanswered")
    assert [kept.end for kept in only(store).exchanges()] == ["client-gone"]
    check(only(store))


def test_a_client_that_goes_away_in_its_request_leaves_nothing(store: SqlStore) -> None:
    with scripted_server(streamed(OPENAI, "no")) as upstream, proxied(store, upstream.url) as proxy:
        with connected(proxy.url) as client:
            client.sendall(f"POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-length: 999\r\n\r\n{{".encode())
            until(lambda: upstream.connections == 1)
        until(lambda: bool(proxy.told))
    assert proxy.told == [f"POST {CHAT}: client gone, passed on"]
    assert not sessions(store)


def test_a_recorder_that_fails_does_not_show_on_the_wire(store: SqlStore) -> None:
    with scripted_server(*[streamed(OPENAI, "fine") for _ in range(3)]) as upstream:
        with proxied(store, upstream.url) as proxy:
            proxy.recorder.settle()
            store.database.close()
            store.database.write = _no_more  # type: ignore[method-assign]
            for _ in range(3):
                assert post(proxy.url + CHAT).content == b"".join(events_of(OPENAI, "fine"))
        assert proxy.recorder.failed
        assert len([line for line in proxy.told if "no space" in line]) == 1


def _no_more(*_: object) -> Any:
    raise OSError(28, "no space left on device")


def test_many_calls_at_once_are_passed_and_recorded_each_for_itself(store: SqlStore) -> None:
    def script(request: Any) -> Answer:
        return streamed(OPENAI, f"You said {request.json['messages'][-1]['content']}")

    def ask(number: int) -> bytes:
        return post(
            proxy.url + CHAT, {**ASKED, "messages": [{"role": "user", "content": f"n{number}"}]}
        ).content

    with (
        scripted_server(script=script) as upstream,
        proxied(store, upstream.url) as proxy,
        ThreadPoolExecutor(32) as pool,
    ):
        got = list(pool.map(ask, range(32)))
    assert got == [b"".join(events_of(OPENAI, f"You said n{number}")) for number in range(32)]
    found = sorted(transcript(session)[-1] for session in sessions(store))
    assert found == sorted(f"model: You said n{number}" for number in range(32))
    assert not problems(store)


# The official clients

TOOLS: Any = [{"type": "function", "function": {"name": "ls", "parameters": {"type": "object"}}}]


@pytest.mark.parametrize("streams", [True, False], ids=["streams", "whole"])
def test_the_client_of_openai_is_recorded_through_a_tool_round_trip(store: SqlStore, streams: bool) -> None:
    call = ("c1", "ls", '{"a": 1}')

    def given(text: str, *calls: Any) -> Answer:
        if streams:
            return streamed(OPENAI, text, *calls)
        return Answer.json(200, OPENAI.encode_whole(chunks_of(text, *calls), model="m", id="r"))

    def ask() -> tuple[str, Any]:
        if not streams:
            message = (
                client.chat.completions.create(model="m", messages=messages, tools=TOOLS).choices[0].message
            )
            return message.content or "", message.tool_calls
        with client.chat.completions.stream(model="m", messages=messages, tools=TOOLS) as stream:
            message = stream.get_final_completion().choices[0].message
        return message.content or "", message.tool_calls

    messages: Any = [{"role": "system", "content": "Help."}, {"role": "user", "content": "List."}]
    with (
        scripted_server(given("Let me see.", call), given("Two files.")) as upstream,
        proxied(store, upstream.url) as proxy,
        openai.OpenAI(base_url=f"{proxy.url}/v1", api_key=KEY, max_retries=0) as client,
    ):
        text, calls = ask()
        assert (text, calls[0].function.name) == ("Let me see.", "ls")
        named = [{"id": "c1", "type": "function", "function": {"name": "ls", "arguments": '{"a": 1}'}}]
        messages += [
            {"role": "assistant", "content": text, "tool_calls": named},
            {"role": "tool", "tool_call_id": "c1", "content": "a b"},
        ]
        assert ask()[0] == "Two files."
    assert transcript(only(store)) == [
        "user: List.",
        'model: Let me see. ls({"a": 1})',
        "tool: a b",
        "model: Two files.",
    ]
    assert [(call.turn, call.step) for call in attempts(only(store))] == [(1, 1), (1, 2)]
    assert not problems(store)


@pytest.mark.parametrize("streams", [True, False], ids=["streams", "whole"])
def test_the_client_of_anthropic_is_recorded_through_a_tool_round_trip(
    store: SqlStore, streams: bool
) -> None:
    messages_dialect = dialect("anthropic-messages")
    call = ("toolu_1", "ls", '{"a": 1}')

    def given(text: str, *calls: Any) -> Answer:
        if streams:
            return streamed(messages_dialect, text, *calls)
        return Answer.json(200, messages_dialect.encode_whole(chunks_of(text, *calls), model="m", id="r"))

    def ask() -> Any:
        asked: Any = {"model": "m", "max_tokens": 99, "messages": messages, "system": "Help."}
        if not streams:
            return client.messages.create(**asked).content
        with client.messages.stream(**asked) as stream:
            return stream.get_final_message().content

    messages: Any = [{"role": "user", "content": "List."}]
    with (
        scripted_server(given("Let me see.", call), given("Two files.")) as upstream,
        proxied(store, upstream.url) as proxy,
        anthropic.Anthropic(base_url=proxy.url, api_key=KEY, max_retries=0) as client,
    ):
        content = ask()
        assert [block.type for block in content] == ["text", "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "a b"}]
        messages += [{"role": "assistant", "content": content}, {"role": "user", "content": results}]
        assert ask()[0].text == "Two files."
    assert transcript(only(store)) == [
        "user: List.",
        'model: Let me see. ls({"a": 1})',
        "tool: a b",
        "model: Two files.",
    ]
    assert not problems(store)


def test_the_retries_of_a_client_are_attempts_of_one_step(store: SqlStore) -> None:
    busy = Answer.json(503, {"error": {"message": "busy"}}, retry_after_ms="1")
    with (
        scripted_server(busy, Answer(None, [RESET]), streamed(OPENAI, "Hello.")) as upstream,
        proxied(store, upstream.url) as proxy,
        openai.OpenAI(base_url=f"{proxy.url}/v1", api_key=KEY, max_retries=3) as client,
    ):
        parts = client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "Hi."}], stream=True
        )
        assert "".join(part.choices[0].delta.content or "" for part in parts if part.choices) == "Hello."
    assert [(call.number, call.outcome) for call in attempts(only(store))] == [
        (1, "failed"),
        (2, "failed"),
        (3, "finished"),
    ]


# Round the circle


def test_what_was_recorded_is_served_again_byte_for_byte(store: SqlStore) -> None:
    spoken = dialect("anthropic-messages")
    first = Answer(steps=[b": hello\n\n", *events_of(spoken, "one two", ("c1", "ls", "{}")), b": bye\n\n"])
    refusal = Answer.json(529, {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}})
    body = json_text.dumps(spoken.build_request(request_of([said("Hi.")])))
    history = [said("Hi."), answered("one two", ("c1", "ls", "{}")), result("c1", "a b")]
    more = json_text.dumps(spoken.build_request(request_of(history)))

    def talk(url: str) -> list[tuple[int, bytes]]:
        got = [httpx.post(f"{url}/v1/messages", content=content, timeout=LONG_S) for content in (body, more)]
        return [(one.status_code, one.content) for one in got]

    with scripted_server(first, refusal) as upstream, proxied(store, upstream.url, group="s") as proxy:
        live = talk(proxy.url)
    with serving(Endpoint([Recording.of(only(store))])) as replay:
        assert talk(replay.url) == live
    assert live[0][1] == b"".join(step for step in first.steps if isinstance(step, bytes))
