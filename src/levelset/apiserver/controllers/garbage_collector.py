"""The garbage collector: objects go when their last owner goes, in the way that the owner's deletion asked for.

It is told of every write and looks only at what that concerns. An object is judged by its owners as they are in the
store at that moment: one that is there is solid, one whose deletion waits for its dependents is waiting, and one that
is not there, or is another object of the same name, is dangling.

Says why an object went whose owner is there, but in another namespace, where it cannot own it.
"""

from collections import OrderedDict
from collections.abc import Callable
from enum import Enum, auto
from functools import lru_cache
from typing import Any, Final

import msgspec

from levelset.apiserver.controllers.key_queue import Worker
from levelset.apiserver.registry import conversion_webhook
from levelset.apiserver.registry.metadata import is_deleting, time_text
from levelset.apiserver.registry.owner_index import OwnerIndex, owner_uids, references
from levelset.apiserver.registry.storage_codec import served_tree, with_version
from levelset.apiserver.resources.catalog import Catalog
from levelset.apiserver.resources.object_location import Spot, spot_of, stored_kind, stored_kinds
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.resources.server_state import World
from levelset.apiserver.verbs import create_and_update, delete
from levelset.apiserver.wire.request_options import DeleteOptions, Propagation
from levelset.errors import ApiError, BadName, NotFound
from levelset.objects import decode_tree, parse_api_version
from levelset.storage import Item

__all__ = ["FOREGROUND", "ORPHAN", "GarbageCollector", "owner_kind", "warn_wrong_namespace"]

_COMPONENT: Final = "garbage-collector-controller"


