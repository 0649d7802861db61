"""The part of the driver model that calls a model and runs the tools that the answer asks for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from driver_goals import GoalDriver
from driver_inbox import NEXT_STEP, TARGETS, WORDS, Json
from driver_truth import Call, Entry

MODELS = ({"provider": "example", "model": "example-1"}, {"provider": "other", "model": "other-2"})
_POLICY = '["normal",3,["SERVER","TRANSPORT"],500,10000,0.1]'
_HALVES = ("\ud83e", "\udd5e")
"""A pancake, split as a provider may split it."""

_FAILURES = (
    {"message": "the connection broke", "code": "TRANSPORT"},
    {"message": "too many", "code": "RATE_LIMIT", "status": 429, "providerRetryAfterMs": 1000},
)
_CAUSES = ({"kind": "user"}, {"kind": "parent"}, {"kind": "hook", "reason": "over budget"})


class Aborted(Exception):
    """The turn was cancelled, and the driver noticed."""


class Failed(Exception):
    """The turn cannot go on; the argument is the failure."""


@dataclass
class _Stream:
    """What came of one call. ``call`` is its line in the ledger, None before the first chunk."""

    seqs: list[int] = field(default_factory=list)
    blocks: dict[int, Json] = field(default_factory=dict)
    call: Call | None = None

    def kept(self) -> list[Json]:
        """What an interrupted answer keeps: text and reasoning in which there is something."""
        blocks = [self.blocks[index] for index in sorted(self.blocks)]
        return [block for block in blocks if block["type"] != "tool-call" and block["text"].strip()]


class CallDriver(GoalDriver):
    """``cancel`` is the cause of a cancellation that the driver has not noticed yet."""

    cancel: Json | None = None
    logged_header = False
    route: Json = MODELS[0]
    stream: _Stream | None = None

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.has_header = False
        self.context: Json | None = None
        self.tools: dict[str, Entry] = {}
        self.pending: dict[str, int | None] = {}

    @property
    def place(self) -> Json:
        return {"turn": self.turn, "step": self.step}

    # What happens from outside, at any moment

    def meanwhile(self, percent: int = 20) -> None:
        """Maybe people or programs do something. Raises ``Aborted`` when the turn was cancelled."""
        while self.chance(percent):
            self.happen()
        if self.cancel is not None and self.turn is not None:
            raise Aborted

    def happen(self) -> None:
        waiting = any(self.truth.lists.values())
        match self.random.randrange(14):
            case 0 | 1 | 2:
                self.send(self.random.choice(TARGETS))
            case 3:
                notice = {"form": "notice", "summary": "job over"}
                self.send(NEXT_STEP, {"kind": "plugin", "plugin": "tool-jobs", **notice})
            case 4 | 5 | 6 if waiting:
                self.edit()
            case 7 if waiting:
                self.clear()
            case 8:
                self.rename()
            case 9:
                self.command()
            case 10:
                self.change_goal()
            case 11 if self.turn is not None and self.cancel is None:
                if self.chance(50):
                    self.clear()
                self.cancel = self.random.choice(_CAUSES)
            case 12:
                self.add("x/fact", {"nobody": "knows"}, ignorable=True)
            case _:
                self.add("feedback/record", {"text": "fine"})

    def rename(self, cited: list[int] | None = None) -> None:
        title = self.random.choice(("Pancakes", "Crêpes"))

        def effect(_seq: int) -> None:
            self.truth.title = title
            self.note("mark", kind="title", text=title)

        source = {"kind": "fallback" if cited else "user"}
        self.add("session/title", {"title": title, "messageSeqs": cited or [], "source": source}, effect)

    def command(self) -> None:
        id = self.id("command")
        run = {"commandId": id, "name": "plan", "args": "on", "source": {"kind": "user"}}
        self.add("command/run", run, self.mark("command", "/plan on"))
        self.add("command/done", {"commandId": id, "kind": "success"}, self.mark("command-result", "done"))

    # Calls

    def answer(self) -> list[Json] | str:
        """Call the model until it answers: the tool calls of the answer, or how the turn may end.

        Raises ``Failed`` when it gives up.
        """
        self._request()
        chain, retries = self.id("retry"), 0
        while True:
            finish = self._call()
            failure = finish.get("failure")
            if failure is None:
                break
            if retries == 3 or self.chance(40):
                raise Failed(failure)
            retries += 1
            self._retry({"retryId": chain, **self.place}, retries, failure)
        stream = self.stream
        assert stream is not None
        blocks = [stream.blocks[index] for index in sorted(stream.blocks)]
        if finish["kind"] == "max-tokens":
            blocks = [block for block in blocks if block["type"] != "tool-call"]
        self._message(blocks)
        calls = [block for block in blocks if block["type"] == "tool-call"]
        return calls or ("max-tokens" if finish["kind"] == "max-tokens" else "completed")

    def _request(self) -> None:
        changed = self.chance(10)
        if changed:
            self.route = MODELS[1 - MODELS.index(self.route)]
        reason = "change" if self.logged_header else "resume" if self.has_header else "initial"
        if changed or not self.logged_header:
            header = {"config": self.route, "system": "Be brief."}
            self.add("request/header", {"header": header, "reason": reason})
            self.has_header = self.logged_header = True
        if self.context != self.route:
            self.add("request/context", {**self.route, "contextWindow": 65536})
            self.context = self.route

    def _call(self) -> Json:
        """Stream one answer; the finish reason. Raises ``Aborted``, and ``Failed`` for an end outside the protocol."""
        self.stream = stream = _Stream()
        late: list[int] = []
        for index in range(self.random.randrange(4)):
            self._block(stream, index)
            if self.chance(70):
                self._chunk({"type": "block-end", "index": index, "block": dict(stream.blocks[index])})
            else:
                late.append(index)
        for index in late:
            self._chunk({"type": "block-end", "index": index, "block": dict(stream.blocks[index])})
        if self.chance(3):
            raise Failed({"message": "boom", "code": "UNKNOWN"})
        if self.chance(80):
            self._chunk({"type": "usage", "usage": self._usage()})
        finish: Json = {"kind": "stop"}
        if any(block["type"] == "tool-call" for block in stream.blocks.values()):
            finish = {"kind": "tool-calls"}
        if self.chance(20):
            finish = {"kind": "error", "failure": self.random.choice(_FAILURES)}
        elif self.chance(8):
            finish = {"kind": "max-tokens"}
        self._chunk({"type": "finish", "reason": finish})
        return finish

    def _block(self, stream: _Stream, index: int) -> None:
        kind = self.random.choice(("text", "reasoning", "tool-call"))
        if kind == "tool-call":
            call = self.id("call")
            block = {"type": kind, "id": call, "name": "bash", "arguments": ""}
        else:
            block = {"type": kind, "text": ""}
        if index == 0 or self.chance(70):
            self._chunk({"type": "block-start", "index": index, "blockType": kind}, index, block)
        named = True
        for piece in self._pieces():
            if kind == "tool-call":
                name = {"name": "bash"} if named else {}
                delta = {"type": "tool-call-delta", "index": index, "id": block["id"], **name}
                self._chunk({**delta, "argumentsDelta": piece}, index, block, "arguments", piece)
                named = False
            else:
                delta = {"type": f"{kind}-delta", "index": index, "text": piece}
                self._chunk(delta, index, block, "text", piece)
        stream.blocks.setdefault(index, block)

    def _pieces(self) -> list[str]:
        pieces = [self.random.choice(WORDS) for _ in range(self.random.randrange(4))]
        return [*pieces, *_HALVES] if self.chance(20) else pieces

    def _usage(self) -> Json:
        usage = {"inputTokens": self.random.randrange(300), "outputTokens": self.random.randrange(90)}
        return usage | ({"cacheReadTokens": self.random.randrange(500)} if self.chance(50) else {})

    def _chunk(
        self, chunk: Json, index: int = 0, block: Json | None = None, part: str = "", piece: str = ""
    ) -> None:
        """Take a chunk from the wire, unless the turn was cancelled. ``piece`` joins ``part`` of ``block``."""
        stream = self.stream
        assert stream is not None
        try:
            self.meanwhile(4)
        except Aborted:
            self._interrupted()
            raise

        def effect(seq: int) -> None:
            stream.seqs.append(seq)
            if stream.call is None:
                stream.call = Call(self.turn, self.step)
                self.truth.calls.append(stream.call)
            if block is not None:
                stream.blocks[index] = block
                if part:
                    whole = block[part] + piece
                    block[part] = whole.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
            is_delta = chunk["type"].endswith("-delta")
            if is_delta and (piece or "name" in chunk) and self.truth.stats.token_ms is None:
                self.truth.stats.token_ms = self.time
            if chunk["type"] == "usage":
                stream.call.usage = chunk["usage"]
                self.truth.shown_usage[(self.turn or 0, self.step)] = chunk["usage"]
            if chunk["type"] == "finish":
                reason = chunk["reason"]
                failed = "failure" in reason
                stream.call.outcome = "failed" if failed else "finished"
                stream.call.finish = reason["kind"]
                if failed:
                    self._lost_attempt(reason["failure"]["code"])

        self.add("assistant/chunk", {**self.place, "chunk": chunk}, effect)

    def _lost_attempt(self, code: str | None) -> None:
        """The transcript tells of a stream of which no answer was made."""
        stream, self.stream = self.stream, None
        if stream is not None and stream.call is not None:
            finish = stream.call.finish
            self.attempt = self.note("attempt", finish=finish, code=code, retry=None, started=False)

    def _interrupted(self) -> None:
        """The turn is cancelled while the answer comes."""
        stream = self.stream
        kept = stream.kept() if stream is not None else []
        if kept:
            self._message(kept, interrupted=True)

    def _message(self, blocks: list[Json], **more: Any) -> None:
        stream = self.stream
        assert stream is not None
        usage = stream.call.usage if stream.call is not None else None
        source = {"kind": "model", **self.route}
        message = {"id": self.id("a"), "role": "assistant", "content": blocks, "source": source}
        data = {**self.place, "message": message, **more} | ({"usage": usage} if usage else {})

        def effect(_seq: int) -> None:
            self.stream = None
            if stream.call is None:
                stream.call = Call(self.turn, self.step)
                self.truth.calls.append(stream.call)
            stream.call.outcome = "cancelled" if more else "finished"
            parts = [[block["type"], block.get("text", block.get("id"))] for block in blocks]
            self.note("answer", parts=parts, interrupted=bool(more))
            self.truth.stats.answered(self.time, usage)
            for block in blocks:
                if block["type"] == "tool-call":
                    self.pending[block["id"]] = None
                    facts = {"call": block["id"], "arguments": block["arguments"]}
                    self.tools[block["id"]] = self.note(
                        "tool", **facts, started=False, result=None, code=None
                    )

        self.add("assistant/message", data, effect, sourceEventSeqs=stream.seqs, surfaceOp="append")

    def _retry(self, chain: Json, number: int, failure: Json) -> None:
        wait = {
            "provider": self.route["provider"],
            "mode": "normal",
            "policyKey": _POLICY,
            "retry": number,
            "maxRetries": 3,
            "delayMs": 500.5,
            "failure": failure,
        }
        attempt = self.attempt

        def scheduled(_seq: int) -> None:
            attempt["retry"] = number

        def started(_seq: int) -> None:
            attempt["started"] = True

        self.add("llm/retry", chain | wait, scheduled)
        self.meanwhile(10)
        self.add("llm/retry-started", chain | {"retry": number}, started)

    # Tools

    def run_tools(self, calls: list[Json]) -> str | None:
        """Run the calls of an answer, alone or side by side; "completed" when one of them concludes the turn."""
        waiting = list(calls)
        while waiting:
            group = [waiting.pop(0) for _ in range(min(len(waiting), self.random.randint(1, 3)))]
            started = []
            try:
                for call in group:
                    self.meanwhile(10)
                    self._start_tool(call)
                    started.append(call)
                self.meanwhile(10)
            except Aborted:
                self._drain_tools(started, [call for call in calls if call["id"] in self.pending])
                raise
            for call in group:
                self._result(call["id"], "fine", None)
        return "completed" if self.chance(5) else None

    def _drain_tools(self, started: list[Json], open_calls: list[Json]) -> None:
        """After a cancel: results of the tools that run, and stand-ins for those that never started."""
        for call in started:
            self._result(call["id"], "aborted", self.random.choice((None, "ABORTED")))
        for call in open_calls:
            if call not in started:
                self._call_event(call)
                self._result(call["id"], "not run", "ABORTED_BEFORE_DISPATCH")

    def _start_tool(self, call: Json) -> None:
        if self.chance(10):
            ask = {"id": self.id("ask")}
            asked = ask | {"toolName": "bash", "callId": call["id"]}
            self.add("approval/asked", asked, self.mark("approval", "asked: bash"))
            decided = ask | {"outcome": "allowed-once"}
            self.add("approval/decided", decided, self.mark("approval", "decided: allowed-once"))
        self._call_event(call)
        if self.chance(15):
            todos = [{"content": "whisk", "status": self.random.choice(("pending", "completed"))}]

            def written(_seq: int) -> None:
                self.truth.todos = todos
                sign = "[x]" if todos[0]["status"] == "completed" else "[ ]"
                self.note("mark", kind="todo", text=f"{sign} whisk")

            self.add("todo/write", {"todos": todos}, written)
        if self.chance(10):
            self.change_goal()

    def _call_event(self, call: Json) -> None:
        id = call["id"]

        def effect(seq: int) -> None:
            self.pending[id] = seq
            self.tools[id]["started"] = True
            self.truth.stats.called_ms[id] = self.time

        self.add(
            "tool/call", {**self.place, "callId": id, "name": "bash", "arguments": call["arguments"]}, effect
        )

    def _result(self, id: str, text: str, code: str | None) -> None:
        content = [{"type": "text", "text": text}]
        block = {"type": "tool-result", "toolCallId": id, "content": content, "isError": code is not None}
        source = {"kind": "tool", "callId": id}
        message = {"id": self.id("r"), "role": "user", "content": [block], "source": source}
        data: Json = {**self.place, "message": message}
        if code is not None:
            data["error"] = {"name": "ToolError", "code": code}
        cited = [self.pending[id]]
        self.add(
            "tool/result",
            data,
            lambda _: self.returned(id, text, code),
            sourceEventSeqs=cited,
            surfaceOp="append",
        )

    def returned(self, id: str, text: str, code: str | None) -> None:
        """The ledger of a result."""
        self.pending.pop(id, None)
        self.tools[id].update(result=text, code=code)
        called = self.truth.stats.called_ms.pop(id, None)
        if called is not None:
            self.truth.stats.tool_ms += max(0, self.time - called)
