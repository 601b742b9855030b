"""What a controller has looked at lately, why, and what came of it: bounded, newest last."""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeVar, overload

from levelset.controller.actions import Outcome
from levelset.objects.identity import Ref

__all__ = ["History"]

K = TypeVar("K")


class History(Sequence[Outcome[K]], Generic[K]):
    """The last outcomes, oldest first; `total` counts also those that have been dropped."""

    __slots__ = ("_outcomes", "total")

    def __init__(self, most: int = 1000) -> None:
        self._outcomes: deque[Outcome[K]] = deque(maxlen=most)
        self.total = 0

    def add(self, outcome: Outcome[K]) -> None:
        """Remembers one more, and drops the oldest if there are too many."""
        self._outcomes.append(outcome)
        self.total += 1

    def of(self, ref: Ref[Any]) -> list[Outcome[K]]:
        """Those of one object."""
        return [one for one in self._outcomes if one.ref == ref]

    def __len__(self) -> int:
        return len(self._outcomes)

    def __iter__(self) -> Iterator[Outcome[K]]:
        return iter(tuple(self._outcomes))

    @overload
    def __getitem__(self, index: int) -> Outcome[K]: ...
    @overload
    def __getitem__(self, index: slice) -> list[Outcome[K]]: ...
    def __getitem__(self, index: int | slice) -> Outcome[K] | list[Outcome[K]]:
        if isinstance(index, slice):
            return list(self._outcomes)[index]
        return self._outcomes[index]

    def __repr__(self) -> str:
        return f"<History of {len(self)} of {self.total} looks>"
