"""Which keys have which values: the two dicts inside an index.

A bucket with one key is the key itself, and a key with one value has the value itself: a container for each of a
hundred thousand would take more memory than what is in it, and the garbage collector would look at all of them. Keys
come out in the order in which they went in.
"""

import sys
from collections.abc import Hashable, Iterable
from typing import Any, cast

__all__ = ["Buckets"]


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
