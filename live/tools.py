"""Tools made of Python functions.

The schema of the arguments comes from the type hints, the description from the docstring. A function may take
``token`` (the cancellation of the turn) besides what the model gives. It returns text, a JSON value, or a
``ToolOutcome`` where it wants a say in the rest. A plain function runs in a thread, so that it cannot hold up the
loop; a coroutine runs on it.

What the model gave is parsed here: an empty text means ``{}``, a text that is no JSON is reported back as it is.
Whatever goes wrong is an outcome that the model reads: ``UNKNOWN_TOOL``, ``INVALID_ARGS``, ``TOOL_FAILED``, or
``ABORTED`` for a tool that was stopped.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from playhead.eventstore import json_text
from playhead.eventstore.blocks import TextBlock
from playhead.eventstore.cancel import Cancelled, CancelToken
from playhead.eventstore.errors import UsageError
from playhead.eventstore.request_header import Tool
from playhead.live.tool_box import ToolOutcome, aborted, unknown_tool

_TOKEN = "token"


class BadTool(UsageError):
    """A function that cannot be a tool."""

    code = "bad-tool"


@dataclass(frozen=True, slots=True)
class FunctionTool:
    """``run`` as a tool; ``exclusive`` calls run alone."""

    name: str
    run: Callable[..., Any]
    arguments: type[BaseModel]
    takes_token: bool
    exclusive: bool

    @property
    def described(self) -> Tool:
        """What the model is offered."""
        schema = self.arguments.model_json_schema()
        schema.pop("title", None)
        return Tool(name=self.name, description=inspect.getdoc(self.run) or "", parameters=schema)

    async def call(self, given: Any, token: CancelToken) -> Any:
        """What the function gives. Raises ``pydantic.ValidationError`` for arguments that do not fit."""
        read = self.arguments.model_validate(given)
        members: dict[str, Any] = {name: getattr(read, name) for name in type(read).model_fields}
        if self.takes_token:
            members[_TOKEN] = token
        if inspect.iscoroutinefunction(self.run):
            return await self.run(**members)
        return await asyncio.to_thread(self.run, **members)


@dataclass(frozen=True, slots=True)
class Tools:
    """A tool box of functions, in the order in which they were added."""

    _by_name: dict[str, FunctionTool] = field(default_factory=dict)

    @classmethod
    def of(cls, *functions: Callable[..., Any]) -> Tools:
        """The tools that ``functions`` make."""
        tools = cls()
        for function in functions:
            tools.add(function)
        return tools

    def add(
        self, function: Callable[..., Any], *, name: str | None = None, exclusive: bool = False
    ) -> Callable[..., Any]:
        """Make ``function`` a tool, and give it back, so that this may be a decorator.

        Raises ``BadTool`` for a name that is taken, or a parameter without a type.
        """
        called: str = name or str(getattr(function, "__name__", ""))
        if called in self._by_name:
            raise BadTool(f"there is a tool {called!r} already; give this one another name")
        self._by_name[called] = _made_of(function, called, exclusive)
        return function

    @property
    def tools(self) -> Sequence[Tool]:
        """See ``ToolBox.tools``."""
        return [tool.described for tool in self._by_name.values()]

    def is_exclusive(self, name: str) -> bool:
        """See ``ToolBox.is_exclusive``."""
        tool = self._by_name.get(name)
        return tool is not None and tool.exclusive

    async def call(self, name: str, arguments: str, call_id: str, token: CancelToken) -> ToolOutcome:  # noqa: ARG002 - the protocol's
        """See ``ToolBox.call``."""
        tool = self._by_name.get(name)
        if tool is None:
            return unknown_tool(name)
        try:
            given = _parsed(arguments)
        except ValueError:
            return _invalid(f"the arguments of {name} are no JSON: {arguments[:200]}")
        try:
            return _outcome(await tool.call(given, token))
        except ValidationError as error:
            return _invalid(
                f"the arguments of {name} do not fit: {_problems(error.errors(include_url=False))}"
            )
        except Cancelled:
            raise
        except Exception as error:
            if token.cancelled:
                return aborted()
            kind = type(error).__name__
            return ToolOutcome.failed(
                f"Error: {error}" if str(error) else f"Error: {kind}", kind, "TOOL_FAILED"
            )


def _made_of(function: Callable[..., Any], name: str, exclusive: bool) -> FunctionTool:
    fields: dict[str, Any] = {}
    takes_token = False
    signature = inspect.signature(function, eval_str=True)
    for parameter in signature.parameters.values():
        if parameter.name == _TOKEN:
            takes_token = True
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise BadTool(f"tool {name!r}: parameter {parameter.name!r} has no name that a model could give")
        if parameter.annotation is parameter.empty:
            raise BadTool(
                f"tool {name!r}: parameter {parameter.name!r} needs a type, so that it has a schema"
            )
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[parameter.name] = (parameter.annotation, default)
    arguments = create_model(name, __config__=ConfigDict(extra="forbid"), **fields)
    return FunctionTool(name, function, arguments, takes_token, exclusive)


def _parsed(arguments: str) -> Any:
    return json_text.parse(arguments) if arguments.strip() else {}


def _outcome(value: Any) -> ToolOutcome:
    if isinstance(value, ToolOutcome):
        return value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return ToolOutcome((TextBlock(text=text),))


def _invalid(problem: str) -> ToolOutcome:
    return ToolOutcome.failed(f"Error: {problem}", "ToolArgumentsError", "INVALID_ARGS")


def _problems(errors: Iterable[Any]) -> str:
    return "; ".join(f"{'.'.join(map(str, error['loc'])) or 'arguments'}: {error['msg']}" for error in errors)
