"""Runs one reconcile: reads the object, handles finalizer and deletion, and calls the user's function."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from inspect import iscoroutinefunction
from typing import Any, Final, Generic, TypeVar

import msgspec

from levelset.client.object_types import Kind
from levelset.errors import BadObject, ConfigError, GiveUp
from levelset.objects.ref import Ref
from levelset.runtime.cache import Store
from levelset.runtime.cache.reader import CacheSource, Read
from levelset.runtime.controller import finalizers
from levelset.runtime.controller.actions import Action
from levelset.runtime.controller.context import Context
from levelset.runtime.controller.context_dependencies import ContextDependencies
from levelset.runtime.controller.error_policy import ErrorHandler
from levelset.runtime.controller.request import Reason, Request
from levelset.runtime.controller.worker import GONE, Slot
from levelset.runtime.queue import Due
from levelset.runtime.state import StateMap

__all__ = ["GaveUpHandler", "GoneHandler", "Handlers", "Reconcile", "ReconcileInvoker"]

K = TypeVar("K")

_NOTHING: Final[Mapping[str, object]] = {}

Reconcile = Callable[[K, Context], Awaitable[Action | None]]
"""The user's reconcile (or cleanup) function: moves the actual state towards the object, returns when to requeue."""
GoneHandler = Callable[[Ref[K], Context], Awaitable[object]]
"""Is called with the ref of an object that no longer exists."""
GaveUpHandler = Callable[[K, GiveUp, Context], Awaitable[object]]
"""Is called after the reconcile function raised GiveUp, to set a condition for example."""


class Handlers(msgspec.Struct, Generic[K], frozen=True, kw_only=True):
    """The user's functions of a controller, its finalizer and its state maps."""

    reconcile: Reconcile[K]
    cleanup: Reconcile[K] | None = None
    finalizer: str | None = None
    gone: GoneHandler[K] | None = None
    gave_up: GaveUpHandler[K] | None = None
    states: Sequence[StateMap[Any, Any, Any]] = ()


