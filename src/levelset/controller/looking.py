"""What a reconciler knows and may read: its object and request, the caches, and the server."""

import builtins
import uuid
from datetime import datetime
from operator import attrgetter
from typing import Any, Final, TypeVar, Unpack, cast, overload

import msgspec

from levelset.aio import timing
from levelset.cache import Cluster, Snapshot, by_owner
from levelset.cache.cluster import GetOptions, ListOptions
from levelset.cache.keys import key_for
from levelset.client.asking import kind_and_name
from levelset.client.client import Client
from levelset.client.kinds import Kind, OnlyMetadata, View, view_of
from levelset.controller.boundlog import BoundLog
from levelset.controller.expecting import Expected
from levelset.controller.requests import Reason, Request
from levelset.controller.services import Services
from levelset.objects.identity import GroupVersionKind, Ref
from levelset.objects.resource import PartialObjectMetadata
from levelset.objects.unstructured import Unstructured
from levelset.schedule import Due

__all__ = ["Looking"]

K = TypeVar("K")

_BY_OWNER: Final = by_owner()
_index_of: Final = attrgetter("index")


class Looking(msgspec.Struct, eq=False):
    """The part of a context that only looks. Making one costs next to nothing: what is asked for is made then."""

    object: Any
    """The object that is looked at, as the cache showed it when the look began; None if it is gone."""
    asked: Request[Any] | Due[str, Reason]
    """Why it is looked at: the request, or what the scheduler has handed out, if that was never tried in vain."""
    services: Services
    _log: BoundLog | None = None
    _newest: dict[Ref[Any], tuple[set[str], Any]] | None = None
    _reconcile_id: str = ""

    @property
    def request(self) -> Request[Any]:
        """The request because of which it is looked at."""
        asked = self.asked
        if isinstance(asked, Request):
            return asked
        self.asked = made = Request(self.services.ref_of(asked.key), asked.reasons, asked.priority)
        return made

    @property
    def ref(self) -> Ref[Any]:
        """The object that is looked at, as a reference."""
        return self.request.ref

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """Why it is looked at."""
        return self.asked.reasons

    @property
    def attempt(self) -> int:
        """How many looks in a row have failed before this one."""
        return self.request.attempt

    @property
    def reconcile_id(self) -> str:
        """A text that only this look has, and that all its log lines show."""
        if not self._reconcile_id:
            self._reconcile_id = uuid.uuid4().hex
        return self._reconcile_id

    @property
    def log(self) -> BoundLog:
        """A logger whose lines name the controller, the object and this look."""
        if self._log is None:
            services, ref = self.services, self.request.ref
            fields = {"controller": services.controller_name, "ref": ref, "reconcile_id": self.reconcile_id}
            self._log = BoundLog(services.log, fields)
        return self._log

    @property
    def superseded(self) -> bool:
        """Whether a newer request for the object waits: what takes long may be left to that one."""
        return self.services.is_superseded(self.request.ref)

    @property
    def cluster(self) -> Cluster:
        """The caches."""
        return self.services.cluster

    @property
    def client(self) -> Client:
        """The client, which writes under the name of the controller."""
        return self.services.client

    def now(self) -> datetime:
        """The time of the day, in UTC."""
        return self.services.now()

    @overload
    async def get(self, what: Ref[K], /, **options: Unpack[GetOptions]) -> K: ...
    @overload
    async def get(
        self, what: type[K], name: str, /, *, namespace: str | None = None, **options: Unpack[GetOptions]
    ) -> K: ...
    @overload
    async def get(
        self, what: GroupVersionKind, name: str, /, *, namespace: str | None = None, **options: Unpack[GetOptions]
    ) -> Unstructured: ...
    @overload
    async def get(
        self, what: OnlyMetadata, name: str, /, *, namespace: str | None = None, **options: Unpack[GetOptions]
    ) -> PartialObjectMetadata: ...
    async def get(
        self, what: Any, name: str | None = None, /, *, namespace: str | None = None, **options: Unpack[GetOptions]
    ) -> Any:
        """The object, from the cache, with everything that was written through this client; NotFound if there is none.

        After a conflict it comes from the server, until a write to it succeeds. Options are those of `Cluster.get`.
        """
        self._refresh(what, name, namespace, options)
        named: Any = () if name is None else (name,)
        place: Any = {} if namespace is None else {"namespace": namespace}
        return await self.services.cluster.get(what, *named, **place, **options)

    @overload
    async def find(self, what: Ref[K], /, **options: Unpack[GetOptions]) -> K | None: ...
    @overload
    async def find(
        self, what: type[K], name: str, /, *, namespace: str | None = None, **options: Unpack[GetOptions]
    ) -> K | None: ...
    @overload
    async def find(
        self, what: GroupVersionKind, name: str, /, *, namespace: str | None = None, **options: Unpack[GetOptions]
    ) -> Unstructured | None: ...
    @overload
    async def find(
        self, what: OnlyMetadata, name: str, /, *, namespace: str | None = None, **options: Unpack[GetOptions]
    ) -> PartialObjectMetadata | None: ...
    async def find(
        self, what: Any, name: str | None = None, /, *, namespace: str | None = None, **options: Unpack[GetOptions]
    ) -> Any:
        """The object, or None if there is none; otherwise as `get`."""
        self._refresh(what, name, namespace, options)
        named: Any = () if name is None else (name,)
        place: Any = {} if namespace is None else {"namespace": namespace}
        return await self.services.cluster.find(what, *named, **place, **options)

    @overload
    async def list(self, kind: type[K], /, **options: Unpack[ListOptions]) -> Snapshot[K]: ...
    @overload
    async def list(self, kind: GroupVersionKind, /, **options: Unpack[ListOptions]) -> Snapshot[Unstructured]: ...
    @overload
    async def list(self, kind: OnlyMetadata, /, **options: Unpack[ListOptions]) -> Snapshot[PartialObjectMetadata]: ...
    async def list(self, kind: Any, /, **options: Unpack[ListOptions]) -> Snapshot[Any]:
        """The objects that are asked for, from the cache, with everything that was written through this client."""
        found: Snapshot[Any] = await self.services.cluster.list(kind, **options)
        return found

    def cached(self, ref: Ref[K]) -> K | None:
        """The object as the cache shows it this moment, or None; own writes may not be in it yet."""
        return self.services.peeking.get(ref)

    async def live(self, ref: Ref[K]) -> K | None:
        """The object as the server has it, or None."""
        return await self.services.client.find(ref)

    async def children(self, kind: Kind[K], *, owner: Any = None) -> "builtins.list[K]":
        """The objects of a kind that belong to the object, or to another owner, never fewer than were made here.

        If the answer to a create never came, they are read from the server: it may have made the child all the same.
        Where there are many of the kind, `owns(..., indexes=[by_owner()])` finds them without looking at the others.
        """
        owner = self.object if owner is None else owner
        expectations, view, uid = self.services.expectations, view_of(kind), owner.metadata.uid
        options: ListOptions = {"namespace": owner.namespace}
        if expectations.is_in_doubt(owner.ref, view.gvk, now=timing.now()):
            options["read"] = "live"
        elif self._has_owners(view):
            options["index"] = (_BY_OWNER, uid)
        found = await self.services.cluster.list(cast("type[K]", kind), **options)
        return [found[place] for place, one in enumerate(found.kept) if any(it.uid == uid for it in one.owners)]

    def _has_owners(self, view: View[Any]) -> bool:
        """Whether whatever may be asked for objects of a kind finds them by their owners."""
        found = [
            one
            for one in self.services.cluster.sources
            if one.scope.gvk == view.gvk and one.scope.is_metadata == view.is_metadata
        ]
        return bool(found) and all(_BY_OWNER in map(_index_of, one.informer.table.indexes) for one in found)

    @property
    def expecting(self) -> tuple[Ref[Any], ...]:
        """The children of the object that were made or deleted, and that `cached` and the like do not show yet."""
        owner = self.request.ref
        pending = self.services.expectations.pending(owner, self._shows, now=timing.now())
        return tuple(one.child for one in pending)

    def _shows(self, one: Expected) -> bool:
        child, peeking = one.child, self.services.peeking
        source = peeking.source(child.gvk, child.namespace) or peeking.source(
            child.gvk, child.namespace, is_metadata=True
        )
        if source is None:
            return True  # nobody keeps it, so there is nothing to wait for
        key = key_for(child.name, child.namespace)
        if not one.is_gone:
            return source.shows(key, one.version)
        head = source.find(key)
        return head is None or head.uid != one.uid

    def _refresh(self, what: Any, name: str | None, namespace: str | None, options: GetOptions) -> None:
        """Sends the read of an object that met a conflict to the server."""
        conflicts = self.services.conflicts
        if not conflicts or "read" in options:
            return
        view, called, place = kind_and_name(what, name, namespace)
        if Ref(view.gvk, called, place or self.services.client.namespace) in conflicts or (
            Ref(view.gvk, called) in conflicts
        ):
            options["read"] = "live"
