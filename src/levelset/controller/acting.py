"""What a reconciler may do to objects: every write it makes, and how each is kept from being made in vain."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, TypeVar, cast, overload

from levelset.aio import timing
from levelset.cache.keys import key_for
from levelset.cache.sources import Source
from levelset.client.drafting import draft_of
from levelset.client.kinds import OnlyMetadata
from levelset.client.patches import Patch
from levelset.client.requests import Propagation
from levelset.controller.applied import Mark, mark_of, raw_of
from levelset.controller.conditions import with_condition
from levelset.controller.looking import Looking
from levelset.controller.owning import as_object, owned
from levelset.controller.saving import Plan, plan_save, plan_status, plan_typed, read_status
from levelset.errors import ApiError, ConfigError, Conflict, NotFound, ServerFailed, Unreachable
from levelset.objects import codec
from levelset.objects.identity import Ref
from levelset.objects.kept import Kept, keep
from levelset.objects.model import replace
from levelset.objects.resource import Object, origin_of
from levelset.objects.unstructured import Unstructured

__all__ = ["Acting"]

K = TypeVar("K")
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


def _kept(obj: Any, source: Source) -> Kept:
    """What is kept of an object that was read; from its own bytes if the cache is at another version."""
    found = source.kept(key_for(obj.name, obj.namespace))
    if found is not None and found.resource_version == obj.metadata.resource_version:
        return found
    raw = raw_of(obj)
    return keep(raw)
