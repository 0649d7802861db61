"""The base of everything that is read from a log: frozen values that give their JSON back.

A ``Value`` has snake_case attributes; its JSON has the camelCase members of the log. Members that the class
does not declare are kept. ``decode(x).to_json() == x`` for every JSON object that the class accepts: nothing
is converted on the way in, so ``true`` is no number and ``"5"`` neither, and text may hold lone surrogates.

A value made in Python leaves out optional members that are None, because in a log optional means absent. A
member that a log states as null is kept as null.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema, core_schema

from playhead.eventstore.ids import SAFE_INTEGER, CallId, GoalId, MessageId, Seq, SessionId


class Value(BaseModel):
    """A frozen value with unknown members kept; subclasses declare what they know."""

    model_config = ConfigDict(
        frozen=True,
        extra="allow",
        alias_generator=to_camel,
        validate_by_alias=True,
        validate_by_name=True,
        defer_build=True,
    )

    _members: ClassVar[tuple[tuple[str, str], ...]] = ()
    _defaults: ClassVar[dict[str, Any]] = {}
    _required: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        fields = cls.__pydantic_fields__
        cls._members = tuple((name, field.alias or to_camel(name)) for name, field in fields.items())
        cls._required = frozenset(name for name, field in fields.items() if field.is_required())
        cls._defaults = {
            name: field.default
            for name, field in fields.items()
            if name not in cls._required and field.default is not None
        }

    if not TYPE_CHECKING:

        def __init__(self, /, **members: Any) -> None:
            given = {
                name: member
                for name, member in members.items()
                if member is not None or name in self._required
            }
            super().__init__(**(self._defaults | given))

        # Without this mark pydantic would call __init__ when it decodes, too, where null must be kept.
        __init__.__pydantic_base_init__ = True

    @classmethod
    def decode(cls, value: Any) -> Self:
        """The value of a JSON object. Raises ``pydantic.ValidationError`` when it does not fit."""
        decoded: Self = cls.__pydantic_validator__.validate_python(value, by_alias=True, by_name=False)
        return decoded

    def to_json(self) -> Any:
        """The JSON value, equal to what was decoded. Parts of it are shared: do not change it."""
        given = self.__pydantic_fields_set__
        attributes = self.__dict__
        members = {alias: plain(attributes[name]) for name, alias in self._members if name in given}
        if self.__pydantic_extra__:
            members.update(self.__pydantic_extra__)
        return members


def plain(value: Any) -> Any:
    """``value`` as JSON: values and carriers by their ``to_json``, tuples as lists, all else as it is."""
    if isinstance(value, tuple):
        return [plain(element) for element in value]
    to_json = getattr(value, "to_json", None)
    return value if to_json is None else to_json()


class _Exactly:
    """Accepts instances of one Python type as they are.

    Pydantic's own ``str`` refuses lone surrogates, and its ``list`` and ``dict`` copy.
    """

    def __init__(self, kind: type) -> None:
        self.kind = kind

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.is_instance_schema(self.kind)


class _WholeNumber:
    """Accepts integers that every JSON reader keeps exact; ``5.0`` is one, ``true`` is not."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        exact = core_schema.int_schema(strict=True, ge=-SAFE_INTEGER, le=SAFE_INTEGER)
        written_as_float = core_schema.no_info_after_validator_function(
            _integral, core_schema.float_schema(strict=True, ge=-SAFE_INTEGER, le=SAFE_INTEGER)
        )
        return core_schema.union_schema([exact, written_as_float], mode="left_to_right")


def _integral(value: float) -> int:
    if not value.is_integer():
        raise ValueError("a fraction is not a whole number")
    return int(value)


class _AnyNumber:
    """Accepts integers and floats, and keeps them as they are."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.union_schema(
            [core_schema.int_schema(strict=True), core_schema.float_schema(strict=True)], mode="left_to_right"
        )


class _TrueOrFalse:
    """Accepts ``true`` and ``false`` and nothing that stands for them."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.bool_schema(strict=True)


TEXT = _Exactly(str)
WHOLE = _WholeNumber()

Text = Annotated[str, TEXT]
Whole = Annotated[int, WHOLE]
Number = Annotated[int | float, _AnyNumber()]
Flag = Annotated[bool, _TrueOrFalse()]
JsonList = Annotated[list[Any], _Exactly(list)]
"""A JSON array, kept undecoded."""

CallIdField = Annotated[CallId, TEXT]
GoalIdField = Annotated[GoalId, TEXT]
MessageIdField = Annotated[MessageId, TEXT]
SeqField = Annotated[Seq, WHOLE]
SessionIdField = Annotated[SessionId, TEXT]
