"""A store of objects: one writer puts in what a watch tells, many readers find it.

`sites, writer = store(Website, uses)` makes both ends. The writer is given events in order and keeps everything right
by itself; the store answers at once and never waits, except in `wait_ready`.
"""

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar, overload

from levelset.cache.index import Index, by_label
from levelset.cache.indexed import Indexed, Report
from levelset.cache.keys import key_for, key_of
from levelset.cache.memo import Memo
from levelset.cache.readiness import Readiness
from levelset.cache.reporting import report_error
from levelset.cache.snapshot import Snapshot
from levelset.cache.table import Table
from levelset.cache.writer import Writer
from levelset.client.kinds import Item, OnlyMetadata, View, view_of
from levelset.errors import ConfigError
from levelset.objects.identity import GroupVersionKind, Ref
from levelset.objects.kept import Kept
from levelset.objects.resource import PartialObjectMetadata
from levelset.objects.selectors import LabelSelector
from levelset.objects.unstructured import Unstructured

__all__ = ["Store", "Writer", "store"]

K = TypeVar("K")

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
