"""`StateMap`: the in-memory state of each object between two reconciles, found by ref or by an external key.

Only the reconciler changes states: it gets one and puts the next one. Other code (a process exit, background work, a
probe) *defers* a change, which wakes the controller and is applied at the start of the next reconcile. States are
frozen values, so a state never changes while a reconcile uses it.
"""

from collections.abc import Callable, Hashable, Iterator
from enum import Enum
from typing import Any, Final, Generic, TypeVar, cast

from levelset.aio import timing
from levelset.errors import ConfigError, KeyTaken
from levelset.objects import Ref
from levelset.runtime.state.deferred_changes import (
    ANY_KEY,
    DeferFailure,
    DeferFailureKind,
    DeferredChange,
    DeferredChanges,
    log_defer_failure,
)

__all__ = ["StateMap", "Unchanged"]

Kind = TypeVar("Kind")
Key = TypeVar("Key", bound=Hashable)
State = TypeVar("State")

_MUTABLE: Final = (dict, list, set, bytearray)


class Unchanged(Enum):
    """The type of the default `key`: the object keeps the key that it has."""

    UNCHANGED = "unchanged"


_UNCHANGED: Final = Unchanged.UNCHANGED


class StateMap(Generic[Kind, Key, State]):
    """The states of a controller's objects, each under its ref and, optionally, an external key.

    An external key identifies the thing that an object represents (a process, a container); a key has at most one
    object. Changes are deferred by ref, because a process may exit before its pid was stored. At most `limit` changes
    are queued for an object; those of an object without a state are dropped after `orphan_timeout` seconds, and beyond
    `orphan_limit` such objects. Changes that cannot be applied go to `report` (default: the log).

    ```python
    from dataclasses import dataclass, replace

    from levelset.objects import GroupVersionKind, Ref
    from levelset.runtime.state import StateMap


    @dataclass(frozen=True)
    class Run:
        phase: str = "New"


    web = Ref(GroupVersionKind("dcp.example.dev", "v1", "Executable"), "web", "default")
    runs: StateMap[object, int, Run] = StateMap(clock=lambda: 0.0)
    runs.put(web, Run("Starting"), key=4711)
    runs.defer(web, lambda run: replace(run, phase="Running"))
    assert runs.get(4711) == Run("Starting")
    assert runs.apply_deferred(web) == Run("Running") == runs.get(web)
    ```

    For one event loop; from a thread, use `call_soon_threadsafe`.
    """

    def __init__(
        self,
        *,
        limit: int = 1000,
        orphan_timeout: float = 300.0,
        orphan_limit: int = 10_000,
        report: Callable[[DeferFailure], object] = log_defer_failure,
        clock: Callable[[], float] = timing.now,
    ) -> None:
        self._states: dict[Ref[Kind], State] = {}
        self._keys: dict[Ref[Kind], Key] = {}
        self._owners: dict[Key, Ref[Kind]] = {}
        self._deferred: DeferredChanges[Kind, State] = DeferredChanges(
            limit=limit, orphan_timeout=orphan_timeout, orphan_limit=orphan_limit, report=report
        )
        self._listeners: list[Callable[[Ref[Kind]], object]] = []
        self._clock = clock

    def __len__(self) -> int:
        return len(self._states)

    def __contains__(self, by: object) -> bool:
        return by in self._states if isinstance(by, Ref) else by in self._owners

    def __iter__(self) -> Iterator[Ref[Kind]]:
        """The refs of the objects that have a state; a copy, so the map may change during the iteration."""
        return iter(list(self._states))

    def items(self) -> list[tuple[Ref[Kind], State]]:
        """Every object that has a state, with its state; a copy."""
        return list(self._states.items())

    def get(self, by: Ref[Kind] | Key) -> State | None:
        """The state of an object, or of the object that has this key; None if there is none."""
        ref = self._ref(by)
        return None if ref is None else self._states.get(ref)

    def find(self, key: Key) -> tuple[Ref[Kind], State] | None:
        """The object that has this key, with its state; None if there is none."""
        ref = self._owners.get(key)
        return None if ref is None else (ref, self._states[ref])

    def key_of(self, ref: Ref[Kind]) -> Key | None:
        """The key of an object; None if it has none."""
        return self._keys.get(ref)

    def put(self, ref: Ref[Kind], state: State, *, key: Key | Unchanged | None = _UNCHANGED) -> None:
        """Replaces the state of an object. For the reconciler only; other code calls `defer`.

        Without `key` the object keeps its key; None removes it. Raises KeyTaken if the key belongs to another object,
        and ConfigError for a mutable state; nothing is changed then.
        """
        _require_frozen(ref, state)
        if not isinstance(key, Unchanged):
            self._change_key(ref, key)
        is_new = ref not in self._states
        self._states[ref] = state
        if is_new and self._deferred.adopt(ref):
            self._wake(ref)

    def forget(self, by: Ref[Kind] | Key) -> State | None:
        """Removes an object with its key and its deferred changes; returns the last state, None if there was none."""
        ref = self._ref(by)
        if ref is None:
            return None
        self._deferred.forget(ref)
        self._change_key(ref, None)
        return self._states.pop(ref, None)

    def clear(self) -> None:
        """Removes all objects and deferred changes."""
        for ref in {*self._states, *self._deferred}:
            self.forget(ref)

    def defer(
        self, ref: Ref[Kind], change: Callable[[State], State | None], *, for_key: Key | Unchanged = _UNCHANGED
    ) -> None:
        """Queues a change of an object's state for its next reconcile, and wakes the controller. Never waits.

        The change is called with the state at that time; if it returns None, the state stays unchanged. With `for_key`
        the change is dropped if the object has another key by then: the exit of an old process says nothing about the
        new one.
        """
        key = ANY_KEY if isinstance(for_key, Unchanged) else for_key
        self._deferred.add(ref, change, for_key=key, orphan=ref not in self._states, now=self._clock())
        self._wake(ref)

    def apply_deferred(self, ref: Ref[Kind]) -> State | None:
        """Applies the deferred changes of an object, in order, and returns its state; None if it has none.

        Called at the start of a reconcile. Without a state the changes stay queued. A change that raises is reported,
        and the later ones are applied. A change may use the map; what it defers is applied by the next reconcile.
        """
        if ref in self._states:
            for change in self._deferred.take(ref):
                self._apply(ref, change)
        else:
            self._deferred.expire(self._clock())
        return self._states.get(ref)

    def has_deferred(self, ref: Ref[Kind]) -> bool:
        """Whether this object has deferred changes."""
        return ref in self._deferred

    @property
    def deferred(self) -> int:
        """The number of deferred changes of all objects."""
        return len(self._deferred)

    def listen(self, wake: Callable[[Ref[Kind]], object]) -> Callable[[], None]:
        """Calls `wake` with the ref of each object that has a change to apply; returns a function that detaches it."""
        self._listeners.append(wake)

        def unlisten() -> None:
            if wake in self._listeners:
                self._listeners.remove(wake)

        return unlisten

    def _ref(self, by: Ref[Kind] | Key) -> Ref[Kind] | None:
        return cast("Ref[Kind]", by) if isinstance(by, Ref) else self._owners.get(by)

    def _change_key(self, ref: Ref[Kind], key: Key | None) -> None:
        if isinstance(key, Ref):
            raise ConfigError(f"{ref} cannot have the ref {key} as its external key; use a string such as str(ref)")
        if key is not None:
            owner = self._owners.get(key, ref)
            if owner != ref:
                message = f"{key!r} cannot be the key of {ref}: it is the key of {owner}; forget that object first"
                raise KeyTaken(message, key=key, owner=owner)
        old = self._keys.pop(ref, None)
        if old is not None:
            del self._owners[old]
        if key is not None:
            self._keys[ref] = key
            self._owners[key] = ref

    def _apply(self, ref: Ref[Kind], change: DeferredChange[State]) -> None:
        if ref not in self._states:  # removed by an earlier change
            return
        if change.for_key is not ANY_KEY and self._keys.get(ref) != change.for_key:
            return
        try:
            state = change.apply(self._states[ref])
            if state is not None:
                _require_frozen(ref, state)
                if ref in self._states:
                    self._states[ref] = state
        except Exception as error:  # noqa: BLE001 -- a user's function; later changes must still be applied
            self._deferred.report(DeferFailure(ref, DeferFailureKind.FAILED, error))

    def _wake(self, ref: Ref[Kind]) -> None:
        for wake in list(self._listeners):
            try:
                wake(ref)
            except Exception as error:  # noqa: BLE001 -- a failing listener must not affect the caller of `defer`
                self._deferred.report(DeferFailure(ref, DeferFailureKind.LISTENER_FAILED, error))


def _require_frozen(ref: Ref[Any], state: object) -> None:
    if state is None:
        raise ConfigError(f"None is not a valid state of {ref}; call forget to remove its state")
    of: type[Any] = type(state)
    if issubclass(of, _MUTABLE) or _is_unfrozen(of):
        shown = of.__name__
        raise ConfigError(f"the state of {ref} is a {shown}, which is mutable; use a frozen dataclass or a tuple")


def _is_unfrozen(of: Any) -> bool:
    """Whether it is a dataclass or struct that is not frozen."""
    declared = getattr(of, "__dataclass_params__", None) or getattr(of, "__struct_config__", None)
    return declared is not None and not declared.frozen
