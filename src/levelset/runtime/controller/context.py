"""`Context`, what a reconcile function works with: reads, writes, status, events and background work.

```python
async def reconcile(site: Website, ctx: Context) -> None:
    running = await ctx.apply(deployment(site), owner=site)
    await ctx.set_status(site, WebsiteStatus(ready=running.status.ready_replicas))
```

Reads come from the cache and contain everything that was written through this client. Writes that would change nothing
are not sent where the cache can tell (`apply`, `set_status`, `set_condition`, `save`). What all contexts of a
controller share is in `context_dependencies.py`.
"""

import asyncio
import builtins
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from datetime import datetime
from operator import attrgetter
from random import Random, getrandbits
from typing import Any, Final, Literal, TypeVar, Unpack, cast, overload

import msgspec

from levelset.aio import timing
from levelset.client.client import Client, kind_and_name
from levelset.client.internals import apply_body
from levelset.client.object_types import OnlyMetadata, View, view_of
from levelset.client.patches import Patch
from levelset.client.request_body import RequestBody, request_body_of
from levelset.client.requests import Propagation
from levelset.errors import ApplyConflict, ConfigError, Conflict, NotFound, ServerFailed, Unreachable
from levelset.objects import codec
from levelset.objects.cached_object import CachedObject, decode_cached
from levelset.objects.conditions import with_condition
from levelset.objects.model import replace
from levelset.objects.owners import as_object, owned
from levelset.objects.ref import GroupVersionKind, Ref
from levelset.objects.resource import Object, PartialObjectMetadata, origin_of
from levelset.objects.unstructured import Unstructured
from levelset.runtime.cache import Cluster, Snapshot, by_owner
from levelset.runtime.cache.cluster import GetOptions, ListOptions, cluster_sources, peek_cached
from levelset.runtime.cache.keys import key_for
from levelset.runtime.cache.reader import CacheSource
from levelset.runtime.controller.applied_cache import ApplyRecord, apply_record_of, json_of
from levelset.runtime.controller.context_dependencies import BoundLogger, ContextDependencies
from levelset.runtime.controller.expectations import Expectation
from levelset.runtime.controller.request import Reason, Request
from levelset.runtime.controller.save_plan import Plan, plan_save, plan_status, plan_typed, read_status
from levelset.runtime.controller.traced_tasks import current_task, recorded_value
from levelset.runtime.queue import Due
from levelset.runtime.state import WorkHandle

__all__ = ["Context"]

K = TypeVar("K")
O = TypeVar("O", bound=Object | Unstructured)  # noqa: E741  # the letter the type checker shows
T = TypeVar("T")

_BY_OWNER: Final = by_owner()
_index_of: Final = attrgetter("index")


