"""What a controller remembers of each object between two looks, found by the object or by a key of the real world.

Only the reconciler changes what is remembered: it borrows a state, and keeps the next one. Everybody else (a process
that ends, a worker, a probe) *defers* a change, which wakes the controller and is applied when it begins to look next
time. States are frozen values, so that what was borrowed never changes behind the borrower's back.
"""

from collections.abc import Callable, Hashable, Iterator
from enum import Enum
from typing import Any, Final, Generic, TypeVar, cast

from levelset.aio import timing
from levelset.errors import ConfigError, KeyTaken
from levelset.objects import Ref
from levelset.runtime.state.deferred_changes import ANY_KEY, Change, Deferred, Mishap, MishapKind, log_mishap

__all__ = ["StateMap", "Unchanged"]

Kind = TypeVar("Kind")
Key = TypeVar("Key", bound=Hashable)
State = TypeVar("State")

_MUTABLE: Final = (dict, list, set, bytearray)


class Unchanged(Enum):
    """Stands for the key that an object has already."""

    UNCHANGED = "unchanged"


_UNCHANGED: Final = Unchanged.UNCHANGED


class StateMap(Generic[Kind, Key, State]):
    """The states of a controller's objects, each under its ref and, if it has one, its real-world key.

    A key identifies the thing that an object stands for (a process, a container); one key has one object. Changes are
    deferred by ref: a process may end before its pid was ever kept. `most` changes wait for an object, and `patience`
    seconds for one without a state; what cannot be applied goes to `report`, otherwise to the log.

    ```python
    from dataclasses import dataclass, replace

    from levelset.objects import GroupVersionKind, Ref
    from levelset.runtime.state import StateMap


    @dataclass(frozen=True)
    class Run:
        phase: str = "New"


    web = Ref(GroupVersionKind("dcp.example.dev", "v1", "Executable"), "web", "default")
    runs: StateMap[object, int, Run] = StateMap(clock=lambda: 0.0)
    runs.keep(web, Run("Starting"), key=4711)
    runs.defer(web, lambda run: replace(run, phase="Running"))
    assert runs.borrow(4711) == Run("Starting")
    assert runs.apply_deferred(web) == Run("Running") == runs.borrow(web)
    ```

    For one event loop; from a thread, use `call_soon_threadsafe`.
    """

    def __init__(
        self,
        *,
        most: int = 1000,
        patience: float = 300.0,
        most_orphans: int = 10_000,
        report: Callable[[Mishap], object] = log_mishap,
        clock: Callable[[], float] = timing.now,
    ) -> None:
        self._states: dict[Ref[Kind], State] = {}
        self._keys: dict[Ref[Kind], Key] = {}
        self._owners: dict[Key, Ref[Kind]] = {}
        self._deferred: Deferred[Kind, State] = Deferred(
            most=most, patience=patience, most_orphans=most_orphans, report=report
        )
        self._listeners: list[Callable[[Ref[Kind]], object]] = []
        self._clock = clock

    def __len__(self) -> int:
        return len(self._states)

    def __contains__(self, by: object) -> bool:
        return by in self._states if isinstance(by, Ref) else by in self._owners

    def __iter__(self) -> Iterator[Ref[Kind]]:
        """The refs of the objects that have a state, as they are now: the map may change meanwhile."""
        return iter(list(self._states))

    def items(self) -> list[tuple[Ref[Kind], State]]:
        """Every object that has a state, with it, as they are now."""
        return list(self._states.items())

    def borrow(self, by: Ref[Kind] | Key) -> State | None:
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

    def keep(self, ref: Ref[Kind], state: State, *, key: Key | Unchanged | None = _UNCHANGED) -> None:
        """Remembers a state instead of the one before, if any. For the reconciler only; others `defer`.

        Without `key` the object keeps the one it has; None takes it away. Raises KeyTaken if it belongs to another
        object, and ConfigError for a state that could change in place; nothing is changed then.
        """
        _require_frozen(ref, state)
        if not isinstance(key, Unchanged):
            self._change_key(ref, key)
        is_new = ref not in self._states
        self._states[ref] = state
        if is_new and self._deferred.adopt(ref):
            self._wake(ref)

    def forget(self, by: Ref[Kind] | Key) -> State | None:
        """Drops the state of an object, its key, and the changes that wait for it; gives what was remembered."""
        ref = self._ref(by)
        if ref is None:
            return None
        self._deferred.forget(ref)
        self._change_key(ref, None)
        return self._states.pop(ref, None)

    def clear(self) -> None:
        """Forgets every object, and every change that waits."""
        for ref in {*self._states, *self._deferred}:
            self.forget(ref)

    def defer(
        self, ref: Ref[Kind], change: Callable[[State], State | None], *, for_key: Key | Unchanged = _UNCHANGED
    ) -> None:
        """Queues a change of an object's state for its next reconcile, and wakes the controller. Never waits.

        The change is given the state of that moment; None from it leaves the state as it is. `for_key` drops the change
        if the object stands for something else by then: the end of the old process says nothing of the new one.
        """
        key = ANY_KEY if isinstance(for_key, Unchanged) else for_key
        self._deferred.add(ref, change, for_key=key, orphan=ref not in self._states, now=self._clock())
        self._wake(ref)

    def apply_deferred(self, ref: Ref[Kind]) -> State | None:
        """Applies the changes that wait for an object, in order, and gives its state; None if it has none.

        To be called at the start of a reconcile. Without a state they go on waiting for it. A change that raises is
        reported, and those behind it are applied. A change may use the map; what it defers is for the next time.
        """
        if ref in self._states:
            for change in self._deferred.take(ref):
                self._apply(ref, change)
        else:
            self._deferred.expire(self._clock())
        return self._states.get(ref)

    def has_deferred(self, ref: Ref[Kind]) -> bool:
        """Whether changes wait for this object."""
        return ref in self._deferred

    @property
    def deferred(self) -> int:
        """How many changes wait, for whichever object."""
        return len(self._deferred)

    def listen(self, wake: Callable[[Ref[Kind]], object]) -> Callable[[], None]:
        """Has `wake` called with the ref of each object for which there is a change to apply; gives what ends that."""
        self._listeners.append(wake)

        def unlisten() -> None:
            if wake in self._listeners:
                self._listeners.remove(wake)

        return unlisten

    def _ref(self, by: Ref[Kind] | Key) -> Ref[Kind] | None:
        return cast("Ref[Kind]", by) if isinstance(by, Ref) else self._owners.get(by)

    def _change_key(self, ref: Ref[Kind], key: Key | None) -> None:
        if isinstance(key, Ref):
            raise ConfigError(f"{ref} cannot have the ref {key} as its real-world key; use a text such as str(ref)")
        if key is not None:
            owner = self._owners.get(key, ref)
            if owner != ref:
                message = f"{key!r} cannot be the key of {ref}, it is that of {owner}; forget that one first"
                raise KeyTaken(message, key=key, owner=owner)
        old = self._keys.pop(ref, None)
        if old is not None:
            del self._owners[old]
        if key is not None:
            self._keys[ref] = key
            self._owners[key] = ref

    def _apply(self, ref: Ref[Kind], change: Change[State]) -> None:
        if ref not in self._states:  # forgotten by an earlier one
            return
        if change.for_key is not ANY_KEY and self._keys.get(ref) != change.for_key:
            return
        try:
            state = change.apply(self._states[ref])
            if state is not None:
                _require_frozen(ref, state)
                if ref in self._states:
                    self._states[ref] = state
        except Exception as error:  # noqa: BLE001 -- somebody else's code; the changes behind it are sound
            self._deferred.report(Mishap(ref, MishapKind.FAILED, error))

    def _wake(self, ref: Ref[Kind]) -> None:
        for wake in list(self._listeners):
            try:
                wake(ref)
            except Exception as error:  # noqa: BLE001 -- whoever defers must not suffer from those who listen
                self._deferred.report(Mishap(ref, MishapKind.DEAF, error))


def _require_frozen(ref: Ref[Any], state: object) -> None:
    if state is None:
        raise ConfigError(f"None is no state of {ref}; to remember nothing, forget it")
    of: type[Any] = type(state)
    if issubclass(of, _MUTABLE) or _is_loose(of):
        shown = of.__name__
        raise ConfigError(
            f"the state of {ref} is a {shown}, which can change in place; use a frozen dataclass or a tuple"
        )


def _is_loose(of: Any) -> bool:
    """Whether it is a dataclass, or a struct, that was not declared frozen."""
    declared = getattr(of, "__dataclass_params__", None) or getattr(of, "__struct_config__", None)
    return declared is not None and not declared.frozen
