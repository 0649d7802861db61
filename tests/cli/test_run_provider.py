"""Which provider a conversation is with, and where its key comes from."""

from __future__ import annotations

import pytest

from playhead.adapters.providers.dialects import DIALECTS
from playhead.cli.run_provider import NO_KEY, choose
from playhead.eventstore.errors import UsageError

LOCAL = "http://127.0.0.1:8080/v1"


@pytest.mark.parametrize(
    ("base_url", "named", "recorded", "dialect"),
    [
        ("https://api.openai.com/v1", None, None, "openai-chat"),
        ("https://api.openai.com", None, None, "openai-chat"),
        ("https://api.deepseek.com", None, None, "deepseek-chat"),
        ("https://api.deepseek.com/v1", None, None, "deepseek-chat"),
        ("https://api.deepseek.com/anthropic", None, None, "deepseek-messages"),
        ("https://api.anthropic.com", None, "openai-chat", "anthropic-messages"),
        ("https://api.anthropic.com", "openai-chat", None, "openai-chat"),
        ("https://api.openai.com.example.org", None, None, "openai-chat"),
        (LOCAL, None, None, "openai-chat"),
        (LOCAL, None, "deepseek-messages", "deepseek-messages"),
        (LOCAL, None, "some-other-program", "openai-chat"),
        (LOCAL, "deepseek-chat-0.1.1", "deepseek-messages", "deepseek-chat-0.1.1"),
    ],
)
def test_the_dialect_is_named_or_that_of_the_host_or_the_recorded_one(
    base_url: str, named: str | None, recorded: str | None, dialect: str
) -> None:
    assert choose(base_url, named, recorded, None, no_key=False).dialect.name == dialect


@pytest.mark.parametrize("name", list(DIALECTS))
def test_every_dialect_has_an_address_and_a_key(name: str) -> None:
    chosen = choose(None, name, None, None, no_key=False)
    assert chosen.base_url.startswith("https://api.")
    assert chosen.key_env is not None
    assert chosen.key({chosen.key_env: " k \n"}) == "k"


@pytest.mark.parametrize(
    ("base_url", "key_env", "no_key", "wanted"),
    [
        ("http://localhost:1", None, False, None),
        ("http://[::1]:1", None, False, None),
        (LOCAL, "MINE", False, "MINE"),
        (LOCAL, None, True, None),
        ("http://10.0.0.1", None, True, None),
        ("http://10.0.0.1", None, False, "OPENAI_API_KEY"),
        ("https://localhost.example.org", None, False, "OPENAI_API_KEY"),
        ("https://api.anthropic.com", None, False, "ANTHROPIC_API_KEY"),
        ("https://api.anthropic.com", "MINE", False, "MINE"),
    ],
)
def test_a_key_is_sent_nowhere_but_where_one_is_wanted(
    base_url: str, key_env: str | None, no_key: bool, wanted: str | None
) -> None:
    chosen = choose(base_url, None, None, key_env, no_key=no_key)
    assert chosen.key_env == wanted
    assert (
        chosen.key({"OPENAI_API_KEY": "o", "ANTHROPIC_API_KEY": "a", "MINE": "m"})
        == {
            None: NO_KEY,
            "OPENAI_API_KEY": "o",
            "ANTHROPIC_API_KEY": "a",
            "MINE": "m",
        }[wanted]
    )


def test_an_empty_variable_is_no_key() -> None:
    with pytest.raises(UsageError, match="OPENAI_API_KEY holds no key"):
        choose("https://api.openai.com/v1", None, None, None, no_key=False).key({"OPENAI_API_KEY": " "})
