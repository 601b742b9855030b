"""Background tasks of objects: slow work outside of the reconciler, whose result is a deferred change of state.

There is at most one task for an object, and no new one starts before the reconciler has seen the result of the last.
This prevents anything from being started twice.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Generic, Protocol, TypeVar

from levelset import Context, Object, Ref, StateMap
from levelset.errors import LevelsetError

__all__ = ["BackgroundTasks", "Change", "Observed"]

log = logging.getLogger(__name__)


class Observed(Protocol):
    """The observed state of an object."""

    @property
    def uid(self) -> str:
        """The UID of the object."""
        ...


K = TypeVar("K", bound=Observed)
Change = Callable[[K], K | None]


class BackgroundTasks(Generic[K]):
    """The background tasks of one controller."""

    def __init__(self, states: StateMap[Any, str, K], failed: Callable[[str], Change[K]]) -> None:
        self._states = states
        self._failed = failed
        self._handles: dict[Ref[Any], Any] = {}

    def observed(self, obj: Object, restore: Callable[[], K]) -> K:
        """The observed state of an object; restored and stored if there is none of this UID."""
        found = self._states.get(obj.ref)
        if found is None or found.uid != obj.metadata.uid:
            found = restore()
            self._states.put(obj.ref, found)
        return found

    def is_busy(self, ref: Ref[Any]) -> bool:
        """Whether a task runs, or its result has not been applied yet."""
        handle = self._handles.get(ref)
        return (handle is not None and not handle.has_ended) or self._states.has_deferred(ref)

    def start(self, ctx: Context, uid: str, name: str, work: Callable[[], Awaitable[Change[K]]]) -> None:
        """Starts a task for the object that is being reconciled; does nothing if one is running."""
        ref = ctx.ref
        if self.is_busy(ref):
            return

        async def run() -> None:
            try:
                change = await work()
            except LevelsetError as error:
                change = self._failed(str(error))
            except Exception as error:
                # A bug: without a change the object would wait for ever, so it is reported and retried.
                log.exception("%s of %s failed", name, ref)
                change = self._failed(f"{name} failed: {error!r}")
            self.defer(ref, uid, change)

        self._handles[ref] = ctx.background(run, name=name)

    def defer(self, ref: Ref[Any], uid: str, change: Change[K]) -> None:
        """Defers a change of an object's state; it is dropped if an object with another UID has the name by then."""

        def checked(observed: K) -> K | None:
            return change(observed) if observed.uid == uid else None

        self._states.defer(ref, checked)

    def forget(self, ref: Ref[Any]) -> None:
        """Drops the state and the task handle of an object."""
        self._handles.pop(ref, None)
        self._states.forget(ref)
