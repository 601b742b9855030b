"""Batching: consecutive items are collected into lists, by size and by time.

`Batcher` is pure and gets the time as an argument; `Stream.batch` applies it to a stream. Unlike debouncing
(`debounce.py`), which emits one item of a burst, no item is dropped.
"""

import math
from typing import Generic, TypeVar

__all__ = ["Batcher"]

T = TypeVar("T")


class Batcher(Generic[T]):
    """The pending batch: due when it has `size` items, or `within` seconds after its first one.

    ```python
    from levelset.aio import Batcher

    batcher: Batcher[str] = Batcher(size=3, within=1.0)
    batcher.add("a", now=0.0)
    batcher.add("b", now=0.6)
    assert not batcher.is_due(now=0.9)
    assert batcher.next_due() == 1.0
    assert batcher.is_due(now=1.0)
    assert batcher.take() == ["a", "b"]
    ```
    """

    def __init__(self, *, size: int, within: float) -> None:
        if size < 1:
            raise ValueError(f"batch(size={size}): a batch has at least 1 item")
        if not 0 <= within < math.inf:
            raise ValueError(f"batch(within={within}): must be a finite number of seconds, not below 0")
        self.size = size
        self.within = within
        self._items: list[T] = []
        self._due = math.inf

    def __len__(self) -> int:
        return len(self._items)

    @property
    def is_full(self) -> bool:
        """Whether it has `size` items; take them before the next is added."""
        return len(self._items) >= self.size

    def add(self, item: T, *, now: float) -> None:
        """Adds an item to the pending batch."""
        if not self._items:
            self._due = now + self.within
        self._items.append(item)

    def next_due(self) -> float | None:
        """When the pending batch is due for its time; None if there is none."""
        return self._due if self._items else None

    def is_due(self, now: float) -> bool:
        """Whether the pending batch is full, or its time has come."""
        return bool(self._items) and (self.is_full or now >= self._due)

    def take(self) -> list[T]:
        """Removes and returns the items of the pending batch."""
        taken, self._items = self._items, []
        return taken