class Context(msgspec.Struct, eq=False):
    """One reconcile of one object: its request, and everything that a reconcile function may do.

    A context is valid for one reconcile only; work that outlives it keeps refs. All writes carry the controller's name
    as field manager. They raise Conflict if another writer was first: the controller then reconciles again soon, with
    an object that was read from the API server. When to reconcile again is what the function returns: `requeue(...)` or
    `await_change()`.

    Creating one is cheap (one per reconcile): request, logger and id are only made when they are first read.
    """

    object: Any
    """The object, as the cache showed it when the reconcile began; None if it is gone."""
    # The request, or the queue entry from which it is made when it is first read.
    _request: Request[Any] | Due[str, Reason]
    _dependencies: ContextDependencies
    _log: BoundLogger | None = None
    # By ref: the versions of an object that this reconcile has replaced, and the object after the last write.
    _newest: dict[Ref[Any], tuple[set[str], Any]] | None = None
    _reconcile_id: str = ""
    _random: Random | None = None

    @property
    def request(self) -> Request[Any]:
        """The request that this reconcile answers: ref, reasons, priority and attempt."""
        known = self._request
        if isinstance(known, Request):
            return known
        self._request = made = Request(self._dependencies.ref_of(known.key), known.reasons, known.priority)
        return made

    @property
    def ref(self) -> Ref[Any]:
        """The ref of the object that is reconciled."""
        return self.request.ref

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """Why the object is reconciled."""
        return self._request.reasons

    @property
    def attempt(self) -> int:
        """How many reconciles of the object in a row failed before this one; 0 is a first try."""
        return self.request.attempt

    @property
    def superseded(self) -> bool:
        """Whether a newer request for the object is queued: slow work may be left to that one."""
        return recorded_value("superseded", lambda: self._dependencies.is_superseded(self.request.ref))

    @property
    def reconcile_id(self) -> str:
        """A unique id of this reconcile, a field of all its log lines."""
        if not self._reconcile_id:
            self._reconcile_id = recorded_value("reconcile_id", lambda: uuid.uuid4().hex)
        return self._reconcile_id

    @property
    def log(self) -> BoundLogger:
        """A logger whose lines carry the controller, the object and `reconcile_id` as fields."""
        if self._log is None:
            dependencies, ref = self._dependencies, self.request.ref
            fields = {"controller": dependencies.controller_name, "ref": ref, "reconcile_id": self.reconcile_id}
            self._log = BoundLogger(dependencies.log, fields)
        return self._log

    def now(self) -> datetime:
        """The wall clock time, in UTC; a recording has it, and its replay returns the same."""
        now = self._dependencies.now
        return (
            now()
            if current_task() is None
            else datetime.fromisoformat(recorded_value("now", lambda: now().isoformat()))
        )

    @property
    def random(self) -> Random:
        """Random numbers of this reconcile; a replay of a recording gets the same. Not for passwords or keys."""
        if self._random is None:
            self._random = Random(recorded_value("random", lambda: getrandbits(63)))  # noqa: S311 -- as documented
        return self._random

    @property
    def client(self) -> Client:
        """The client; it writes with the controller's name as field manager."""
        return self._dependencies.client

    @property
    def cluster(self) -> Cluster:
        """The cluster, whose informers hold the caches."""
        return self._dependencies.cluster

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
        """The object, from the cache, never older than this client's own writes; NotFound if there is none.

        After a conflict it is read from the API server, until a write to it succeeds. Options are those of
        `Cluster.get`.
        """
        self._read_live_after_conflict(what, name, namespace, options)
        named: Any = () if name is None else (name,)
        place: Any = {} if namespace is None else {"namespace": namespace}
        return await self._dependencies.cluster.get(what, *named, **place, **options)

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
        """The object, or None if there is none; otherwise like `get`."""
        self._read_live_after_conflict(what, name, namespace, options)
        named: Any = () if name is None else (name,)
        place: Any = {} if namespace is None else {"namespace": namespace}
        return await self._dependencies.cluster.find(what, *named, **place, **options)

    @overload
    async def list(self, kind: type[K], /, **options: Unpack[ListOptions]) -> Snapshot[K]: ...
    @overload
    async def list(self, kind: GroupVersionKind, /, **options: Unpack[ListOptions]) -> Snapshot[Unstructured]: ...
    @overload
    async def list(self, kind: OnlyMetadata, /, **options: Unpack[ListOptions]) -> Snapshot[PartialObjectMetadata]: ...
    async def list(self, kind: Any, /, **options: Unpack[ListOptions]) -> Snapshot[Any]:
        """The selected objects, from the cache, never older than this client's own writes."""
        found: Snapshot[Any] = await self._dependencies.cluster.list(kind, **options)
        return found

    @overload
    async def children(self, kind: type[K], *, owner: Any = None) -> "builtins.list[K]": ...
    @overload
    async def children(self, kind: GroupVersionKind, *, owner: Any = None) -> "builtins.list[Unstructured]": ...
    @overload
    async def children(self, kind: OnlyMetadata, *, owner: Any = None) -> "builtins.list[PartialObjectMetadata]": ...
    async def children(self, kind: Any, *, owner: Any = None) -> "builtins.list[Any]":
        """The objects of a kind that are owned by the object, or by another `owner`, including all created here.

        If the response to a create was lost, they are read from the API server, which may have created the child all
        the same. With `owns(..., indexes=[by_owner()])` they are found by index instead of a scan of all objects of the
        kind.
        """
        owner = self.object if owner is None else owner
        view: View[Any] = view_of(kind)
        expectations, uid = self._dependencies.expectations, owner.metadata.uid
        options: ListOptions = {"namespace": owner.namespace}
        if expectations.has_unknown_create(owner.ref, view.gvk, now=timing.now()):
            options["read"] = "live"
        elif self._has_owner_index(view):
            options["index"] = (_BY_OWNER, uid)
        found: Snapshot[Any] = await self._dependencies.cluster.list(kind, **options)
        return [found[place] for place, one in enumerate(found.cached) if any(it.uid == uid for it in one.owners)]

    def cached(self, ref: Ref[K]) -> K | None:
        """The object in the cache right now, or None; own writes may be missing. Does not wait."""
        return self._dependencies.cache_lookup.get(ref)

    async def live(self, ref: Ref[K]) -> K | None:
        """The object as the API server has it, or None."""
        return await self._dependencies.client.find(ref)

    @property
    def expecting(self) -> tuple[Ref[Any], ...]:
        """Children of the object whose creation or deletion the cache does not show yet."""
        owner = self.request.ref
        pending = self._dependencies.expectations.pending(owner, self._is_observed, now=timing.now())
        return tuple(one.child for one in pending)

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
        """The child after a server-side apply; its namespace is the owner's unless it has one.

        Nothing is sent if the same document was applied before and the cache shows that the child has not changed since
        (its status does not count). With `owner` an owner reference is added: as the controller, or without `controls`
        as one of several owners. BadOwner if the object cannot own the child.
        """
        made = child if isinstance(child, Object) else as_object(child)
        made = made if owner is None else owned(made, owner, controls=controls)
        ref: Ref[Any] = made.ref if made.metadata.namespace is not None else await self._ref_of(made)
        draft = request_body_of(made)
        document = draft.encode_for_apply()
        dependencies = self._dependencies
        applied, client = dependencies.applied, dependencies.client
        last = applied.find(ref)
        if last is not None and last.is_for(document):
            found = await self._find_applied(ref, last, document)
            if found is not None:
                return found
        if force and dependencies.hot_loops.lacks_managers(ref):
            answer = await self._write(ref, lambda: self._apply_and_name_managers(ref, draft, document))
        else:
            answer = await self._write(
                ref, lambda: apply_body(client, draft, document, namespace=ref.namespace, force=force)
            )
        applied.record(ref, apply_record_of(document, answer), answer)
        return answer

    @overload
    async def create(self, child: O, *, owner: Object | Unstructured | None = None, controls: bool = True) -> O: ...
    @overload
    async def create(
        self, child: Mapping[str, Any], *, owner: Object | Unstructured | None = None, controls: bool = True
    ) -> Unstructured: ...
    async def create(self, child: Any, *, owner: Object | Unstructured | None = None, controls: bool = True) -> Any:
        """The created child; AlreadyExists if its name is taken.

        `children` includes it from now on, even before the cache does. For a child with `generateName`, read `children`
        first to see whether it exists already.
        """
        made = as_object(child)
        made = made if owner is None else owned(made, owner, controls=controls)
        expectations, by = self._dependencies.expectations, self.ref if owner is None else owner.ref
        gvk = request_body_of(made).view.gvk
        known = await self._ref_of(made) if made.name else None
        try:
            answer = await self._write(known, lambda: self.client.create(made))
        except (asyncio.CancelledError, ServerFailed, Unreachable) as error:
            if not isinstance(error, Unreachable) or error.is_sent:
                expectations.record_unknown_create(by, gvk, now=timing.now())  # it may have been created all the same
            raise
        metadata = answer.metadata
        expectations.expect_created(
            by, answer.ref, uid=metadata.uid, version=metadata.resource_version, now=timing.now()
        )
        return answer

    @overload
    async def update(self, obj: O, *, subresource: str | None = None) -> O: ...
    @overload
    async def update(self, obj: Mapping[str, Any], *, subresource: str | None = None) -> Unstructured: ...
    async def update(self, obj: Any, *, subresource: str | None = None) -> Any:
        """The object after a full replacement (PUT); Conflict if it was written since it was read."""
        made = as_object(obj)
        ref = await self._ref_of(made)
        answer = await self._write(ref, lambda: self.client.update(made, subresource=subresource), read=made)
        self._remember_write(ref, made.metadata.resource_version, answer)
        return answer

    async def patch(self, ref: Ref[K], patch: Patch, *, subresource: str | None = None) -> K:
        """The object after a patch; NotFound if there is none."""
        return await self._write(ref, lambda: self.client.patch(ref, patch, subresource=subresource))

    async def delete(self, what: Ref[Any] | Object | Unstructured, *, propagation: Propagation | None = None) -> None:
        """Deletes an object; given as an object, only if its uid still matches, given as a ref, by name.

        It is no error if it is gone already.
        """
        ref, uid = (what, None) if isinstance(what, Ref) else (await self._ref_of(what), what.metadata.uid or None)
        try:
            await self._write(
                ref,
                lambda: self.client.delete(ref, uid=uid, propagation=propagation, missing_ok=True),
                is_delete=True,
            )
        except Conflict:
            if uid is None:
                raise
            # Another object has the name now; the one that was given is gone.
            self._dependencies.conflicts.clear_stale(ref)
        self._dependencies.applied.forget(ref)
        if uid is not None:
            self._dependencies.expectations.expect_deleted(self.ref, ref, uid=uid, now=timing.now())

    async def save(self, obj: O, *, before: Object | Unstructured | None = None) -> O:
        """The object after the changes that were made to it since it was read have been written, in at most one write.

        If its status differs, only the status is written, and the object is enqueued to write the rest. What was read
        is known from a typed object itself, from the cache, or from `before`. It is no error if the object is gone
        meanwhile.
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
        made: O = await self._execute(obj, plan)
        if plan.is_more:
            self._dependencies.wake(obj.ref)
        return made

    async def set_status(self, obj: O, status: Any) -> O:
        """The object with this status; written only if it differs from the status that was read.

        The status is replaced as a whole: fields that are not set are removed, except those that its class does not
        declare. This is the usual way to write conditions: compute the status with `levelset.set_condition`. It is no
        error if the object is gone meanwhile.
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
            made = base if plan is None else await self._execute(base, plan, status=status)
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
        """The object with this one condition set, and the rest of its status as it is; written only if it differs.

        For a condition that is written alone, in a `gave_up` handler for example. To write several conditions, or other
        status fields with them, use `levelset.set_condition` and `set_status`: that is one write. The transition time
        changes only with the condition's status. ConfigError if the status has no `conditions`.
        """
        base: Any = self._newest_of(obj)
        wanted: Any = with_condition(base, type, status, now=self.now(), reason=reason, message=message)
        made: Any
        if isinstance(wanted, Unstructured):
            made = await self._save_status(base, wanted)
        else:
            plan = plan_typed(base, read_status(base), wanted.status)
            made = base if plan is None else await self._execute(wanted, plan)
        return cast("O", made)

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
        """Records a Kubernetes Event about an object. Never waits and never fails.

        `reason` is one word in CamelCase, `message` a sentence. The same event within six minutes increments the count
        of its series.
        """
        task = current_task()
        if task is not None:
            about = str(obj if isinstance(obj, Ref) else obj.ref)
            task.tracer.event(task, about, reason, message, warning)
        self._dependencies.recorder.record(obj, reason, message, warning=warning, action=action, related=related)

    def background(
        self,
        work: Coroutine[Any, Any, builtins.object] | Callable[[], Coroutine[Any, Any, builtins.object]],
        *,
        name: str | None = None,
    ) -> WorkHandle:
        """Starts slow work outside of the reconcile; if work of that object and name runs already, returns its handle.

        Store its result in a `StateMap` as a deferred change, which enqueues the object. It is cancelled when the
        object is gone.
        """
        return self._dependencies.work.start(self.ref, work, name=name)

    def __repr__(self) -> str:
        return f"<Context of {self._dependencies.controller_name} for {self.request}>"

    def _read_live_after_conflict(
        self, what: Any, name: str | None, namespace: str | None, options: GetOptions
    ) -> None:
        """Makes the read live if a write to the object met a conflict: the cache may hold the version that lost."""
        conflicts = self._dependencies.conflicts
        if not conflicts or "read" in options:
            return
        view, called, place = kind_and_name(what, name, namespace)
        if Ref(view.gvk, called, place or self._dependencies.client.namespace) in conflicts or (
            Ref(view.gvk, called) in conflicts
        ):
            options["read"] = "live"

    def _has_owner_index(self, view: View[Any]) -> bool:
        """Whether all caches of a kind have the index by owner."""
        found = [
            one
            for one in cluster_sources(self._dependencies.cluster)
            if one.scope.gvk == view.gvk and one.scope.is_metadata == view.is_metadata
        ]
        return bool(found) and all(_BY_OWNER in map(_index_of, one.informer.table.indexes) for one in found)

    def _is_observed(self, one: Expectation) -> bool:
        child, cache_lookup = one.child, self._dependencies.cache_lookup
        source = cache_lookup.source(child.gvk, child.namespace) or cache_lookup.source(
            child.gvk, child.namespace, is_metadata=True
        )
        if source is None:
            return True  # not cached, so there is nothing to wait for
        key = key_for(child.name, child.namespace)
        if not one.is_deletion:
            return source.shows(key, one.version)
        head = source.find(key)
        return head is None or head.uid != one.uid

    async def _find_applied(self, ref: Ref[Any], last: ApplyRecord, document: bytes) -> Any | None:
        """The child, if the cache shows that applying the document again would not change it."""
        applied, cache_lookup = self._dependencies.applied, self._dependencies.cache_lookup
        whole = cache_lookup.source(ref.gvk, ref.namespace)
        if whole is not None and not whole.scope.is_changed:
            cached = peek_cached(self.cluster, whole, ref.name, ref.namespace)
            if cached is not None and last.version == cached.resource_version:
                # Nearly always: the version that the last apply resulted in, whose response need not be decoded again.
                response = applied.last_response(ref, last.version)
                if isinstance(response, Object) and last.still_holds(document, cached, is_metadata=False):
                    return response
            found = await self.cluster.find(ref)
            if found is None:
                return None
            last = applied.with_content(ref, last)
            return found if last.still_holds(document, _cached(found, whole), is_metadata=False) else None
        part = cache_lookup.source(ref.gvk, ref.namespace, is_metadata=True)
        if part is None:
            return None
        cached = peek_cached(self.cluster, part, ref.name, ref.namespace)
        if cached is None:
            small = await self.cluster.find(OnlyMetadata(ref.class_ or ref.gvk), ref.name, namespace=ref.namespace)
            cached = None if small is None else _cached(small, part)
        last = applied.with_content(ref, last)
        if cached is None or not last.still_holds(document, cached, is_metadata=True):
            return None
        return applied.last_response(ref, cached.resource_version) or await self.client.find(ref)

    async def _write(
        self,
        ref: Ref[Any] | None,
        send: Callable[[], Awaitable[T]],
        *,
        read: Object | Unstructured | None = None,
        is_delete: bool = False,
    ) -> T:
        """Sends a write, as all writes of a context are sent; without a ref, the new object has no name yet.

        A conflict makes the next read of the object live. The hot loop detector counts the write, and compares the
        object before and after it if there are many. `read` is the object whose version the write requires, if any.
        """
        if ref is None:
            return await send()
        is_frequent = not is_delete and self._count_write(ref)
        before = self._bytes_before(ref, read) if is_frequent else None
        conflicts = self._dependencies.conflicts
        try:
            made = await send()
        except Exception as error:
            conflicts.record_failed_write(ref, error)
            raise
        conflicts.clear_stale(ref)
        if is_frequent:
            self._report_hot_loop(ref, before, made)
        return made

    def _count_write(self, ref: Ref[Any]) -> bool:
        """Counts a write for the hot loop detector; True if it is to be compared.

        A write counts as own if this reconcile was caused only by changes of the object that is now written.
        """
        dependencies, request, is_own = self._dependencies, self.request, False
        own, written = request.ref, dependencies.hot_loops
        for one in request.reasons:
            # The cheap comparisons first: most writes are to objects of other kinds.
            if one.kind == "changed" and (ref is own or (ref.gvk == own.gvk and ref == own)):
                is_own = True
            elif one.about is None:
                continue
            elif one.about == ref:
                is_own = True
            elif one.about not in written:
                is_own = False
                break
        return written.record_write(ref, is_own=is_own, now=dependencies.clock())

    def _bytes_before(self, ref: Ref[Any], read: Object | Unstructured | None) -> bytes | None:
        """The object before a write, as it was read or as it is cached; None if neither is known. Never a request."""
        origin = origin_of(read) if isinstance(read, Object) else None
        if origin is not None:
            return origin
        cached = self._dependencies.cache_lookup.cached(ref)
        return None if cached is None else cached.raw

    def _report_hot_loop(self, ref: Ref[Any], before: bytes | None, made: Any) -> None:
        """Has a write compared, and reports the hot loop that it is part of, if any."""
        if isinstance(made, Unstructured) and made.gvk != ref.gvk:
            before = None  # the response is a subresource, such as a Scale: only its version is that of the object
        dependencies = self._dependencies
        found = dependencies.hot_loops.compare(
            ref,
            None if before is None else codec.decode_tree(before),
            codec.decode_tree(json_of(made)),
            manager=dependencies.controller_name,
            now=timing.now(),
        )
        if found is None:
            return
        try:
            dependencies.on_hot_loop(found)
        except Exception:
            # The write has succeeded: a failing observer must not fail the reconcile.
            self.log.exception("the hot loop handler failed")

    async def _apply_and_name_managers(self, ref: Ref[Any], draft: RequestBody, document: bytes) -> Any:
        """Applies with force, but without at first: the conflict names the managers that the fields are taken from."""
        client, place = self._dependencies.client, ref.namespace
        try:
            return await apply_body(client, draft, document, namespace=place)
        except ApplyConflict as error:
            self._dependencies.hot_loops.name_managers(ref, [one.manager for one in error.conflicts])
        return await apply_body(client, draft, document, namespace=place, force=True)

    def _read_tree(self, obj: Object | Unstructured, before: Object | Unstructured | None) -> Any:
        if before is not None:
            return codec.to_tree(before)
        origin = origin_of(obj) if isinstance(obj, Object) else None
        if origin is not None:
            return codec.decode_tree(origin)
        if isinstance(obj, Unstructured) and (found := self._tree_before(obj)) is not obj.tree:
            return found
        raise ConfigError(
            f"save {obj.kind} {obj.name}: it is not known how it was read; pass before=, or use ctx.apply"
        )

    def _tree_before(self, obj: Unstructured) -> dict[str, Any]:
        """The tree as it was read, from the cache if it has this version: the caller may have changed its copy."""
        cached = self._dependencies.cache_lookup.cached(obj.ref)
        is_same = cached is not None and cached.resource_version == obj.metadata.resource_version
        tree: dict[str, Any] = cached.tree() if is_same and cached is not None else obj.tree
        return tree

    async def _save_status(self, base: Any, wanted: Unstructured) -> Any:
        served = await self.client.resource(base.gvk)
        plan = plan_status(
            self._tree_before(base).get("status"),
            wanted.tree.get("status"),
            has_status="status" in served.subresources,
            version=base.metadata.resource_version,
        )
        return base if plan is None else await self._execute(wanted, plan)

    async def _execute(self, wanted: Any, plan: Plan, **missing: Any) -> Any:
        """Executes a planned write; if the object is gone, returns the wanted one, completed with `missing`."""
        client, ref = self._dependencies.client, self._own_or_other(wanted)
        try:
            made = await self._write(
                ref, lambda: client.patch(ref, plan.patch, subresource=plan.part), read=self._newest_of(wanted)
            )
        except NotFound as error:
            if not error.details.get("name"):
                raise  # the kind or its status subresource is missing, not the object
            self.log.debug("not written: the object is gone")
            return replace(wanted, **missing) if missing else wanted
        self._remember_write(ref, wanted.metadata.resource_version, made)
        return made

    def _newest_of(self, obj: O) -> O:
        """The object, or its result after earlier writes of this reconcile."""
        if self._newest is None:
            return obj
        versions, newest = self._newest.get(obj.ref, (frozenset[str](), obj))
        return newest if obj.metadata.resource_version in versions else obj

    def _remember_write(self, ref: Ref[Any], version: str, made: Any) -> None:
        versions = {version, made.metadata.resource_version}
        if self._newest is None:
            self._newest = {ref: (versions, made)}
            return
        found = self._newest.get(ref)
        self._newest[ref] = (versions if found is None else found[0] | versions), made

    def _own_or_other(self, obj: Object | Unstructured) -> Ref[Any]:
        """The ref of an object; without making one if it is the reconciled object."""
        own, metadata = self.request.ref, obj.metadata
        is_own = own.class_ is type(obj) and own.name == metadata.name and own.namespace == metadata.namespace
        return own if is_own else obj.ref

    async def _ref_of(self, obj: Object | Unstructured) -> Ref[Any]:
        """The ref of an object with its effective namespace."""
        if obj.namespace is not None:
            return obj.ref
        kind = _kind(obj)
        served = await self.client.resource(kind)
        return Ref(kind, obj.name, self.client.namespace if served.namespaced else None)


def _kind(obj: Object | Unstructured) -> Any:
    return obj.gvk if isinstance(obj, Unstructured) else type(obj)


def _cached(obj: Any, source: CacheSource) -> CachedObject:
    """The cache entry of an object that was read; decoded from its JSON if the cache has another version."""
    found = source.cached(key_for(obj.name, obj.namespace))
    if found is not None and found.resource_version == obj.metadata.resource_version:
        return found
    raw = json_of(obj)
    return decode_cached(raw)
