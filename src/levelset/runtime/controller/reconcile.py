"""Runs one reconcile: reads the object, handles finalizer and deletion, and calls the user's function."""

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
from levelset.runtime.controller.context_dependencies import ContextDependencies
from levelset.runtime.controller.error_policy import ErrorHandler
from levelset.runtime.controller.request import Reason, Request
from levelset.runtime.controller.worker import GONE
from levelset.runtime.queue import Due
from levelset.runtime.state import StateMap

__all__ = ["BeginReconcile", "GaveUpHandler", "GoneHandler", "Handlers", "Reconcile", "ReconcileInvoker"]

K = TypeVar("K")

_NOTHING: Final[Mapping[str, object]] = {}

Reconcile = Callable[[K, Context], Awaitable[Action | None]]
"""The user's reconcile (or cleanup) function: moves the actual state towards the object, returns when to requeue."""
GoneHandler = Callable[[Ref[K], Context], Awaitable[object]]
"""Is called with the ref of an object that no longer exists."""
BeginReconcile = Callable[[str, Request[Any] | Due[str, Reason]], Context | None]
"""Makes the context for the object with a key; None if the reconcile needs more than the user's function."""
GaveUpHandler = Callable[[K, GiveUp, Context], Awaitable[object]]
"""Is called after the reconcile function raised GiveUp, to set a condition for example."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handlers(Generic[K]):
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
        "_begin",
        "_conflicted",
        "_dependencies",
        "_error_handler",
        "_finalizer",
        "_handlers",
        "_kind",
        "_read_live",
        "_reconcile",
        "_source",
        "_states",
        "_store",
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
        self._store = store
        self._error_handler = error_handler
        self._source = source
        # Live views, nearly always empty: while they are, an object is read from the store without further checks.
        self._unseen = _NOTHING if source is None else source.writes.by_key
        self._read_live = error_handler.read_live
        self._conflicted = dependencies.conflicts.stale
        self._begin: BeginReconcile = (
            _never if handlers.finalizer is not None or handlers.states else self._make_begin()
        )

    @property
    def reconcile(self) -> Reconcile[K]:
        """The user's function; wrapped in a check of its result unless it is a coroutine function."""
        return self._reconcile

    @property
    def begin(self) -> BeginReconcile:
        """Makes the context of a reconcile that only awaits the user's function; None for all others.

        Part of `FastPath`: saves a coroutine around that function. The worker continues with `reconcile`, and after
        GiveUp with `give_up`.
        """
        return self._begin

    async def give_up(self, ctx: Context, error: GiveUp) -> None:
        """Records an event that the user's function gave up, and calls the `gave_up` handler."""
        self._dependencies.recorder.record(ctx.object, "GaveUp", str(error), warning=True)
        if self._handlers.gave_up is not None:
            await self._handlers.gave_up(ctx.object, error, ctx)

    async def reconcile_request(self, request: Request[K]) -> Action | None:
        """Reconciles one object; raises whatever the user's function raises."""
        ref = request.ref
        if self._unseen or self._read_live or self._conflicted:
            obj = await self._read_checked(ref)
        else:
            obj = self._read(ref)
        if obj is None:
            return await self._handle_gone(request)
        for states in self._states:
            states.apply_deferred(ref)
        ctx = Context(obj, request, self._dependencies)
        try:
            if self._finalizer is None:
                return await self._reconcile(obj, ctx)
            return await self._reconcile_with_finalizer(self._finalizer, obj, ctx)
        except GiveUp as error:
            await self.give_up(ctx, error)
            raise

    def _make_begin(self) -> BeginReconcile:
        """Makes `begin` as a closure: it runs for every reconcile, and local variables are cheaper than attributes."""
        unseen, read_live, conflicted, needs_check = self._unseen, self._read_live, self._conflicted, self._needs_check
        table, share, dependencies = self._store.table, self._store.share, self._dependencies

        def begin(key: str, request: Request[Any] | Due[str, Reason]) -> Context | None:
            if (unseen or read_live or conflicted) and needs_check(key):
                return None
            cached = table.cached.get(key)
            if cached is None:
                return None  # `reconcile_request` handles the deleted object
            try:
                return Context(share(key, cached), request, dependencies)
            except BadObject:
                return None  # `reconcile_request` reports the object that its class cannot read

        return begin

    def _needs_check(self, key: str) -> bool:
        """Whether the store lacks own writes to this object, or its last write or reconcile met a conflict."""
        if self._unseen and self._has_unseen(key):
            return True
        return bool(self._read_live or self._conflicted) and self._is_stale(self._dependencies.ref_of(key))

    async def _read_checked(self, ref: Ref[K]) -> K | None:
        """The object; from the API server, or after waiting for the cache, if the stored version may be stale."""
        return await self._read_fresh(ref) if self._is_stale(ref) or self._has_unseen(ref.key) else self._read(ref)

    def _has_unseen(self, key: str) -> bool:
        source = self._source
        return source is not None and bool(source.writes.unseen(key, source.find))

    def _is_stale(self, ref: Ref[K]) -> bool:
        return ref in self._read_live or ref in self._conflicted

    def _read(self, ref: Ref[K]) -> K | None:
        try:
            return self._store.get(ref)
        except BadObject as error:
            raise GiveUp(f"{ref} does not match its class; correct the object or the class: {error}") from error

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

    async def _handle_gone(self, request: Request[K]) -> Action:
        ref, handlers = request.ref, self._handlers
        if handlers.gone is not None:
            await handlers.gone(ref, Context(None, request, self._dependencies))
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


def _never(_: str, __: Request[Any] | Due[str, Reason]) -> None:
    return None


def _checked_call(function: Reconcile[Any], obj: Any, ctx: Context) -> Awaitable[Action | None]:
    """Calls a handler; ConfigError if it does not return an awaitable."""
    made = function(obj, ctx)
    if not hasattr(made, "__await__"):
        name = getattr(function, "__qualname__", repr(function))
        raise ConfigError(f"{name} is not a coroutine function; define it with `async def`")
    return made
