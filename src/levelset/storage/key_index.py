"""An index of keys in order: finds the keys under a prefix without reading the others.

Keys are grouped by directory (everything up to the last slash), because that is how they are listed:
`/registry/<group>/<resource>/<namespace>/<name>`. Each directory sorts its keys lazily, when it is listed or when many
have changed: a write then costs little more than a dict entry. Its keys are in buckets, so that a change moves some
thousand others at most; a page reads only the directories that it has keys of. So no call takes longer than some
milliseconds for a page, with a million keys in one directory or in ten thousand.
"""

import heapq
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from levelset.errors import Malformed

__all__ = ["KeyIndex", "check_key", "directory_of", "end_of"]

_MOST_MOVED: Final = 2_000
_BUCKET: Final = 1_000


class KeyIndex:
    """The set of existing keys; the caller must add each key once and discard only existing ones."""

    __slots__ = ("_directories", "_names")

    def __init__(self, keys: Iterable[str] = ()) -> None:
        found: defaultdict[str, list[str]] = defaultdict(list)
        for key in keys:
            found[key[: key.rfind("/") + 1]].append(key)
        self._directories = {name: _Directory(inside) for name, inside in found.items()}
        self._names = sorted(found)

    def add(self, key: str) -> None:
        """Adds a new key."""
        name = key[: key.rfind("/") + 1]
        directory = self._directories.get(name)
        if directory is None:
            directory = self._directories[name] = _Directory()
            insort(self._names, name)
        moved = directory.moved
        moved[key] = True
        directory.count += 1
        if len(moved) >= _MOST_MOVED:
            directory.settle()

    def discard(self, key: str) -> None:
        """Removes a key, and its directory if that is empty."""
        name = key[: key.rfind("/") + 1]
        directory = self._directories[name]
        moved = directory.moved
        moved[key] = False
        directory.count -= 1
        if not directory.count:
            del self._directories[name]
            del self._names[bisect_left(self._names, name)]
        elif len(moved) >= _MOST_MOVED:
            directory.settle()

    def count(self, prefix: str, *, after: str | None = None) -> int:
        """The number of keys that start with the prefix and come after `after`; costs one step per directory."""
        directories = self._directories
        parts = [directories[name].count_between(low, high) for name, low, high in self._in_part(prefix, after)]
        first, last = self._whole(prefix, after)
        return sum(parts) + sum([directories[name].count for name in self._names[first:last]])

    def take(self, prefix: str, *, after: str | None = None, limit: int | None = None) -> list[str]:
        """The first `limit` of these keys, in order."""
        taken: list[str] = []
        # A directory's keys lie between those of its parent (/a/b-c, /a/b/x, /a/b0); unrelated ones never mix.
        mixed: list[list[str]] = []
        parent = ""
        for name, run in self._runs(prefix, after, limit):
            if mixed and name.startswith(parent):
                mixed.append(run)
                continue
            taken += _merged(mixed)
            if limit is not None and len(taken) >= limit:
                return taken[:limit]
            parent, mixed = name, [run]
        taken += _merged(mixed)
        return taken if limit is None else taken[:limit]

    def _runs(self, prefix: str, after: str | None, limit: int | None) -> Iterator[tuple[str, list[str]]]:
        """The directories that contain such keys, in order, each with the first of its keys."""
        for name, low, high in self._in_part(prefix, after):
            run = self._directories[name].between(low, high, limit)
            if run:
                yield name, run
        first, last = self._whole(prefix, after)
        for name in self._names[first:last]:
            yield name, self._directories[name].between(None, None, limit)

    def _in_part(self, prefix: str, after: str | None) -> list[tuple[str, str | None, str | None]]:
        """The directories of which only some keys may be meant: their names, and where these keys begin and end.

        They are the one in which the prefix ends, and those that `after` is in.
        """
        found: list[tuple[str, str | None, str | None]] = []
        home = directory_of(prefix)
        if home != prefix and home in self._directories:
            low = prefix if after is None or after < prefix else after + "\0"
            high = end_of(prefix)
            if high is None or low < high:
                found.append((home, low, high))
        if after is not None and after.startswith(prefix):
            end = len(prefix)  # of the names of directories that it is in, which may be the prefix
            while end >= 0:
                if directory_of(after[:end]) == after[:end] and after[:end] in self._directories:
                    found.append((after[:end], after + "\0", None))
                end = after.find("/", end) + 1 or -1
        return found

    def _whole(self, prefix: str, after: str | None) -> tuple[int, int]:
        """The range of the names of directories all of whose keys are meant."""
        return _between(self._names, prefix, after)


