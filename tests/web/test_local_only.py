"""A server on the loopback answers to who means this machine, and to nobody whom a web page sent."""

from __future__ import annotations

import httpx
import pytest
from scripted_server import LONG_S
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from playhead.web.local_only import means_this_machine
from playhead.web.server import serving


async def hello(_: Request) -> PlainTextResponse:
    return PlainTextResponse("hello")


APP = Starlette(routes=[Route("/", hello)])


@pytest.mark.parametrize(
    "host",
    [
        "",
        "127.0.0.1:8123",
        "127.0.0.1",
        "192.168.1.7:80",
        "[::1]:8123",
        "[::1]",
        "localhost",
        "LocalHost:8123",
        "localhost.:8123",
        "app.localhost:1",
        "box",
        "box.local",
        "host.docker.internal:8123",
        "model.test",
        "nas.home.arpa",
    ],
)
def test_a_name_that_nobody_can_register_means_this_machine(host: str) -> None:
    assert means_this_machine(host)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example.com",
        "evil.example.com:8123",
        "evil.com.",
        "127.0.0.1.evil.com",
        "127.0.0.1.nip.io:80",
        "localhost.evil.com",
        "notlocal.com",
        "local.com",
        "xn--e1awd7f.com",
        "evil.com:80:80",
        "[::1].evil.com",
        "\xff.com",
    ],
)
def test_a_name_that_somebody_may_own_does_not(host: str) -> None:
    assert not means_this_machine(host)


def test_a_request_for_a_foreign_name_is_refused_and_says_what_to_do() -> None:
    with serving(APP) as server:
        assert server.is_local
        assert httpx.get(server.url, timeout=LONG_S).text == "hello"
        refused = httpx.get(server.url, headers={"host": "evil.example.com"}, timeout=LONG_S)
    assert refused.status_code == 403
    assert "'evil.example.com'" in refused.json()["error"]["message"]


def test_who_lets_other_machines_in_is_asked_by_any_name() -> None:
    with serving(APP, "0.0.0.0") as server:
        assert not server.is_local
        there = f"http://127.0.0.1:{server.port}"
        answer = httpx.get(there, headers={"host": "models.example.com"}, timeout=LONG_S)
    assert answer.text == "hello"
