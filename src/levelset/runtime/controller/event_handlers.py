"""Turns changes into requests: which objects are reconciled because of a change, and why.

Each `..._listener` function makes a listener for the changes of one informer. A listener enqueues keys synchronously. A
change that cannot be handled, or for which the user's function raises, is logged and enqueues nothing.

`SELF_CHANGES` is the default predicate for changes of the controller's own objects: all but changes of the status, so
that a reconciler is not woken by its own status writes.
"""

import logging
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, Protocol

import msgspec

from levelset.client.object_types import Item, Kind, View, view_of
from levelset.errors import BadName, ConfigError
from levelset.objects.cached_object import CachedObject, OwnerHead
from levelset.objects.ref import GroupVersionKind, Ref, parse_api_version, ref_to
from levelset.runtime.cache import Change, Index, Store
from levelset.runtime.controller.relations import Owns, References, Watches
from levelset.runtime.controller.request import CHANGED, FIRST, Reason
from levelset.runtime.queue import LOW, NORMAL
from levelset.runtime.watch import Predicate

__all__ = [
    "DELETION_STARTS",
    "SELF_CHANGES",
    "CleanupChanges",
    "Enqueue",
    "Listener",
    "Report",
    "Target",
    "log_error",
    "mapped_listener",
    "owner_listener",
    "reference_index",
    "reference_listener",
    "refers_to_kind",
    "self_listener",
]


class _SelfChanges(Predicate):
    """Generation, labels, annotations, finalizers and the start of a deletion count.

    For a kind without a generation every change counts, since status changes cannot be distinguished. The JSON of the
    metadata is compared byte by byte, which is cheaper than decoding it.
    """

    def trace(self, item: Item[Any], /) -> Any:
        head = item.cached
        return (
            head.resource_version if head.generation is None else head.generation,
            head.deletion_timestamp is not None,
            head.labels_json,
            head.annotations_json,
            head.finalizers_json,
        )

    def passes(self, old: Item[Any] | None, new: Item[Any] | None) -> bool:
        """The same as comparing the traces, without making them: this runs for each event."""
        if old is None or new is None:
            return old is not new
        was, head = old.cached, new.cached
        if head.generation != was.generation:
            return True
        if head.generation is None and head.resource_version != was.resource_version:
            return True
        return (
            (head.deletion_timestamp is None) is not (was.deletion_timestamp is None)
            or head.labels_json != was.labels_json
            or head.annotations_json != was.annotations_json
            or head.finalizers_json != was.finalizers_json
        )

    def differs(self, old: Any, new: Any, /) -> bool:
        return old is None or new is None or bool(old != new)

    def __repr__(self) -> str:
        return "SELF_CHANGES"


SELF_CHANGES: Final[Predicate] = _SelfChanges()
"""Passes a change of generation, labels, annotations, finalizers or deletion."""


class _DeletionStarts(Predicate):
    """Passes only the start of a deletion: finalizers must run, whatever else triggers a reconcile."""

    def trace(self, item: Item[Any], /) -> bool:
        return item.cached.deletion_timestamp is not None

    def differs(self, old: bool | None, new: bool | None, /) -> bool:
        return bool(new) and not old

    def __repr__(self) -> str:
        return "DELETION_STARTS"


DELETION_STARTS: Final[Predicate] = _DeletionStarts()
"""Passes the start of a deletion only, also of an object that is first seen when it is being deleted."""


class CleanupChanges(Predicate):
    """Passes what a controller with a cleanup must not miss: its finalizer was added, or a deletion starts."""

    def __init__(self, finalizer: str) -> None:
        self._finalizer = finalizer

    def trace(self, item: Item[Any], /) -> tuple[bool, bool]:
        """Whether it is being deleted, and whether it has the finalizer."""
        return item.cached.deletion_timestamp is not None, self._finalizer in item.cached.finalizers

    def differs(self, old: tuple[bool, bool] | None, new: tuple[bool, bool] | None, /) -> bool:
        """Whether one of both began to hold; an object that is seen first has got its finalizer before."""
        if new is None:
            return False
        was_deleted, had_finalizer = old or (False, True)
        is_deleted, has_finalizer = new
        return (is_deleted and not was_deleted) or (has_finalizer and not had_finalizer)

    def __repr__(self) -> str:
        return f"CleanupChanges({self._finalizer!r})"


Listener = Callable[[Sequence[Change[Any]]], None]
"""Is called with the changes of an informer, a batch at a time."""

Report = Callable[[str, str, Exception], object]
"""Is called with what a listener is for, the key or name of the changed object, and the error."""

_log = logging.getLogger(__name__)


class Enqueue(Protocol):
    """Enqueues the objects with these keys, as `Target.key` makes them, for the same reason."""

    def __call__(self, keys: Collection[str], reason: Reason, priority: int, /) -> object:
        """Never waits; a key that is queued already is merged with its request."""
        ...


