"""The garbage collector: deletes dependents of deleted owners, with background, foreground or orphan propagation.

It listens to every write and enqueues only the affected objects. An owner is *solid* if it exists, *waiting* if its
foreground deletion waits for its dependents, and *dangling* if it does not exist, or another object has its name. As in
kube-controller-manager, an object with only dangling owners is deleted; if an owner exists in another namespace, a
Warning event says so.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from enum import Enum, auto
from functools import lru_cache
from typing import Any, Final

import msgspec

from levelset.apiserver.controllers.key_queue import KeyQueue
from levelset.apiserver.registry import conversion_webhook
from levelset.apiserver.registry.metadata import format_timestamp, is_deleting
from levelset.apiserver.registry.owner_index import OwnerIndex, owner_references, owner_uids
from levelset.apiserver.registry.storage_codec import served_tree, set_resource_version
from levelset.apiserver.resources.catalog import Catalog
from levelset.apiserver.resources.object_location import (
    REGISTRY,
    ObjectLocation,
    location_of,
    prefix_of,
    storage_version_of,
    stored_resources,
)
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.resources.server_state import ServerState
from levelset.apiserver.verbs import create_and_update, delete
from levelset.apiserver.wire.request_options import DeleteOptions, Propagation
from levelset.errors import ApiError, BadName, NotFound
from levelset.objects import decode_tree, parse_api_version
from levelset.storage import Item, Storage

__all__ = ["FOREGROUND", "ORPHAN", "GarbageCollector", "owner_resource", "warn_wrong_namespace"]


_COMPONENT: Final = "garbage-collector-controller"
FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"
_MAX_REMOVED_OWNERS: Final = 10_000
_OWNERS_TOGETHER: Final = 100
_PAGE: Final = 5_000
_parse_version: Final = lru_cache(maxsize=256)(parse_api_version)  # there are few kinds of owners


class _OwnerState(Enum):
    SOLID = auto()
    WAITING = auto()
    DANGLING = auto()
    UNKNOWN = auto()


class GarbageCollector:
    """Deletes dependents, finishes foreground deletions of owners, and removes owner references from orphans."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._index = OwnerIndex()
        self._foreground: dict[str, ObjectLocation] = {}
        """Owners whose foreground deletion waits for their dependents, by uid."""
        self._orphaning: dict[str, ObjectLocation] = {}
        """Owners that are deleted when their dependents have no reference to them any more, by uid."""
        self._removed_owners: OrderedDict[str, bool] = OrderedDict()
        """Recently removed owners by uid, and whether they were namespaced; their kind may be gone too."""
        self._unknown_owner_kind: dict[ObjectLocation, None] = {}
        """Dependents of owners whose kind is not served; enqueued again when the catalog changes."""
        self.queue: KeyQueue[ObjectLocation] = KeyQueue("garbage collector", self._reconcile)

    async def start(self) -> None:
        """Listens to writes, indexes all owner references, and enqueues the objects that have them."""
        self._state.listeners.append(self._on_write)
        self._state.catalog.listen(self._on_catalog)
        async for items in _pages(self._state.storage, REGISTRY):
            found = [one for one in items if b'"ownerReferences"' in one.value or b'"deletionTimestamp"' in one.value]
            resources = {one.prefix: one for one in stored_resources(self._state.catalog)} if found else {}
            for item in found:
                served = resources.get(prefix_of(item.key))
                if served is not None:
                    self._on_write(served, None, decode_tree(item.value))
        self.queue.start()

    async def stop(self) -> None:
        """Stops the queue."""
        await self.queue.stop()

    async def resume(self) -> None:
        """Reconciles from now on, beginning with everything that another server may have left."""
        await self.queue.resume([*self._index.owned(), *self._foreground.values(), *self._orphaning.values()])

    def _on_write(self, served: ServedResource, before: Object | None, after: Object | None) -> None:
        if served.converts_by_webhook:
            # A conversion webhook that does not respond must not block garbage collection.
            served = storage_version_of(self._state.catalog, served)
        if after is None:
            if before is not None:
                self._on_remove(served, before)
            return
        metadata = after["metadata"]
        if "ownerReferences" in metadata or (before is not None and "ownerReferences" in before["metadata"]):
            self._on_owner_references(served, before, after)
        if "deletionTimestamp" in metadata and "finalizers" in metadata:
            self._on_deletion_marked(served, after)

    def _on_remove(self, served: ServedResource, tree: Object) -> None:
        uid = tree["metadata"].get("uid", "")
        self._foreground.pop(uid, None)
        self._orphaning.pop(uid, None)
        refs = owner_references(tree)
        if refs:
            location = location_of(served, tree)
            self._index.set(location, ())
            self._unknown_owner_kind.pop(location, None)
            self._enqueue_waiting_owners(owner_uids(refs))
        if self._index.has_dependents(uid):
            self._remember(uid, namespaced=served.namespaced)
            for dependent in self._index.dependents(uid):
                self.queue.add(dependent)

    def _on_owner_references(self, served: ServedResource, before: Object | None, after: Object) -> None:
        new = owner_references(after)
        old = [] if before is None else owner_references(before)
        if before is not None and old == new:
            return
        location = location_of(served, after)
        self._index.set(location, owner_uids(new))
        if self._foreground:
            self._enqueue_waiting_owners(owner_uids([*old, *new]))
        if new and ("deletionTimestamp" in after["metadata"] or not self._is_solid(location, new)):
            self.queue.add(location)

    def _is_solid(self, location: ObjectLocation, refs: list[Object]) -> bool:
        """Whether all owners of an object certainly exist, so that it need not be enqueued after this write.

        Later changes of an owner enqueue its dependents.
        """
        for ref in refs:
            owner, uid = owner_resource(self._state.catalog, ref), ref.get("uid")
            if owner is None or uid in self._removed_owners:
                return False
            if owner.namespaced and location.namespace is None:
                continue  # as in `_owner_state`
            item = self._state.reader.get_nowait(owner.key(location.namespace, str(ref.get("name") or "")))
            if item is None or not _is_solid_owner(item, uid):
                return False
        return True

    def _on_deletion_marked(self, served: ServedResource, tree: Object) -> None:
        finalizers = tree["metadata"]["finalizers"]
        if FOREGROUND in finalizers:
            self._foreground[tree["metadata"].get("uid", "")] = location_of(served, tree)
            self.queue.add(location_of(served, tree))
        elif ORPHAN in finalizers:
            self._orphaning[tree["metadata"].get("uid", "")] = location_of(served, tree)
            self.queue.add(location_of(served, tree))

    def _enqueue_waiting_owners(self, uids: tuple[str, ...]) -> None:
        """Enqueues those of these owners that wait for their dependents."""
        for uid in uids:
            owner = self._foreground.get(uid)
            if owner is not None:
                self.queue.add(owner)

    def _on_catalog(self, _: tuple[ServedResource, ...], added: tuple[ServedResource, ...]) -> None:
        if added:
            pending, self._unknown_owner_kind = self._unknown_owner_kind, {}
            for location in pending:
                self.queue.add(location)

    def _remember(self, uid: str, *, namespaced: bool) -> None:
        self._removed_owners[uid] = namespaced
        if len(self._removed_owners) > _MAX_REMOVED_OWNERS:
            self._removed_owners.popitem(last=False)

    async def _reconcile(self, location: ObjectLocation) -> None:
        tree = await self._read(location)
        if tree is None:
            return
        if not is_deleting(tree):
            await self._collect_unless_owned(location, tree)
            return
        finalizers = tree["metadata"].get("finalizers") or ()
        if ORPHAN in finalizers:
            await self._orphan(location, tree)
        elif FOREGROUND in finalizers:
            await self._finish_foreground(location, tree)

    async def _read(self, location: ObjectLocation) -> Object | None:
        item = self._state.reader.get_nowait(location.key)
        if item is not None and location.served.converts_by_webhook:
            await conversion_webhook.convert_items(location.served, [item])
        return None if item is None else _with_metadata(location.served, item)

    async def _orphan(self, location: ObjectLocation, tree: Object) -> None:
        """Removes the owner reference from all dependents, and then the orphan finalizer from the owner."""
        uid = tree["metadata"]["uid"]
        for dependent in self._index.dependents(uid):
            await self._change(dependent, lambda one: _without_owners(one, {uid}))
        await self._change(location, lambda one: _without_finalizer(one, uid, ORPHAN))

    async def _finish_foreground(self, location: ObjectLocation, tree: Object) -> None:
        """Removes the foreground finalizer if no dependent blocks the owner; enqueues the others for deletion."""
        uid = tree["metadata"]["uid"]
        is_blocked = False
        for dependent in self._index.dependents(uid):
            found = await self._read(dependent)
            if found is None:
                self._index.set(dependent, ())
                continue
            if not is_deleting(found):
                self.queue.add(dependent)
            is_blocked = is_blocked or any(
                ref.get("uid") == uid and ref.get("blockOwnerDeletion") is True for ref in owner_references(found)
            )
        if not is_blocked:
            await self._change(location, lambda one: _without_finalizer(one, uid, FOREGROUND))

    async def _collect_unless_owned(self, location: ObjectLocation, tree: Object) -> None:
        """Deletes an object without solid owners; if it has some, removes the references to the others."""
        states: dict[str, _OwnerState] = {}
        is_solid = True
        for number, ref in enumerate(owner_references(tree), start=1):
            if number % _OWNERS_TOGETHER == 0:
                await asyncio.sleep(0)  # an object may name thousands
            state = states[ref.get("uid", "")] = await self._owner_state(location, ref)
            is_solid = is_solid and state is _OwnerState.SOLID
        if is_solid:  # almost always; hashing enum members for a set would take longer than all of this
            return
        found = set(states.values())
        if _OwnerState.UNKNOWN in found:
            self._unknown_owner_kind[location] = None
            return
        if _OwnerState.SOLID in found:
            absent = {uid for uid, state in states.items() if state is not _OwnerState.SOLID}
            await self._change(location, lambda one: _without_owners(one, absent))
            return
        for number, ref in enumerate(owner_references(tree), start=1):
            if number % _OWNERS_TOGETHER == 0:
                await asyncio.sleep(0)
            if states[ref.get("uid", "")] is _OwnerState.DANGLING and ref.get("uid") not in self._removed_owners:
                await warn_wrong_namespace(self._state, location, tree, ref)
        await self._delete(location, tree, waiting=_OwnerState.WAITING in found)

    async def _owner_state(self, location: ObjectLocation, ref: Object) -> _OwnerState:
        owner = owner_resource(self._state.catalog, ref)
        is_namespaced = self._removed_owners.get(str(ref.get("uid"))) if owner is None else owner.namespaced
        if is_namespaced and location.namespace is None:
            return _OwnerState.SOLID  # the namespace of such an owner is undefined: leave the object alone
        if ref.get("uid") in self._removed_owners:
            return _OwnerState.DANGLING
        if owner is None:
            return _OwnerState.UNKNOWN
        item = self._state.reader.get_nowait(owner.key(location.namespace, str(ref.get("name") or "")))
        metadata: Any = {} if item is None else _read_head(item.value).metadata
        if metadata.get("uid") != ref.get("uid"):
            return _OwnerState.DANGLING
        waits = metadata.get("deletionTimestamp") and FOREGROUND in (metadata.get("finalizers") or ())
        return _OwnerState.WAITING if waits else _OwnerState.SOLID

    async def _delete(self, location: ObjectLocation, tree: Object, *, waiting: bool) -> None:
        uid = tree["metadata"]["uid"]
        propagation = _propagation(tree)
        if waiting and self._index.has_dependents(uid):
            propagation = "Foreground"
            waiting_owners = set(self._foreground.values())
            if any(dependent in waiting_owners for dependent in self._index.dependents(uid)):
                # A cycle of owners: each would wait for the other indefinitely, so stop blocking.
                await self._change(location, _without_blocking)
        try:
            await delete.delete(
                self._state,
                location.served,
                location.namespace,
                location.name,
                DeleteOptions(uid=uid, propagation=propagation),
            )
        except NotFound:
            return

    async def _change(self, location: ObjectLocation, change: Callable[[Object], Object | None]) -> None:
        await create_and_update.mutate(self._state, location.served, location.namespace, location.name, change)


