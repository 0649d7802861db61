"""Open vocabularies: a registry that finds the class of a tag, and carriers for what fits no class.

Five vocabularies are open: event types, content blocks, message sources, finish reasons and turn-end reasons.
Each is a ``Registry``. A class joins with ``register``::

    @event_types.register("area/fact")
    class SomethingHappened(Event):
        detail: Text

The tag of an event stands beside its data, in the envelope; every other vocabulary has it inside the value,
as member ``type`` or ``kind``. A tag that is asked for and not there makes the entry points of the group
``playhead.vocabulary`` load, once.

Decoding never fails. A tag that nobody registered gives ``Unknown``; a value that does not fit the class of
its tag gives ``Malformed``. Both keep the JSON value and give it back.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar, Generic, Literal, TypeAlias, TypeVar

from pydantic import GetCoreSchemaHandler, ValidationError
from pydantic_core import CoreSchema, core_schema

from playhead.eventstore import plugins
from playhead.eventstore.errors import UsageError
from playhead.eventstore.value import Value


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value whose tag nobody registered, as it was found."""

    tag: str
    raw: Any
    surface: ClassVar[bool] = False

    def to_json(self) -> Any:
        return self.raw


@dataclass(frozen=True, slots=True)
class Malformed:
    """A value that does not fit its tag, as it was found; ``reason`` says where it does not.

    ``tag`` is "" for a value that should state its tag and does not.
    """

    tag: str
    raw: Any
    reason: str
    surface: ClassVar[bool] = False

    def to_json(self) -> Any:
        return self.raw


class Tagged(Value):
    """A member of an open vocabulary. ``tag`` is set when the class is registered."""

    tag: ClassVar[str] = ""


T = TypeVar("T", bound=Tagged)
C = TypeVar("C", bound=Tagged)


class Registry(Generic[T]):
    """The classes of one vocabulary by tag.

    ``noun`` names a member in messages, ``base`` is what its classes derive from. ``member`` is where a value
    states its tag; None where the tag stands beside the value. ``home`` is the package whose import registers
    the built-in classes, where they do not stand beside the registry.
    """

    def __init__(
        self, noun: str, base: type[T], *, member: str | None = None, home: str | None = None
    ) -> None:
        self.noun = noun
        self.base = base
        self.member = member
        self._home = home
        self._classes: dict[str, type[T]] = {}

    def register(self, tag: str) -> Callable[[type[C]], type[C]]:
        """A decorator that makes a class the one of ``tag``. Raises ``UsageError`` when the tag has one."""

        def add(cls: type[C]) -> type[C]:
            member: type[Tagged] = cls
            if not issubclass(member, self.base):
                raise UsageError(f"{cls.__name__} is no {self.noun}: derive it from {self.base.__name__}")
            if tag in self._classes:
                taken = f"{self._classes[tag].__module__}.{self._classes[tag].__name__}"
                raise UsageError(f"the {self.noun} {tag!r} is {taken} already; choose another tag")
            cls.tag = tag
            self._classes[tag] = member
            return cls

        return add

    def find(self, tag: str) -> type[T] | None:
        """The class of ``tag``, or None when neither Playhead nor a plugin registered it."""
        found = self._classes.get(tag)
        if found is None:
            self._load_home()
            load_plugins()
            found = self._classes.get(tag)
        return found

    def __iter__(self) -> Iterator[str]:
        """The registered tags in order, those of plugins among them."""
        self._load_home()
        load_plugins()
        return iter(sorted(self._classes))

    def __contains__(self, tag: str) -> bool:
        return self.find(tag) is not None

    def decode(self, tag: str, value: Any) -> T | Unknown | Malformed:
        """``value`` as the class of ``tag`` reads it. Never raises for the value's sake."""
        found = self._classes.get(tag) or self.find(tag)
        if found is None:
            return Unknown(tag, value)
        try:
            return found.decode(value)
        except ValidationError as error:
            return Malformed(tag, value, _reason(error))
        except RecursionError:
            return Malformed(tag, value, "nested too deeply to be read")

    def parse(self, value: Any) -> T | Unknown | Malformed:
        """A value that states its tag itself; one that is decoded already comes back as it is."""
        if isinstance(value, self.base | Unknown | Malformed):
            return value
        tag = value.get(self.member) if isinstance(value, dict) else None
        if not isinstance(tag, str):
            return Malformed("", value, f"a {self.noun} is an object that states its {self.member}")
        return self.decode(tag, value)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Lets a model declare a member of the vocabulary: ``Annotated[AnyBlock, content_blocks]``."""
        return core_schema.no_info_plain_validator_function(self.parse)

    def _load_home(self) -> None:
        if self._home is not None:
            import_module(self._home)
            self._home = None


def _reason(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}" if where else first["msg"]


_plugins_lock = threading.RLock()
_plugins: Literal["not loaded", "loading", "loaded"] = "not loaded"


def load_plugins() -> None:
    """Load the vocabulary of other distributions, once per process. Their failures are warnings."""
    global _plugins
    if _plugins == "loaded":
        return
    with _plugins_lock:
        # Other threads wait at the lock; a plugin that decodes while it loads gets through and must not start
        # over.
        if _plugins == "not loaded":
            _plugins = "loading"
            plugins.load(plugins.VOCABULARY)
            _plugins = "loaded"


class Event(Tagged):
    """A past fact. The envelope (session, seq, position, time) belongs to the log.

    ``surface`` says whether events of the type have a place among what the model sees.
    """

    surface: ClassVar[bool] = False


AnyEvent: TypeAlias = Event | Unknown | Malformed
"""What decoding an event gives."""

event_types: Registry[Event] = Registry("event type", Event, home="playhead.eventstore.events")
event_type = event_types.register
