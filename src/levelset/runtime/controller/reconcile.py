"""One look at an object: read it, find out what is to be done with it, and call the user's function for that."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from inspect import iscoroutinefunction
from typing import Any, Final, Generic, TypeVar

from levelset.client.object_types import Kind
from levelset.errors import BadObject, ConfigError, GiveUp
from levelset.objects.ref import Ref
from levelset.runtime.cache import Store
from levelset.runtime.cache.reader import CacheSource, Read
from levelset.runtime.controller import finalizers
from levelset.runtime.controller.actions import Action
from levelset.runtime.controller.context import Context
from levelset.runtime.controller.context_dependencies import Services
from levelset.runtime.controller.error_policy import Answering
from levelset.runtime.controller.request import Reason, Request
from levelset.runtime.controller.worker import GONE
from levelset.runtime.queue import Due
from levelset.runtime.state import StateMap

__all__ = ["Begins", "Duties", "GaveUp", "Invocation", "Reconcile", "Vanished"]

K = TypeVar("K")

_NOTHING: Final[Mapping[str, object]] = {}

Reconcile = Callable[[K, Context], Awaitable[Action | None]]
"""Brings the world nearer to what an object says, and says when to look again."""
Vanished = Callable[[Ref[K], Context], Awaitable[object]]
"""Is called for an object that is no longer there."""
Begins = Callable[[str, Request[Any] | Due[str, Reason]], Context | None]
"""Begins a look at the object with a key, because of what was asked for, if there is nothing to wait for."""
GaveUp = Callable[[K, GiveUp, Context], Awaitable[object]]
"""Is called when a reconciler has given up; to set a condition, say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Duties(Generic[K]):
    """The user's functions, and what they need around them."""

    reconcile: Reconcile[K]
    cleanup: Reconcile[K] | None = None
    finalizer: str | None = None
    gone: Vanished[K] | None = None
    gave_up: GaveUp[K] | None = None
    states: Sequence[StateMap[Any, Any, Any]] = ()


