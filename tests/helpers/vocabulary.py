"""JSON that fits a class of the vocabulary, drawn from what the class declares."""

from __future__ import annotations

import types
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from hypothesis import strategies as st

from playhead.eventstore import json_text
from playhead.eventstore.events.assistant import CHUNK
from playhead.eventstore.events.goal import GoalChanged
from playhead.eventstore.events.message import UserMessaged
from playhead.eventstore.events.schedule import ScheduleChanged
from playhead.eventstore.ids import SAFE_INTEGER
from playhead.eventstore.messages import Message
from playhead.eventstore.registry import Registry
from playhead.eventstore.value import Value

any_text = st.text(st.characters(exclude_categories=()), max_size=6)
"""Text with lone surrogates, without split pairs."""

plain_text = st.text(max_size=6)
whole = st.integers(-SAFE_INTEGER, SAFE_INTEGER) | st.integers(0, 9).map(float)
numbers = st.integers(-SAFE_INTEGER, SAFE_INTEGER) | st.floats(allow_nan=False)
json_values = st.recursive(
    st.none() | st.booleans() | numbers | any_text,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(any_text, inner, max_size=2),
    max_leaves=3,
)
_unknown_members = st.dictionaries(plain_text.map(lambda name: f"x-{name}"), json_values, max_size=1)


def chunks() -> st.SearchStrategy[dict[str, Any]]:
    """The JSON of every kind of stream chunk."""
    from playhead.eventstore.blocks import content_blocks
    from playhead.eventstore.reasons import finish_reasons
    from playhead.eventstore.usage import Usage

    index = st.integers(0, 3)
    text = {"index": index, "text": any_text}
    shapes: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
        ("block-start", {"index": index, "blockType": any_text}, {}),
        ("text-delta", text, {}),
        ("reasoning-delta", text, {}),
        ("tool-call-delta", {"index": index, "argumentsDelta": any_text}, {"id": any_text, "name": any_text}),
        ("block-end", {"index": index, "block": members_of(content_blocks)}, {}),
        ("usage", {"usage": objects(Usage)}, {}),
        ("finish", {"reason": members_of(finish_reasons)}, {"replayState": json_values}),
    ]
    return st.one_of(
        [
            _with_unknown(st.fixed_dictionaries({"type": st.just(tag)} | required, optional=optional))
            for tag, required, optional in shapes
        ]
    )


def writable(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Those of ``values`` that JSON can spell: no number in them is infinite."""
    return values.filter(_is_writable)


def _is_writable(value: Any) -> bool:
    try:
        json_text.dumps(value)
    except ValueError:
        return False
    return True


def members_of(registry: Registry[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """The JSON of every class of the registry, and of a tag that nobody registered."""
    assert registry.member is not None
    unknown = st.fixed_dictionaries({registry.member: plain_text.map(lambda tag: f"nobody's {tag}")})
    known = [objects(cls) for tag in registry if (cls := registry.find(tag)) is not None]
    return st.one_of(_with_unknown(unknown), *known)


def objects(cls: type[Value]) -> st.SearchStrategy[Any]:
    """JSON objects that ``cls`` accepts: absent and null optionals, and unknown members among them.

    Which optional members a ``goal/change`` or a ``schedule/change`` needs depends on its operation: they get
    all of them.
    """
    if cls is UserMessaged:
        return objects(Message)
    complete = cls in (GoalChanged, ScheduleChanged)
    required: dict[str, st.SearchStrategy[Any]] = {}
    optional: dict[str, st.SearchStrategy[Any]] = {}
    for name, alias in cls._members:
        field = cls.model_fields[name]
        annotation: Any = field.annotation
        if field.metadata:
            annotation = Annotated[annotation, *field.metadata]
        if complete:
            annotation = _without_none(annotation)
        mandatory = complete or field.is_required() or name in ("type", "kind")
        (required if mandatory else optional)[alias] = _values(annotation)
    return _with_unknown(st.fixed_dictionaries(required, optional=optional))


def _without_none(annotation: Any) -> Any:
    if get_origin(annotation) not in (Union, types.UnionType):
        return annotation
    (kind,) = (kind for kind in get_args(annotation) if kind is not type(None))
    return kind


def _with_unknown(objects_: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.tuples(objects_, _unknown_members).map(lambda both: both[0] | both[1])


def _values(annotation: Any) -> st.SearchStrategy[Any]:
    origin, args = get_origin(annotation), get_args(annotation)
    if annotation is Any:
        return json_values
    if annotation is type(None):
        return st.none()
    if origin is Annotated:
        return _annotated(args[0], args[1:])
    if origin is Literal:
        return st.sampled_from(args)
    if origin in (Union, types.UnionType):
        return st.one_of(*map(_values, args))
    if origin is tuple:
        return st.lists(_values(args[0]), max_size=2)
    if isinstance(annotation, type) and issubclass(annotation, Value):
        return st.deferred(lambda: objects(annotation))
    raise TypeError(f"no strategy for {annotation}")


def _annotated(kind: Any, marks: tuple[Any, ...]) -> st.SearchStrategy[Any]:
    if any(mark is CHUNK for mark in marks):
        return st.deferred(chunks)
    registry = next((mark for mark in marks if isinstance(mark, Registry)), None)
    if registry is not None:
        return st.deferred(lambda: members_of(registry))
    kind = getattr(kind, "__supertype__", kind)
    if kind is str:
        return any_text
    if kind is int:
        return whole
    if kind is bool:
        return st.booleans()
    if kind == int | float:
        return numbers
    if get_origin(kind) is list:
        return st.lists(json_values, max_size=2)
    if get_origin(kind) is dict:
        return st.dictionaries(any_text, json_values, max_size=2)
    return _values(kind)
