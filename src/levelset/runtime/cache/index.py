"""Cache indexes: find the objects with a certain value without scanning all of them.

`Index(Website, certificate)` finds websites by what a function returns for each, and decodes each object that is
written. `by_label("app")`, `by_owner()` and `by_namespace()` read only the head, for any kind. Indexes that are equal
by kind and function are one index, however often they are declared. `Buckets` is the data structure behind an index,
`TableIndex` the state of one index of one table.
"""

import sys
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Generic, TypeVar, cast

from levelset.client.object_types import Kind, View, view_of
from levelset.objects.cached_object import CachedObject, Head

__all__ = ["Buckets", "Index", "ReportError", "TableIndex", "by_label", "by_namespace", "by_owner"]

K = TypeVar("K")

Found = Hashable | Iterable[Hashable] | None


class Index(Generic[K]):
    """The values under which an object is found: those that `function` returns for it.

    The function returns a value, several of them (any iterable but str and bytes), or None for no value. It is called
    once for each version of an object and must depend on nothing else. An object for which it raises has no values;
    the error is reported and affects no other object.
    """

    __slots__ = ("_identity", "_read", "name", "view")

    def __init__(self, kind: Kind[K], function: Callable[[K], Found], *, name: str | None = None) -> None:
        view = view_of(kind)
        self.view: View[K] | None = view
        self.name = name or _name_of(function)
        self._read: Callable[[CachedObject], Found] = lambda cached: function(view.read(cached.raw))
        self._identity: Hashable = (view.gvk, view.class_, function)

    @classmethod
    def of_head(
        cls, function: Callable[[Head], Found], *, name: str | None = None, same_as: Hashable = None
    ) -> "Index[Any]":
        """An index for any kind that reads only the head of an object and decodes nothing.

        Two of them are equal if their `same_as` values are; the default is the function itself.
        """
        made: Index[Any] = cls.__new__(cls)
        made.view = None
        made.name = name or _name_of(function)
        made._read = function  # a cached object is its own head
        made._identity = function if same_as is None else same_as
        return made

    def values(self, cached: CachedObject) -> tuple[Hashable, ...]:
        """The values of one object, each once; raises what the function raises."""
        return _several(self._read(cached))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Index) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    def __repr__(self) -> str:
        return f"Index({self.view.gvk}, {self.name})" if self.view is not None else f"Index({self.name})"


def _several(found: Any) -> tuple[Hashable, ...]:
    if found is None:
        return ()
    # A str is one value, not its letters; a tuple is several values, as any other iterable is.
    if isinstance(found, str | bytes) or not hasattr(found, "__iter__"):
        return (found,)
    return tuple(dict.fromkeys(found))


def _name_of(function: Callable[..., object]) -> str:
    return str(getattr(function, "__name__", "index"))


def by_label(key: str) -> Index[Any]:
    """Finds objects by the value of this label."""
    return Index.of_head(lambda head: head.labels.get(key), name=f"label {key}", same_as=("label", key))


def by_owner(*, controller: bool = False) -> Index[Any]:
    """Finds objects by the uid of an owner; with `controller`, only of the controlling owner."""

    def owners(head: Head) -> list[str]:
        return [owner.uid for owner in head.owners if owner.controller or not controller]

    return Index.of_head(owners, name="controller" if controller else "owner", same_as=("owner", controller))


def by_namespace() -> Index[Any]:
    """Finds objects by their namespace; cluster-scoped objects have no value."""
    return Index.of_head(lambda head: head.namespace, name="namespace", same_as=("namespace",))