async def warn_wrong_namespace(world: World, spot: Spot, tree: Object, ref: Object) -> None:
    """Writes a Warning event about an object whose owner lives in another namespace; nothing if it lives nowhere."""
    if spot.namespace is None or not await _lives_elsewhere(world, spot.namespace, ref):
        return
    events = world.catalog.find("", "v1", "events")
    if events is None:
        return
    metadata, now = tree["metadata"], time_text(world.now())
    message = (
        f"ownerRef [{ref.get('apiVersion')}/{ref.get('kind')}, namespace: {spot.namespace}, name: {ref.get('name')}"
    )
    event: Object = {
        "metadata": {"generateName": f"{spot.name[:200]}.", "namespace": spot.namespace},
        "involvedObject": {
            "apiVersion": spot.served.api_version,
            "kind": spot.served.kind,
            "namespace": spot.namespace,
            "name": spot.name,
            "uid": metadata.get("uid", ""),
        },
        "reason": "OwnerRefInvalidNamespace",
        "message": f"{message}, uid: {ref.get('uid')}] does not exist in namespace {spot.namespace!r}",
        "type": "Warning",
        "source": {"component": _COMPONENT},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
    try:
        await create_and_update.create(world, events, spot.namespace, event)
    except ApiError:
        return  # the namespace goes too; nobody will miss the event


async def _lives_elsewhere(world: World, namespace: str, ref: Object) -> bool:
    group, version = parse_api_version(str(ref.get("apiVersion") or ""))
    kind = str(ref.get("kind") or "")
    served = world.catalog.by_gvk(group, version, kind) or world.catalog.kinds(group, kind)
    uid = str(ref.get("uid") or "")
    if served is None or not served.namespaced or not uid:
        return False
    sought = uid.encode()
    page = await world.storage.list(served.prefix)
    return any(
        sought in item.value and decode_tree(item.value)["metadata"].get("uid") == uid
        for item in page.items
        if not item.key.startswith(served.prefix_in(namespace))
    )


FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"
_REMEMBERED: Final = 10_000


class _Head(msgspec.Struct, frozen=True, gc=False):
    """As much of a stored object as the collector looks at; the rest is passed over unread."""

    metadata: Object


class _OwnerMetadata(msgspec.Struct, frozen=True, gc=False):
    uid: Any = None
    deletionTimestamp: Any = None  # noqa: N815  # the name of the wire


class _Owner(msgspec.Struct, frozen=True, gc=False):
    """What decides at once whether an owner is there."""

    metadata: _OwnerMetadata


_read_head: Final = msgspec.json.Decoder(_Head).decode
_read_owner: Final = msgspec.json.Decoder(_Owner).decode
_parse_version: Final = lru_cache(maxsize=256)(parse_api_version)  # many dependents have few kinds of owners


class _Verdict(Enum):
    SOLID = auto()
    WAITING = auto()
    DANGLING = auto()
    UNKNOWN = auto()


class GarbageCollector:
    """Deletes dependents, lets owners go that wait for them, and takes references away from orphans."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._index = OwnerIndex()
        self._foreground: dict[str, Spot] = {}
        """Owners, by uid, whose deletion waits for their dependents."""
        self._gone: OrderedDict[str, bool] = OrderedDict()
        """Owners that were seen to go, by uid, and whether they were in a namespace; their kind may be gone too."""
        self._undecided: dict[Spot, None] = {}
        """Dependents of kinds that are not served; looked at again when the catalog changes."""
        self.worker: Worker[Spot] = Worker("garbage collector", self._act)

    async def start(self) -> None:
        """Reads who owns whom, begins to listen, and looks at everything that has owners."""
        self._world.listeners.append(self._stored)
        self._world.catalog.listen(self._on_catalog)
        for served in stored_kinds(self._world.catalog):
            page = await self._world.storage.list(served.prefix)
            for item in page.items:
                if b'"ownerReferences"' in item.value or b'"deletionTimestamp"' in item.value:
                    self._stored(served, None, decode_tree(item.value))
        self.worker.start()

    async def stop(self) -> None:
        """Ends the task."""
        await self.worker.stop()

    def _stored(self, served: ServedResource, before: Object | None, after: Object | None) -> None:
        if served.awaits:
            # A webhook that does not answer must not keep the collector from everything else.
            served = stored_kind(self._world.catalog, served)
        if after is None:
            if before is not None:
                self._removed(served, before)
            return
        metadata = after["metadata"]
        if "ownerReferences" in metadata or (before is not None and "ownerReferences" in before["metadata"]):
            self._owned(served, before, after)
        if "deletionTimestamp" in metadata and "finalizers" in metadata:
            self._marked(served, after)

    def _removed(self, served: ServedResource, tree: Object) -> None:
        uid = tree["metadata"].get("uid", "")
        self._foreground.pop(uid, None)
        refs = references(tree)
        if refs:
            spot = spot_of(served, tree)
            self._index.set(spot, ())
            self._undecided.pop(spot, None)
            self._ask_owners(owner_uids(refs))
        if self._index.has_dependents(uid):
            self._remember(uid, namespaced=served.namespaced)
            for dependent in self._index.dependents(uid):
                self.worker.add(dependent)

    def _owned(self, served: ServedResource, before: Object | None, after: Object) -> None:
        new = references(after)
        old = [] if before is None else references(before)
        if before is not None and old == new:
            return
        spot = spot_of(served, after)
        self._index.set(spot, owner_uids(new))
        if self._foreground:
            self._ask_owners(owner_uids([*old, *new]))
        if new and ("deletionTimestamp" in after["metadata"] or not self._is_solid(spot, new)):
            self.worker.add(spot)

    def _is_solid(self, spot: Spot, refs: list[Object]) -> bool:
        """Whether all owners of an object are there, if that can be told at once: then there is nothing to do for it.

        Nor will there be later, as far as this write goes: what becomes of an owner has its dependents looked at.
        """
        reader = self._world.reader
        if reader is None:
            return False
        for ref in refs:
            owner, uid = owner_kind(self._world.catalog, ref), ref.get("uid")
            if owner is None or uid in self._gone:
                return False
            if owner.namespaced and spot.namespace is None:
                continue  # as `_verdict` has it
            item = reader.get_nowait(owner.key(spot.namespace, str(ref.get("name") or "")))
            if item is None or not _is_there(item, uid):
                return False
        return True

    def _marked(self, served: ServedResource, tree: Object) -> None:
        finalizers = tree["metadata"]["finalizers"]
        if FOREGROUND in finalizers:
            self._foreground[tree["metadata"].get("uid", "")] = spot_of(served, tree)
            self.worker.add(spot_of(served, tree))
        elif ORPHAN in finalizers:
            self.worker.add(spot_of(served, tree))

    def _ask_owners(self, uids: tuple[str, ...]) -> None:
        """Looks again at owners that wait for their dependents."""
        for uid in uids:
            owner = self._foreground.get(uid)
            if owner is not None:
                self.worker.add(owner)

    def _on_catalog(self, _: tuple[ServedResource, ...], added: tuple[ServedResource, ...]) -> None:
        if added:
            undecided, self._undecided = self._undecided, {}
            for spot in undecided:
                self.worker.add(spot)

    def _remember(self, uid: str, *, namespaced: bool) -> None:
        self._gone[uid] = namespaced
        if len(self._gone) > _REMEMBERED:
            self._gone.popitem(last=False)

    async def _act(self, spot: Spot) -> None:
        tree = await self._read(spot)
        if tree is None:
            return
        if not is_deleting(tree):
            await self._judge(spot, tree)
            return
        finalizers = tree["metadata"].get("finalizers") or ()
        if ORPHAN in finalizers:
            await self._orphan(spot, tree)
        elif FOREGROUND in finalizers:
            await self._let_go(spot, tree)

    async def _read(self, spot: Spot) -> Object | None:
        item = await create_and_update.get_item(self._world, spot.key)
        if item is not None and spot.served.awaits:
            await conversion_webhook.convert(spot.served, [item])
        return None if item is None else _with_metadata(spot.served, item)

    async def _orphan(self, spot: Spot, tree: Object) -> None:
        """Takes the reference away from all dependents, and then the finalizer from the owner."""
        uid = tree["metadata"]["uid"]
        for dependent in self._index.dependents(uid):
            await self._change(dependent, lambda one: _without_owners(one, {uid}))
        await self._change(spot, lambda one: _without_finalizer(one, uid, ORPHAN))

    async def _let_go(self, spot: Spot, tree: Object) -> None:
        """Lets an owner go if no dependent blocks it; has the others looked at."""
        uid = tree["metadata"]["uid"]
        is_blocked = False
        for dependent in self._index.dependents(uid):
            found = await self._read(dependent)
            if found is None:
                self._index.set(dependent, ())
                continue
            if not is_deleting(found):
                self.worker.add(dependent)
            is_blocked = is_blocked or any(
                ref.get("uid") == uid and ref.get("blockOwnerDeletion") is True for ref in references(found)
            )
        if not is_blocked:
            await self._change(spot, lambda one: _without_finalizer(one, uid, FOREGROUND))

    async def _judge(self, spot: Spot, tree: Object) -> None:
        """Deletes an object that nobody owns any more, or takes references away that lead nowhere."""
        verdicts: dict[str, _Verdict] = {}
        is_solid = True
        for ref in references(tree):
            verdict = verdicts[ref.get("uid", "")] = await self._verdict(spot, ref)
            is_solid = is_solid and verdict is _Verdict.SOLID
        if is_solid:  # all but always; the hash of a verdict, which a set needs, takes longer than all of this
            return
        found = set(verdicts.values())
        if _Verdict.UNKNOWN in found:
            self._undecided[spot] = None
            return
        if _Verdict.SOLID in found:
            lost = {uid for uid, verdict in verdicts.items() if verdict is not _Verdict.SOLID}
            await self._change(spot, lambda one: _without_owners(one, lost))
            return
        for ref in references(tree):
            if verdicts[ref.get("uid", "")] is _Verdict.DANGLING and ref.get("uid") not in self._gone:
                await warn_wrong_namespace(self._world, spot, tree, ref)
        await self._delete(spot, tree, waiting=_Verdict.WAITING in found)

    async def _verdict(self, spot: Spot, ref: Object) -> _Verdict:
        owner = owner_kind(self._world.catalog, ref)
        is_namespaced = self._gone.get(str(ref.get("uid"))) if owner is None else owner.namespaced
        if is_namespaced and spot.namespace is None:
            return _Verdict.SOLID  # nobody can tell in which namespace it should be: better left alone
        if ref.get("uid") in self._gone:
            return _Verdict.DANGLING
        if owner is None:
            return _Verdict.UNKNOWN
        item = await create_and_update.get_item(self._world, owner.key(spot.namespace, str(ref.get("name") or "")))
        metadata: Any = {} if item is None else _read_head(item.value).metadata
        if metadata.get("uid") != ref.get("uid"):
            return _Verdict.DANGLING
        waits = metadata.get("deletionTimestamp") and FOREGROUND in (metadata.get("finalizers") or ())
        return _Verdict.WAITING if waits else _Verdict.SOLID

    async def _delete(self, spot: Spot, tree: Object, *, waiting: bool) -> None:
        uid = tree["metadata"]["uid"]
        propagation = _propagation(tree)
        if waiting and self._index.has_dependents(uid):
            propagation = "Foreground"
            waiting_too = set(self._foreground.values())
            if any(dependent in waiting_too for dependent in self._index.dependents(uid)):
                # A ring of owners: none of them could ever be the first to go.
                await self._change(spot, _without_blocks)
        try:
            await delete.delete(
                self._world, spot.served, spot.namespace, spot.name, DeleteOptions(uid=uid, propagation=propagation)
            )
        except NotFound:
            return

    async def _change(self, spot: Spot, change: Callable[[Object], Object | None]) -> None:
        await create_and_update.mutate(self._world, spot.served, spot.namespace, spot.name, change)


def _is_there(item: Item, uid: Any) -> bool:
    """Whether this is the object with this uid, and its deletion has not begun."""
    try:
        found = _read_owner(item.value).metadata
    except msgspec.MsgspecError:  # not for a listener to complain about
        return False
    return found.uid == uid and not found.deletionTimestamp


def _with_metadata(served: ServedResource, item: Item) -> Object:
    """The object as far as its metadata goes; conversions may change that, and then it is all of the object."""
    if served.convert is not None or served.from_stored is not None:
        return served_tree(served, item)
    return with_version({"metadata": _read_head(item.value).metadata}, item.revision)


def owner_kind(catalog: Catalog, ref: Object) -> ServedResource | None:
    """The resource that an owner reference speaks of; None if it is not served."""
    try:
        group, version = _parse_version(str(ref.get("apiVersion") or ""))
    except BadName:
        return None
    kind = str(ref.get("kind") or "")
    return catalog.by_gvk(group, version, kind) or catalog.kinds(group, kind)


def _propagation(tree: Object) -> Propagation:
    finalizers = tree["metadata"].get("finalizers") or ()
    if ORPHAN in finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in finalizers else "Background"


def _without_owners(tree: Object, uids: set[str]) -> Object | None:
    refs = references(tree)
    kept = [ref for ref in refs if ref.get("uid") not in uids]
    if len(kept) == len(refs):
        return None
    tree["metadata"]["ownerReferences"] = kept
    if not kept:
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


def _without_blocks(tree: Object) -> Object | None:
    blocking = [ref for ref in references(tree) if ref.get("blockOwnerDeletion")]
    for ref in blocking:
        ref["blockOwnerDeletion"] = False
    return tree if blocking else None
