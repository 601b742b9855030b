"""The present and the recent past of a store, in memory: every backend that has both reads from here.

Pure: deciding what a write does (`planned_put`, `planned_delete`) is separate from making it visible
(`Ledger.commit`), so that a durable backend can write to its file in between.
"""

from collections.abc import Callable, Iterable

from levelset.errors import NotFound
from levelset.storage.history import History, Limits, undo
from levelset.storage.interface import Change, Item, Mismatch, Page
from levelset.storage.keys import KeyIndex, check_key

__all__ = ["Ledger", "planned_delete", "planned_put"]


def planned_put(current: Item | None, key: str, value: bytes, *, expected: int | None, revision: int) -> Change:
    """The change that a put makes of the current item; raises `Mismatch`."""
    if current is None:
        if expected:
            raise Mismatch(key, expected, None)
        if not key.isascii() or not key:
            check_key(key)
        return Change(revision, key, None, Item(key, value, revision, revision, 1))
    if expected is not None and expected != current.revision:
        raise Mismatch(key, expected, current)
    return Change(revision, key, current, Item(key, value, revision, current.created, current.version + 1))


def planned_delete(current: Item | None, key: str, *, expected: int | None, revision: int) -> Change:
    """The change that a deletion makes of the current item; raises `Mismatch` or `NotFound`."""
    if current is None:
        if expected:
            raise Mismatch(key, expected, None)
        raise NotFound(f"{key!r} does not exist; there is nothing to delete")
    if expected is not None and expected != current.revision:
        raise Mismatch(key, expected, current)
    return Change(revision, key, current, None)


class Ledger:
    """All current items and the retained history."""

    __slots__ = ("_keys", "history", "items")

    def __init__(
        self,
        *,
        items: Iterable[Item] = (),
        changes: Iterable[Change] = (),
        compacted: int = 0,
        limits: Limits,
        ring: Callable[[], None],
    ) -> None:
        self.items: dict[str, Item] = {item.key: item for item in items}
        self._keys = KeyIndex()
        for key in self.items:
            self._keys.add(key)
        self.history = History(compacted=compacted, changes=changes, limits=limits, ring=ring)

    def put(self, key: str, value: bytes, expected: int | None) -> Item:
        """`planned_put` and `commit` in one, for a backend that has nothing to do in between; raises `Mismatch`."""
        history = self.history
        revision, current = history.revision + 1, self.items.get(key)
        if current is None:
            if expected:
                raise Mismatch(key, expected, None)
            if not key.isascii() or not key:
                check_key(key)
            item = Item(key, value, revision, revision, 1)
            self._keys.add(key)
        elif expected is None or expected == current.revision:
            item = Item(key, value, revision, current.created, current.version + 1)
        else:
            raise Mismatch(key, expected, current)
        self.items[key] = item
        history.append(Change(revision, key, current, item))
        return item

    def commit(self, change: Change) -> None:
        """Makes a change visible to reads and watches; its revision is the next one."""
        key, after = change.key, change.after
        if after is None:
            del self.items[key]
            self._keys.discard(key)
        else:
            self.items[key] = after
            if change.before is None:
                self._keys.add(key)
        self.history.append(change)

    def get(self, key: str, revision: int | None) -> Item | None:
        """The item, now or at a revision."""
        if revision is not None:
            for change in self.history.since(revision):
                if change.key == key:
                    return change.before
        return self.items.get(key)

    def count(self, prefix: str, revision: int | None) -> int:
        """The number of keys under a prefix, now or at a revision."""
        now = self._keys.count(prefix)
        if revision is None:
            return now
        earlier = undo(self.history.since(revision), prefix)
        return now + sum((item is not None) - (key in self.items) for key, item in earlier.items())

    def page(self, prefix: str, *, limit: int | None, after: str | None, revision: int | None) -> Page:
        """The items under a prefix, now or at a revision; a limit of 0 is none, as in etcd."""
        if limit is not None and limit <= 0:
            limit = None
        if revision is not None:
            earlier = undo(self.history.since(revision), prefix)
            if earlier:
                return self._page_before(earlier, prefix, limit=limit, after=after, revision=revision)
        keys = self._keys.take(prefix, after=after, limit=limit)
        full = limit is not None and len(keys) == limit
        remaining = self._keys.count(prefix, after=after) - len(keys) if full else 0
        revision = self.history.revision if revision is None else revision
        return Page(tuple(map(self.items.__getitem__, keys)), revision, remaining > 0, remaining)

    def _page_before(
        self, earlier: dict[str, Item | None], prefix: str, *, limit: int | None, after: str | None, revision: int
    ) -> Page:
        """A page of the past: today's keys that did not change since, and what the others were then."""
        if after is not None:
            earlier = {key: item for key, item in earlier.items() if key > after}
        enough = None if limit is None else limit + len(earlier)
        keys = [key for key in self._keys.take(prefix, after=after, limit=enough) if key not in earlier]
        keys += [key for key, item in earlier.items() if item is not None]
        keys.sort()
        if limit is not None:
            del keys[limit:]
        there = sum((item is not None) - (key in self.items) for key, item in earlier.items())
        remaining = self._keys.count(prefix, after=after) + there - len(keys)
        items = tuple(earlier.get(key) or self.items[key] for key in keys)
        return Page(items, revision, remaining > 0, remaining)