class Buckets:
    """Values by key and keys by value; keys come out in insertion order.

    A bucket with one key is the key itself, and a key with one value has the value itself: a container for each of
    100,000 objects would take more memory than its content, and the garbage collector would traverse all of them.
    """

    __slots__ = ("_keys", "_values")

    def __init__(self) -> None:
        self._keys: dict[Hashable, str | dict[str, None]] = {}
        self._values: dict[str, Hashable] = {}  # a tuple of values, or a single value that is not a tuple

    def __contains__(self, key: object) -> bool:
        """Whether this key has a value."""
        return key in self._values

    def values(self) -> Iterable[Hashable]:
        """All values, each held by at least one key."""
        return self._keys.keys()

    def keys(self, value: Hashable) -> list[str]:
        """The keys with this value."""
        bucket = self._keys.get(value)
        if bucket is None:
            return []
        return [bucket] if isinstance(bucket, str) else list(bucket)

    def count(self, value: Hashable) -> int:
        """The number of keys with this value."""
        bucket = self._keys.get(value, ())
        return 1 if isinstance(bucket, str) else len(bucket)

    def put(self, key: str, values: tuple[Hashable, ...]) -> None:
        """Replaces the values of a key."""
        before = _unpack(self._values.get(key, ()))
        if before == values:
            return
        for value in before:
            if value not in values:
                self._remove(value, key)
        for value in values:
            if value not in before:
                self._add(value, key)
        if values:
            self._values[key] = _pack(values)
        else:
            self._values.pop(key, None)

    def drop(self, key: str) -> None:
        """Removes a key and its values."""
        for value in _unpack(self._values.pop(key, ())):
            self._remove(value, key)

    def free(self, count: int) -> bool:
        """Frees up to `count` entries and returns whether there are more; nothing else may be called afterwards.

        Freeing a large index at once would block the event loop.
        """
        for _ in range(min(count, len(self._values))):
            self._values.popitem()
        while self._keys and count > 0:
            value, bucket = self._keys.popitem()
            count -= 1
            if isinstance(bucket, dict) and bucket:
                taken = min(count, len(bucket))
                for _ in range(taken):
                    bucket.popitem()
                count -= taken
                if bucket:
                    self._keys[value] = bucket
        return bool(self._values or self._keys)

    def _add(self, value: Hashable, key: str) -> None:
        bucket = self._keys.get(value)
        if bucket is None:
            self._keys[value] = key
        elif isinstance(bucket, str):
            self._keys[value] = {bucket: None, key: None}
        else:
            bucket[key] = None

    def _remove(self, value: Hashable, key: str) -> None:
        bucket = self._keys.get(value)
        if isinstance(bucket, dict):
            bucket.pop(key, None)
            if bucket:
                return
        self._keys.pop(value, None)


def _pack(values: tuple[Hashable, ...]) -> Hashable:
    value = values[0]
    if len(values) > 1 or isinstance(value, tuple):
        return values
    # Equal strings of many objects become one string.
    return sys.intern(value) if type(value) is str else value


def _unpack(packed: Any) -> tuple[Hashable, ...]:
    return cast("tuple[Hashable, ...]", packed) if isinstance(packed, tuple) else (packed,)


ReportError = Callable[[str, Exception], None]
"""Receives an error raised by a user's function: where it happened, and the error."""


class TableIndex:
    """The state of one index of one table: the buckets for its current objects, and those for a list coming in."""

    __slots__ = ("_report", "_todo", "failures", "fresh", "index", "live")

    def __init__(self, index: Index[Any], report: ReportError) -> None:
        self.index = index
        self.live = Buckets()
        self.fresh: Buckets | None = None
        self.failures = 0
        self._report = report
        self._todo: list[str] = []

    @property
    def is_built(self) -> bool:
        """Whether it covers every object of the table."""
        return not self._todo

    def put(self, key: str, cached: CachedObject) -> None:
        """Indexes a new version of an object of the table."""
        self.live.put(key, self._values(key, cached))

    def put_fresh(self, key: str, cached: CachedObject) -> None:
        """Indexes an object that will be in the table after the next swap."""
        if self.fresh is not None:
            self.fresh.put(key, self._values(key, cached))

    def start(self) -> None:
        """Begins the buckets for a new set of objects."""
        self.fresh = Buckets()

    def swap(self, keys: Mapping[str, CachedObject]) -> Buckets:
        """Makes the new buckets the current ones; returns the previous buckets, to be freed."""
        old = self.live
        if self.fresh is None:  # added while the list was coming in: its earlier objects are not indexed yet
            self.live = Buckets()
            self._todo = list(keys)[::-1]
        else:
            self.live = self.fresh
            self._todo.clear()
        self.fresh = None
        return old

    def build_later(self, keys: Mapping[str, CachedObject]) -> None:
        """Schedules all of these objects for `build`."""
        self._todo = list(keys)[::-1]

    def build(self, table: Mapping[str, CachedObject], count: int | None = None) -> bool:
        """Indexes up to `count` of the scheduled objects, or all; returns whether the index is built."""
        todo = self._todo
        for _ in range(len(todo) if count is None else min(count, len(todo))):
            key = todo.pop()
            cached = table.get(key)
            if cached is not None and key not in self.live:
                self.put(key, cached)
        return not todo

    def _values(self, key: str, cached: CachedObject) -> tuple[Hashable, ...]:
        try:
            values = self.index.values(cached)
            hash(values)
        except Exception as error:  # noqa: BLE001 -- a user's function; the cache must go on
            self.failures += 1
            if self.failures & (self.failures - 1) == 0:  # reported at 1, 2, 4, 8, ... failures, to limit the log
                self._report(f"{self.index!r} failed for {key} ({self.failures} times so far)", error)
            return ()
        return values