class Target(msgspec.Struct, frozen=True):
    """The kind that a controller reconciles; normalizes refs, so that each object has exactly one ref and key.

    A ref without a namespace means the client's `namespace`; for a cluster-scoped kind the namespace is dropped. A ref
    with another version of the kind is the same object.

    Inside a controller all objects are of one kind, so each is identified by the key of its ref, a string; the ref is
    made from it when it is needed.
    """

    view: View[Any]
    namespaced: bool
    namespace: str

    def ref(self, given: Ref[Any]) -> Ref[Any]:
        """The normalized ref of an object; ConfigError if it is of another kind."""
        gvk = self.view.gvk
        if given.gvk is gvk and (given.namespace is not None) is self.namespaced:
            return given
        namespace = (given.namespace or self.namespace) if self.namespaced else None
        if given.gvk == gvk and given.namespace == namespace:
            return given
        if given.gvk.group != gvk.group or given.gvk.kind != gvk.kind:
            raise ConfigError(f"{given} is a {given.gvk}, but this controller reconciles {gvk}; pass one of these")
        return self.named(given.name, namespace)

    def named(self, name: str, namespace: str | None) -> Ref[Any]:
        """The ref of the object with this name; the namespace is ignored for a cluster-scoped kind."""
        return ref_to(self.view.gvk, self.view.own_class, name, namespace if self.namespaced else None)

    def key(self, given: Ref[Any]) -> str:
        """The key of the normalized ref of an object; ConfigError if it is of another kind."""
        if given.gvk is self.view.gvk and (given.namespace is not None) is self.namespaced:
            return given.key  # the common case: `ref` would return it unchanged
        return self.ref(given).key

    def key_of(self, cached: CachedObject) -> str:
        """The key of a cached object of this kind; BadName if its name is invalid."""
        return self.view.ref(cached).key


ReasonAndPriority = tuple[Reason, int]
"""The reason and the priority of a request."""

_CHANGED: Final[ReasonAndPriority] = (CHANGED, NORMAL)
_FIRST: Final[ReasonAndPriority] = (FIRST, LOW)
_RESYNC: Final[ReasonAndPriority] = (CHANGED, LOW)


def log_error(what: str, name: str, error: Exception) -> None:
    """Logs that a change enqueues nothing because of an error."""
    _log.error("%s: the change of %s enqueues nothing: %s", what, name, error, exc_info=error)


def self_listener(target: Target, when: Predicate, enqueue: Enqueue, *, report: Report = log_error) -> Listener:
    """Enqueues each of the controller's own objects that changes in a way that `when` passes, or is deleted.

    Objects of a batch with the same reason, nearly always all, are enqueued together.
    """
    view, what = target.view, f"a change of {target.view.gvk}"

    def listen(changes: Sequence[Change[Any]]) -> None:
        pending, keys = _CHANGED, list[str]()
        for change in changes:
            try:
                found = _decide(change, view, when)
                if found is None:
                    continue
                name = (change.after or change.cached).name
                if not name or "/" in name:  # its key would be that of another object
                    target.named(name, change.cached.namespace)  # raises BadName
            except Exception as error:  # noqa: BLE001 -- one bad object must not affect others
                report(what, change.key, error)
                continue
            if found is not pending:
                if keys:
                    enqueue(keys, *pending)
                pending, keys = found, []
            keys.append(change.key)
        if keys:
            enqueue(keys, *pending)

    return listen


def _decide(change: Change[Any], view: View[Any], when: Predicate) -> ReasonAndPriority | None:
    """The reason and the priority of the request for a changed object; None if the change causes none."""
    before, after = change.before, change.after
    if after is None:
        return _CHANGED  # deletions always count: the state of the object must be dropped
    if before is None or change.is_initial:
        if when.passes(None, Item(after, view)):
            return _FIRST if change.is_initial else _CHANGED
        return None
    if before.uid != after.uid or when.passes(Item(before, view), Item(after, view)):
        return _CHANGED
    return _RESYNC if change.is_resync else None


def owner_listener(target: Target, relation: Owns, enqueue: Enqueue, *, report: Report = log_error) -> Listener:
    """Enqueues the owners of a changed object, those before and those after the change."""

    def find(item: Item[Any]) -> Iterator[str]:
        cached = item.cached
        if target.namespaced and cached.namespace is None:
            return  # a namespaced object cannot own a cluster-scoped one
        for owner in cached.owners:
            if (owner.controller or relation.every_owner) and refers_to_kind(owner, target.view.gvk):
                yield target.named(owner.name, cached.namespace).key

    what = f"an owner of a {view_of(relation.kind).gvk}"
    return _related_listener(find, relation.when, enqueue, what, names_same=_has_same_owners, report=report)


