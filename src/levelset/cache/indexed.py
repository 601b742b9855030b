"""One index of one table, kept in step with it: also while the table is being filled anew, or is large already."""

from collections.abc import Callable, Hashable, Mapping
from typing import Any

from levelset.cache.buckets import Buckets
from levelset.cache.index import Index
from levelset.objects.kept import Kept

__all__ = ["Indexed", "Report"]

Report = Callable[[str, Exception], None]
"""Is told of an error of somebody's function: where, and what."""


class Indexed:
    """The buckets of an index: those for the table as it is, and those for what is coming in."""

    __slots__ = ("_report", "_todo", "failures", "fresh", "index", "live")

    def __init__(self, index: Index[Any], report: Report) -> None:
        self.index = index
        self.live = Buckets()
        self.fresh: Buckets | None = None
        self.failures = 0
        self._report = report
        self._todo: list[str] = []

    @property
    def is_built(self) -> bool:
        """Whether every object of the table is in it."""
        return not self._todo

    def put(self, key: str, kept: Kept) -> None:
        """Takes in a new version of an object of the table."""
        self.live.put(key, self._values(key, kept))

    def put_fresh(self, key: str, kept: Kept) -> None:
        """Takes in an object that will be in the table after the next swap."""
        if self.fresh is not None:
            self.fresh.put(key, self._values(key, kept))

    def start(self) -> None:
        """Begins with the next content of the table."""
        self.fresh = Buckets()

    def swap(self, keys: Mapping[str, Kept]) -> Buckets:
        """Goes over to that content; returns the buckets of the old one."""
        old = self.live
        if self.fresh is None:  # registered in the middle of it: what came before is still to do
            self.live = Buckets()
            self._todo = list(keys)[::-1]
        else:
            self.live = self.fresh
            self._todo.clear()
        self.fresh = None
        return old

    def build_later(self, keys: Mapping[str, Kept]) -> None:
        """Has all of these objects to take in, with `build`."""
        self._todo = list(keys)[::-1]

    def build(self, table: Mapping[str, Kept], count: int | None = None) -> bool:
        """Takes in so many of the objects that are still to do, or all; returns whether it is built."""
        todo = self._todo
        for _ in range(len(todo) if count is None else min(count, len(todo))):
            key = todo.pop()
            kept = table.get(key)
            if kept is not None and key not in self.live:
                self.put(key, kept)
        return not todo

    def _values(self, key: str, kept: Kept) -> tuple[Hashable, ...]:
        try:
            values = self.index.values(kept)
            hash(values)
        except Exception as error:  # noqa: BLE001 -- the function is the user's; the cache goes on without it
            self.failures += 1
            if self.failures & (self.failures - 1) == 0:  # 1, 2, 4, 8, ...: each is like the others
                self._report(f"{self.index!r} failed for {key} ({self.failures} times so far)", error)
            return ()
        return values
