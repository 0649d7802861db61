"""An ordered list of callables that others register and take off again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Registered(Generic[T]):
    """What was added, first come first. Iterating goes over what is there when it begins.

    An item that is added twice is there twice, and each is taken off by itself.
    """

    def __init__(self) -> None:
        self._items: tuple[tuple[object, T], ...] = ()

    def add(self, item: T) -> Callable[[], None]:
        """Put ``item`` at the end; gives what takes it off again, which may be called any number of times."""
        mark = object()
        self._items = (*self._items, (mark, item))

        def remove() -> None:
            self._items = tuple(entry for entry in self._items if entry[0] is not mark)

        return remove

    def __iter__(self) -> Iterator[T]:
        return (item for _, item in self._items)

    def __bool__(self) -> bool:
        return bool(self._items)
