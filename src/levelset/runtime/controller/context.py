"""What a reconciler may do: read, apply, save, tell, and have slow work done.

```python
async def reconcile(site: Website, ctx: Context) -> None:
    running = await ctx.apply(deployment(site), owner=site)
    await ctx.set_status(site, WebsiteStatus(ready=running.status.ready_replicas))
```

What a reconciler knows and may read: its object and request, the caches, and the server.

What a reconciler may do to objects: every write it makes, and how each is kept from being made in vain.
"""

import asyncio
import builtins
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from datetime import datetime
from operator import attrgetter
from typing import Any, Final, Literal, TypeVar, Unpack, cast, overload

import msgspec

from levelset.aio import timing
from levelset.client.client import Client, kind_and_name
from levelset.client.object_types import Kind, OnlyMetadata, View, view_of
from levelset.client.patches import Patch
from levelset.client.request_body import draft_of
from levelset.client.requests import Propagation
from levelset.errors import ApiError, ConfigError, Conflict, NotFound, ServerFailed, Unreachable
from levelset.objects import codec
from levelset.objects.cached_object import Kept, keep
from levelset.objects.conditions import with_condition
from levelset.objects.model import replace
from levelset.objects.owners import as_object, owned
from levelset.objects.ref import GroupVersionKind, Ref
from levelset.objects.resource import Object, PartialObjectMetadata, origin_of
from levelset.objects.unstructured import Unstructured
from levelset.runtime.cache import Cluster, Snapshot, by_owner
from levelset.runtime.cache.cluster import GetOptions, ListOptions
from levelset.runtime.cache.keys import key_for
from levelset.runtime.cache.reader import CacheSource
from levelset.runtime.controller.applied_cache import Mark, mark_of, raw_of
from levelset.runtime.controller.context_dependencies import BoundLog, Services
from levelset.runtime.controller.expectations import Expected
from levelset.runtime.controller.request import Reason, Request
from levelset.runtime.controller.status_writer import Plan, plan_save, plan_status, plan_typed, read_status
from levelset.runtime.queue import Due
from levelset.runtime.state import Handle

__all__ = ["Acting", "Context", "Looking"]

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


O = TypeVar("O", bound=Object | Unstructured)  # noqa: E741  # the letter the type checker shows
T = TypeVar("T")


