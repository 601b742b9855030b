"""A store of objects: one writer puts in what a watch tells, many readers find it.

`sites, writer = store(Website, uses)` makes both ends. The writer is given events in order and keeps everything right
by itself; the store answers at once and never waits, except in `wait_ready`.

What a cache holds: objects by key, the next set of them while it comes in, and the indexes of both.

Nothing here waits. A table has one writer (`Writer`), which keeps to the order of the events, and any number of readers
with views of their own (`Store`).

The one who writes into a store: events go in, changes come out.

The objects of a cache at one moment: a sequence that decodes an object when it is looked at.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Final, Generic, TypeVar, overload

from levelset.client.object_types import Item, OnlyMetadata, View, view_of
from levelset.errors import BadObject, ConfigError
from levelset.objects.cached_object import Kept
from levelset.objects.label_selectors import LabelSelector
from levelset.objects.ref import GroupVersionKind, Ref
from levelset.objects.resource import PartialObjectMetadata
from levelset.objects.unstructured import Unstructured
from levelset.runtime.cache.cache_sync import Readiness
from levelset.runtime.cache.change import Change
from levelset.runtime.cache.decoded_objects import Memo
from levelset.runtime.cache.index import Buckets, Index, Indexed, Report, by_label
from levelset.runtime.cache.keys import is_older, key_for, key_of
from levelset.runtime.cache.subscribers import report_error
from levelset.runtime.watch.events import Apply, Delete, Init, InitApply, InitDone, Told

__all__ = ["SLICE", "Snapshot", "Store", "Table", "Writer", "store"]


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


K = TypeVar("K")

SLICE = 500
"""The most events, or objects, between two moments at which others may run: a millisecond or two."""

_OBJECTS: Final = {Kept}


class Writer(Generic[K]):
    """Keeps a store in step with a watch; there is one for each store.

    Between Init and InitDone objects go into a buffer while readers see the old ones; InitDone swaps both at once. The
    changes that it brings are told with the deletes first, each with the object that has gone, then the new and changed
    objects in the order of the list; an object of the same version is no change. Later an event that is older than
    what is here already changes nothing; a complete list is believed even then, since servers do get restored.
    """

    __slots__ = ("_readiness", "_report", "_table", "_view")

    def __init__(self, table: Table, view: View[K], readiness: Readiness, *, report: Report = report_error) -> None:
        self._table = table
        self._view = view
        self._readiness = readiness
        self._report = report

    def apply(self, events: Sequence[Told[Any]]) -> list[Change[K]]:
        """Takes in the events, in order, and gives what they have changed."""
        return [change for changes in self.slices(events) for change in changes]

    def slices(self, events: Sequence[Told[Any]]) -> Iterator[list[Change[K]]]:
        """Takes in the events, in order, and gives what they have changed bit by bit; some bits are empty.

        The store has what a bit tells when the bit is given. Between two bits the caller may let others run, and must
        not write anything else.
        """
        for start in range(0, len(events), SLICE):
            some = events[start : start + SLICE] if len(events) > SLICE else events
            changes: list[Change[K]] = []
            if len(some) > 1 and set(map(type, some)) == _OBJECTS:  # nothing but objects: what a busy watch brings
                self._take(some, changes)  # type: ignore[arg-type]
                yield self._next_step(changes)
                continue
            for event in some:
                kind = type(event)
                if kind is Kept:
                    self._take((event,), changes)  # type: ignore[arg-type]
                elif kind is Apply:
                    self._refuse(self._table.put((event.item.kept,), self._view, changes))  # type: ignore[union-attr]
                elif kind is InitApply:
                    self._refuse(self._table.put_fresh((event.item.kept,)))  # type: ignore[union-attr]
                elif kind is Delete:
                    self._drop(event.item.kept, changes)  # type: ignore[union-attr]
                elif isinstance(event, Init):
                    self._table.start()
                elif isinstance(event, InitDone):
                    if changes:
                        yield self._next_step(changes)
                        changes = []
                    yield from self._swap(event)
            yield self._next_step(changes)

    def close(self, cause: Exception | None = None) -> None:
        """Says that nothing more will be written; whoever still waits for the store to be ready gets NotReady."""
        self._readiness.close(cause)

    def _next_step(self, changes: list[Change[K]]) -> list[Change[K]]:
        if changes:
            self._table.step += 1
        return changes

    def _take(self, objects: Sequence[Kept], changes: list[Change[K]]) -> None:
        """Takes in mere objects: within a list of everything they are there, else they came or changed."""
        table = self._table
        nameless = table.put(objects, self._view, changes) if table.fresh is None else table.put_fresh(objects)
        if nameless:
            self._refuse(nameless)

    def _drop(self, kept: Kept, changes: list[Change[K]]) -> None:
        key = key_of(kept)
        before = self._table.drop(key, kept)
        if before is not None:
            self._table.resource_version = kept.resource_version
            changes.append(Change(key, before, None, self._view))

    def _refuse(self, nameless: int) -> None:
        for _ in range(nameless):
            self._report(f"the store of {self._view.gvk}", BadObject("an object without a name was left out"))

    def _swap(self, event: InitDone) -> Iterator[list[Change[K]]]:
        is_first = not self._table.is_filled
        before, buckets = self._table.swap()
        self._table.step += 1
        self._table.resource_version = event.resource_version
        self._readiness.settle()
        now = self._table.kept
        if before is not now:
            yield from self._vanished(before, now)
            yield from self._different(before, now, is_initial=is_first)
            yield from _burn(before, buckets)

    def _vanished(self, before: dict[str, Kept], now: dict[str, Kept]) -> Iterator[list[Change[K]]]:
        for keys in _sliced(before):
            yield [Change(key, before[key], None, self._view) for key in keys if key not in now]

    def _different(
        self, before: dict[str, Kept], now: dict[str, Kept], *, is_initial: bool
    ) -> Iterator[list[Change[K]]]:
        view, was = self._view, before.get
        for keys in _sliced(now):
            yield [Change(key, was(key), now[key], view, is_initial) for key in keys if was(key) is not now[key]]


def _sliced(contents: dict[str, Kept]) -> Iterator[list[str]]:
    keys = list(contents)
    for start in range(0, len(keys), SLICE):
        yield keys[start : start + SLICE]


def _burn(before: dict[str, Kept], buckets: list[Buckets]) -> Iterator[list[Any]]:
    """Frees what was there before, a bit at a time: a hundred thousand objects at once take 30 ms."""
    while before:
        for _ in range(min(SLICE, len(before))):
            before.popitem()
        yield []
    for old in buckets:
        while old.burn(SLICE):
            yield []


class Snapshot(Sequence[K]):
    """Typed objects, frozen and shared with other readers; what happens later does not show in it.

    Looking at an object that its class cannot read raises BadObject with its name; `items` gives all without decoding.
    """

    __slots__ = ("_kept", "_read", "view")

    def __init__(self, kept: list[Kept], view: View[K], read: Callable[[Kept], K]) -> None:
        self.view = view
        self._kept = kept
        self._read = read

    def __len__(self) -> int:
        return len(self._kept)

    @overload
    def __getitem__(self, index: int) -> K: ...
    @overload
    def __getitem__(self, index: slice) -> "Snapshot[K]": ...
    def __getitem__(self, index: int | slice) -> "K | Snapshot[K]":
        if isinstance(index, slice):
            return Snapshot(self._kept[index], self.view, self._read)
        return self._read(self._kept[index])

    def __iter__(self) -> Iterator[K]:
        return map(self._read, self._kept)

    def __repr__(self) -> str:
        return f"<Snapshot of {len(self)} {self.view.gvk.kind}>"

    @property
    def kept(self) -> Sequence[Kept]:
        """The heads and bytes, as they are kept."""
        return self._kept

    @property
    def items(self) -> "Sequence[Item[K]]":
        """The objects with their heads, not decoded."""
        return [Item(one, self.view) for one in self._kept]

    @property
    def refs(self) -> "Sequence[Ref[K]]":
        """The references to the objects."""
        return [self.view.ref(one) for one in self._kept]


REMEMBERED = 1024
"""How many decoded objects of a kind are shared between readers at most, unless said otherwise."""


@overload
def store(kind: type[K], *indexes: Index[Any], report: Report = ...) -> tuple["Store[K]", Writer[K]]: ...
@overload
def store(
    kind: GroupVersionKind, *indexes: Index[Any], report: Report = ...
) -> tuple["Store[Unstructured]", Writer[Unstructured]]: ...
@overload
def store(
    kind: OnlyMetadata, *indexes: Index[Any], report: Report = ...
) -> tuple["Store[PartialObjectMetadata]", Writer[PartialObjectMetadata]]: ...
def store(kind: Any, *indexes: Index[Any], report: Report = report_error) -> tuple["Store[Any]", Writer[Any]]:
    """An empty store and the writer that fills it."""
    view: View[Any] = view_of(kind)
    table, readiness = Table(view), Readiness(f"the store of {view.gvk}")
    made: Store[Any] = Store(table, view, readiness, report=report)
    for index in indexes:
        made.add_index(index)
    return made, Writer(table, view, readiness, report=report)


class Store(Generic[K]):
    """The last seen objects of a kind, read with one class.

    Typed objects are frozen and shared: reading the same object twice gives the same one as long as it has not changed
    and is among the last few versions that were read, or the last `remembered` that were read more than once. What a
    class cannot read raises BadObject when it is looked at, and disturbs nobody else. Lists come in the order in which
    the objects came.
    """

    __slots__ = ("_gvk", "_memo", "_readiness", "_report", "_share", "_table", "view")

    def __init__(
        self,
        table: Table,
        view: View[K],
        readiness: Readiness,
        *,
        report: Report = report_error,
        remembered: int = REMEMBERED,
    ) -> None:
        self.view = view
        self._gvk = view.gvk
        self._table = table
        self._readiness = readiness
        self._report = report
        self._memo: Memo[K] = table.memos.setdefault(view.class_, Memo(view, remembered))
        self._share = self._memo.share

    @property
    def gvk(self) -> GroupVersionKind:
        """The kind of the objects."""
        return self.view.gvk

    @property
    def is_ready(self) -> bool:
        """Whether it has been filled, and nothing keeps it from being current that will not pass by itself.

        What is there can be read in any case.
        """
        return self._readiness.is_ready

    async def wait_ready(self, within: float | None = None) -> None:
        """Returns once the store has been filled; NotReady, with the cause, if that takes longer or never happens."""
        await self._readiness.wait(within)

    @property
    def resource_version(self) -> str:
        """The version of the server's data that the last list or event brought; empty before the first."""
        return self._table.resource_version

    @property
    def size(self) -> int:
        """The bytes of JSON that are kept."""
        return self._table.size

    def __len__(self) -> int:
        return len(self._table.kept)

    def __contains__(self, ref: object) -> bool:
        wanted: Any = ref
        return isinstance(ref, Ref) and self._find(wanted, None) is not None

    def __repr__(self) -> str:
        return f"<Store of {len(self)} {self.gvk.kind}{'' if self.is_ready else ', not ready'}>"

    def get(self, of: Ref[Any] | str, namespace: str | None = None) -> K | None:
        """The object with this ref, or this name and namespace; None if it is not there.

        A cluster-scoped object is found with any namespace, a namespaced one only with its own.
        """
        if isinstance(of, Ref) and (of.gvk is self._gvk or of.gvk == self._gvk):  # as usual, and without a call
            key = of.key
            kept = self._table.kept.get(key)
            if kept is not None:
                return self._share(key, kept)
        kept = self._find(of, namespace)
        return None if kept is None else self._read(kept)

    @property
    def table(self) -> Table:
        """What it reads from."""
        return self._table

    @property
    def share(self) -> Callable[[str, Kept], K]:
        """Reads what the table keeps under a key, for those who look there by themselves; as `get`, it shares."""
        return self._share

    def item(self, of: Ref[Any] | str, namespace: str | None = None) -> Item[K] | None:
        """The object with its head, not decoded; None if it is not there."""
        kept = self._find(of, namespace)
        return None if kept is None else Item(kept, self.view)

    def kept(self, key: str) -> Kept | None:
        """What is kept under this key (`default/blog`, or `blog` for what is cluster-scoped)."""
        return self._table.kept.get(key)

    def keys(self) -> list[str]:
        """The keys of all objects."""
        return list(self._table.kept)

    def state(
        self,
        *,
        where: Callable[[K], bool] | None = None,
        labels: LabelSelector | str | None = None,
        namespace: str | None = None,
    ) -> Snapshot[K]:
        """The objects there are now; or those in a namespace, with some labels, or for which a function says so."""
        found = self._labelled(labels) if labels is not None else list(self._table.kept.values())
        if namespace is not None:
            found = [kept for kept in found if kept.namespace == namespace]
        if where is not None:
            found = [kept for kept in found if where(self._read_once(kept))]
        return self._snapshot(found)

    def find(self, predicate: Callable[[K], bool]) -> K | None:
        """The first object for which the function says so, or None."""
        for kept in self._table.kept.values():
            if predicate(self._read_once(kept)):
                return self._read(kept)
        return None

    def by(self, index: Index[Any], value: object, *, namespace: str | None = None) -> Snapshot[K]:
        """The objects with this value in an index; ConfigError if nobody has added the index."""
        table = self._table.kept
        found = [table[key] for key in self._table.indexed(index).live.keys(value)]
        if namespace is not None:
            found = [kept for kept in found if kept.namespace == namespace]
        return self._snapshot(found)

    def values(self, index: Index[Any]) -> list[Any]:
        """All values that some object has in an index."""
        return list(self._table.indexed(index).live.values())

    @property
    def indexes(self) -> tuple[Index[Any], ...]:
        """The indexes that are kept."""
        return tuple(one.index for one in self._table.indexes)

    def add_index(self, index: Index[Any]) -> None:
        """Keeps this index from now on, also for what is here; a second time changes nothing.

        Takes its time for a large store; the handle of an informer has an `add_index` that lets others run meanwhile.
        """
        self.begin_index(index).build(self._table.kept)

    def begin_index(self, index: Index[Any]) -> Indexed:
        """Keeps this index for what comes, and leaves it to the caller (or the first `by`) to build it for the rest."""
        return self._table.add_index(index, self._report)

    def remembered(self) -> list[tuple[Kept, K]]:
        """The decoded objects that are shared between readers, each with what it was decoded from."""
        return self._memo.entries()

    def _find(self, of: Ref[Any] | str, namespace: str | None) -> Kept | None:
        if isinstance(of, str):
            name = of
        elif of.gvk == self.gvk:
            name, namespace = of.name, of.namespace
        else:
            raise ConfigError(f"{of} is a {of.gvk}, and this is a store of {self.gvk}; ask the store of its kind")
        found = self._table.kept.get(key_for(name, namespace))
        return self._table.kept.get(name) if found is None and namespace else found

    def _labelled(self, labels: LabelSelector | str) -> list[Kept]:
        selector = LabelSelector.parse(labels) if isinstance(labels, str) else labels
        candidates: Iterable[Kept] = self._table.kept.values()
        for one in selector.requirements:
            value = selector.requires_exact(one.key)
            if value is not None and by_label(one.key) in self.indexes:
                candidates = self.by(by_label(one.key), value).kept
                break
        if selector.is_everything:
            return list(candidates)
        return [kept for kept in candidates if selector.matches(kept.labels)]

    def _snapshot(self, found: list[Kept]) -> Snapshot[K]:
        # A walk over more objects than are remembered would only drive out those that are read often.
        return Snapshot(found, self.view, self._read if len(found) <= self._memo.limit else self._read_once)

    def _read(self, kept: Kept) -> K:
        return self._share(key_of(kept), kept)

    def _read_once(self, kept: Kept) -> K:
        return self._memo.read(key_of(kept), kept, remember=False)
