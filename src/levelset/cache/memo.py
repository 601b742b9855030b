"""Decoded objects that are read again and again, so that all readers share one frozen object."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from levelset.client.kinds import View
from levelset.errors import BadObject
from levelset.objects import codec
from levelset.objects.kept import Kept
from levelset.objects.unstructured import Unstructured

__all__ = ["Memo"]

K = TypeVar("K")

_FEW: Final = 64
"""So many objects are remembered that were read only once."""


class Memo(Generic[K]):
    """Reads kept objects, and remembers at most `limit` of what it read.

    In a storm of changes each version of an object is read once and never again, and to hold on to a thousand of them
    drives everything else out of the processor's caches. So of those that were read once only the last few are
    remembered; what is read again without having changed stays as long as it is among the last of its like.

    An `Unstructured` is never remembered: its tree is the caller's to change, so every caller gets one of his own.
    """

    __slots__ = ("_dropped", "_earlier", "_often", "_once", "_read", "_view", "limit")

    def __init__(self, view: View[K], limit: int) -> None:
        self.limit = 0 if view.class_ is Unstructured else limit
        self._view = view
        self._read: Callable[[bytes], K] = view.read if view.class_ is Unstructured else _reader(view.class_)
        # The first of a plain dict is found ever more slowly, the more of its first ones have been dropped.
        self._often: OrderedDict[str, list[Any]] = OrderedDict()  # kept, made, whether it was read since its turn
        self._once: OrderedDict[str, tuple[Kept, K]] = OrderedDict()
        # Those that were read once and dropped, by the identity of what they were read from: two generations.
        self._dropped: dict[str, int] = {}
        self._earlier: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._often) + len(self._once)

    def entries(self) -> list[tuple[Kept, K]]:
        """What is remembered, least recently used first among those read often, then among those read once."""
        return [*((kept, made) for kept, made, _ in self._often.values()), *self._once.values()]

    def share(self, key: str, kept: Kept) -> K:
        """The object; the same one as last time if it has not changed. BadObject names it if its class refuses it."""
        often = self._often.get(key)
        if often is not None:
            if often[0] is kept:
                often[2] = True
                made: K = often[1]
                return made
            del self._often[key]
        once = self._once
        found = once.pop(key, None)
        if found is not None and found[0] is kept:
            self._often[key] = [*found, False]
            return found[1]
        try:
            made = self._read(kept.raw)
        except BadObject as error:
            raise self._named(key, error) from error
        if not self.limit:
            return made
        if self._dropped.get(key) == id(kept) or self._earlier.get(key) == id(kept):
            self._often[key] = [kept, made, False]
        else:
            once[key] = (kept, made)
        if len(once) > _FEW or len(once) + len(self._often) > self.limit:
            self._drop()
        return made

    def read(self, key: str, kept: Kept, *, remember: bool = True) -> K:
        """The same; without `remember`, what is decoded now is not shared with others."""
        if remember:
            return self.share(key, kept)
        found = self._often.get(key) or self._once.get(key)
        if found is not None and found[0] is kept:
            made: K = found[1]
            return made
        try:
            return self._read(kept.raw)
        except BadObject as error:
            raise self._named(key, error) from error

    def _drop(self) -> None:
        """Forgets one object: of those read once, as long as there are others, the one that was read first."""
        often = self._often
        if len(self._once) < 2 and often:
            key, read = often.popitem(last=False)
            while read[2]:  # read since it was last its turn to go: it goes to the end of the line
                read[2] = False
                often[key] = read
                key, read = often.popitem(last=False)
            return
        key, found = self._once.popitem(last=False)
        if len(self._dropped) >= self.limit:
            self._earlier, self._dropped = self._dropped, {}
        self._dropped[key] = id(found[0])

    def _named(self, key: str, error: BadObject) -> BadObject:
        return BadObject(f"{self._view.gvk.kind}/{key}: {error}", field=error.field)


def _reader(class_: Any) -> Callable[[bytes], Any]:
    return codec.reader(class_)