class Acting(Looking):
    """The part of a context that writes, always under the name of the controller.

    Raises Conflict if somebody else wrote first; the controller then looks again, soon, and with an object that was
    read from the server.
    """

    @overload
    async def apply(
        self, child: O, *, owner: Object | Unstructured | None = None, controls: bool = True, force: bool = True
    ) -> O: ...
    @overload
    async def apply(
        self,
        child: Mapping[str, Any],
        *,
        owner: Object | Unstructured | None = None,
        controls: bool = True,
        force: bool = True,
    ) -> Unstructured: ...
    async def apply(
        self, child: Any, *, owner: Object | Unstructured | None = None, controls: bool = True, force: bool = True
    ) -> Any:
        """The child after a server-side apply, made where its owner is unless it says where; BadOwner if it may not be.

        Nothing is sent if the same was applied before and the child, but for its status, has not changed since, as far
        as the cache can tell. Without `controls` the owner is one of several that the child is deleted with.
        """
        made = child if isinstance(child, Object) else as_object(child)
        made = made if owner is None else owned(made, owner, controls=controls)
        ref: Ref[Any] = made.ref if made.metadata.namespace is not None else await self._ref_of(made)
        draft = draft_of(made)
        document = draft.applied_body()
        services = self.services
        applied, client, conflicts = services.applied, services.client, services.conflicts
        mark = applied.find(ref)
        if mark is not None and mark.is_of(document):
            found = await self._find_applied(ref, mark, document)
            if found is not None:
                return found
        place = ref.namespace
        if self._count(ref):
            answer = await self._write_watched(
                ref, lambda: client.apply_draft(draft, document, namespace=place, force=force)
            )
        else:  # what `_send` does, without a coroutine around it
            if services.fence is not None:
                services.fence()
            try:
                answer = await client.apply_draft(draft, document, namespace=place, force=force)
            except Exception as error:
                conflicts.learn(ref, error)
                raise
            if conflicts.stale:
                conflicts.settle(ref)
        applied.note(ref, mark_of(ref, document, answer, services.peeking), answer)
        return answer

    @overload
    async def create(self, child: O, *, owner: Object | Unstructured | None = None, controls: bool = True) -> O: ...
    @overload
    async def create(
        self, child: Mapping[str, Any], *, owner: Object | Unstructured | None = None, controls: bool = True
    ) -> Unstructured: ...
    async def create(self, child: Any, *, owner: Object | Unstructured | None = None, controls: bool = True) -> Any:
        """The child as the server made it, remembered until the cache shows it; AlreadyExists if its name is taken.

        Before a child whose name the server makes up is made, `children` says whether it is there already.
        """
        made = as_object(child)
        made = made if owner is None else owned(made, owner, controls=controls)
        expectations, by = self.services.expectations, self.ref if owner is None else owner.ref
        gvk = draft_of(made).view.gvk
        known = await self._ref_of(made) if made.name else None
        try:
            answer = await self._write(known, lambda: self.client.create(made))
        except (asyncio.CancelledError, ServerFailed, Unreachable) as error:
            if not isinstance(error, Unreachable) or error.is_sent:
                expectations.be_in_doubt(by, gvk, now=timing.now())  # it may have been made all the same
            raise
        metadata = answer.metadata
        expectations.expect_made(by, answer.ref, uid=metadata.uid, version=metadata.resource_version, now=timing.now())
        return answer

    @overload
    async def update(self, obj: O, *, subresource: str | None = None) -> O: ...
    @overload
    async def update(self, obj: Mapping[str, Any], *, subresource: str | None = None) -> Unstructured: ...
    async def update(self, obj: Any, *, subresource: str | None = None) -> Any:
        """The object after it was replaced as a whole; Conflict if somebody wrote since it was read."""
        made = as_object(obj)
        ref = await self._ref_of(made)
        answer = await self._write(ref, lambda: self.client.update(made, subresource=subresource))
        self._note(ref, made.metadata.resource_version, answer)
        return answer

    async def patch(self, ref: Ref[K], patch: Patch, *, subresource: str | None = None) -> K:
        """The object after a patch; NotFound if there is none."""
        return await self._write(ref, lambda: self.client.patch(ref, patch, subresource=subresource))

    async def delete(self, what: Ref[Any] | Object | Unstructured, *, propagation: Propagation | None = None) -> None:
        """Deletes an object: that very one if it is given itself, whoever has its name if it is given by reference.

        It is no error if it is gone already.
        """
        ref, uid = (what, None) if isinstance(what, Ref) else (await self._ref_of(what), what.metadata.uid or None)
        try:
            await self._send(ref, lambda: self.client.delete(ref, uid=uid, propagation=propagation, missing_ok=True))
        except Conflict:
            if uid is None:
                raise
            self.services.conflicts.settle(ref)  # a namesake is there; the one that was meant is gone
        self.services.applied.forget(ref)
        if uid is not None:
            self.services.expectations.expect_gone(self.ref, ref, uid=uid, now=timing.now())

    async def set_status(self, obj: O, status: Any) -> O:
        """The object with this status, written only if it is different from the one that was read.

        The status is a whole: what it does not say is taken away, except what its class does not know. An object that
        is gone meanwhile is no error.
        """
        base: Any = obj if self._newest is None else self._newest_of(obj)
        made: O
        if isinstance(base, Unstructured):
            made = await self._save_status(base, Unstructured({**base.tree, "status": codec.to_tree(status)}))
            return made
        was = read_status(base)
        if was == status:
            made = base if base.status == status else replace(base, status=status)
        else:
            plan = plan_typed(base, was, status)
            made = base if plan is None else await self._carry_out(base, plan, status=status)
        return made

    async def set_condition(
        self,
        obj: O,
        type: str,  # noqa: A002  # the word of the API
        status: Literal["True", "False", "Unknown"] | bool | None,
        *,
        reason: str = "",
        message: str = "",
    ) -> O:
        """The object with this condition in its status, written only if it is different; its time is that of a change.

        To write several at once, or with the rest of a status, use `with_condition` and `set_status`.
        """
        base: Any = self._newest_of(obj)
        wanted: Any = with_condition(base, type, status, now=self.now(), reason=reason, message=message)
        made: Any
        if isinstance(wanted, Unstructured):
            made = await self._save_status(base, wanted)
        else:
            plan = plan_typed(base, read_status(base), wanted.status)
            made = base if plan is None else await self._carry_out(wanted, plan)
        return cast("O", made)

    async def save(self, obj: O, *, before: Object | Unstructured | None = None) -> O:
        """The object as it is after what was changed about it since it was read has been written, in one write at most.

        If its status is different, that is written, and the rest is left to another look, which is asked for. An object
        that is gone meanwhile is no error. How it was read a typed object remembers, the cache shows, or `before` says.
        """
        read = self._read_tree(obj, before)
        newest = self._newest_of(obj)
        served = await self.client.resource(_kind(obj))
        plan = plan_save(
            read,
            codec.to_tree(obj),
            has_status="status" in served.subresources,
            version=newest.metadata.resource_version,
        )
        if plan is None:
            return newest if newest is not obj else obj
        made: O = await self._carry_out(obj, plan)
        if plan.is_more:
            self.services.wake(obj.ref)
        return made

    async def _save_status(self, base: Any, wanted: Unstructured) -> Any:
        served = await self.client.resource(base.gvk)
        plan = plan_status(
            self._tree_before(base).get("status"),
            wanted.tree.get("status"),
            has_status="status" in served.subresources,
            version=base.metadata.resource_version,
        )
        return base if plan is None else await self._carry_out(wanted, plan)

    async def _carry_out(self, wanted: Any, plan: Plan, **missing: Any) -> Any:
        """What a plan leads to; if the object is gone, the one that was wanted, with what it is still `missing`."""
        services, ref = self.services, self._own_or_other(wanted)
        client, conflicts = services.client, services.conflicts
        try:
            if self._count(ref):
                made = await self._write_watched(ref, lambda: client.patch(ref, plan.patch, subresource=plan.part))
            else:  # what `_send` does, without a coroutine around it
                if services.fence is not None:
                    services.fence()
                try:
                    made = await client.patch(ref, plan.patch, subresource=plan.part)
                except Exception as error:
                    conflicts.learn(ref, error)
                    raise
                if conflicts.stale:
                    conflicts.settle(ref)
        except NotFound as error:
            if not error.details.get("name"):
                raise  # it is the kind, or its status, that is not there
            self.log.debug("not saved: the object is gone")
            return replace(wanted, **missing) if missing else wanted
        self._note(ref, wanted.metadata.resource_version, made)
        return made

    async def _find_applied(self, ref: Ref[Any], mark: Mark, document: bytes) -> Any | None:
        """The child, if applying the document would not change it and the cache, or what was answered, shows it."""
        applied, peeking = self.services.applied, self.services.peeking
        whole = peeking.source(ref.gvk, ref.namespace)
        if whole is not None and not whole.scope.is_changed:
            found = await self.cluster.find(ref)
            if found is None:
                return None
            mark = applied.filled(ref, mark, document)
            return found if mark.still_holds(document, _kept(found, whole), is_metadata=False) else None
        part = peeking.source(ref.gvk, ref.namespace, is_metadata=True)
        if part is None:
            return None
        kept = self.cluster.peek(part, ref.name, ref.namespace)
        if kept is None:
            small = await self.cluster.find(OnlyMetadata(ref.class_ or ref.gvk), ref.name, namespace=ref.namespace)
            kept = None if small is None else _kept(small, part)
        mark = applied.filled(ref, mark, document)
        if kept is None or not mark.still_holds(document, kept, is_metadata=True):
            return None
        return applied.answer(ref, kept.resource_version) or await self.client.find(ref)

    def _write(self, ref: Ref[Any] | None, send: Callable[[], Awaitable[T]]) -> Awaitable[T]:
        """Writes that may go on for ever come this way: who does not come to rest is told."""
        return self._send(ref, send) if ref is None or not self._count(ref) else self._write_watched(ref, send)

    def _count(self, ref: Ref[Any]) -> bool:
        """Counts a write that is about to happen; whether it has to be seen what it changes.

        It is an own one if the object is looked at because of a change of what is now written, and of nothing else.
        """
        services, request, is_own = self.services, self.request, False
        own, written = request.ref, services.hot_loops
        for one in request.reasons:
            if one.kind == "changed" and (ref is own or (ref.gvk == own.gvk and ref == own)):  # most are of other kinds
                is_own = True
            elif one.about is None:
                continue
            elif one.about == ref:
                is_own = True
            elif one.about not in written:
                is_own = False
                break
        return written.note(ref, is_own=is_own, now=services.clock())

    async def _write_watched(self, ref: Ref[Any], send: Callable[[], Awaitable[T]]) -> T:
        before = await self._tree_of(ref)
        made = await self._send(ref, send)
        if before is not None and isinstance(made, Object | Unstructured):
            self._compare(ref, before, codec.to_tree(made))
        return made

    async def _send(self, ref: Ref[Any] | None, send: Callable[[], Awaitable[T]]) -> T:
        """All writes come this way: none after the fence fell, and none without learning from a conflict."""
        services = self.services
        if services.fence is not None:
            services.check_fence()
        if ref is None:
            return await send()
        conflicts = services.conflicts
        try:
            made = await send()
        except Exception as error:
            conflicts.learn(ref, error)
            raise
        conflicts.settle(ref)
        return made

    def _compare(self, ref: Ref[Any], before: Any, after: Any) -> None:
        services = self.services
        found = services.hot_loops.compare(ref, before, after, manager=services.controller_name, now=timing.now())
        if found is None:
            return
        try:
            services.on_hot_loop(found)
        except Exception:
            # The write has succeeded, and so does the look.
            self.log.exception("whoever is told of hot loops has failed")

    async def _tree_of(self, ref: Ref[Any]) -> Any:
        """The object as the server has it, with its managed fields."""
        try:
            found: Any = await self.client.find(Ref(ref.gvk, ref.name, ref.namespace))
        except (ApiError, Unreachable):
            return None
        return None if found is None else found.tree

    async def _ref_of(self, obj: Object | Unstructured) -> Ref[Any]:
        """The reference to an object, with the namespace in which it is, or will be."""
        if obj.namespace is not None:
            return obj.ref
        kind = _kind(obj)
        served = await self.client.resource(kind)
        return Ref(kind, obj.name, self.client.namespace if served.namespaced else None)

    def _newest_of(self, obj: O) -> O:
        """The object, or what became of it by writes of this look."""
        if self._newest is None:
            return obj
        versions, newest = self._newest.get(obj.ref, (frozenset[str](), obj))
        return newest if obj.metadata.resource_version in versions else obj

    def _own_or_other(self, obj: Object | Unstructured) -> Ref[Any]:
        """The reference to an object: the one that is looked at has one already."""
        own, metadata = self.request.ref, obj.metadata
        is_own = own.class_ is type(obj) and own.name == metadata.name and own.namespace == metadata.namespace
        return own if is_own else obj.ref

    def _note(self, ref: Ref[Any], version: str, made: Any) -> None:
        versions = {version, made.metadata.resource_version}
        if self._newest is None:
            self._newest = {ref: (versions, made)}
            return
        found = self._newest.get(ref)
        self._newest[ref] = (versions if found is None else found[0] | versions), made

    def _read_tree(self, obj: Object | Unstructured, before: Object | Unstructured | None) -> Any:
        if before is not None:
            return codec.to_tree(before)
        origin = origin_of(obj) if isinstance(obj, Object) else None
        if origin is not None:
            return codec.decode_tree(origin)
        if isinstance(obj, Unstructured) and (found := self._tree_before(obj)) is not obj.tree:
            return found
        raise ConfigError(f"save {obj.kind} {obj.name}: nobody knows how it was read; say before=, or apply it")

    def _tree_before(self, obj: Unstructured) -> dict[str, Any]:
        """A tree as it was read, if the cache still shows that: its reader may have changed his own. Else as it is."""
        kept = self.services.peeking.kept(obj.ref)
        is_same = kept is not None and kept.resource_version == obj.metadata.resource_version
        tree: dict[str, Any] = kept.tree() if is_same and kept is not None else obj.tree
        return tree


