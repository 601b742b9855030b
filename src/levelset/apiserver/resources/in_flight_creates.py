"""Objects on their way in: whoever clears a namespace or a definition for good waits until they have landed.

A create looks whether its namespace takes new objects, and then waits for the storage. If the namespace went in
between, the object would land in a place that is gone, and come to light when a namespace of the same name is made.
"""

import asyncio
from types import TracebackType

__all__ = ["Arrivals", "Expected"]


class Arrivals:
    """How many objects are on their way to each place; a place is a text that both sides agree on."""

    __slots__ = ("_counts", "_landed")

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._landed: dict[str, asyncio.Event] = {}

    def expect(self, *places: str) -> "Expected":
        """Counts one object as on its way; enter it before asking whether the places take new ones."""
        return Expected(self, places)

    async def wait_landed(self, place: str) -> None:
        """Waits until nothing is on its way there; at once if nothing is."""
        while place in self._counts:
            await self._landed.setdefault(place, asyncio.Event()).wait()

    def begin(self, place: str) -> None:
        """One more is on its way."""
        self._counts[place] = self._counts.get(place, 0) + 1

    def land(self, place: str) -> None:
        """One has landed, or will not come."""
        left = self._counts[place] - 1
        if left:
            self._counts[place] = left
            return
        del self._counts[place]
        landed = self._landed.pop(place, None)
        if landed is not None:
            landed.set()


class Expected:
    """The way of one object; a class, because every create pays for it and a generator costs twice as much."""

    __slots__ = ("_arrivals", "_places")

    def __init__(self, arrivals: Arrivals, places: tuple[str, ...]) -> None:
        self._arrivals = arrivals
        self._places = places

    def __enter__(self) -> None:
        for place in self._places:
            self._arrivals.begin(place)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for place in self._places:
            self._arrivals.land(place)