def _no_refs(returned: Any, target: Target) -> ConfigError:
    kind = target.view.gvk.kind
    return ConfigError(f"to= returned {returned!r}; return a list of refs: [Ref({kind}, name, namespace)]")


def mapped_listener(target: Target, relation: Watches, enqueue: Enqueue, *, report: Report = log_error) -> Listener:
    """Enqueues the refs that the user's function returns for the object before and after the change."""

    def find(item: Item[Any]) -> Iterator[str]:
        returned: Any = relation.to(item.object)
        if returned.__class__ in (Ref, str):
            raise _no_refs(returned, target)
        for given in returned:
            if given.__class__ is not Ref:
                raise _no_refs(returned, target)
            yield target.key(given)

    what = f"watches({view_of(relation.kind).gvk}, to=...)"
    return _related_listener(find, relation.when, enqueue, what, report=report)


def reference_listener(
    target: Target,
    relation: References,
    index: Index[Any],
    stores: Sequence[Store[Any]],
    enqueue: Enqueue,
    *,
    report: Report = log_error,
) -> Listener:
    """Enqueues the objects that name a changed object, or share a value with it."""
    gvk, theirs = view_of(relation.kind).gvk, relation.theirs

    def find(item: Item[Any]) -> Iterator[str]:
        cached = item.cached
        values = [(gvk.group, gvk.kind, cached.namespace, cached.name)] if theirs is None else theirs(item.object)
        for value in values:
            for store in stores:
                yield from map(target.key_of, store.by(index, value).cached)

    return _related_listener(find, relation.when, enqueue, f"references({gvk}, ...)", report=report)


def reference_index(relation: References, kind: Kind[Any], *, namespaced: bool, namespace: str) -> Index[Any]:
    """The index of a controller's objects by what they reference; controllers with the same function share it."""
    if relation.theirs is not None:
        return Index(kind, relation.names)
    names = _Names(relation.names, namespaced, namespace)
    return Index(kind, names, name=f"references by {getattr(relation.names, '__name__', 'a function')}")


class _Names(msgspec.Struct, frozen=True):
    """The user's function, with each ref as an index value that is independent of the version of its kind."""

    names: Callable[[Any], Iterable[Ref[Any]]]
    namespaced: bool
    namespace: str

    def __call__(self, obj: Any) -> list[Hashable]:
        return [
            (ref.gvk.group, ref.gvk.kind, (ref.namespace or self.namespace) if self.namespaced else None, ref.name)
            for ref in self.names(obj)
        ]


def _never(_: CachedObject, __: CachedObject) -> bool:
    return False


def _related_listener(
    find: Callable[[Item[Any]], Iterator[str]],
    when: Predicate | None,
    enqueue: Enqueue,
    what: str,
    *,
    report: Report,
    names_same: Callable[[CachedObject, CachedObject], bool] = _never,
) -> Listener:
    """Enqueues what `find` returns for both sides of a change; `names_same` skips the old side if it is the same."""

    def handle(change: Change[Any]) -> None:
        before, after = change.before, change.after
        is_whole = change.is_resync or change.is_recreated  # there is nothing to compare with
        if when is not None and not is_whole and not when.passes(change.old, change.new):
            return
        found: dict[str, None] = {}
        if before is not None and (after is None or not names_same(before, after)):
            collect(Item(before, change.view), found)
        if after is not None:
            collect(Item(after, change.view), found)
        if found:
            reason = Reason("related", change.ref)
            priority = LOW if change.is_initial or change.is_resync else NORMAL
            enqueue(found, reason, priority)

    def collect(item: Item[Any], found: dict[str, None]) -> None:
        # An error on one side of a change does not affect the other side.
        try:
            for key in find(item):
                found[key] = None
        except Exception as error:  # noqa: BLE001 -- it calls user code
            report(what, item.cached.name, error)

    return _reporting_errors(handle, what, report)


def _reporting_errors(handle: Callable[[Change[Any]], None], what: str, report: Report) -> Listener:
    def listen(changes: Sequence[Change[Any]]) -> None:
        for change in changes:
            try:
                handle(change)
            except Exception as error:  # noqa: BLE001 -- one bad object must not affect others
                report(what, change.key, error)

    return listen


def _has_same_owners(one: CachedObject, other: CachedObject) -> bool:
    """Whether two versions of an object have the same owner references."""
    return one.owners_json == other.owners_json


def refers_to_kind(owner: OwnerHead, gvk: GroupVersionKind) -> bool:
    """Whether an owner reference names an object of a kind, in any version."""
    return owner.kind == gvk.kind and bool(owner.name) and _group_of(owner.api_version) == gvk.group


@lru_cache(maxsize=1024)
def _group_of(api_version: str) -> str | None:
    try:
        return parse_api_version(api_version)[0]
    except BadName:
        return None
