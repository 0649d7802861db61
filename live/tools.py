"""Tools made of Python functions.

The schema of the arguments comes from the type hints, the description from the docstring. A function may take
``token`` (the cancellation of the turn) besides what the model gives. It returns text, a value that can be said in
JSON, or a ``ToolOutcome`` where it wants a say in the rest. A plain function runs in a thread of its own, so that it
cannot hold up the loop; a coroutine runs on it.

What the model gave is parsed here: an empty text means ``{}``, a text that is no JSON is reported back as it is.
Whatever goes wrong is an outcome that the model reads: ``UNKNOWN_TOOL``, ``INVALID_ARGS``, ``TOOL_FAILED``, or
``ABORTED`` for a tool that was stopped.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic_core import to_jsonable_python

from playhead.eventstore import json_text
from playhead.eventstore.blocks import TextBlock
from playhead.eventstore.cancel import Cancelled, CancelToken
from playhead.eventstore.errors import UsageError
from playhead.eventstore.in_thread import in_thread
from playhead.eventstore.request_header import Tool
from playhead.live.tool_box import ToolOutcome, aborted, broken, unknown_tool

_TOKEN = "token"
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class BadTool(UsageError):
    """A function that cannot be a tool."""

    code = "bad-tool"


@dataclass(frozen=True, slots=True)
class FunctionTool:
    """``run`` as a tool; ``exclusive`` calls run alone. ``fields`` are those of ``arguments`` by parameter."""

    name: str
    run: Callable[..., Any]
    arguments: type[BaseModel]
    fields: Mapping[str, str]
    takes_token: bool
    exclusive: bool

    @property
    def described(self) -> Tool:
        """What the model is offered."""
        schema = self.arguments.model_json_schema()
        schema.pop("title", None)
        return Tool(name=self.name, description=inspect.getdoc(self.run) or "", parameters=schema)

    def read(self, given: Any) -> dict[str, Any]:
        """The arguments of the function. Raises ``pydantic.ValidationError`` for a JSON value that does not fit."""
        read = self.arguments.model_validate(given)
        return {parameter: getattr(read, field) for parameter, field in self.fields.items()}

    async def call(self, arguments: dict[str, Any], token: CancelToken) -> Any:
        """What the function gives."""
        if self.takes_token:
            arguments = {**arguments, _TOKEN: token}
        if inspect.iscoroutinefunction(self.run):
            return await self.run(**arguments)
        given = await in_thread(lambda: self.run(**arguments))
        return await given if inspect.isawaitable(given) else given


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

        Raises ``BadTool`` for a name that is taken or that no provider takes, and for a parameter that has no type,
        or one that has no JSON schema.
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
            members = tool.read(given)
        except ValidationError as error:
            return _invalid(
                f"the arguments of {name} do not fit: {_problems(error.errors(include_url=False))}"
            )
        try:
            return _outcome(await tool.call(members, token))
        except Cancelled:
            raise
        except Exception as error:
            return aborted() if token.cancelled else broken(error)


def _made_of(function: Callable[..., Any], name: str, exclusive: bool) -> FunctionTool:
    if not _NAME.fullmatch(name):
        raise BadTool(f"a tool cannot be named {name!r}: up to 64 letters, digits, _ and - make a name")
    fields: dict[str, Any] = {}
    named: dict[str, str] = {}  # by parameter: pydantic takes some names of parameters for its own
    takes_token = False
    for parameter in _parameters(function, name):
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
        named[parameter.name] = f"argument_{len(fields)}"
        fields[named[parameter.name]] = (parameter.annotation, Field(default, alias=parameter.name))
    try:
        arguments = create_model(name, __config__=ConfigDict(extra="forbid"), **fields)
        tool = FunctionTool(name, function, arguments, named, takes_token, exclusive)
        assert tool.described
    except PydanticUserError as error:
        raise BadTool(f"tool {name!r}: its arguments have no JSON schema: {error.message}") from error
    return tool


def _parameters(function: Callable[..., Any], name: str) -> Sequence[inspect.Parameter]:
    """The parameters with their types. What the function returns may be a type that nobody can look up."""
    try:
        parameters = inspect.signature(function).parameters
        written = {one.name: one.annotation for one in parameters.values() if one.annotation is not one.empty}
        names = getattr(inspect.unwrap(function), "__globals__", {})
        types = get_type_hints(SimpleNamespace(__annotations__=written), names, include_extras=True)
    except (NameError, TypeError, ValueError) as error:
        raise BadTool(f"tool {name!r}: its parameters cannot be read: {error}") from error
    return [one.replace(annotation=types.get(one.name, one.empty)) for one in parameters.values()]


def _parsed(arguments: str) -> Any:
    return json_text.parse(arguments) if arguments.strip() else {}


def _outcome(value: Any) -> ToolOutcome:
    if isinstance(value, ToolOutcome):
        return value
    text = value if isinstance(value, str) else _in_json(value)
    return ToolOutcome((TextBlock(text=text),))


def _in_json(value: Any) -> str:
    """Models, dataclasses, dates and the like as one would write them; anything else as it shows itself."""
    return json.dumps(to_jsonable_python(value, fallback=str), ensure_ascii=False)


def _invalid(problem: str) -> ToolOutcome:
    return ToolOutcome.failed(f"Error: {problem}", "ToolArgumentsError", "INVALID_ARGS")


def _problems(errors: Iterable[Any]) -> str:
    return "; ".join(f"{'.'.join(map(str, error['loc'])) or 'arguments'}: {error['msg']}" for error in errors)
