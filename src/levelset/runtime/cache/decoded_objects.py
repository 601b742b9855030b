"""Decoded objects that are read again and again, so that all readers share one frozen object."""

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from msgspec import Struct

from levelset.client.object_types import View
from levelset.errors import BadObject
from levelset.objects import codec
from levelset.objects.cached_object import Kept, set_made
from levelset.objects.resource import ORIGIN, Object
from levelset.runtime.cache.keys import key_of

__all__ = ["Memo"]

K = TypeVar("K")

_FEW: Final = 8
"""So many objects are remembered that were read only once, as long as nobody misses the others."""
_MORE: Final = 64
"""So many if somebody does."""


class _Again(Struct, eq=False, gc=False):
    """An object that was read more than once."""

    made: Any
    is_read: bool = False
    """Whether it was read since it was last its turn to go."""


class _Forgotten(Struct, frozen=True, eq=False, gc=False):
    """Stands for an object that was read and forgotten, and tells by whom and about when."""

    class_: type[Any]


class _Several(tuple[Any, ...]):
    """What each of several classes has of an object."""

    __slots__ = ()


class Memo(Generic[K]):
    """Reads kept objects, and remembers at most `limit` of what it read.

    In a storm of changes each version of an object is read once and never again, and to hold on to a thousand of them
    drives everything else out of the processor's caches. So of those that were read once only the last few are
    remembered, and some more when one is read again that was just dropped, as by a second controller of the same kind.
    What is read again without having changed stays as long as it is among the last of its like.

    What was decoded is found at the kept object itself, in `made`: None if it was never read, else what a class has of
    it (see `_state`), or `_Several` of that where several classes read it. The memo that fills it in has the object in
    line or among those read often, and clears it when it goes from there; so another memo of the same class, for
    another table that has the same kept object, shares it for so long, and decodes it anew after that.

    Nothing but an `Object` is ever remembered: the tree of an `Unstructured` is the caller's to change, so every caller
    gets one of his own.
    """

    __slots__ = (
        "_class",
        "_decode",
        "_earlier",
        "_few",
        "_forgotten",
        "_left",
        "_line",
        "_often",
        "_room",
        "_view",
        "limit",
    )

    def __init__(self, view: View[K], limit: int) -> None:
        # The first of a plain dict is found ever more slowly, the more of its first ones have been dropped.
        self._often: OrderedDict[str, Kept] = OrderedDict()
        # Those that were read for the first time, or the first time since they were forgotten, the first to go first.
        self._line: deque[Kept] = deque()
        self._class: type[Any] = view.class_
        self.limit = limit if issubclass(self._class, Object) else 0
        self._view = view
        self._decode: Callable[[bytes], Any] = codec.plain_reader(self._class) if self.limit else view.read
        self._few = _FEW
        # Marks those that were forgotten of late, and those before them.
        self._forgotten = self._earlier = _Forgotten(self._class)
        self._left = self.limit  # so many more are read for the first time until it is their turn to be those before
        self._room = min(_FEW, self.limit)  # so many may stand in line

    def __del__(self) -> None:
        # The kept objects may live on in another table, and nobody else would ever clear what it has put there.
        for kept in (*self._often.values(), *self._line):
            self._forget(kept)

    def __len__(self) -> int:
        return len(self._often) + len(self._line)

    def entries(self) -> list[tuple[Kept, K]]:
        """What is remembered: those read often, then those that came last, the next one to be dropped first."""
        made: Any = self._made  # of each of these something is
        return [(kept, made(kept)) for kept in (*self._often.values(), *self._line)]

    def share(self, key: str, kept: Kept) -> K:
        """The object; the same one as last time if it has not changed. BadObject names it if its class refuses it."""
        found = kept.made
        made: K
        if found is not None:
            if found.__class__ is _Again and found.made.__class__ is self._class:
                found.is_read = True
                made = found.made
                return made
        elif self._room:  # as in a storm of changes, and so without a call
            if self._often and key in self._often:  # its former version
                self._forget(self._often.pop(key))
                self._shrink()
            raw = kept.raw
            try:
                made = self._decode(raw)
            except codec.UNREADABLE as error:
                made = self._read_again(key, raw, error)
            else:
                made.__dict__[ORIGIN] = raw
            if kept.made is not None:
                return self._share_again(key, kept)  # its own class has read it in the meantime
            set_made(kept, made)
            line = self._line
            line.append(kept)
            if len(line) > self._room:
                first = line.popleft()
                if first.made.__class__ is self._class:
                    set_made(first, self._forgotten)
                else:
                    self._leave_line(first)
                    self._shrink()
            self._left -= 1
            if not self._left:
                self._forget_forgotten()
            return made
        return self._share_again(key, kept)

    def read(self, key: str, kept: Kept, *, remember: bool = True) -> K:
        """The same; without `remember`, what is decoded now is not shared with others."""
        if remember:
            return self.share(key, kept)
        made = self._made(kept)
        return self._decoded(key, kept) if made is None else made

    def _share_again(self, key: str, kept: Kept) -> K:
        """What `share` does for all but the usual cases."""
        if not self.limit:
            return self._decoded(key, kept)
        former = self._often.get(key)
        if former is not None and former is not kept:
            self._forget(self._often.pop(key))
        state, made = self._state(kept), self._made(kept)
        if made is None:
            made = self._decoded(key, kept)
            if self._state(kept) is not state:
                return self._share_again(key, kept)  # as above
            self._line.append(kept)
            if state is self._forgotten or state is self._earlier:
                self._note(kept, _Again(made))
                self._few = min(2 * self._few, _MORE)
            else:
                self._note(kept, made)
                self._left -= 1
        elif type(state) is _Again:
            state.is_read = True
        else:
            self._note(kept, _Again(made))  # and it stays in line until its turn comes
        self._shrink()
        if not self._left:
            self._forget_forgotten()
        return made

    def _leave_line(self, kept: Kept) -> None:
        """One that was read again goes to those that are read often; any other is forgotten."""
        if type(self._state(kept)) is not _Again:
            self._forget(kept)
            return
        key = key_of(kept)
        former = self._often.pop(key, None)
        if former is not None:
            self._forget(former)
        self._often[key] = kept

    def _shrink(self) -> None:
        """Keeps within the limits; those read often always leave room for one in line."""
        line, often = self._line, self._often
        while True:
            while len(often) >= self.limit:
                self._drop_often()
            self._room = min(self._few, self.limit - len(often))
            if len(line) <= self._room:
                return
            self._leave_line(line.popleft())

    def _drop_often(self) -> None:
        often = self._often
        key, kept = often.popitem(last=False)
        while (state := self._state(kept)).is_read:  # since it was last its turn to go: it goes to the end
            state.is_read = False
            often[key] = kept
            key, kept = often.popitem(last=False)
        self._forget(kept)

    def _forget_forgotten(self) -> None:
        """From time to time: who misses what was forgotten before the last time misses it no more than any other."""
        self._earlier, self._forgotten = self._forgotten, _Forgotten(self._class)
        self._left = self.limit
        self._few = max(self._few // 2, _FEW)
        self._shrink()

    def _state(self, kept: Kept) -> Any:
        """What this class has of an object: itself as long as it was read once, or an `_Again`, or a `_Forgotten`.

        None if it was never read.
        """
        for state in _states(kept):
            if _class_of(state) is self._class:
                return state
        return None

    def _note(self, kept: Kept, state: Any) -> None:
        others = [one for one in _states(kept) if _class_of(one) is not self._class]
        set_made(kept, _Several((*others, state)) if others else state)

    def _forget(self, kept: Kept) -> None:
        self._note(kept, self._forgotten)

    def _made(self, kept: Kept) -> K | None:
        """What is remembered of an object."""
        state = self._state(kept)
        if state is None or type(state) is _Forgotten:
            return None
        made: K = state.made if type(state) is _Again else state
        return made

    def _decoded(self, key: str, kept: Kept) -> K:
        try:
            return self._view.read(kept.raw)
        except BadObject as error:
            raise self._named(key, error) from error

    def _read_again(self, key: str, raw: bytes, error: Exception) -> K:
        try:
            made: K = codec.reread(self._class, raw, error)
        except BadObject as bad:
            raise self._named(key, bad) from bad
        return made

    def _named(self, key: str, error: BadObject) -> BadObject:
        return BadObject(f"{self._view.gvk.kind}/{key}: {error}", field=error.field)


def _states(kept: Kept) -> tuple[Any, ...]:
    """What each class has of an object; see `Memo._state`."""
    found = kept.made
    if isinstance(found, _Several):
        return found
    return () if found is None else (found,)


def _class_of(state: Any) -> type[Any]:
    if isinstance(state, _Forgotten):
        return state.class_
    made: object = state.made if isinstance(state, _Again) else state
    return type(made)