class ReconcileInvoker(Generic[K]):
    """Reconciles the objects of a store; `source`, if given, knows which own writes the store does not show yet."""

    __slots__ = (
        "_conflicted",
        "_dependencies",
        "_error_handler",
        "_finalizer",
        "_handlers",
        "_kind",
        "_read_live",
        "_reconcile",
        "_share",
        "_source",
        "_states",
        "_table",
        "_unseen",
    )

    def __init__(
        self,
        kind: Kind[K],
        handlers: Handlers[K],
        dependencies: ContextDependencies,
        *,
        store: Store[K],
        error_handler: ErrorHandler,
        source: CacheSource | None = None,
    ) -> None:
        self._kind: Any = kind
        self._handlers = handlers
        self._reconcile: Reconcile[K] = (
            handlers.reconcile
            if iscoroutinefunction(handlers.reconcile)
            else partial(_checked_call, handlers.reconcile)
        )
        self._finalizer = handlers.finalizer
        self._states = handlers.states
        self._dependencies = dependencies
        self._table = store.table
        self._share = store.share
        self._error_handler = error_handler
        self._source = source
        # Live views, nearly always empty: while they are, an object is read from the store without further checks.
        self._unseen = _NOTHING if source is None else source.writes.by_key
        self._read_live = error_handler.read_live
        self._conflicted = dependencies.conflicts.stale

    async def give_up(self, ctx: Context, error: GiveUp) -> None:
        """Records an event that the user's function gave up, and calls the `gave_up` handler."""
        self._dependencies.recorder.record(ctx.object, "GaveUp", str(error), warning=True)
        if self._handlers.gave_up is not None:
            await self._handlers.gave_up(ctx.object, error, ctx)

    def start(self, key: str, request: Request[K] | Due[str, Reason], slot: Slot) -> Awaitable[Action | None]:
        """Starts to reconcile the object with a key; what it returns raises whatever the user's function raises.

        Nearly always that is the coroutine of the user's function itself: nothing is awaited before it.
        """
        if (self._unseen or self._read_live or self._conflicted) and self._needs_check(key):
            return self._read_and_start(request, slot)
        cached = self._table.cached.get(key)
        if cached is None:
            return self._handle_gone(Context(None, request, self._dependencies))
        try:
            obj = self._share(cached)
        except BadObject as error:
            ref = self._dependencies.ref_of(key)
            raise GiveUp(f"{ref} does not match its class; correct the object or the class: {error}") from error
        return self._start(obj, request, slot)

    def _start(self, obj: K, request: Request[K] | Due[str, Reason], slot: Slot) -> Awaitable[Action | None]:
        """Starts the handler of an object that was read."""
        slot.ctx = ctx = Context(obj, request, self._dependencies)
        if self._states:
            for states in self._states:
                states.apply_deferred(ctx.ref)
        if self._finalizer is None:
            return self._reconcile(obj, ctx)
        return self._reconcile_with_finalizer(self._finalizer, obj, ctx)

    async def _read_and_start(self, request: Request[K] | Due[str, Reason], slot: Slot) -> Action | None:
        """Reads the object from the API server, or waits for the cache: the stored version may be stale."""
        ctx = Context(None, request, self._dependencies)
        obj = await self._read_fresh(ctx.ref)
        return await (self._handle_gone(ctx) if obj is None else self._start(obj, request, slot))

    def _needs_check(self, key: str) -> bool:
        """Whether the store lacks own writes to this object, or its last write or reconcile met a conflict."""
        if self._unseen and self._has_unseen(key):
            return True
        return bool(self._read_live or self._conflicted) and self._is_stale(self._dependencies.ref_of(key))

    def _has_unseen(self, key: str) -> bool:
        source = self._source
        return source is not None and bool(source.writes.unseen(key, source.find))

    def _is_stale(self, ref: Ref[K]) -> bool:
        return ref in self._read_live or ref in self._conflicted

    async def _read_fresh(self, ref: Ref[K]) -> K | None:
        read: Read = "live" if self._is_stale(ref) else "cached"
        found: K | None = await self._dependencies.cluster.find(
            self._kind, ref.name, namespace=ref.namespace, read=read
        )
        self._read_live.discard(ref)
        source = self._source
        if source is not None and source.scope.is_selective and source.find(ref.key) is None:
            return None  # it exists, but is no longer selected
        return found

    async def _handle_gone(self, ctx: Context) -> Action:
        ref, handlers = ctx.ref, self._handlers
        if handlers.gone is not None:
            await handlers.gone(ref, ctx)
        for states in self._states:
            states.forget(ref)
        self._dependencies.work.cancel(ref)
        self._dependencies.forget(ref)
        self._error_handler.forget(ref)
        return GONE

    async def _reconcile_with_finalizer(self, finalizer: str, obj: Any, ctx: Context) -> Action | None:
        handlers, client = self._handlers, self._dependencies.client
        match finalizers.step(obj, finalizer):
            case "add":
                await finalizers.add(client, obj, finalizer)
                return None
            case "reconcile":
                return await self._reconcile(obj, ctx)
            case "cleanup":
                assert handlers.cleanup is not None, "a finalizer without a cleanup"
                action = await _checked_call(handlers.cleanup, obj, ctx)
                if isinstance(action, Action) and action.after is not None:
                    return action  # not done yet
                await finalizers.remove(client, obj, finalizer)
                return action
            case "ignore":
                return None


def _checked_call(function: Reconcile[Any], obj: Any, ctx: Context) -> Awaitable[Action | None]:
    """Calls a handler; ConfigError if it does not return an awaitable."""
    made = function(obj, ctx)
    if not hasattr(made, "__await__"):
        name = getattr(function, "__qualname__", repr(function))
        raise ConfigError(f"{name} is not a coroutine function; define it with `async def`")
    return made