class _Directory:
    """The keys of one directory: sorted into buckets as of the last listing, and the keys added or removed since."""

    __slots__ = ("_buckets", "_lasts", "count", "moved")

    def __init__(self, keys: Sequence[str] = ()) -> None:
        self._buckets: list[list[str]] = []
        self._lasts: list[str] = []
        """The last key of each bucket."""
        self.moved: dict[str, bool] = {}
        self.count = len(keys)
        self._append(sorted(keys))

    def between(self, low: str | None, high: str | None, limit: int | None) -> list[str]:
        """The first keys from `low` on and before `high`."""
        if self.moved:
            self.settle()
        start, offset = self._place_of(low)
        end, stop = (len(self._buckets), 0) if high is None else self._place_of(high)
        found: list[str] = []
        for index in range(start, min(end + 1, len(self._buckets))):
            bucket = self._buckets[index]
            found += bucket[offset if index == start else 0 : stop if index == end else len(bucket)]
            if limit is not None and len(found) >= limit:
                return found[:limit]
        return found

    def count_between(self, low: str | None, high: str | None) -> int:
        """The number of keys from `low` on and before `high`."""
        if self.moved:
            self.settle()
        start, offset = self._place_of(low)
        end, stop = (len(self._buckets), 0) if high is None else self._place_of(high)
        return max(0, sum(map(len, self._buckets[start:end])) + stop - offset)

    def _place_of(self, key: str | None) -> tuple[int, int]:
        """The bucket, and the index in it, of the first key that is not before this one."""
        if key is None:
            return 0, 0
        index = bisect_left(self._lasts, key)
        return (index, bisect_left(self._buckets[index], key)) if index < len(self._lasts) else (index, 0)

    def settle(self) -> None:
        """Sorts the keys that were added, and removes those that were removed."""
        moved, self.moved = self.moved, {}
        added = sorted([key for key, present in moved.items() if present])
        if len(added) == len(moved) and (not self._lasts or added[0] > self._lasts[-1]):
            self._append(added)  # as most often: a directory that is loaded, or that has numbered names
        elif len(moved) * 4 >= self.count:
            keys = [key for bucket in self._buckets for key in bucket if key not in moved]
            self._buckets, self._lasts = [], []
            self._append(sorted(keys + added))
        else:
            for key, present in moved.items():
                self._move(key, present=present)

    def _append(self, keys: list[str]) -> None:
        for start in range(0, len(keys), _BUCKET):
            bucket = keys[start : start + _BUCKET]
            self._buckets.append(bucket)
            self._lasts.append(bucket[-1])

    def _move(self, key: str, *, present: bool) -> None:
        index, offset = self._place_of(key)
        if index == len(self._buckets):
            if not present:
                return
            index -= 1  # beyond the last key; there is a bucket, since few keys have moved
            offset = len(self._buckets[index])
        bucket = self._buckets[index]
        found = offset < len(bucket) and bucket[offset] == key
        if present and not found:
            bucket.insert(offset, key)
        elif found and not present:
            del bucket[offset]
        self._tidy(index)

    def _tidy(self, index: int) -> None:
        """Splits a bucket that is too long, and drops an empty one."""
        bucket = self._buckets[index]
        if not bucket:
            del self._buckets[index], self._lasts[index]
            return
        self._lasts[index] = bucket[-1]
        if len(bucket) > 2 * _BUCKET:
            self._buckets[index : index + 1] = [bucket[:_BUCKET], bucket[_BUCKET:]]
            self._lasts.insert(index, bucket[_BUCKET - 1])


def _merged(runs: list[list[str]]) -> list[str]:
    return runs[0] if len(runs) == 1 else list(heapq.merge(*runs))


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