def _kind(obj: Object | Unstructured) -> Any:
    return obj.gvk if isinstance(obj, Unstructured) else type(obj)


def _kept(obj: Any, source: CacheSource) -> Kept:
    """What is kept of an object that was read; from its own bytes if the cache is at another version."""
    found = source.kept(key_for(obj.name, obj.namespace))
    if found is not None and found.resource_version == obj.metadata.resource_version:
        return found
    raw = raw_of(obj)
    return keep(raw)


class Context(Acting):
    """One look at one object: what is known about it, and everything that may be done.

    Reads are those of `Looking`, writes those of `Acting`. A context is for one look only; what runs longer keeps refs.
    """

    def __repr__(self) -> str:
        return f"<Context of {self.services.controller_name} for {self.request}>"

    def record(
        self,
        obj: Object | Unstructured | Ref[Any],
        reason: str,
        message: str,
        *,
        warning: bool = False,
        action: str = "Reconcile",
        related: Object | Unstructured | Ref[Any] | None = None,
    ) -> None:
        """Tells as a Kubernetes Event that something happened to an object. Never waits and never fails.

        `reason` is one word in CamelCase, the message a sentence. What happens again within six minutes is counted.
        """
        self.services.recorder.record(obj, reason, message, warning=warning, action=action, related=related)

    def background(
        self,
        work: Coroutine[Any, Any, object] | Callable[[], Coroutine[Any, Any, object]],
        *,
        name: str | None = None,
    ) -> Handle:
        """Has slow work done outside of the reconciler; started again while it runs, it is the same piece of work.

        What it finds out goes into a `StateMap` as a deferred change, which wakes the controller.
        """
        return self.services.work.start(self.ref, work, name=name)
