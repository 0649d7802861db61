"""The JSON that an endpoint sends, read so that nothing in it can hold the reader up."""

from __future__ import annotations

from typing import Any

import msgspec

from playhead.eventstore import json_text

_quick = msgspec.json.Decoder()
"""Reads what ``exact_decoder`` reads, several times faster, or fails: at lone surrogates, say."""


def parse_payload(text: str | bytes) -> Any:
    """The value of a JSON text. Raises ``ValueError`` for what is no JSON, and for what no endpoint sends.

    That is nesting of about a thousand levels, and integers of more than 4300 digits. A log may have both, and its
    reader takes the time that they need; an answer of a few megabytes could stop all others for half a minute.
    """
    try:
        return _quick.decode(text)
    except RecursionError as error:
        raise ValueError("the JSON is nested too deep") from error
    except ValueError:
        text = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    try:
        return json_text.exact_decoder.decode(text)
    except RecursionError as error:
        raise ValueError("the JSON is nested too deep") from error
