"""Hypothesis strategies for payloads of chat completions, and for bytes that were one."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

words = st.text(st.characters(exclude_categories=()), max_size=4)
"""Text with lone surrogates and control characters among it."""

_counts = st.integers(0, 2**53)
_names = st.sampled_from(["", "a", "b"])
_maybe = st.none()


def _some(**members: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects with any of ``members``."""
    return st.fixed_dictionaries({}, optional=members)


_fragments = _some(
    index=st.integers(0, 2) | _maybe,
    id=_names | _maybe,
    function=_some(name=_names | _maybe, arguments=words | _maybe),
)
_deltas = _some(
    role=st.just("assistant"),
    content=words | _maybe,
    reasoning_content=words | _maybe,
    reasoning=words | _maybe,
    refusal=words | _maybe,
    tool_calls=st.lists(_fragments, max_size=3),
    function_call=_some(name=_names, arguments=words),
)
_reasons = st.sampled_from(["stop", "tool_calls", "length", "function_call", "content_filter", "odd", ""])
_usages = _some(
    prompt_tokens=_counts,
    completion_tokens=_counts,
    total_tokens=_counts,
    prompt_cache_hit_tokens=_counts,
    prompt_tokens_details=_some(cached_tokens=_counts | _maybe) | _maybe,
    completion_tokens_details=_some(reasoning_tokens=_counts | _maybe),
)
payloads = _some(
    choices=st.lists(
        st.fixed_dictionaries(
            {"delta": _deltas},
            optional={"index": st.sampled_from([0, 0, 0, 1]), "finish_reason": _reasons | _maybe},
        ),
        max_size=2,
    ),
    usage=_usages | _maybe,
)
"""Payloads that an endpoint may send."""

_ends = st.sampled_from([["[DONE]"], ["[DONE]"], [], ["{oops"], ['{"error":{"message":"busy","code":503}}']])


def _body(values: list[Any], end: list[str]) -> bytes:
    return "".join(f"data: {text}\n\n" for text in [*map(json.dumps, values), *end]).encode()


bodies = st.builds(_body, st.lists(payloads, max_size=8), _ends)
"""Whole answers: most end well, some are cut off, break, or tell of an error."""

_TOKENS = [
    *(
        b"\n",
        b"\r",
        b"\r\n\r\n",
        b"\n\ndata: ",
        b":",
        b"data",
        b"event: error\n",
        b"[DONE]",
        b"\xff",
        b"\xef\xbb\xbf",
    ),
    *(
        b'"',
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b"null",
        b"true",
        b"-1",
        b"1e999",
        b"[" * 3000,
        b"9" * 5000,
        b"\\ud83d",
    ),
    *(
        b'"index":',
        b'"delta":',
        b'"choices":',
        b'"tool_calls":[{"index":7}]',
        b'"error":{"code":500}',
        b'"usage":{}',
    ),
]


@st.composite
def mutated(draw: st.DrawFn, whole: st.SearchStrategy[bytes] = bodies) -> bytes:
    """The bytes of an answer with some of them lost, doubled, flipped or replaced by what a parser trips over."""
    body = draw(whole)
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(body)))
        end = min(len(body), start + draw(st.sampled_from([0, 1, 1, 2, 8, 60])))
        piece = draw(
            st.sampled_from([*_TOKENS, b"", body[start:end] * 2, body[end:][:40]]) | st.binary(max_size=3)
        )
        body = body[:start] + piece + body[end:]
    return body
