"""No credential is kept of an exchange, however it is spelled; all else stays as it was."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playhead.eventstore.redaction import (
    REQUEST_HEADERS,
    RESPONSE_HEADERS,
    SHORTEST,
    Secrets,
    kept_headers,
    kept_path,
    text_without_credentials,
    without_credentials,
)

KEY = "q8Zr-planted/0x7f"
NAMES = (
    "authorization",
    "x-api-key",
    "api-key",
    "api_key",
    "apikey",
    "proxy-authorization",
    "cookie",
    "set-cookie",
)
NAMES += ("access_token", "client-secret", "password", "openai_api_key", "x-goog-api-key")

keys = st.text("abcdefghijklmnopqrstuvwxyzABCXYZ0123456789-_.~+/=", min_size=12, max_size=60)


@st.composite
def spelled(draw: st.DrawFn, names: tuple[str, ...] = NAMES) -> str:
    """A name of a credential, in any case, with any of the usual signs between its words."""
    name = draw(st.sampled_from(names))
    cased = "".join(draw(st.sampled_from([letter.lower(), letter.upper()])) for letter in name)
    return cased.replace("-", draw(st.sampled_from("-_"))) if draw(st.booleans()) else cased


def nested(text: str, depth: int) -> str:
    """``text`` inside a JSON string, inside another one, and so on."""
    for _ in range(depth):
        text = json.dumps({"arguments": text})
    return text


@given(name=spelled(), key=keys, depth=st.integers(0, 3), gap=st.sampled_from(["", " ", "\n  "]))
def test_a_member_named_like_a_credential_loses_its_value(name: str, key: str, depth: int, gap: str) -> None:
    body = nested(f'{{"before":1,"{name}":{gap}"{key}","after":[true]}}', depth)
    cleaned = without_credentials(body.encode())
    assert key.encode() not in cleaned
    value = json.loads(cleaned)
    for _ in range(depth):
        value = json.loads(value["arguments"])
    assert value == {"before": 1, name: "*" * len(key), "after": [True]}


@given(
    name=spelled(),
    key=keys,
    form=st.sampled_from(["{}: {}", "{}={}", "{} = '{}'", '{}: "{}"', "<{}>{}<", "{}:{}"]),
)
def test_a_line_named_like_a_credential_loses_its_value(name: str, key: str, form: str) -> None:
    text = "before " + form.format(name, key) + "\nafter"
    for depth in (0, 1, 2):
        cleaned = without_credentials(nested(text, depth).encode())
        assert key.encode() not in cleaned
        assert b"before" in cleaned
        assert b"after" in cleaned


@given(
    key=keys, scheme=st.sampled_from(["Bearer", "bearer", "BEARER"]), before=st.sampled_from(["", "x ", '["'])
)
def test_a_bearer_token_is_hidden_wherever_it_stands(key: str, scheme: str, before: str) -> None:
    assert key.encode() not in without_credentials(f"{before}{scheme} {key}".encode())


@given(user=keys, password=keys)
def test_basic_authorization_and_the_user_of_a_url_are_hidden(user: str, password: str) -> None:
    token = base64.b64encode(f"{user}:{password}".encode()).decode()
    assert token.encode() not in without_credentials(f"Basic {token}".encode())
    url = f"see https://{quote(user, safe='')}:{quote(password, safe='')}@host.test/path?x=1 there"
    cleaned = without_credentials(url.encode()).decode()
    assert cleaned.endswith("@host.test/path?x=1 there")
    assert quote(password, safe="") not in cleaned


@pytest.mark.parametrize(
    "name", ["key", "api_key", "api-key", "apikey", "access_token", "token", "sig", "x-api-key"]
)
def test_a_key_in_a_query_is_hidden(name: str) -> None:
    cleaned = text_without_credentials(f"https://host.test/v1?a=1&{name.upper()}={KEY}&b=2#there")
    assert cleaned == f"https://host.test/v1?a=1&{name.upper()}={'*' * len(KEY)}&b=2#there"
    path = kept_path(f"https://u:{quote(KEY, safe='')}@host.test/v1?beta=true&{name}={KEY}&other={KEY}#{KEY}")
    assert path.startswith("/v1?beta=true&")
    assert KEY not in path


@pytest.mark.parametrize(
    "key",
    [
        "sk-ant-api03-abcdefghijklmnop",
        "AIzaSyA1234567890abcdefghijklmnopqrstuv",
        "AKIAIOSFODNN7EXAMPLE",
        "ghp_abcdefghijklmnopqrst0123456789",
        "xoxb-1234567890-abcdef",
        "eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJSMeK",
    ],
)
def test_a_key_of_a_well_known_shape_is_hidden_in_prose(key: str) -> None:
    assert without_credentials(f'{{"text":"mine is {key}, keep it"}}'.encode()) == (
        f'{{"text":"mine is {"*" * len(key)}, keep it"}}'.encode()
    )


@pytest.mark.parametrize(
    "body",
    [
        b'{"messages":[{"role":"user","content":"Enter your password:"},{"role":"user","content":"x"}]}',
        b'{"text":"the api key: \\"","next":"\\"api_key\\":"}',
        b'{"properties":{"password":{"type":"string"}},"api_key":null,"cookie":false}',
        b'{"max_tokens":12,"text":"a basic understanding of tokens","names":["password","api_key"]}',
        b'{"text":"mail me@host.test, see https://host.test/a@b?q=1&page=2"}',
        b"\xff\xfe not json \x00 at all",
        b"",
    ],
)
def test_what_is_no_credential_stays(body: bytes) -> None:
    assert without_credentials(body) == body


_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | spelled()
    | st.sampled_from(["Bearer abc123", ": ", '"']),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(spelled() | st.text(), inner, max_size=4),
    max_leaves=12,
)


def shape(value: Any) -> Any:
    if isinstance(value, list):
        return [shape(part) for part in value]
    if isinstance(value, dict):
        return {name: shape(part) for name, part in value.items()}
    return type(value)


@given(value=_values, spaced=st.booleans(), ascii_only=st.booleans())
def test_a_cleaned_body_is_json_of_the_same_shape_and_clean(
    value: Any, spaced: bool, ascii_only: bool
) -> None:
    body = json.dumps(value, indent=1 if spaced else None, ensure_ascii=ascii_only).encode(
        "utf-8", "surrogatepass"
    )
    cleaned = without_credentials(body)
    assert shape(json.loads(cleaned)) == shape(json.loads(body))
    assert without_credentials(cleaned) == cleaned


def test_escapes_hide_neither_a_name_nor_a_secret() -> None:
    body = "".join(f"\\u{ord(letter):04x}" for letter in "api_key")
    assert json.loads(without_credentials(f'{{"{body}":"{KEY}"}}'.encode())) == {"api_key": "*" * len(KEY)}
    assert KEY.encode() not in without_credentials(f'no JSON "{body}":"{KEY}"'.encode())


@given(
    key=keys.filter(lambda key: not key.isalpha()),
    name=spelled(("authorization", "x-api-key", "x-goog-api-key")),
)
def test_what_a_header_proves_secret_is_hidden_in_any_body(key: str, name: str) -> None:
    secrets = Secrets.of_request("http://host.test/", [(name, f"Bearer {key}")])
    for spelling in (key, json.dumps(key), json.dumps(key).replace("/", "\\/"), quote(key, safe="")):
        hidden = secrets.hidden(f"event: x\ndata: {spelling}\n\n".encode())
        assert spelling.strip('"').encode() not in hidden
        assert hidden.startswith(b"event: x\ndata: ")
        assert len(hidden) == len(f"event: x\ndata: {spelling}\n\n")


@st.composite
def with_escapes(draw: st.DrawFn, text: str) -> list[str]:
    """The characters of ``text``, some as escapes of JSON, inside of further texts or not."""
    forms = ("{0}", *("\\" * depth + form for depth in (1, 2, 4) for form in ("u{1:04x}", "u{1:04X}")))
    return [draw(st.sampled_from(forms)).format(letter, ord(letter)) for letter in text]


@given(data=st.data(), key=keys)
def test_letters_that_are_escaped_hide_no_secret(data: st.DataObject, key: str) -> None:
    secrets = Secrets([key])
    spelling = "".join(data.draw(with_escapes(key)))
    for before, behind in (("<", ">"), ('{"a":"', '"}'), ("\\\\ ", "\\\\u0041"), ("\\u0041 ", "")):
        text = f"{before}{spelling}{behind}".encode()
        assert secrets.hidden(text) == f"{before}{'*' * len(spelling)}{behind}".encode()
    assert secrets.hidden(b"<\\u0041\\u0073\\>") == b"<\\u0041\\u0073\\>"


@given(data=st.data(), key=keys)
def test_a_text_that_breaks_off_in_a_secret_loses_what_is_there_of_it(data: st.DataObject, key: str) -> None:
    secrets = Secrets([key])
    letters = data.draw(with_escapes(key))
    kept = data.draw(st.integers(1, len(letters) - 1))
    begun = "".join(letters[:kept])
    hidden = secrets.hidden(f"<{begun}".encode(), at_end=True)
    assert hidden == f"<{begun if kept < SHORTEST else '*' * len(begun)}".encode()
    assert secrets.hidden(f"<{begun}>".encode(), at_end=True) == f"<{begun}>".encode(), "it goes on otherwise"
    assert secrets.may_go_on(f"<{begun}".encode())
    assert not secrets.may_go_on(f"<{begun}>".encode())


def test_a_long_run_of_backslashes_takes_no_time() -> None:
    run = b"\\" * 1_000_000
    assert Secrets([KEY]).hidden(run + b"x", at_end=True) == run + b"x"


def test_secrets_come_from_headers_cookies_the_query_and_the_user_of_the_url() -> None:
    basic = base64.b64encode(b"name:pa55-word").decode()
    headers = [("Cookie", "a=cookie-1; b=cookie-2"), ("Proxy-Authorization", f"Basic {basic}")]
    secrets = Secrets.of_request("https://us%65r-1:p%61ss-word@h/?k=query-01", headers, "known-01")
    for secret in (
        "cookie-1",
        "cookie-2",
        basic,
        "pa55-word",
        "query-01",
        "user-1:pass-word"[7:],
        "known-01",
    ):
        assert secrets.hidden_text(f"<{secret}>") == f"<{'*' * len(secret)}>"
    assert secrets.hidden_text("name, host, nothing") == "name, host, nothing"
    assert "cookie-1" not in repr(secrets)


def test_a_plain_word_as_a_key_does_not_hollow_out_the_text() -> None:
    secrets = Secrets.of_request("http://h/", [("authorization", "Bearer anything"), ("x-api-key", "test")])
    assert secrets.hidden(b"test anything") == b"test anything"


@given(headers=st.lists(st.tuples(spelled() | st.text(max_size=12), keys | st.text(max_size=12))))
def test_only_headers_on_the_list_are_kept(headers: list[tuple[str, str]]) -> None:
    for allowed in (REQUEST_HEADERS, RESPONSE_HEADERS):
        assert {name for name, _ in kept_headers(headers, allowed)} <= allowed


def test_a_kept_header_loses_a_key_in_its_value() -> None:
    headers = [
        ("Content-Type", "text/event-stream"),
        ("User-Agent", f"tool/1 api_key={KEY}"),
        ("X-Api-Key", KEY),
    ]
    assert kept_headers(headers, REQUEST_HEADERS) == (
        ("content-type", "text/event-stream"),
        ("user-agent", "tool/1 api_key=" + "*" * len(KEY)),
    )
