"""The store of an informer: one writer applies watch events, many readers look objects up.

`sites, writer = store(Website, uses)` makes both ends. `Table` holds the objects by key and their indexes, `Writer`
applies events to it in order and returns the changes, `Store` reads it with one class, and `Snapshot` is a list of
objects that are decoded when they are accessed. `DecodedObjects` decides which decoded objects are retained, within a
`DecodedBudget` (docs/decisions/0047). Nothing here waits, except `Store.wait_ready`.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar, overload
from weakref import WeakSet

from levelset.client.object_types import Item, OnlyMetadata, View, view_of
from levelset.errors import BadObject, ConfigError
from levelset.objects import codec
from levelset.objects.cached_object import CachedObject, set_decoded
from levelset.objects.label_selectors import LabelSelector
from levelset.objects.ref import GroupVersionKind, Ref
from levelset.objects.resource import Object, PartialObjectMetadata, set_origin
from levelset.objects.unstructured import Unstructured
from levelset.runtime.cache.cache_sync import Readiness
from levelset.runtime.cache.change import Change
from levelset.runtime.cache.index import Buckets, Index, ReportError, TableIndex, by_label
from levelset.runtime.cache.keys import is_older, key_for, key_of
from levelset.runtime.cache.subscribers import log_error
from levelset.runtime.watch.events import Apply, Delete, Event, Init, InitApply, InitDone

__all__ = ["DECODED_BYTES", "SLICE", "DecodedBudget", "DecodedObjects", "Snapshot", "Store", "Table", "Writer", "store"]

K = TypeVar("K")

SLICE = 500
"""The most events, or objects, that are processed before other tasks may run: a millisecond or two."""

DECODED_BYTES: Final = 64 * 2**20
"""How much memory the decoded objects of a cluster may take by default."""

_cached_of: Final[Callable[[Any], CachedObject]] = attrgetter("item.cached")


class Table:
    """The objects of one kind and their indexes; written by one `Writer`, read by any number of `Store`s.

    `cached` has the objects by key. `fresh` is the next set of them while a list comes in, else None; `swap` replaces
    `cached` as a whole, so a dict that a reader still holds is never emptied.
    """

    __slots__ = (
        "_budget",
        "_fresh_size",
        "_indexes",
        "cached",
        "decoded",
        "fresh",
        "has_indexes",
        "is_filled",
        "resource_version",
        "size",
        "step",
        "view",
    )

    def __init__(self, view: View[Any], budget: "DecodedBudget | None" = None) -> None:
        self.view = view
        self.cached: dict[str, CachedObject] = {}
        self.fresh: dict[str, CachedObject] | None = None
        self.size = 0  # bytes of JSON
        self.step = 0  # counts the writes whose changes are handed out together
        self.is_filled = False
        self.resource_version = ""
        self.decoded: dict[type[Any], DecodedObjects[Any]] = {}
        self._budget = DecodedBudget() if budget is None else budget
        self._fresh_size = 0
        self.has_indexes = False
        self._indexes: dict[Index[Any], TableIndex] = {}

    def put(self, objects: Iterable[CachedObject], view: View[Any], changes: list[Change[Any]]) -> int:
        """Stores added and modified objects and appends the changes; returns how many were skipped for lack of a name.

        An object of the same or an older version than the stored one is not a change.
        """
        held, has_indexes, add, size, nameless, latest = self.cached, self.has_indexes, changes.append, 0, 0, None
        for cached in objects:
            name, namespace = cached.name, cached.namespace
            if not name:
                nameless += 1
                continue
            key = f"{namespace}/{name}" if namespace else name
            before = held.get(key)
            if before is not None:
                new, old = cached.resource_version, before.resource_version
                # Nearly always the new version is a longer or greater number: compared inline, without a call.
                is_doubtful = new <= old if len(new) == len(old) else len(new) < len(old)
                if is_doubtful and before.uid == cached.uid and not _is_newer(cached, before):
                    continue
                size -= len(before.raw)
                if isinstance(before.decoded, Object):
                    self.forget_decoded(key)
            held[key] = latest = cached
            size += len(cached.raw)
            add(Change(key, before, cached, view))
            if has_indexes:
                for indexed in self._indexes.values():
                    indexed.put(key, cached)
        if latest is not None:
            self.resource_version = latest.resource_version
        self.size += size
        return nameless

    def drop(self, key: str, gone: CachedObject) -> CachedObject | None:
        """Removes an object and returns its last state; None if it was not stored, or is newer than the deleted one."""
        before = self.cached.get(key)
        if before is None or is_older(gone.resource_version, before.resource_version):
            return None
        del self.cached[key]
        self.size -= len(before.raw)
        for indexed in self._indexes.values():
            indexed.live.drop(key)
        self.forget_decoded(key)
        return before

    def decoded_as(self, view: View[K]) -> "DecodedObjects[K]":
        """The decoded objects that readers of this class share."""
        found: DecodedObjects[K] | None = self.decoded.get(view.class_)
        if found is None:
            found = self.decoded[view.class_] = DecodedObjects(view, self._budget)
        return found

    def forget_decoded(self, key: str) -> None:
        """Releases the decoded forms of a version that is gone, which no reader will request again."""
        for decoded in self.decoded.values():
            decoded.forget(key)

    def start(self) -> None:
        """Begins a new set of objects and discards an incomplete one."""
        self.fresh = {}
        self._fresh_size = 0
        for indexed in self._indexes.values():
            indexed.start()

    def put_fresh(self, objects: Iterable[CachedObject]) -> int:
        """Stores objects in the new set; returns how many were skipped for lack of a name.

        An object whose version is stored already is replaced by the stored instance: a relist without changes then
        costs no memory, and decoded objects stay shared.
        """
        if self.fresh is None:
            self.start()
        assert self.fresh is not None, "started above"
        fresh, known, has_indexes, size, nameless = self.fresh, self.cached, self.has_indexes, 0, 0
        for cached in objects:
            name, namespace = cached.name, cached.namespace
            if not name:
                nameless += 1
                continue
            key = f"{namespace}/{name}" if namespace else name
            if known and (present := known.get(key)) is not None and _is_same(present, cached):
                cached = present  # noqa: PLW2901 -- the stored instance replaces it from here on
            if key in fresh:  # an object may be on two pages of a list; the later page has the newer version
                size -= len(fresh[key].raw)
            fresh[key] = cached
            size += len(cached.raw)
            if has_indexes:
                for indexed in self._indexes.values():
                    indexed.put_fresh(key, cached)
        self._fresh_size += size
        return nameless

    def swap(self) -> tuple[dict[str, CachedObject], list[Buckets]]:
        """Makes the new set the current one; returns the previous objects and buckets, to be compared and freed."""
        before, buckets = self.cached, list[Buckets]()
        if self.fresh is not None:
            self.cached, self.fresh = self.fresh, None
            self.size = self._fresh_size
            buckets = [indexed.swap(self.cached) for indexed in self._indexes.values()]
        self.is_filled = True
        return before, buckets

    @property
    def indexes(self) -> Collection[TableIndex]:
        """The indexes of the table."""
        return self._indexes.values()

    def add_index(self, index: Index[Any], report: ReportError) -> TableIndex:
        """Maintains this index from now on; its `build` adds the objects that are stored already."""
        found = self._indexes.get(index)
        if found is None:
            self._check_index(index)
            found = self._indexes[index] = TableIndex(index, report)
            found.build_later(self.cached)
            self.has_indexes = True
        return found

    def indexed(self, index: Index[Any]) -> TableIndex:
        """The state of an index, built; ConfigError if the index was not added."""
        found = self._indexes.get(index)
        if found is None:
            known = ", ".join(sorted(one.name for one in self._indexes)) or "none"
            raise ConfigError(
                f"the cache of {self.view.gvk} has no {index!r} (declared indexes: {known}); "
                "declare it with indexes=[...] or call add_index first"
            )
        if not found.is_built:
            found.build(self.cached)
        return found

    def _check_index(self, index: Index[Any]) -> None:
        view = index.view
        if view is None:
            return
        if view.gvk != self.view.gvk:
            raise ConfigError(
                f"{index!r} is for another kind than the cache of {self.view.gvk}; add it to the cache of its own kind"
            )
        if self.view.is_metadata and not view.is_metadata:
            raise ConfigError(
                f"{index!r} needs whole objects, and the cache of {self.view.gvk} has only their metadata; "
                "use by_label, by_owner or Index.of_head, or declare the kind itself"
            )


def _is_newer(one: CachedObject, than: CachedObject) -> bool:
    version, other = one.resource_version, than.resource_version
    return (version != other or not version) and not is_older(version, other)


def _is_same(one: CachedObject, other: CachedObject) -> bool:
    version = one.resource_version
    return bool(version) and version == other.resource_version and one.uid == other.uid


class Writer(Generic[K]):
    """Applies watch events to a store, in order; there is one writer for each store.

    Between Init and InitDone objects go into a buffer while readers see the old ones; InitDone swaps both at once. Its
    changes are the deletions first, each with the last state of the object, then the added and modified objects in the
    order of the list; an object of the same version is not a change. A single event that is older than the stored
    object is ignored; a complete list is applied even then, because an API server may be restored from a backup.
    """

    __slots__ = ("_readiness", "_report", "_table", "_view", "list_marks")

    def __init__(self, table: Table, view: View[K], readiness: Readiness, *, report: ReportError = log_error) -> None:
        self._table = table
        self._view = view
        self._readiness = readiness
        self._report = report
        self.list_marks = 0
        """The number of Init and InitDone so far: they begin and end a list, and are about no object."""

    def apply(self, events: Sequence[Event[Any]]) -> list[Change[K]]:
        """Applies the events, in order, and returns the changes."""
        return [change for changes in self.slices(events) for change in changes]

    def slices(self, events: Sequence[Event[Any]]) -> Iterator[list[Change[K]]]:
        """Applies the events, in order, and yields the changes in slices, some of them empty.

        The changes of a slice are in the store when the slice is yielded. Between two slices the caller may let other
        tasks run, but must not write anything else.
        """
        table, view = self._table, self._view
        for start in range(0, len(events), SLICE):
            changes: list[Change[K]] = []
            for kind, run in groupby(events[start : start + SLICE], type):
                nameless = 0
                if kind is Apply:
                    nameless = table.put(map(_cached_of, run), view, changes)
                elif kind is InitApply:
                    nameless = table.put_fresh(map(_cached_of, run))
                elif kind is Delete:
                    for cached in map(_cached_of, run):
                        self._drop(cached, changes)
                elif kind is Init:
                    self.list_marks += len(list(run))
                    table.start()
                else:
                    if changes:
                        table.step += 1
                        yield changes
                        changes = []
                    for event in run:
                        self.list_marks += 1
                        yield from self._swap(event)  # type: ignore[arg-type]  # InitDone is the only kind left
                if nameless:
                    self._report_nameless(nameless)
            if changes:
                table.step += 1
            yield changes

    def close(self, cause: Exception | None = None) -> None:
        """Closes the store for writing; callers that still wait for it to be ready get NotReady."""
        self._readiness.close(cause)

    def _drop(self, cached: CachedObject, changes: list[Change[K]]) -> None:
        key = key_of(cached)
        before = self._table.drop(key, cached)
        if before is not None:
            self._table.resource_version = cached.resource_version
            changes.append(Change(key, before, None, self._view))

    def _report_nameless(self, nameless: int) -> None:
        for _ in range(nameless):
            self._report(f"the store of {self._view.gvk}", BadObject("an object without metadata.name was skipped"))

    def _swap(self, event: InitDone) -> Iterator[list[Change[K]]]:
        is_first = not self._table.is_filled
        before, buckets = self._table.swap()
        self._table.step += 1
        self._table.resource_version = event.resource_version
        self._readiness.set_ready()
        now = self._table.cached
        if before is not now:
            yield from self._deletions(before, now)
            yield from self._updates(before, now, is_initial=is_first)
            yield from _free(before, buckets)

    def _deletions(self, before: dict[str, CachedObject], now: dict[str, CachedObject]) -> Iterator[list[Change[K]]]:
        for keys in _sliced(before):
            gone = [key for key in keys if key not in now]
            for key in gone:
                self._table.forget_decoded(key)
            yield [Change(key, before[key], None, self._view) for key in gone]

    def _updates(
        self, before: dict[str, CachedObject], now: dict[str, CachedObject], *, is_initial: bool
    ) -> Iterator[list[Change[K]]]:
        view, was = self._view, before.get
        for keys in _sliced(now):
            changes = [Change(key, was(key), now[key], view, is_initial) for key in keys if was(key) is not now[key]]
            for change in changes:
                self._table.forget_decoded(change.key)
            yield changes


def _sliced(contents: dict[str, CachedObject]) -> Iterator[list[str]]:
    keys = list(contents)
    for start in range(0, len(keys), SLICE):
        yield keys[start : start + SLICE]


def _free(before: dict[str, CachedObject], buckets: list[Buckets]) -> Iterator[list[Any]]:
    """Frees the previous objects and buckets in slices: freeing 100,000 objects at once blocks the loop for 30 ms."""
    while before:
        for _ in range(min(SLICE, len(before))):
            before.popitem()
        yield []
    for old in buckets:
        while old.free(SLICE):
            yield []


_READ_ONCE: Final = 8
"""How many objects that were read for the first time are retained."""
_EVICTED: Final = object()
"""Stored in place of a decoded object that was evicted: the object was read before."""
_BYTES_PER_JSON_BYTE: Final = 4
"""What a decoded object takes for each byte of its JSON: 3.4 was measured for a Pod, 2.7 for a custom resource."""
_REPLACE_EVERY: Final = 8


class DecodedBudget:
    """The memory for decoded objects that the caches of a cluster share: `limit` bytes, estimated from their JSON.

    As long as it fits, everything that is read again is retained. When it does not, only every eighth of those
    objects replaces what was retained longest, in the cache that takes most: to read more objects than fit, in turns,
    would otherwise evict each of them before it is read again.
    """

    __slots__ = ("_members", "_refused", "limit", "used")

    def __init__(self, limit: int = DECODED_BYTES) -> None:
        if limit < 0:
            raise ConfigError(f"the memory for decoded objects must be at least 0 bytes, not {limit}")
        self.limit = limit
        self.used = 0
        self._refused = 0
        self._members: WeakSet[DecodedObjects[Any]] = WeakSet()

    def join(self, member: "DecodedObjects[Any]") -> None:
        """Lets the objects of a cache be evicted for those of another."""
        self._members.add(member)

    def admit(self, size: int) -> bool:
        """Whether an object of this size may be retained; others may be evicted for it."""
        if self.used + size <= self.limit:
            return True
        self._refused += 1
        if self._refused % _REPLACE_EVERY or size > self.limit:
            return False
        while self.used + size > self.limit:
            max(self._members, key=attrgetter("size")).evict()
        return True


class DecodedObjects(Generic[K]):
    """Decodes cached objects and retains some of the results, within the budget of its cluster.

    In a burst of changes each version of an object is read once and never again, and retaining a thousand of them takes
    half as long again: they have left the processor's caches when they are freed. So of single objects that were read
    for the first time only the last few are retained, outside of the budget, and others when they are read again
    unchanged. Objects of a list are retained at once: the next list has nearly all of them.

    The result is stored in `CachedObject.decoded` for the first class that reads it; other classes decode the object at
    each read. Only an `Object` is ever stored: the tree of an `Unstructured` may be mutated by its caller.
    """

    __slots__ = (
        "__weakref__",
        "_budget",
        "_class",
        "_is_shared",
        "_max_once",
        "_read",
        "_read_once",
        "_retained",
        "_view",
        "size",
    )

    def __init__(self, view: View[K], budget: DecodedBudget) -> None:
        self.size = 0
        """What the retained objects take of the budget, in bytes."""
        self._budget = budget
        self._view = view
        self._class: type[Any] = view.class_
        self._is_shared = issubclass(view.class_, Object)
        self._read: Callable[[bytes], Any] | None = None  # made with the first object: many caches stay empty
        self._max_once = _READ_ONCE if budget.limit else 0
        # Both in the order of their eviction. Each lists exactly the objects whose result was stored by this instance.
        self._read_once: deque[CachedObject] = deque()
        self._retained: OrderedDict[str, CachedObject] = OrderedDict()
        budget.join(self)

    def __del__(self) -> None:
        self._budget.used -= self.size  # of a cache that was closed

    def __len__(self) -> int:
        return len(self._read_once) + len(self._retained)

    def entries(self) -> list[tuple[CachedObject, K]]:
        """What is retained, in no particular order."""
        return [(cached, cached.decoded) for cached in (*self._retained.values(), *self._read_once)]

    def share(self, cached: CachedObject) -> K:
        """The decoded object, the same instance for every reader while it is retained.

        BadObject names the object if its class cannot decode it.
        """
        found = cached.decoded
        obj: K
        if found.__class__ is self._class:
            obj = found
            return obj
        obj = self._decode(cached)
        # Decoding may run user code, which may have read the same object: then this result is not stored.
        if self._max_once and self._is_shared and cached.decoded is found:
            if found is None:
                set_decoded(cached, obj)
                self._read_once.append(cached)
                if len(self._read_once) > self._max_once:
                    set_decoded(self._read_once.popleft(), _EVICTED)
            elif found is _EVICTED:
                self._retain(cached, obj)
        return obj

    def share_listed(self, cached: CachedObject) -> K:
        """The decoded object of a list, as with `share`, but it is retained the first time if it fits."""
        found = cached.decoded
        obj: K
        if found.__class__ is self._class:
            obj = found
            return obj
        obj = self._decode(cached)
        if self._is_shared and cached.decoded is found and (found is None or found is _EVICTED):
            self._retain(cached, obj)
        return obj

    def read(self, cached: CachedObject) -> K:
        """The decoded object, as with `share`, but a new result is not retained."""
        found = cached.decoded
        return found if found.__class__ is self._class else self._decode(cached)

    def _decode(self, cached: CachedObject) -> K:
        raw = cached.raw
        try:
            obj: K = (self._read or self._make_reader())(raw)
        except (BadObject, *codec.UNREADABLE) as error:
            obj = self._reread(cached, error)
        if self._is_shared:
            set_origin(obj, raw)
        return obj

    def _make_reader(self) -> Callable[[bytes], Any]:
        made: Callable[[bytes], Any] = codec.plain_reader(self._class) if self._is_shared else self._view.read
        self._read = made
        return made

    def _retain(self, cached: CachedObject, obj: K) -> None:
        key = key_of(cached)
        if key in self._retained:
            self._release(key, _EVICTED)
        size = _BYTES_PER_JSON_BYTE * len(cached.raw)
        if self._budget.admit(size):
            set_decoded(cached, obj)
            self._retained[key] = cached
            self.size += size
            self._budget.used += size

    def forget(self, key: str) -> None:
        """Releases the object under this key, which was deleted or replaced by another version.

        It counts as not read: a reader of its deletion who decodes it once more does not have it retained for long. The
        last few that were read once are replaced soon.
        """
        if key in self._retained:
            self._release(key, None)

    def evict(self) -> None:
        """Releases the object that was retained longest."""
        self._release(next(iter(self._retained)), _EVICTED)

    def _release(self, key: str, mark: object) -> None:
        former = self._retained.pop(key)
        set_decoded(former, mark)
        size = _BYTES_PER_JSON_BYTE * len(former.raw)
        self.size -= size
        self._budget.used -= size

    def _reread(self, cached: CachedObject, error: Exception) -> K:
        """The object that could not be decoded as it is; BadObject names it if it cannot be decoded at all."""
        try:
            if isinstance(error, BadObject):
                raise error
            obj: K = codec.reread(self._class, cached.raw, error)
        except BadObject as bad:
            raise BadObject(f"{self._view.gvk.kind}/{key_of(cached)}: {bad}", field=bad.field) from bad
        return obj


class Snapshot(Sequence[K]):
    """A sequence of typed objects as of one moment, frozen and shared with other readers.

    An object is decoded when it is accessed; BadObject names one that its class cannot decode. `items` decodes nothing.
    """

    __slots__ = ("_cached", "_read", "view")

    def __init__(self, cached: list[CachedObject], view: View[K], read: Callable[[CachedObject], K]) -> None:
        self.view = view
        self._cached = cached
        self._read = read

    def __len__(self) -> int:
        return len(self._cached)

    @overload
    def __getitem__(self, index: int) -> K: ...
    @overload
    def __getitem__(self, index: slice) -> "Snapshot[K]": ...
    def __getitem__(self, index: int | slice) -> "K | Snapshot[K]":
        if isinstance(index, slice):
            return Snapshot(self._cached[index], self.view, self._read)
        return self._read(self._cached[index])

    def __iter__(self) -> Iterator[K]:
        return map(self._read, self._cached)

    def __repr__(self) -> str:
        return f"<Snapshot of {len(self)} {self.view.gvk.kind}>"

    @property
    def cached(self) -> Sequence[CachedObject]:
        """The objects in cached form: heads and bytes."""
        return self._cached

    @property
    def items(self) -> "Sequence[Item[K]]":
        """The objects with their heads, not decoded."""
        return [Item(one, self.view) for one in self._cached]

    @property
    def refs(self) -> "Sequence[Ref[K]]":
        """The references to the objects."""
        return [self.view.ref(one) for one in self._cached]


@overload
def store(kind: type[K], *indexes: Index[Any], report: ReportError = ...) -> tuple["Store[K]", Writer[K]]: ...
@overload
def store(
    kind: GroupVersionKind, *indexes: Index[Any], report: ReportError = ...
) -> tuple["Store[Unstructured]", Writer[Unstructured]]: ...
@overload
def store(
    kind: OnlyMetadata, *indexes: Index[Any], report: ReportError = ...
) -> tuple["Store[PartialObjectMetadata]", Writer[PartialObjectMetadata]]: ...
def store(kind: Any, *indexes: Index[Any], report: ReportError = log_error) -> tuple["Store[Any]", Writer[Any]]:
    """An empty store and the writer that fills it."""
    view: View[Any] = view_of(kind)
    table, readiness = Table(view), Readiness(f"the store of {view.gvk}")
    made: Store[Any] = Store(table, view, readiness, report=report)
    for index in indexes:
        made.add_index(index)
    return made, Writer(table, view, readiness, report=report)


class Store(Generic[K]):
    """The last observed objects of a kind, decoded with one class.

    Typed objects are frozen and shared: reading the same object twice returns the same instance as long as it has not
    changed and its decoded form is retained (see `DecodedObjects`). An object that the class cannot decode raises
    BadObject when it is accessed and affects no other object. Lists are in the order in which the objects were added.
    """

    __slots__ = ("_decoded", "_readiness", "_report", "_share", "_table", "view")

    def __init__(
        self,
        table: Table,
        view: View[K],
        readiness: Readiness,
        *,
        report: ReportError = log_error,
    ) -> None:
        self.view = view
        self._table = table
        self._readiness = readiness
        self._report = report
        self._decoded: DecodedObjects[K] = table.decoded_as(view)
        self._share = self._decoded.share

    @property
    def gvk(self) -> GroupVersionKind:
        """The kind of the objects."""
        return self.view.gvk

    @property
    def is_ready(self) -> bool:
        """Whether it has been filled, and the watch has no error that needs a person (a missing kind or permission).

        The stored objects can be read in either case.
        """
        return self._readiness.is_ready

    async def wait_ready(self, within: float | None = None) -> None:
        """Returns once the store has been filled; NotReady, with the cause, if that takes longer or never happens."""
        await self._readiness.wait(within)

    @property
    def resource_version(self) -> str:
        """The resourceVersion of the last list or event; empty before the first."""
        return self._table.resource_version

    @property
    def size(self) -> int:
        """The size of the stored JSON in bytes."""
        return self._table.size

    def __len__(self) -> int:
        return len(self._table.cached)

    def __contains__(self, ref: object) -> bool:
        wanted: Any = ref
        return isinstance(ref, Ref) and self._find(wanted, None) is not None

    def __repr__(self) -> str:
        return f"<Store of {len(self)} {self.gvk.kind}{'' if self.is_ready else ', not ready'}>"

    def get(self, of: Ref[Any] | str, namespace: str | None = None) -> K | None:
        """The object with this ref, or this name and namespace; None if it is not stored.

        A cluster-scoped object is found with any namespace, a namespaced one only with its own.
        """
        cached = self._find(of, namespace)
        return None if cached is None else self._share(cached)

    @property
    def table(self) -> Table:
        """The table that it reads from."""
        return self._table

    @property
    def share(self) -> Callable[[CachedObject], K]:
        """Decodes a cached object that the caller found in `table`; shared, as with `get`."""
        return self._share

    def item(self, of: Ref[Any] | str, namespace: str | None = None) -> Item[K] | None:
        """The object as an item, not decoded; None if it is not stored."""
        cached = self._find(of, namespace)
        return None if cached is None else Item(cached, self.view)

    def cached(self, key: str) -> CachedObject | None:
        """The cached object under this key (`default/blog`, or `blog` for a cluster-scoped object)."""
        return self._table.cached.get(key)

    def keys(self) -> list[str]:
        """The keys of all objects."""
        return list(self._table.cached)

    def state(
        self,
        *,
        where: Callable[[K], bool] | None = None,
        labels: LabelSelector | str | None = None,
        namespace: str | None = None,
    ) -> Snapshot[K]:
        """The objects as of now, optionally only those of a namespace, with these labels, or accepted by `where`."""
        found = self._labelled(labels) if labels is not None else list(self._table.cached.values())
        if namespace is not None:
            found = [cached for cached in found if cached.namespace == namespace]
        if where is not None:
            found = [cached for cached in found if where(self._decoded.read(cached))]
        return self._snapshot(found)

    def find(self, predicate: Callable[[K], bool]) -> K | None:
        """The first object that the predicate accepts, or None."""
        for cached in self._table.cached.values():
            if predicate(self._decoded.read(cached)):
                return self._share(cached)
        return None

    def by(self, index: Index[Any], value: object, *, namespace: str | None = None) -> Snapshot[K]:
        """The objects with this value in an index; ConfigError if the index was not added."""
        table = self._table.cached
        found = [table[key] for key in self._table.indexed(index).live.keys(value)]
        if namespace is not None:
            found = [cached for cached in found if cached.namespace == namespace]
        return self._snapshot(found)

    def values(self, index: Index[Any]) -> list[Any]:
        """All values of an index, each held by at least one object."""
        return list(self._table.indexed(index).live.values())

    @property
    def indexes(self) -> tuple[Index[Any], ...]:
        """The indexes of the store."""
        return tuple(one.index for one in self._table.indexes)

    def add_index(self, index: Index[Any]) -> None:
        """Adds this index and builds it for the stored objects; a second call changes nothing.

        Blocks the event loop while it builds; `add_index` of an informer's handle lets other tasks run meanwhile.
        """
        self.begin_index(index).build(self._table.cached)

    def begin_index(self, index: Index[Any]) -> TableIndex:
        """Adds this index for new objects; the caller, or the first `by`, builds it for the stored ones."""
        return self._table.add_index(index, self._report)

    def decoded_objects(self) -> list[tuple[CachedObject, K]]:
        """The decoded objects that readers share, each with the cached object it was decoded from."""
        return self._decoded.entries()

    def _find(self, of: Ref[Any] | str, namespace: str | None) -> CachedObject | None:
        if isinstance(of, str):
            name = of
        elif of.gvk == self.gvk:
            name, namespace = of.name, of.namespace
        else:
            raise ConfigError(f"{of} is a {of.gvk}, but this is a store of {self.gvk}; use the store of its kind")
        found = self._table.cached.get(key_for(name, namespace))
        return self._table.cached.get(name) if found is None and namespace else found

    def _labelled(self, labels: LabelSelector | str) -> list[CachedObject]:
        selector = LabelSelector.parse(labels) if isinstance(labels, str) else labels
        candidates: Iterable[CachedObject] = self._table.cached.values()
        for one in selector.requirements:
            value = selector.requires_exact(one.key)
            if value is not None and by_label(one.key) in self.indexes:
                candidates = self.by(by_label(one.key), value).cached
                break
        if selector.is_everything:
            return list(candidates)
        return [cached for cached in candidates if selector.matches(cached.labels)]

    def _snapshot(self, found: list[CachedObject]) -> Snapshot[K]:
        return Snapshot(found, self.view, self._decoded.share_listed)
