"""Indexes as values: which objects a cache finds without looking at all of them.

`Index(Website, certificate)` finds websites by what a function gives for each, and decodes each object that is written.
`by_label("app")`, `by_owner()` and `by_namespace()` look at the head alone, for any kind. Whoever declares the same
index twice, equal by kind and function, gets one.

Which keys have which values: the two dicts inside an index.

A bucket with one key is the key itself, and a key with one value has the value itself: a container for each of a
hundred thousand would take more memory than what is in it, and the garbage collector would look at all of them. Keys
come out in the order in which they went in.

One index of one table, kept in step with it: also while the table is being filled anew, or is large already.
"""

import sys
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Generic, TypeVar, cast

from levelset.client.object_types import Kind, View, view_of
from levelset.objects.cached_object import Head, Kept

__all__ = ["Buckets", "Index", "Indexed", "Report", "by_label", "by_namespace", "by_owner"]

K = TypeVar("K")

Found = Hashable | Iterable[Hashable] | None


class Index(Generic[K]):
    """The values under which an object is found: those that `function` gives for it.

    The function returns a value, several of them (any iterable that is no text), or None for no value. It is called
    once for each version of an object and must depend on nothing else. An object for which it raises has no values;
    the error is reported and harms nobody.
    """

    __slots__ = ("_identity", "_read", "name", "view")

    def __init__(self, kind: Kind[K], function: Callable[[K], Found], *, name: str | None = None) -> None:
        view = view_of(kind)
        self.view: View[K] | None = view
        self.name = name or _name_of(function)
        self._read: Callable[[Kept], Found] = lambda kept: function(view.read(kept.raw))
        self._identity: Hashable = (view.gvk, view.class_, function)

    @classmethod
    def of_head(
        cls, function: Callable[[Head], Found], *, name: str | None = None, same_as: Hashable = None
    ) -> "Index[Any]":
        """An index that needs only the head of an object, of whatever kind, and so decodes nothing.

        Two of them are equal if they are `same_as` the same value, which is the function unless said otherwise.
        """
        made: Index[Any] = cls.__new__(cls)
        made.view = None
        made.name = name or _name_of(function)
        made._read = function  # a kept object is its own head
        made._identity = function if same_as is None else same_as
        return made

    def values(self, kept: Kept) -> tuple[Hashable, ...]:
        """The values of one object, each once; raises what the function raises."""
        return _several(self._read(kept))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Index) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    def __repr__(self) -> str:
        return f"Index({self.view.gvk}, {self.name})" if self.view is not None else f"Index({self.name})"


def _several(found: Any) -> tuple[Hashable, ...]:
    if found is None:
        return ()
    # A text is one value, not its letters; a tuple is several, as any other iterable is.
    if isinstance(found, str | bytes) or not hasattr(found, "__iter__"):
        return (found,)
    return tuple(dict.fromkeys(found))


def _name_of(function: Callable[..., object]) -> str:
    return str(getattr(function, "__name__", "index"))


def by_label(key: str) -> Index[Any]:
    """Finds objects by the value of this label."""
    return Index.of_head(lambda head: head.labels.get(key), name=f"label {key}", same_as=("label", key))


def by_owner(*, controller: bool = False) -> Index[Any]:
    """Finds objects by the uid of an owner; with `controller`, only of the owner that manages them."""

    def owners(head: Head) -> list[str]:
        return [owner.uid for owner in head.owners if owner.controller or not controller]

    return Index.of_head(owners, name="controller" if controller else "owner", same_as=("owner", controller))


def by_namespace() -> Index[Any]:
    """Finds objects by their namespace; those that are cluster-scoped have no value."""
    return Index.of_head(lambda head: head.namespace, name="namespace", same_as=("namespace",))


class Buckets:
    """Values by key and keys by value; a value that no key has any more leaves nothing behind."""

    __slots__ = ("_keys", "_values")

    def __init__(self) -> None:
        self._keys: dict[Hashable, str | dict[str, None]] = {}
        self._values: dict[str, Hashable] = {}  # a tuple of values, or a single value that is no tuple

    def __contains__(self, key: object) -> bool:
        """Whether this key has any value."""
        return key in self._values

    def values(self) -> Iterable[Hashable]:
        """All values that some key has."""
        return self._keys.keys()

    def keys(self, value: Hashable) -> list[str]:
        """The keys with this value."""
        bucket = self._keys.get(value)
        if bucket is None:
            return []
        return [bucket] if isinstance(bucket, str) else list(bucket)

    def count(self, value: Hashable) -> int:
        """How many keys have this value."""
        bucket = self._keys.get(value, ())
        return 1 if isinstance(bucket, str) else len(bucket)

    def put(self, key: str, values: tuple[Hashable, ...]) -> None:
        """Gives the key these values, and only these."""
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
        """Forgets the key."""
        for value in _unpack(self._values.pop(key, ())):
            self._remove(value, key)

    def burn(self, count: int) -> bool:
        """Frees some of what is in here, for one who has a hundred thousand to free and others to let run.

        Returns whether there is more. Afterwards only burning makes sense.
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
    # Equal texts from many objects become one text.
    return sys.intern(value) if type(value) is str else value


def _unpack(packed: Any) -> tuple[Hashable, ...]:
    return cast("tuple[Hashable, ...]", packed) if isinstance(packed, tuple) else (packed,)


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
