"""What a cache holds: objects by key, the next set of them while it comes in, and the indexes of both.

Nothing here waits. A table has one writer (`Writer`), which keeps to the order of the events, and any number of readers
with views of their own (`Store`).
"""

from collections.abc import Collection, Sequence
from typing import Any

from levelset.cache.buckets import Buckets
from levelset.cache.changes import Change
from levelset.cache.index import Index
from levelset.cache.indexed import Indexed, Report
from levelset.cache.keys import is_older
from levelset.cache.memo import Memo
from levelset.client.kinds import View
from levelset.errors import ConfigError
from levelset.objects.kept import Kept

__all__ = ["Table"]


class Table:
    """The objects of one kind; `kept` is replaced, never emptied, when a new set is complete."""

    __slots__ = (
        "_fresh_size",
        "_indexes",
        "fresh",
        "is_filled",
        "kept",
        "memos",
        "resource_version",
        "size",
        "step",
        "view",
    )

    def __init__(self, view: View[Any]) -> None:
        self.view = view
        self.kept: dict[str, Kept] = {}
        self.fresh: dict[str, Kept] | None = None
        self.size = 0  # bytes of JSON
        self.step = 0  # counts the writes whose changes are handed out together
        self.is_filled = False
        self.resource_version = ""
        self.memos: dict[type[Any], Memo[Any]] = {}
        self._fresh_size = 0
        self._indexes: dict[Index[Any], Indexed] = {}

    def put(self, objects: Sequence[Kept], view: View[Any], changes: list[Change[Any]]) -> int:
        """Takes in objects that came or changed, and adds the changes; gives how many were left out for lack of a name.

        What is nothing new is no change: the same version, or an older one.
        """
        held, indexes, add, size, nameless, latest = self.kept, self._indexes, changes.append, 0, 0, None
        for kept in objects:
            name, namespace = kept.name, kept.namespace
            if not name:
                nameless += 1
                continue
            key = f"{namespace}/{name}" if namespace else name
            before = held.get(key)
            if before is None:
                size += len(kept.raw)
            else:
                new, old = kept.resource_version, before.resource_version
                # Nearly always it is a longer or greater number, and to see that is quicker than to ask.
                is_doubtful = new <= old if len(new) == len(old) else len(new) < len(old)
                if is_doubtful and before.uid == kept.uid and not _is_newer(kept, before):
                    continue
                size += len(kept.raw) - len(before.raw)
            held[key] = latest = kept
            add(Change(key, before, kept, view))
            if indexes:
                for indexed in indexes.values():
                    indexed.put(key, kept)
        if latest is not None:
            self.resource_version = latest.resource_version
        self.size += size
        return nameless

    def drop(self, key: str, gone: Kept) -> Kept | None:
        """Removes an object and gives its last version; None if it was not there, or is newer than the one gone."""
        before = self.kept.get(key)
        if before is None or is_older(gone.resource_version, before.resource_version):
            return None
        del self.kept[key]
        self.size -= len(before.raw)
        for indexed in self._indexes.values():
            indexed.live.drop(key)
        return before

    def start(self) -> None:
        """Begins a new set of objects, without what an earlier beginning has left."""
        self.fresh = {}
        self._fresh_size = 0
        for indexed in self._indexes.values():
            indexed.start()

    def put_fresh(self, objects: Sequence[Kept]) -> int:
        """Takes objects into the new set; gives how many were left out for lack of a name.

        The version that is here already is kept on: a list that changes nothing costs no memory, and what has been
        decoded stays.
        """
        if self.fresh is None:
            self.start()
        assert self.fresh is not None, "started above"
        fresh, known, nameless = self.fresh, self.kept, 0
        for kept in objects:
            name, namespace = kept.name, kept.namespace
            if not name:
                nameless += 1
                continue
            key = f"{namespace}/{name}" if namespace else name
            if known and (present := known.get(key)) is not None and _is_same(present, kept):
                kept = present  # noqa: PLW2901 -- from here on it is this one
            twice = fresh.get(key)
            if twice is not None:  # an object may be on two pages of a list; the later page is the newer one
                self._fresh_size -= len(twice.raw)
            fresh[key] = kept
            self._fresh_size += len(kept.raw)
            if self._indexes:
                for indexed in self._indexes.values():
                    indexed.put_fresh(key, kept)
        return nameless

    def swap(self) -> tuple[dict[str, Kept], list[Buckets]]:
        """Goes over to the new set, at once; gives what was there before, to be compared and freed."""
        before, buckets = self.kept, list[Buckets]()
        if self.fresh is not None:
            self.kept, self.fresh = self.fresh, None
            self.size = self._fresh_size
            buckets = [indexed.swap(self.kept) for indexed in self._indexes.values()]
        self.is_filled = True
        return before, buckets

    @property
    def indexes(self) -> Collection[Indexed]:
        """The indexes that are kept."""
        return self._indexes.values()

    def add_index(self, index: Index[Any], report: Report) -> Indexed:
        """Keeps this index from now on; the objects that are here already are taken in by its `build`."""
        found = self._indexes.get(index)
        if found is None:
            self._refuse(index)
            found = self._indexes[index] = Indexed(index, report)
            found.build_later(self.kept)
        return found

    def indexed(self, index: Index[Any]) -> Indexed:
        """The index as it is kept, built; ConfigError if nobody has added it."""
        found = self._indexes.get(index)
        if found is None:
            known = ", ".join(sorted(one.name for one in self._indexes)) or "none"
            raise ConfigError(
                f"the cache of {self.view.gvk} has no {index!r} (there is: {known}); "
                "declare it with indexes=[...] or call add_index first"
            )
        if not found.is_built:
            found.build(self.kept)
        return found

    def _refuse(self, index: Index[Any]) -> None:
        view = index.view
        if view is None:
            return
        if view.gvk != self.view.gvk:
            raise ConfigError(f"{index!r} is for another kind than the cache of {self.view.gvk}; add it to its own")
        if self.view.is_metadata and not view.is_metadata:
            raise ConfigError(
                f"{index!r} needs whole objects, and the cache of {self.view.gvk} has only their metadata; "
                "use by_label, by_owner or Index.of_head, or declare the kind itself"
            )


def _is_newer(one: Kept, than: Kept) -> bool:
    version, other = one.resource_version, than.resource_version
    return (version != other or not version) and not is_older(version, other)


def _is_same(one: Kept, other: Kept) -> bool:
    version = one.resource_version
    return bool(version) and version == other.resource_version and one.uid == other.uid
