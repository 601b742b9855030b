"""Decoded objects that are read again and again, so that all readers share one frozen object."""

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from msgspec import Struct

from levelset.client.kinds import View
from levelset.errors import BadObject
from levelset.objects import codec
from levelset.objects.kept import Kept
from levelset.objects.unstructured import Unstructured

__all__ = ["Memo"]

K = TypeVar("K")

_FEW: Final = 8
"""So many objects are remembered that were read only once, as long as nobody misses the others."""
_MORE: Final = 64
"""So many if somebody does."""


class _Once(Struct, eq=False, gc=False):
    """A version of an object that was read once; when it is dropped, it is still known which one it was."""

    kept: Kept | None
    made: Any
    identity: int
    """That of the kept object: it is not held on to, so that another one may have the same after it."""


class Memo(Generic[K]):
    """Reads kept objects, and remembers at most `limit` of what it read.

    In a storm of changes each version of an object is read once and never again, and to hold on to a thousand of them
    drives everything else out of the processor's caches. So of those that were read once only the last few are
    remembered, and some more when one is read again that was just dropped, as by a second controller of the same kind.
    What is read again without having changed stays as long as it is among the last of its like.

    An `Unstructured` is never remembered: its tree is the caller's to change, so every caller gets one of his own.
    """

    __slots__ = ("_earlier", "_few", "_line", "_often", "_once", "_read", "_view", "limit")

    def __init__(self, view: View[K], limit: int) -> None:
        self.limit = 0 if view.class_ is Unstructured else limit
        self._view = view
        self._read: Callable[[bytes], K] = view.read if view.class_ is Unstructured else _reader(view.class_)
        # The first of a plain dict is found ever more slowly, the more of its first ones have been dropped.
        self._often: OrderedDict[str, list[Any]] = OrderedDict()  # kept, made, whether it was read since its turn
        # Those that were read once, remembered or dropped: two generations, of which one has the last `limit` of them.
        self._once: dict[str, _Once] = {}
        self._earlier: dict[str, _Once] = {}
        # Those of them that are remembered, the first to be dropped first.
        self._line: deque[_Once] = deque()
        self._few = _FEW

    def __len__(self) -> int:
        return len(self._often) + len(self._line)

    def entries(self) -> list[tuple[Kept, K]]:
        """What is remembered, least recently used first among those read often, then among those read once."""
        once: list[Any] = [(one.kept, one.made) for one in self._line]
        return [*((kept, made) for kept, made, _ in self._often.values()), *once]

    def share(self, key: str, kept: Kept) -> K:
        """The object; the same one as last time if it has not changed. BadObject names it if its class refuses it."""
        if self._often and (often := self._often.get(key)) is not None:
            if often[0] is kept:
                often[2] = True
                made: K = often[1]
                return made
            del self._often[key]
        found = self._once.get(key) or self._earlier.get(key)
        if found is not None and found.identity == id(kept):
            return self._share_again(key, kept, found)
        try:
            made = self._read(kept.raw)
        except BadObject as error:
            raise self._named(key, error) from error
        if self.limit:
            if found is not None and found.kept is not None:
                self._line.remove(found)
            self._once[key] = one = _Once(kept, made, id(kept))
            line = self._line
            line.append(one)
            if len(line) > self._few:  # in a storm each time, and so without a call
                one = line.popleft()
                one.kept = one.made = None
            if len(self._once) >= self.limit or len(line) + len(self._often) > self.limit:
                self._shrink()
        return made

    def read(self, key: str, kept: Kept, *, remember: bool = True) -> K:
        """The same; without `remember`, what is decoded now is not shared with others."""
        if remember:
            return self.share(key, kept)
        often, once = self._often.get(key), self._once.get(key) or self._earlier.get(key)
        made: K
        if often is not None and often[0] is kept:
            made = often[1]
            return made
        if once is not None and once.kept is kept:
            made = once.made
            return made
        try:
            return self._read(kept.raw)
        except BadObject as error:
            raise self._named(key, error) from error

    def _share_again(self, key: str, kept: Kept, found: _Once) -> K:
        """The object that was read before: from now on one of those that are read often."""
        made: K
        if found.kept is None:
            made = self.read(key, kept, remember=False)
            self._few = min(2 * self._few, _MORE)
        else:
            made = found.made
            self._line.remove(found)
            found.kept = found.made = None
        self._often[key] = [kept, made, False]
        self._shrink()
        return made

    def _shrink(self) -> None:
        """Keeps within the limits: of those read once, as long as there are others, the first goes first."""
        line, often = self._line, self._often
        while len(line) > self._few or len(line) + len(often) > self.limit:
            if len(line) < 2 and often:
                self._drop_often()
            else:
                one = line.popleft()
                one.kept = one.made = None
        if len(self._once) >= self.limit:
            self._earlier, self._once = self._once, {}
            self._few = max(self._few // 2, _FEW)

    def _drop_often(self) -> None:
        often = self._often
        key, read = often.popitem(last=False)
        while read[2]:  # read since it was last its turn to go: it goes to the end of the line
            read[2] = False
            often[key] = read
            key, read = often.popitem(last=False)

    def _named(self, key: str, error: BadObject) -> BadObject:
        return BadObject(f"{self._view.gvk.kind}/{key}: {error}", field=error.field)


def _reader(class_: Any) -> Callable[[bytes], Any]:
    return codec.reader(class_)
