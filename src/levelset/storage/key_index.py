"""An index of keys in order: finds the keys under a prefix without reading the others.

Keys are grouped by directory (everything up to the last slash), because that is how they are listed:
`/registry/<group>/<resource>/<namespace>/<name>`. Each directory sorts its keys lazily, when it is listed: a write then
costs a dict entry, not an insertion into a sorted list.
"""

import heapq
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from itertools import chain, islice, pairwise
from typing import Final

from levelset.errors import Malformed

__all__ = ["KeyIndex", "check_key", "directory_of", "end_of"]

_MOST_MOVES: Final = 400


class KeyIndex:
    """The set of existing keys; the caller must add each key once and discard only existing ones."""

    __slots__ = ("_directories", "_names")

    def __init__(self) -> None:
        self._directories: dict[str, _Directory] = {}
        self._names: list[str] = []

    def add(self, key: str) -> None:
        """Adds a new key."""
        name = key[: key.rfind("/") + 1]
        directory = self._directories.get(name)
        if directory is None:
            directory = self._directories[name] = _Directory()
            insort(self._names, name)
        directory.moved[key] = True
        directory.count += 1

    def discard(self, key: str) -> None:
        """Removes a key, and its directory if that is empty."""
        name = key[: key.rfind("/") + 1]
        directory = self._directories[name]
        directory.moved[key] = False
        directory.count -= 1
        if not directory.count:
            del self._directories[name]
            del self._names[bisect_left(self._names, name)]

    def count(self, prefix: str, *, after: str | None = None) -> int:
        """The number of keys that start with the prefix and come after `after`; costs one step per directory."""
        return sum(stop - start for _, _, start, stop in self._spans(prefix, after))

    def take(self, prefix: str, *, after: str | None = None, limit: int | None = None) -> list[str]:
        """The first `limit` of these keys, in order."""
        names = self._names
        first = bisect_left(names, prefix)
        is_below = self._is_below(first, prefix)
        if not is_below and prefix[: prefix.rfind("/") + 1] not in self._directories:
            return []  # most lists of a server that starts
        if is_below and after is None and prefix.endswith("/") and not self._is_below(first + 1, prefix):
            return self._directories[names[first]].sorted_keys()[:limit]  # one directory, as nearly always
        spans = list(self._spans(prefix, after))
        runs = (
            directory.sorted_keys()[start : stop if limit is None else min(stop, start + limit)]
            for _, directory, start, stop in spans
        )
        # A directory's keys lie between those of its parent (/a/b-c, /a/b/x, /a/b0); unrelated ones never mix.
        nested = any(second.startswith(first) for (first, *_), (second, *_) in pairwise(spans))
        return list(islice(heapq.merge(*runs) if nested else chain.from_iterable(runs), limit))

    def _is_below(self, index: int, prefix: str) -> bool:
        return index < len(self._names) and self._names[index].startswith(prefix)

    def _spans(self, prefix: str, after: str | None) -> "Iterator[tuple[str, _Directory, int, int]]":
        """The directories that contain such keys, in order, each with the matching range of its sorted keys."""
        home = directory_of(prefix)
        if home != prefix and home in self._directories:
            directory = self._directories[home]
            low, high = _between(directory.sorted_keys(), prefix, after)
            if low < high:
                yield home, directory, low, high
        for name in self._below(prefix):
            directory = self._directories[name]
            low = 0
            if after is not None and name <= after:
                if not after.startswith(name):
                    continue
                low = bisect_right(directory.sorted_keys(), after)
            if low < directory.count:
                yield name, directory, low, directory.count

    def _below(self, prefix: str) -> list[str]:
        low, high = _between(self._names, prefix, None)
        return self._names[low:high]


class _Directory:
    """The keys of one directory: sorted as of the last listing, and the keys added or removed since."""

    __slots__ = ("count", "keys", "moved")

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.moved: dict[str, bool] = {}
        self.count = 0

    def sorted_keys(self) -> list[str]:
        moved = self.moved
        if not moved:
            return self.keys
        # Moving one of 100,000 keys costs up to 20 µs, one of a million 200; sorting all again 60 to 100 ns per key: a
        # few moves are made one by one.
        if len(moved) <= min(32 + len(self.keys) // 256, _MOST_MOVES):
            for key, present in moved.items():
                self._place(key, present=present)
        else:
            self.keys = [key for key in self.keys if key not in moved]
            self.keys.extend(key for key, present in moved.items() if present)
            self.keys.sort()
        self.moved = {}
        return self.keys

    def _place(self, key: str, *, present: bool) -> None:
        keys = self.keys
        index = bisect_left(keys, key)
        found = index < len(keys) and keys[index] == key
        if present and not found:
            keys.insert(index, key)
        elif found and not present:
            del keys[index]


def _between(texts: list[str], prefix: str, after: str | None) -> tuple[int, int]:
    """The range of a sorted list with the keys that start with the prefix and come after `after`."""
    low = bisect_left(texts, prefix)
    if after is not None:
        low = max(low, bisect_right(texts, after))
    end = end_of(prefix)
    return low, len(texts) if end is None else bisect_left(texts, end)


def directory_of(key: str) -> str:
    """The key up to and including the last slash."""
    return key[: key.rfind("/") + 1]


def end_of(prefix: str) -> str | None:
    """The smallest string greater than all strings with the prefix; None if there is none."""
    for index in range(len(prefix) - 1, -1, -1):
        point = ord(prefix[index])
        if point < 0x10FFFF:
            return prefix[:index] + chr(point + 1)
    return None


def check_key(key: str) -> None:
    """Rejects keys that not every backend can store and order: the empty key, and lone surrogates."""
    if not key:
        raise Malformed("a storage key must not be empty", position=0)
    try:
        key.encode()
    except UnicodeEncodeError as error:
        text = f"the storage key {key!r} has a lone surrogate at {error.start}: it has no UTF-8 form"
        raise Malformed(text, position=error.start) from error
