"""A bounded cache of decoded objects, so that all readers of a class share one frozen object.

The decoded object is stored on the `CachedObject` itself; this file decides which of them stay there. The policy is
that of a segmented LRU: a short queue of objects that were read once, and a larger LRU of those that were read again.
"""

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from msgspec import Struct

from levelset.client.object_types import View
from levelset.errors import BadObject
from levelset.objects import codec
from levelset.objects.cached_object import CachedObject, set_decoded
from levelset.objects.resource import ORIGIN, Object
from levelset.runtime.cache.keys import key_of

__all__ = ["DecodedObjects"]

K = TypeVar("K")

_MIN_READ_ONCE: Final = 8
"""How many objects that were read only once are retained, as long as evicted ones are not read again."""
_MAX_READ_ONCE: Final = 64
"""How many at most when evicted objects are read again."""


class _Reread(Struct, eq=False, gc=False):
    """An object that was read more than once."""

    obj: Any
    is_read: bool = False
    """Whether it was read since it was last considered for eviction (the reference bit of a clock algorithm)."""


class _Evicted(Struct, frozen=True, eq=False, gc=False):
    """Marks an object whose decoded form was evicted; the instance identifies the cache and the generation."""

    class_: type[Any]


class _PerClass(tuple[Any, ...]):
    """The states of an object that is read with several classes, one for each class."""

    __slots__ = ()


