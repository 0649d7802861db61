"""A scripted conversation about pancakes, recorded through Playhead as an agent would record a real one.

In it: a prompt, a model call that breaks off and is retried, reasoning, streamed text, a tool call with its
result, a message that is queued and one that steers, a turn that the user stops, usage, titles.
"""

from __future__ import annotations

from playhead import Recorded, Session
from script import BASH, MODEL, Script

CWD = "/home/ada/kitchen"

_SYSTEM = "You help in the kitchen. Look before you answer, and be brief."


def play(session: Session, start_ms: int) -> list[list[Recorded]]:
    """Play the conversation into ``session``, which is empty; its events, in the batches that were kept together."""
    script = Script(session, start_ms)
    question = script.queue("next-turn", "What do I still need for pancakes?")
    asked = script.begin_turn("next-turn", [question])
    script.title("What do I still need", asked)
    script.header(_SYSTEM, [BASH])
    script.add("request/context", {**MODEL, "contextWindow": 65536})
    script.keep()

    first = script.call()
    first.block("reasoning", ["The user", " wants"], whole=False)
    first.fail("the connection broke", "TRANSPORT")
    script.keep()

    second = script.call()
    second.block("reasoning", ["The list", " will", " tell", " me", "."])
    later = script.queue("next-turn", "And then the recipe, please.")
    second.block("text", ["I", " look", " at", " your", " list", "."])
    arguments = '{"command": "cat list.txt"}'
    second.tool_call("call-1", "bash", [arguments[:9], arguments[9:20], arguments[20:]])
    second.finish("tool-calls", {"inputTokens": 212, "outputTokens": 31, "reasoningTokens": 5})
    called = script.tool_call("call-1", "bash", arguments)
    script.keep()
    hint = script.queue("next-step", "We still have eggs 🥚")
    script.tool_result("call-1", "eggs\nflour\nmilk\n", called)
    script.end_step()

    script.begin_step("next-step", [hint])
    third = script.call()
    third.block("text", ["Flour", " and", " milk", ";", " the", " eggs", " are", " there", "."])
    third.finish("stop", {"inputTokens": 98, "outputTokens": 11, "cacheReadTokens": 192})
    script.end_step()
    script.end_turn({"kind": "completed"})

    script.begin_turn("next-turn", [later])
    fourth = script.call()
    fourth.block("text", ["Whisk", " 200", " g", " of", " flour"], whole=False)
    fourth.stop()
    script.end_step()
    script.end_turn({"kind": "aborted", "reason": {"kind": "user"}})
    script.title("Pancakes")
    script.keep()
    return script.kept
