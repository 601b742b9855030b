"""Slow work for one object at a time, outside of its reconciler: what comes of it is a deferred change of its state.

One errand is under way for an object, or has just brought something that the reconciler has not seen yet: until then
there is no other one. That is the latch which keeps anything from being started twice.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Generic, Protocol, TypeVar

from levelset import Context, Ref, StateMap
from levelset.errors import LevelsetError

__all__ = ["Change", "Errands", "Known"]

log = logging.getLogger(__name__)


class Known(Protocol):
    """What is known of an object."""

    @property
    def uid(self) -> str:
        """That of the object."""
        ...


K = TypeVar("K", bound=Known)
Change = Callable[[K], K | None]


class Errands(Generic[K]):
    """The errands of one controller."""

    def __init__(self, states: StateMap[Any, str, K], failed: Callable[[str], Change[K]]) -> None:
        self._states = states
        self._failed = failed
        self._handles: dict[Ref[Any], Any] = {}

    def is_busy(self, ref: Ref[Any]) -> bool:
        """Whether an errand is under way, or has brought something that is not known yet."""
        handle = self._handles.get(ref)
        return (handle is not None and not handle.has_ended) or self._states.has_deferred(ref)

    def start(self, ctx: Context, uid: str, name: str, work: Callable[[], Awaitable[Change[K]]]) -> None:
        """Begins an errand for the object that is looked at; nothing if one is under way."""
        ref = ctx.ref
        if self.is_busy(ref):
            return

        async def run() -> None:
            try:
                change = await work()
            except LevelsetError as error:
                change = self._failed(str(error))
            except Exception as error:
                # A mistake of ours: without an answer the object would wait for ever, so it is told and tried again.
                log.exception("%s of %s failed", name, ref)
                change = self._failed(f"{name} failed: {error!r}")
            self.tell(ref, uid, change)

        self._handles[ref] = ctx.background(run, name=name)

    def tell(self, ref: Ref[Any], uid: str, change: Change[K]) -> None:
        """Defers a change of what is known of an object; another one of the same name does not hear of it."""

        def checked(known: K) -> K | None:
            return change(known) if known.uid == uid else None

        self._states.defer(ref, checked)

    def forget(self, ref: Ref[Any]) -> None:
        """Forgets an object."""
        self._handles.pop(ref, None)
        self._states.forget(ref)
