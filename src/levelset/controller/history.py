"""What a controller has looked at lately, why, and what came of it: bounded, newest last."""

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Generic, TypeVar, overload

from levelset.controller.actions import Outcome
from levelset.objects.identity import Ref

__all__ = ["Counts", "History"]

K = TypeVar("K")

Counts = Callable[[Sequence[Outcome[Any]]], object]
"""Is given what came of looks, some at a time."""

_MANY: Final = 1024

_log = logging.getLogger(__name__)


class History(Sequence[Outcome[K]], Generic[K]):
    """The last outcomes, oldest first; `total` counts also those that have been dropped.

    What is new is only laid down in `fresh`, and put in its place (`settle`) when there is much of it, or when somebody
    looks: looks happen far more often than somebody asks for them. `count` is given each outcome then, once.
    """

    __slots__ = ("_count", "_outcomes", "_settled", "fresh", "most_fresh")

    def __init__(self, most: int = 1000, *, count: Counts | None = None) -> None:
        self.fresh: list[Outcome[K]] = []
        """Those that nobody has seen yet; always the same list, to which a runner may add until there are too many."""
        self.most_fresh = max(1, min(most, _MANY))
        """So many of them are settled."""
        self._count = count
        self._outcomes: deque[Outcome[K]] = deque(maxlen=most)
        self._settled = 0

    @property
    def total(self) -> int:
        """How many outcomes there were so far."""
        return self._settled + len(self.fresh)

    def add(self, outcome: Outcome[K]) -> None:
        """Remembers one more, and drops the oldest if there are too many."""
        self.fresh.append(outcome)
        if len(self.fresh) >= self.most_fresh:
            self.settle()

    def settle(self) -> None:
        """Takes in what is fresh, and has it counted."""
        if not self.fresh:
            return
        settled = self.fresh.copy()
        self.fresh.clear()
        self._settled += len(settled)
        self._outcomes.extend(settled)
        if self._count is not None:
            try:
                self._count(settled)
            except Exception as error:  # noqa: BLE001 -- who counts must not disturb
                _log.error("%d looks could not be counted: %s", len(settled), error, exc_info=error)

    def of(self, ref: Ref[Any]) -> list[Outcome[K]]:
        """Those of one object."""
        return [one for one in self if one.ref == ref]

    def __len__(self) -> int:
        self.settle()
        return len(self._outcomes)

    def __iter__(self) -> Iterator[Outcome[K]]:
        self.settle()
        return iter(tuple(self._outcomes))

    @overload
    def __getitem__(self, index: int) -> Outcome[K]: ...
    @overload
    def __getitem__(self, index: slice) -> list[Outcome[K]]: ...
    def __getitem__(self, index: int | slice) -> Outcome[K] | list[Outcome[K]]:
        self.settle()
        if isinstance(index, slice):
            return list(self._outcomes)[index]
        return self._outcomes[index]

    def __repr__(self) -> str:
        return f"<History of {len(self)} of {self.total} looks>"