def owner_resource(catalog: Catalog, ref: Object) -> ServedResource | None:
    """Returns the resource of an owner reference; None if it is not served."""
    try:
        group, version = _parse_version(str(ref.get("apiVersion") or ""))
    except BadName:
        return None
    kind = str(ref.get("kind") or "")
    return catalog.by_gvk(group, version, kind) or catalog.kinds(group, kind)


async def warn_wrong_namespace(state: ServerState, location: ObjectLocation, tree: Object, ref: Object) -> None:
    """Creates a Warning event for an object whose owner exists, but in another namespace."""
    if location.namespace is None or not await _exists_in_another_namespace(state, location.namespace, ref):
        return
    events = state.catalog.find("", "v1", "events")
    if events is None:
        return
    metadata, now = tree["metadata"], format_timestamp(state.now())
    message = (
        f"ownerRef [{ref.get('apiVersion')}/{ref.get('kind')}, namespace: {location.namespace}, name: {ref.get('name')}"
    )
    event: Object = {
        "metadata": {"generateName": f"{location.name[:200]}.", "namespace": location.namespace},
        "involvedObject": {
            "apiVersion": location.served.api_version,
            "kind": location.served.kind,
            "namespace": location.namespace,
            "name": location.name,
            "uid": metadata.get("uid", ""),
        },
        "reason": "OwnerRefInvalidNamespace",
        "message": f"{message}, uid: {ref.get('uid')}] does not exist in namespace {location.namespace!r}",
        "type": "Warning",
        "source": {"component": _COMPONENT},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
    try:
        await create_and_update.create(state, events, location.namespace, event)
    except ApiError:
        return  # the namespace is terminating too: the event is dispensable


async def _exists_in_another_namespace(state: ServerState, namespace: str, ref: Object) -> bool:
    group, version = parse_api_version(str(ref.get("apiVersion") or ""))
    kind = str(ref.get("kind") or "")
    served = state.catalog.by_gvk(group, version, kind) or state.catalog.kinds(group, kind)
    uid = str(ref.get("uid") or "")
    if served is None or not served.namespaced or not uid:
        return False
    sought, own = uid.encode(), served.prefix_in(namespace)
    async for items in _pages(state.storage, served.prefix):
        found = [one for one in items if sought in one.value and not one.key.startswith(own)]
        if any(decode_tree(one.value)["metadata"].get("uid") == uid for one in found):
            return True
    return False


async def _pages(storage: Storage, prefix: str) -> AsyncIterator[tuple[Item, ...]]:
    """All objects, some at a time, so that others may run meanwhile: each page is as of when it is read."""
    after = None
    while True:
        page = await storage.list(prefix, limit=_PAGE, after=after)
        yield page.items
        if not page.more:
            return
        after = page.items[-1].key
        await asyncio.sleep(0)


class _Head(msgspec.Struct, frozen=True, gc=False):
    """The decoded part of a stored object; msgspec skips the rest."""

    metadata: Object


class _OwnerMetadata(msgspec.Struct, frozen=True, gc=False):
    uid: Any = None
    deletionTimestamp: Any = None  # noqa: N815  # the JSON name


class _Owner(msgspec.Struct, frozen=True, gc=False):
    """The part of an owner that decides whether it is solid."""

    metadata: _OwnerMetadata


_read_head: Final = msgspec.json.Decoder(_Head).decode
_read_owner: Final = msgspec.json.Decoder(_Owner).decode


def _is_solid_owner(item: Item, uid: Any) -> bool:
    """Whether the stored object has this uid and is not being deleted."""
    try:
        found = _read_owner(item.value).metadata
    except msgspec.MsgspecError:  # a listener must not raise
        return False
    return found.uid == uid and not found.deletionTimestamp


def _with_metadata(served: ServedResource, item: Item) -> Object:
    """Returns the object with only its metadata; the whole object if a conversion may change the metadata."""
    if served.convert is not None or served.from_stored is not None:
        return served_tree(served, item)
    return set_resource_version({"metadata": _read_head(item.value).metadata}, item.revision)


def _propagation(tree: Object) -> Propagation:
    finalizers = tree["metadata"].get("finalizers") or ()
    if ORPHAN in finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in finalizers else "Background"


def _without_owners(tree: Object, uids: set[str]) -> Object | None:
    refs = owner_references(tree)
    remaining = [ref for ref in refs if ref.get("uid") not in uids]
    if len(remaining) == len(refs):
        return None
    tree["metadata"]["ownerReferences"] = remaining
    if not remaining:
        del tree["metadata"]["ownerReferences"]
    return tree


def _without_finalizer(tree: Object, uid: str, finalizer: str) -> Object | None:
    metadata = tree["metadata"]
    finalizers: list[str] = metadata.get("finalizers") or []
    if metadata.get("uid") != uid or finalizer not in finalizers:
        return None
    metadata["finalizers"] = [one for one in finalizers if one != finalizer]
    if not metadata["finalizers"]:
        del metadata["finalizers"]
    return tree


def _without_blocking(tree: Object) -> Object | None:
    blocking = [ref for ref in owner_references(tree) if ref.get("blockOwnerDeletion")]
    for ref in blocking:
        ref["blockOwnerDeletion"] = False
    return tree if blocking else None