class Invocation(Generic[K]):
    """Looks at the objects of a store; `source`, if there is one, knows which own writes the store has yet to show."""

    __slots__ = (
        "_answering",
        "_begin",
        "_duties",
        "_finalizer",
        "_kind",
        "_reconcile",
        "_refused",
        "_services",
        "_source",
        "_stale",
        "_states",
        "_store",
        "_unseen",
    )

    def __init__(
        self,
        kind: Kind[K],
        duties: Duties[K],
        services: Services,
        *,
        store: Store[K],
        answering: Answering,
        source: CacheSource | None = None,
    ) -> None:
        self._kind: Any = kind
        self._duties = duties
        self._reconcile: Reconcile[K] = (
            duties.reconcile if iscoroutinefunction(duties.reconcile) else partial(_begun, duties.reconcile)
        )
        self._finalizer = duties.finalizer
        self._states = duties.states
        self._services = services
        self._store = store
        self._answering = answering
        self._source = source
        self._unseen = _NOTHING if source is None else source.writes.ledger
        self._stale = answering.stale
        self._refused = services.conflicts.stale
        self._begin: Begins = _never if duties.finalizer is not None or duties.states else self._beginning()

    @property
    def reconcile(self) -> Reconcile[K]:
        """The user's function; one of which it cannot be seen that it gives something to wait for is checked."""
        return self._reconcile

    @property
    def begin(self) -> Begins:
        """Gives the context of a look that has nothing to wait for but the user's function; None for all others.

        That saves a coroutine around that function. Such a look goes on with `reconcile`, and after GiveUp `give_up`.
        """
        return self._begin

    async def give_up(self, ctx: Context, error: GiveUp) -> None:
        """Records that the user's function has given up, and tells the one who wants to know."""
        self._services.recorder.record(ctx.object, "GaveUp", str(error), warning=True)
        if self._duties.gave_up is not None:
            await self._duties.gave_up(ctx.object, error, ctx)

    async def look(self, request: Request[K]) -> Action | None:
        """Looks at one object; raises whatever the user's function raises."""
        ref = request.ref
        if self._unseen or self._stale or self._refused:
            obj = await self._read_with_care(ref)
        else:
            obj = self._read(ref)
        if obj is None:
            return await self._vanish(request)
        for states in self._states:
            states.apply_deferred(ref)
        ctx = Context(obj, request, self._services)
        try:
            if self._finalizer is None:
                return await self._reconcile(obj, ctx)
            return await self._finalized(self._finalizer, obj, ctx)
        except GiveUp as error:
            await self.give_up(ctx, error)
            raise

    def _beginning(self) -> Begins:
        """The function `begin`: called for every look, and so one that has what it needs at hand."""
        unseen, stale, refused, needs_care = self._unseen, self._stale, self._refused, self._needs_care
        table, share, services = self._store.table, self._store.share, self._services

        def begin(key: str, asked: Request[Any] | Due[str, Reason]) -> Context | None:
            if (unseen or stale or refused) and needs_care(key):
                return None
            kept = table.kept.get(key)
            if kept is None:
                return None  # `look` says what that means
            try:
                return Context(share(key, kept), asked, services)
            except BadObject:
                return None  # as above

        return begin

    def _needs_care(self, key: str) -> bool:
        """Whether the store may not show our own writes to this object, or somebody else has just written first."""
        if self._unseen and self._has_unseen(key):
            return True
        return bool(self._stale or self._refused) and self._is_stale(self._services.ref_of(key))

    async def _read_with_care(self, ref: Ref[K]) -> K | None:
        """The object from the store, if that shows our own writes and nobody else has just written first."""
        return await self._read_anew(ref) if self._is_stale(ref) or self._has_unseen(ref.key) else self._read(ref)

    def _has_unseen(self, key: str) -> bool:
        source = self._source
        return source is not None and bool(source.writes.unseen(key, source.find))

    def _is_stale(self, ref: Ref[K]) -> bool:
        return ref in self._stale or ref in self._refused

    def _read(self, ref: Ref[K]) -> K | None:
        try:
            return self._store.get(ref)
        except BadObject as error:
            raise GiveUp(f"{ref} is not as its class says; correct the object or the class: {error}") from error

    async def _read_anew(self, ref: Ref[K]) -> K | None:
        read: Read = "live" if self._is_stale(ref) else "cached"
        found: K | None = await self._services.cluster.find(self._kind, ref.name, namespace=ref.namespace, read=read)
        self._stale.discard(ref)
        source = self._source
        if source is not None and source.scope.is_selective and source.find(ref.key) is None:
            return None  # it is there, but not selected any more
        return found

    async def _vanish(self, request: Request[K]) -> Action:
        ref, duties = request.ref, self._duties
        if duties.gone is not None:
            await duties.gone(ref, Context(None, request, self._services))
        for states in self._states:
            states.forget(ref)
        self._services.work.cancel(ref)
        self._services.forget(ref)
        self._answering.forget(ref)
        return GONE

    async def _finalized(self, finalizer: str, obj: Any, ctx: Context) -> Action | None:
        duties, client = self._duties, self._services.client
        match finalizers.step(obj, finalizer):
            case "add":
                await finalizers.add(client, obj, finalizer)
                return None
            case "reconcile":
                return await self._reconcile(obj, ctx)
            case "cleanup":
                assert duties.cleanup is not None, "a finalizer without a cleanup"
                action = await _begun(duties.cleanup, obj, ctx)
                if isinstance(action, Action) and action.after is not None:
                    return action  # not done yet
                await finalizers.remove(client, obj, finalizer)
                return action
            case "ignore":
                return None


def _never(_: str, __: Request[Any] | Due[str, Reason]) -> None:
    return None


def _begun(function: Reconcile[Any], obj: Any, ctx: Context) -> Awaitable[Action | None]:
    """Calls the function; ConfigError if there is nothing to wait for."""
    made = function(obj, ctx)
    if not hasattr(made, "__await__"):
        name = getattr(function, "__qualname__", repr(function))
        raise ConfigError(f"{name} is a plain function; write `async def`")
    return made
