"""What a controller has looked at lately, why, and what came of it: bounded, newest last."""

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Generic, TypeVar, overload

from levelset.objects.ref import Ref
from levelset.runtime.controller.actions import Outcome, await_change

__all__ = ["Counts", "History"]

K = TypeVar("K")

Counts = Callable[[Sequence[Any]], object]
"""Is given what came of looks, some at a time, as they are laid down: see `History.fresh`."""

_MANY: Final = 1024
_AWAIT: Final = await_change()

_log = logging.getLogger(__name__)


def _same(ref: Ref[Any]) -> Ref[Any]:
    return ref


class History(Sequence[Outcome[K]], Generic[K]):
    """The last outcomes, oldest first; `total` counts also those that have been dropped.

    What is new is only laid down in `fresh`, and put in its place (`settle`) when there is much of it, or when somebody
    looks: looks happen far more often than somebody asks for them. `count` is given each then, once. Whoever lays down
    something else than a ref for an object says with `ref_of` how a ref is made of it.
    """

    __slots__ = ("_count", "_laid", "_most", "_ref_of", "_settled", "fresh", "most_fresh")

    def __init__(
        self, most: int = 1000, *, count: Counts | None = None, ref_of: Callable[[Any], Ref[Any]] = _same
    ) -> None:
        self.fresh: list[Any] = []
        """Those that nobody has seen yet; always the same list, to which a runner may add, and which it has settled
        from time to time when there are too many.

        Each look takes four places: its outcome, its seconds, its reasons, and how long it had waited. For one after
        which nothing is to be done, as nearly always, its object stands for the outcome, which is made for who asks.
        """
        self.most_fresh = 4 * max(1, min(most, _MANY))
        """So many places, and they are settled."""
        self._count = count
        self._ref_of = ref_of
        self._most = most
        self._laid: list[Any] = []
        self._settled = 0

    @property
    def total(self) -> int:
        """How many outcomes there were so far."""
        return self._settled + len(self.fresh) // 4

    def add(self, outcome: Outcome[K]) -> None:
        """Remembers one more, and drops the oldest if there are too many."""
        self.fresh += (outcome, outcome.seconds, outcome.reasons, outcome.waited)
        if len(self.fresh) >= self.most_fresh:
            self.settle()

    def newest(self) -> Outcome[K]:
        """What came of the look that was laid down last."""
        return self._made(self.fresh or self._laid, -4)

    def settle(self) -> None:
        """Takes in what is fresh, and has it counted."""
        if not self.fresh:
            return
        settled, laid = self.fresh.copy(), self._laid
        self.fresh.clear()
        self._settled += len(settled) // 4
        laid += settled
        del laid[: max(0, len(laid) - 4 * self._most)]
        if self._count is not None:
            try:
                self._count(settled)
            except Exception as error:  # noqa: BLE001 -- who counts must not disturb
                _log.error("%d looks could not be counted: %s", len(settled) // 4, error, exc_info=error)

    def of(self, ref: Ref[Any]) -> list[Outcome[K]]:
        """Those of one object."""
        return [one for one in self if one.ref == ref]

    def __len__(self) -> int:
        self.settle()
        return len(self._laid) // 4

    def __iter__(self) -> Iterator[Outcome[K]]:
        return iter(self[:])

    @overload
    def __getitem__(self, index: int) -> Outcome[K]: ...
    @overload
    def __getitem__(self, index: slice) -> list[Outcome[K]]: ...
    def __getitem__(self, index: int | slice) -> Outcome[K] | list[Outcome[K]]:
        places = range(0, 4 * len(self), 4)[index]
        laid, made = self._laid, self._made
        return made(laid, places) if isinstance(places, int) else [made(laid, one) for one in places]

    def __repr__(self) -> str:
        return f"<History of {len(self)} of {self.total} looks>"

    def _made(self, laid: list[Any], place: int) -> Outcome[Any]:
        """The outcome of the look at a place, which is made once and stays there."""
        found: Outcome[Any] | Ref[Any] | str = laid[place]
        if isinstance(found, Outcome):
            return found
        _, seconds, reasons, waited = laid[place : place + 4 or None]
        made: Outcome[Any] = Outcome(self._ref_of(found), "done", _AWAIT, None, seconds, reasons, 0, waited)
        laid[place] = made
        return made
