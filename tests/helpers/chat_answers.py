"""Answers of an endpoint that speaks chat completions, for ``scripted_server``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from scripted_server import Answer, Step

DONE = b"data: [DONE]\n\n"


def event(payload: Any) -> bytes:
    """One event of a stream."""
    return f"data: {json.dumps(payload)}\n\n".encode()


def delta(finish: str | None = None, **members: Any) -> bytes:
    """The event with these members of ``delta``."""
    return event({"choices": [{"index": 0, "delta": members, "finish_reason": finish}]})


def usage(given: int, got: int) -> bytes:
    """The event with the tokens that a call took."""
    return event({"choices": [], "usage": {"prompt_tokens": given, "completion_tokens": got}})


def said(*pieces: str | Step, finish: str = "stop") -> Answer:
    """An answer that says ``pieces``, a delta each; what is no text is a step of the server."""
    steps = [delta(content=piece) if isinstance(piece, str) else piece for piece in pieces]
    return Answer(steps=[*steps, delta(finish), usage(10, 5), DONE])


def calls(*named: tuple[str, Any], before: Sequence[Step] = ()) -> Answer:
    """An answer that calls tools, each with its name and arguments."""
    steps = list(before)
    for index, (name, arguments) in enumerate(named):
        function = {"name": name, "arguments": json.dumps(arguments)}
        steps.append(delta(tool_calls=[{"index": index, "id": f"call-{index}", "function": function}]))
    return Answer(steps=[*steps, delta("tool_calls"), usage(10, 5), DONE])


def refused(status: int, message: str = "busy", **headers: str) -> Answer:
    """An answer that is no success."""
    return Answer.json(status, {"error": {"message": message}}, **headers)