class DecodedObjects(Generic[K]):
    """Decodes cached objects and retains at most `limit` of the results.

    In a burst of changes each version of an object is read once and never again, and retaining a thousand of them would
    evict everything else from the processor's caches. So only the last few objects that were read once are retained,
    and up to `_MAX_READ_ONCE` when an object is read again soon after its eviction, as by a second controller of the
    same kind. An unchanged object that is read again moves to an LRU of such objects.

    The result is stored in `CachedObject.decoded`: None if it was never read, else the state for this class (see
    `_state`), or a `_PerClass` of states if several classes read it. The instance that stores it also lists the object
    in `_read_once` or `_reread` and clears it on eviction. Another instance of the same class, for another table with
    the same cached object, shares the result for as long as it is stored and decodes the object again after that.

    Only an `Object` is ever retained: the tree of an `Unstructured` may be mutated by its caller, so each call returns
    a new one.
    """

    __slots__ = (
        "_capacity",
        "_class",
        "_decode",
        "_evicted",
        "_evicted_before",
        "_read_once",
        "_reread",
        "_target",
        "_until_rotation",
        "_view",
        "limit",
    )

    def __init__(self, view: View[K], limit: int) -> None:
        # OrderedDict: finding the first key of a plain dict scans past all keys that were deleted before it.
        self._reread: OrderedDict[str, CachedObject] = OrderedDict()
        # Objects read for the first time, or for the first time since their eviction; the next to be evicted first.
        self._read_once: deque[CachedObject] = deque()
        self._class: type[Any] = view.class_
        self.limit = limit if issubclass(self._class, Object) else 0
        self._view = view
        self._decode: Callable[[bytes], Any] = codec.plain_reader(self._class) if self.limit else view.read
        self._target = _MIN_READ_ONCE
        # Markers of the current and of the previous eviction generation; older markers count as "never read".
        self._evicted = self._evicted_before = _Evicted(self._class)
        self._until_rotation = self.limit  # first reads until the next generation begins
        self._capacity = min(_MIN_READ_ONCE, self.limit)  # the most entries of `_read_once`

    def __del__(self) -> None:
        # The cached objects may live on in another table, where nothing else would clear what this instance stored.
        for cached in (*self._reread.values(), *self._read_once):
            self._evict(cached)

    def __len__(self) -> int:
        return len(self._reread) + len(self._read_once)

    def entries(self) -> list[tuple[CachedObject, K]]:
        """What is retained: objects that were read again, then those read once, each in eviction order."""
        shared: Any = self._shared  # not None for any of these
        return [(cached, shared(cached)) for cached in (*self._reread.values(), *self._read_once)]

    def share(self, key: str, cached: CachedObject) -> K:
        """The decoded object, the same instance for every reader while it is retained.

        BadObject names the object if its class cannot decode it.
        """
        found = cached.decoded
        obj: K
        if found is not None:
            if found.__class__ is _Reread and found.obj.__class__ is self._class:
                found.is_read = True
                obj = found.obj
                return obj
        elif self._capacity:  # a first read: the hot path in a burst of changes, inlined (no calls) for that reason
            if self._reread and key in self._reread:  # its previous version
                self._evict(self._reread.pop(key))
                self._shrink()
            raw = cached.raw
            try:
                obj = self._decode(raw)
            except codec.UNREADABLE as error:
                obj = self._reread_unreadable(key, raw, error)
            else:
                obj.__dict__[ORIGIN] = raw
            if cached.decoded is not None:
                return self._share_again(key, cached)  # decoding may run user code, which has read the same object
            set_decoded(cached, obj)
            read_once = self._read_once
            read_once.append(cached)
            if len(read_once) > self._capacity:
                first = read_once.popleft()
                if first.decoded.__class__ is self._class:
                    set_decoded(first, self._evicted)
                else:
                    self._promote_or_evict(first)
                    self._shrink()
            self._until_rotation -= 1
            if not self._until_rotation:
                self._rotate()
            return obj
        return self._share_again(key, cached)

    def read(self, key: str, cached: CachedObject, *, remember: bool = True) -> K:
        """The decoded object; without `remember`, a result that is not yet retained is not stored."""
        if remember:
            return self.share(key, cached)
        obj = self._shared(cached)
        return self._decoded(key, cached) if obj is None else obj

    def _share_again(self, key: str, cached: CachedObject) -> K:
        """The general case of `share`."""
        if not self.limit:
            return self._decoded(key, cached)
        former = self._reread.get(key)
        if former is not None and former is not cached:
            self._evict(self._reread.pop(key))
        state, obj = self._state(cached), self._shared(cached)
        if obj is None:
            obj = self._decoded(key, cached)
            if self._state(cached) is not state:
                return self._share_again(key, cached)  # read by the user code that decoding ran, as in `share`
            self._read_once.append(cached)
            if state is self._evicted or state is self._evicted_before:
                self._set_state(cached, _Reread(obj))
                self._target = min(2 * self._target, _MAX_READ_ONCE)
            else:
                self._set_state(cached, obj)
                self._until_rotation -= 1
        elif type(state) is _Reread:
            state.is_read = True
        else:
            self._set_state(cached, _Reread(obj))  # it stays in `_read_once` and is promoted when it leaves that
        self._shrink()
        if not self._until_rotation:
            self._rotate()
        return obj

    def _promote_or_evict(self, cached: CachedObject) -> None:
        """Moves an object that left `_read_once` to `_reread` if it was read again; evicts it otherwise."""
        if type(self._state(cached)) is not _Reread:
            self._evict(cached)
            return
        key = key_of(cached)
        former = self._reread.pop(key, None)
        if former is not None:
            self._evict(former)
        self._reread[key] = cached

    def _shrink(self) -> None:
        """Evicts until the limits hold; `_reread` always leaves space for one entry in `_read_once`."""
        read_once, reread = self._read_once, self._reread
        while True:
            while len(reread) >= self.limit:
                self._evict_reread()
            self._capacity = min(self._target, self.limit - len(reread))
            if len(read_once) <= self._capacity:
                return
            self._promote_or_evict(read_once.popleft())

    def _evict_reread(self) -> None:
        reread = self._reread
        key, cached = reread.popitem(last=False)
        while (state := self._state(cached)).is_read:  # read since it was last considered: a second chance
            state.is_read = False
            reread[key] = cached
            key, cached = reread.popitem(last=False)
        self._evict(cached)

    def _rotate(self) -> None:
        """Begins a new eviction generation; a read of an object evicted two generations ago counts as a first read."""
        self._evicted_before, self._evicted = self._evicted, _Evicted(self._class)
        self._until_rotation = self.limit
        self._target = max(self._target // 2, _MIN_READ_ONCE)
        self._shrink()

    def _state(self, cached: CachedObject) -> Any:
        """The state of an object for this class: the object if it was read once, a `_Reread`, or an `_Evicted`.

        None if it was never read.
        """
        for state in _states(cached):
            if _class_of(state) is self._class:
                return state
        return None

    def _set_state(self, cached: CachedObject, state: Any) -> None:
        others = [one for one in _states(cached) if _class_of(one) is not self._class]
        set_decoded(cached, _PerClass((*others, state)) if others else state)

    def _evict(self, cached: CachedObject) -> None:
        self._set_state(cached, self._evicted)

    def _shared(self, cached: CachedObject) -> K | None:
        """The retained decoded object; None if there is none."""
        state = self._state(cached)
        if state is None or type(state) is _Evicted:
            return None
        obj: K = state.obj if type(state) is _Reread else state
        return obj

    def _decoded(self, key: str, cached: CachedObject) -> K:
        try:
            return self._view.read(cached.raw)
        except BadObject as error:
            raise self._named(key, error) from error

    def _reread_unreadable(self, key: str, raw: bytes, error: Exception) -> K:
        try:
            obj: K = codec.reread(self._class, raw, error)
        except BadObject as bad:
            raise self._named(key, bad) from bad
        return obj

    def _named(self, key: str, error: BadObject) -> BadObject:
        return BadObject(f"{self._view.gvk.kind}/{key}: {error}", field=error.field)


def _states(cached: CachedObject) -> tuple[Any, ...]:
    """The states of an object, one for each class that read it; see `DecodedObjects._state`."""
    found = cached.decoded
    if isinstance(found, _PerClass):
        return found
    return () if found is None else (found,)


def _class_of(state: Any) -> type[Any]:
    if isinstance(state, _Evicted):
        return state.class_
    obj: object = state.obj if isinstance(state, _Reread) else state
    return type(obj)
