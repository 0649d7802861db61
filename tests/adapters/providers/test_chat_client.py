"""The client of OpenAI takes what chat completions are written as."""

from __future__ import annotations

from typing import Any

import pytest
from wire import sent

from playhead.adapters.providers.chat import DEEPSEEK_CHAT, OPENAI_CHAT, ChatDialect
from playhead.adapters.providers.dialect import WireError
from playhead.eventstore import json_text
from playhead.eventstore.chunks import Chunk, decode_chunk
from playhead.eventstore.failures import Failure

openai = pytest.importorskip("openai")
httpx2 = pytest.importorskip("httpx2")

CALL = {"type": "tool-call", "id": "c1", "name": "f", "arguments": '{"a": 1}'}
ANSWER: list[Chunk] = [
    decode_chunk(value)
    for value in [
        {"type": "block-start", "index": 0, "blockType": "reasoning"},
        {"type": "reasoning-delta", "index": 0, "text": "hm"},
        {"type": "block-start", "index": 1, "blockType": "text"},
        {"type": "text-delta", "index": 1, "text": "Hé"},
        {"type": "text-delta", "index": 1, "text": " 😀"},
        {"type": "block-start", "index": 2, "blockType": "tool-call"},
        {"type": "tool-call-delta", "index": 2, "id": "c1", "name": "f", "argumentsDelta": ""},
        {"type": "tool-call-delta", "index": 2, "id": "c1", "name": "f", "argumentsDelta": '{"a": 1}'},
        {"type": "block-end", "index": 0, "block": {"type": "reasoning", "text": "hm"}},
        {"type": "block-end", "index": 1, "block": {"type": "text", "text": "Hé 😀"}},
        {"type": "block-end", "index": 2, "block": CALL},
        {
            "type": "usage",
            "usage": {"inputTokens": 3, "outputTokens": 4, "cacheReadTokens": 2, "totalTokens": 9},
        },
        {"type": "finish", "reason": {"kind": "tool-calls"}},
    ]
]

dialects = pytest.mark.parametrize("dialect", [DEEPSEEK_CHAT, OPENAI_CHAT], ids=lambda dialect: dialect.name)


def client(body: bytes, kind: str, error: WireError | None = None) -> Any:
    """A client that gets the same answer to whatever it asks, without any network."""

    def answer(_: Any) -> Any:
        if error is not None:
            return httpx2.Response(
                error.status, content=json_text.dumps(error.body), headers=dict(error.headers)
            )
        return httpx2.Response(200, content=body, headers={"content-type": kind})

    transport = httpx2.Client(transport=httpx2.MockTransport(answer))
    return openai.OpenAI(api_key="x", base_url="http://localhost/v1", max_retries=0, http_client=transport)


def ask(client: Any, **more: Any) -> Any:
    return client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}], **more)


@dialects
def test_the_client_reads_a_stream(dialect: ChatDialect) -> None:
    body = sent(dialect.encode(ANSWER, model="m", id="i"))
    parts = list(ask(client(body, "text/event-stream"), stream=True))
    choices = [choice for part in parts for choice in part.choices]
    assert choices[0].delta.role == "assistant"
    assert "".join(choice.delta.content or "" for choice in choices) == "Hé 😀"
    calls = [call for choice in choices for call in choice.delta.tool_calls or ()]
    assert (calls[0].index, calls[0].id, calls[0].function.name, calls[0].type) == (0, "c1", "f", "function")
    assert "".join(call.function.arguments for call in calls) == '{"a": 1}'
    assert [choice.finish_reason for choice in choices if choice.finish_reason] == ["tool_calls"]
    (usage,) = (part.usage for part in parts if part.usage)
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (5, 4, 9)
    assert usage.prompt_tokens_details.cached_tokens == 2
    assert {(part.id, part.model, part.object) for part in parts} == {("i", "m", "chat.completion.chunk")}
    for part in parts:
        type(part).model_validate(part.to_dict(), strict=True)


@dialects
def test_the_client_accumulates_a_stream(dialect: ChatDialect) -> None:
    body = sent(dialect.encode(ANSWER, model="m"))
    with client(body, "text/event-stream").chat.completions.stream(
        model="m", messages=[{"role": "user", "content": "hi"}]
    ) as stream:
        message = stream.get_final_completion().choices[0].message
    assert message.content == "Hé 😀"
    assert message.tool_calls[0].function.arguments == '{"a": 1}'


@dialects
def test_the_client_reads_an_answer_in_one_object(dialect: ChatDialect) -> None:
    body = json_text.dumps(dialect.encode_whole(ANSWER, model="m", id="i"))
    answer = ask(client(body, "application/json"))
    type(answer).model_validate(answer.to_dict(), strict=True)
    (choice,) = answer.choices
    assert (choice.message.content, choice.finish_reason) == ("Hé 😀", "tool_calls")
    assert choice.message.tool_calls[0].function.name == "f"
    assert answer.usage.total_tokens == 9


@pytest.mark.parametrize(
    ("failure", "raised"),
    [
        (Failure(message="no", code="AUTH", status=401), "AuthenticationError"),
        (Failure(message="no", code="AUTH", status=403), "PermissionDeniedError"),
        (
            Failure(message="no", code="RATE_LIMIT", status=429, provider_retry_after_ms=1000),
            "RateLimitError",
        ),
        (Failure(message="no", code="QUOTA"), "RateLimitError"),
        (Failure(message="no", code="INVALID_REQUEST", status=400), "BadRequestError"),
        (Failure(message="no", code="HTTP_404", status=404), "NotFoundError"),
        (Failure(message="no", code="SERVER", status=503), "InternalServerError"),
    ],
)
def test_the_client_raises_its_own_error_for_a_refusal(failure: Failure, raised: str) -> None:
    told = OPENAI_CHAT.error(failure)
    with pytest.raises(getattr(openai, raised), match="no") as error:
        ask(client(b"", "", told), stream=True)
    assert error.value.status_code == told.status
    assert error.value.body["message"] == "no"


@dialects
def test_the_client_raises_for_an_error_in_mid_stream(dialect: ChatDialect) -> None:
    failed = decode_chunk(
        {"type": "finish", "reason": {"kind": "error", "failure": {"message": "busy", "code": "SERVER"}}}
    )
    stream = ask(client(sent(dialect.encode([*ANSWER[:4], failed])), "text/event-stream"), stream=True)
    with pytest.raises(openai.APIError, match="busy"):
        list(stream)
