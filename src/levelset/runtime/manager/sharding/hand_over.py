"""The hand-over of work between members: which objects are reconciled here, and what happens when that changes.

An object that moves away is not taken from the queue any more from the moment on that its new owner is known; what runs
of it may finish within `drain` seconds, and is then cancelled. Only when it has ended is the new owner acknowledged. An
object that moves here is enqueued as soon as this member owns it.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from levelset.aio import timing
from levelset.runtime.cache import Change, Store
from levelset.runtime.controller.request import MOVED
from levelset.runtime.controller.running_controller import RunningController
from levelset.runtime.manager.lifecycle import Work
from levelset.runtime.manager.sharding.rendezvous import View
from levelset.runtime.queue import LOW

__all__ = ["HandOver", "ShardedController"]

_BATCH: Final = 1000
_REMEMBERED: Final = 60.0
"""For so many seconds requests that a pass over the cache would not find are remembered."""
_PRUNE: Final = 1024
_MIN_DECISIONS: Final = 1024
_WHY: Final = "the object moves to another member"

_log: Final = logging.getLogger("levelset.runtime.manager")


class ShardedController:
    """Which objects of one controller are reconciled here: a KeyFilter, and the keys that this member owns."""

    def __init__(self, name: str, view: Callable[[], View], may_act: Callable[[], bool]) -> None:
        self.name = name
        self.gained = self.lost = 0
        """How many objects have come here and gone away since the first pass."""
        self.running: RunningController[Any] | None = None
        self._prefix = f"{name}/"
        self._view = view
        self._may_act = may_act
        self._decided_in: View | None = None
        self._decisions: dict[str, bool] = {}
        self._max_decisions = _MIN_DECISIONS
        self._stores: Sequence[Store[Any]] = ()
        self._owned: set[str] = set()
        self._is_passed = False
        self._refused: dict[str, float] = {}
        self._prune_at = _PRUNE

    @property
    def owned(self) -> int:
        """How many objects this member owns."""
        return len(self._owned)

    def shard_key(self, key: str) -> str:
        """The key of an object among all that the members share."""
        return self._prefix + key

    def wants(self, key: str) -> bool:
        """Whether this member owns the object. What is refused is enqueued if the object moves here."""
        if self._owns(key, self._view()):
            if key not in self._owned and self._is_cached(key):
                self._owned.add(key)
            return True
        if key in self._owned:
            self._owned.discard(key)
            self.lost += 1
        elif not self._is_cached(key):  # it was deleted, or comes from a source: remembered for a while
            self._refused.pop(key, None)
            self._refused[key] = timing.now()
            if len(self._refused) > self._prune_at:
                self._prune()
        return False

    def admits(self, key: str) -> bool:
        """Whether this member may act, and owns the object."""
        return self._may_act() and self.wants(key)

    def attach(self, running: RunningController[Any]) -> None:
        """Counts and moves the objects of this running controller from now on."""
        self.running = running
        handles = running.own_handles()
        self._stores = [handle.store for handle in handles]
        for handle in handles:
            handle.listen(self._follow, replay=False)

    def moving(self) -> tuple[list[str], list[Any]]:
        """What runs here and is owned by another member: keys of reconciles, and refs of background work."""
        running = self.running
        if running is None:
            return [], []
        owns, view = self._owns, self._view()
        keys = [key for key in running.scheduler.running_keys() if not owns(key, view)]
        return keys, [ref for ref in running.dependencies.work.refs if not owns(ref.key, view)]

    def cancel(self, keys: Sequence[str], refs: Iterable[Any]) -> None:
        """Cancels what has not ended in time."""
        if self.running is None:
            return
        self.running.cancel_running(frozenset(keys), _WHY)
        for ref in refs:
            self.running.dependencies.work.cancel(ref)

    async def move(self) -> None:
        """Enqueues what this member has come to own since the last pass, and drops what it owns no longer."""
        running = self.running
        if running is None:
            return
        await running.wait_ready()
        view, first = self._view(), not self._is_passed
        for store in self._stores:
            keys = list(store.table.cached)
            for start in range(0, len(keys), _BATCH):
                self._move(running, keys[start : start + _BATCH], view, is_first=first)
                await asyncio.sleep(0)
        self._is_passed = True
        self._enqueue(running, [key for key in self._refused if self._owns(key, view)])
        queued = running.scheduler.keys()
        running.forget([key for key in queued if not self._owns(key, view)])

    def _move(self, running: RunningController[Any], keys: Sequence[str], view: View, *, is_first: bool) -> None:
        owned = self._owned
        mine = [key for key in keys if self._owns(key, view)]
        gained = [key for key in mine if key not in owned]
        lost = owned.intersection(keys).difference(mine)
        owned.update(gained)
        owned.difference_update(lost)
        self.lost += len(lost)
        running.forget(lost)
        self._enqueue(running, gained)  # those that `wants` has let pass are owned already
        if not is_first:
            self.gained += len(gained)

    def _enqueue(self, running: RunningController[Any], keys: Sequence[str]) -> None:
        for key in keys:
            self._refused.pop(key, None)
        running.enqueue_keys(keys, MOVED, LOW)

    def _follow(self, changes: Sequence[Change[Any]]) -> None:
        view = self._view()
        for change in changes:
            if change.after is None:
                self._owned.discard(change.key)
            elif change.before is None and self._owns(change.key, view):
                self._owned.add(change.key)

    def _owns(self, key: str, view: View) -> bool:
        """Whether this member owns the object in a view; decided once, since a score costs as much as ten lookups."""
        if len(view.members) == 1:
            return True
        if view is not self._decided_in:
            self._decided_in = view
            self._decisions.clear()
        known = self._decisions.get(key)
        if known is None:
            if len(self._decisions) >= self._max_decisions:  # of objects that are gone, mostly
                self._decisions.clear()
                self._max_decisions = _MIN_DECISIONS + 2 * sum(map(len, self._stores))
            known = self._decisions[key] = view.owns(self._prefix + key)
        return known

    def _is_cached(self, key: str) -> bool:
        for store in self._stores:  # noqa: SIM110 -- a generator costs more than all the rest
            if key in store.table.cached:
                return True
        return False

    def _prune(self) -> None:
        since = timing.now() - _REMEMBERED
        for key, at in list(self._refused.items()):  # the oldest first
            if at >= since:
                break
            del self._refused[key]
        self._prune_at = _PRUNE + 2 * len(self._refused)


class HandOver:
    """The work of a manager that is shared: its controllers, and the tasks that one member runs for all."""

    def __init__(self, drain: float) -> None:
        self.controllers: dict[str, ShardedController] = {}
        self._drain = drain
        self._draining_since: float | None = None
        self._changed = asyncio.Event()
        self._view: Callable[[], View] | None = None
        self._may_act: Callable[[], bool] = lambda: False
        self._tasks: dict[str, asyncio.Task[Any]] = {}
        self._task_changes = asyncio.Event()

    def bind(self, view: Callable[[], View], may_act: Callable[[], bool]) -> None:
        """Sets where the members come from; once, before anything is added."""
        self._view, self._may_act = view, may_act

    def add(self, name: str) -> ShardedController:
        """The filter of a controller with this name."""
        assert self._view is not None, "bound before controllers start"
        made = self.controllers[name] = ShardedController(name, self._view, self._may_act)
        return made

    def changed(self, view: View) -> None:  # noqa: ARG002 -- controllers read the newest
        """The members have changed."""
        self._draining_since = None
        self._changed.set()
        self._wake_tasks()

    def admitted(self) -> None:
        """This member may act from now on."""
        self._changed.set()
        self._wake_tasks()

    def _wake_tasks(self) -> None:
        changes, self._task_changes = self._task_changes, asyncio.Event()
        changes.set()

    def is_drained(self) -> bool:
        """Whether nothing runs that another member owns; cancels what has run for too long since the last change."""
        now = timing.now()
        if self._draining_since is None:
            self._draining_since = now
        is_late = now >= self._draining_since + self._drain
        is_drained = not any(not self._owns_task(name) for name in self._tasks)
        for one in self.controllers.values():
            keys, refs = one.moving()
            is_drained = is_drained and not keys and not refs
            if is_late and (keys or refs):
                one.cancel(keys, refs)
        return is_drained

    def keys(self) -> int:
        """How many objects this member owns."""
        return sum(one.owned for one in self.controllers.values())

    def counts(self) -> Mapping[str, tuple[int, int, int]]:
        """For each controller how many objects this member owns, has gained and lost."""
        return {name: (one.owned, one.gained, one.lost) for name, one in self.controllers.items()}

    async def run(self) -> None:
        """Moves the objects of all controllers whenever the members change; until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            await asyncio.gather(*(one.move() for one in tuple(self.controllers.values())))

    async def run_once(self, name: str, work: Work) -> None:
        """Runs a task on the member that owns its name: from the moment on that this is the one, until it is not."""
        while True:
            while not (self._may_act() and self._owns_task(name)):
                await self._task_changes.wait()
            if not await self._run_task(name, work):
                await self._wait_lost(name)  # it has returned; another member may have to run it later

    async def _run_task(self, name: str, work: Work) -> bool:
        """Runs the task while this member owns it; returns whether it moves away."""
        task = self._tasks[name] = asyncio.get_running_loop().create_task(work(), name=f"manager/{name}")
        lost = asyncio.get_running_loop().create_task(self._wait_lost(name), name=f"manager/{name} moves")
        try:
            await asyncio.wait([task, lost], return_when=asyncio.FIRST_COMPLETED)
            has_ended = task.done()
        finally:
            lost.cancel()
            task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.wait([task])
            if task.done():
                del self._tasks[name]
        if has_ended:
            await task  # raises what it failed with
        return not has_ended

    async def _wait_lost(self, name: str) -> None:
        while self._owns_task(name):
            await self._task_changes.wait()

    def _owns_task(self, name: str) -> bool:
        return self._view is not None and self._view().owns(f"task {name}")
