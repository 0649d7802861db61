"""A server that is there while it is needed, and the ways in which a connection can end."""

from __future__ import annotations

import logging
import re
import socket
import threading
import time

import httpx
import pytest
from scripted_server import LONG_S
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from playhead.eventstore.errors import PlayheadError
from playhead.web.connection import Connection
from playhead.web.server import AddressUnavailable, Server, serving


async def hello(request: Request) -> PlainTextResponse:
    return PlainTextResponse(f"hello {request.query_params.get('name', 'nobody')}")


APP = Starlette(routes=[Route("/", hello)])


def test_an_app_answers_on_a_free_port_and_is_gone_after_the_block() -> None:
    with serving(APP) as server:
        assert httpx.get(server.url, params={"name": "Ada"}, timeout=LONG_S).text == "hello Ada"
    with pytest.raises(httpx.ConnectError):
        httpx.get(server.url, timeout=LONG_S)


def test_two_servers_run_side_by_side() -> None:
    with serving(APP) as one, serving(APP) as other:
        assert one.port != other.port
        answers = [httpx.get(server.url, timeout=LONG_S).text for server in (one, other)]
        assert answers == ["hello nobody"] * 2


def test_a_taken_port_is_an_error_that_says_which() -> None:
    with serving(APP) as server, pytest.raises(AddressUnavailable, match=str(server.port)) as caught:
        Server(APP, port=server.port)
    assert isinstance(caught.value, PlayheadError)


@pytest.mark.parametrize(("host", "port"), [("192.0.2.1", 0), ("127.0.0.1", 70000), ("no host", 0)])
def test_an_impossible_address_is_an_error_of_ours(host: str, port: int) -> None:
    with pytest.raises(AddressUnavailable):
        Server(APP, host, port)


@pytest.mark.parametrize("host", ["192.0.2.1", "name.invalid"])
def test_why_nobody_can_listen_is_said_in_words(host: str) -> None:
    with pytest.raises(AddressUnavailable) as caught:
        Server(APP, host)
    assert re.fullmatch(rf"cannot listen on {re.escape(host)}:0: [A-Z][\w ,]+; choose .*", str(caught.value))
    assert "Unknown error" not in str(caught.value)


def test_stopping_twice_or_before_the_start_is_fine() -> None:
    Server(APP).stop()
    server = Server(APP)
    server.start()
    server.stop()
    server.stop()


async def endless(_scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"first", "more_body": True})
    while (await receive())["type"] != "http.disconnect":
        pass


def test_an_answer_that_never_ends_does_not_hold_the_stop_up() -> None:
    server = Server(endless)
    server.start()
    began = threading.Event()
    broken: list[Exception] = []

    def read() -> None:
        try:
            with httpx.stream("GET", server.url, timeout=LONG_S) as answer:
                for _ in answer.iter_bytes():
                    began.set()
        except httpx.HTTPError as error:
            broken.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    assert began.wait(LONG_S)
    server.stop()
    reader.join(LONG_S)
    assert len(broken) == 1


SIZE = 20 * 2**20


async def reset_after_much(scope: Scope, receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for _ in range(SIZE // 2**16):
        await send({"type": "http.response.body", "body": b"x" * 2**16, "more_body": True})
    connection = Connection.of(scope)
    assert connection is not None
    await connection.reset()
    while (await receive())["type"] != "http.disconnect":
        pass


def read_slowly(url: str, taken: list[int]) -> None:
    with httpx.stream("GET", url, timeout=LONG_S) as answer:
        for piece in answer.iter_bytes():
            if not taken:
                time.sleep(0.2)  # the reader is slower than the writer
            taken.append(len(piece))


def test_a_reset_breaks_the_connection_after_everything_that_was_sent_before_it() -> None:
    taken: list[int] = []
    with serving(reset_after_much) as server, pytest.raises(httpx.HTTPError):
        read_slowly(server.url, taken)
    assert sum(taken) == SIZE


async def reset_at_once(scope: Scope, receive: Receive, _send: Send) -> None:
    await receive()
    connection = Connection.of(scope)
    assert connection is not None
    await connection.reset()
    while (await receive())["type"] != "http.disconnect":
        pass


def test_a_reset_before_the_answer_gives_no_byte_of_one() -> None:
    with serving(reset_at_once) as server, socket.create_connection((server.host, server.port)) as client:
        client.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        try:
            answer = client.recv(1)
        except ConnectionResetError:
            answer = b""
    assert answer == b""


def talk(server: Server, request: bytes) -> bytes:
    """What the server answers to ``request``, behind which it closes the connection."""
    answer = bytearray()
    with socket.create_connection((server.host, server.port), timeout=LONG_S) as client:
        client.sendall(request)
        while piece := client.recv(2**16):
            answer += piece
    return bytes(answer)


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"no HTTP\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nhost: x\r\nconnection: upgrade, close\r\nupgrade: h2c\r\n\r\n", b"200"),
        (b"GET / HTTP/1.1\r\nhost: x\r\nconnection: upgrade, close\r\nupgrade: websocket\r\n\r\n", b"200"),
    ],
    ids=["no-http", "h2c", "websocket"],
)
def test_a_client_that_wants_something_else_is_answered_and_nothing_is_logged(
    caplog: pytest.LogCaptureFixture, request_: bytes, status: bytes
) -> None:
    with serving(APP) as server:
        assert talk(server, request_).startswith(b"HTTP/1.1 " + status)
    assert caplog.records == []


async def failing(_scope: Scope, _receive: Receive, _send: Send) -> None:
    raise RuntimeError("of the app")


def test_an_app_that_fails_is_logged_and_the_client_gets_a_status(caplog: pytest.LogCaptureFixture) -> None:
    with serving(failing) as server:
        assert httpx.get(server.url, timeout=LONG_S).status_code == 500
    [record] = caplog.records
    assert (record.name, record.levelno) == ("playhead.web", logging.ERROR)
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == "of the app"
