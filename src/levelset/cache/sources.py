"""One informer as reads see it: what it holds, how far it has come, and which own writes it has yet to show."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from levelset.aio import timing
from levelset.cache.changes import Change
from levelset.cache.informer import Informer
from levelset.cache.keys import is_older
from levelset.cache.memo import Memo
from levelset.cache.ownwrites import OwnWrites, Unseen
from levelset.cache.scopes import Scope
from levelset.cache.store import Store
from levelset.client.asking import Write
from levelset.client.kinds import View
from levelset.objects.fieldselectors import FieldSelector
from levelset.objects.identity import GroupVersionKind
from levelset.objects.kept import Head, Kept

__all__ = ["Source", "is_newer", "may_meet"]

K = TypeVar("K")


class Source:
    """An informer with the ledger of the writes that it has yet to show.

    It hears of everything that the informer takes in, after the store has it, and wakes the reads that wait for it. An
    informer that has not come on in `patience` seconds is not waited for any more, until it does.
    """

    def __init__(self, informer: Informer, *, patience: float) -> None:
        self.informer = informer
        self._patience = patience
        self._is_selective = informer.scope.is_selective
        self.writes = OwnWrites(is_selective=self._is_selective)
        # In order: who came first is woken first. Each with what it waits for.
        self._waiting: dict[asyncio.Future[bool], Callable[[], bool]] = {}
        self._is_closed = False
        self._stores: dict[type[Any], Store[Any]] = {}
        self._detach = informer.on_progress(self._take)

    @property
    def scope(self) -> Scope:
        """What the informer holds."""
        return self.informer.scope

    @property
    def is_ready(self) -> bool:
        """Whether the informer has been filled and can be kept current."""
        return self.informer.is_ready

    @property
    def is_filled(self) -> bool:
        """Whether the informer has been filled once, however old that may be by now."""
        return self.informer.readiness.is_filled

    def is_settled_for(self, key: str) -> bool:
        """Whether there is nothing that a read of this key would have to wait for."""
        return self.informer.is_ready and not (self.writes.ledger and self.writes.unseen(key, self.find))

    @property
    def is_closed(self) -> bool:
        """Whether the informer has ended."""
        return self._is_closed or self.informer.readiness.is_closed

    @property
    def waiting(self) -> int:
        """How many reads wait for it to move on."""
        return len(self._waiting)

    def close(self) -> None:
        """Hears nothing more; whoever waits for it waits no longer."""
        self._is_closed = True
        self._detach()
        self._wake()

    async def wait_ready(self, within: float | None) -> None:
        """Returns once the informer is filled and can be kept current; NotReady, with the cause, if not in time."""
        await self.informer.readiness.wait(within)

    def store(self, view: View[K]) -> Store[K]:
        """The objects as a reader of this class sees them; all readers of a class share what was decoded."""
        found = self._stores.get(view.class_)
        if found is None:
            informer = self.informer
            found = self._stores[view.class_] = Store(informer.table, view, informer.readiness, report=informer.report)
        return found

    def memo(self, view: View[K]) -> Memo[K]:
        """What was decoded for the readers of this class."""
        self.store(view)
        found: Memo[K] = self.informer.table.memos[view.class_]
        return found

    def remembered(self) -> Iterator[tuple[Kept, Any]]:
        """The decoded objects that readers share, each with what it was decoded from."""
        for memo in self.informer.table.memos.values():
            yield from memo.entries()

    def kept(self, key: str) -> Kept | None:
        """What the store shows under this key."""
        return self.informer.table.kept.get(key)

    def find(self, key: str) -> Head | None:
        """The head of the object that the store shows under this key."""
        return self.kept(key)

    def has_come_to(self, version: str) -> bool:
        """Whether the store shows all that the server had at this version; False where that cannot be told."""
        return self.informer.observed is not None and not is_newer(version, self.informer.observed)

    def shows(self, key: str, version: str) -> bool:
        """Whether the store shows this version of an object, or a later one."""
        head = self.find(key)
        return (head is not None and not is_newer(version, head.resource_version)) or self.has_come_to(version)

    def concerns(self, gvk: GroupVersionKind) -> bool:
        """Whether writes to a kind concern it: written through whatever version, it is the same object."""
        own = self.informer.scope.gvk
        return gvk.kind == own.kind and gvk.group == own.group

    def note(self, write: Write) -> None:
        """Enters a write into the ledger, if it concerns what this informer holds."""
        if self.concerns(write.gvk):
            self.enter(write)

    def enter(self, write: Write) -> None:
        """The same for a write to a kind that concerns it."""
        scope, name, namespace = self.informer.scope, write.name, write.namespace
        if scope.namespace is not None and namespace != scope.namespace:
            return
        if name is None:
            self.writes.record_many(write.resource_version)
            return
        key = f"{namespace}/{name}" if namespace else name  # as `key_for`, since it is done at each write
        held = self.informer.table.kept.get(key)
        if write.is_gone:
            self.writes.record_gone(key, write.uid, write.resource_version, held=held)
        else:
            is_outside = self._is_selective and write.head is not None and not may_meet(scope, write.head)
            self.writes.record(key, write.resource_version, uid=write.uid, held=held, is_outside=is_outside)

    async def wait_until(self, is_so: Callable[[], bool], until: float | None) -> bool:
        """Whether something became true about the store before the deadline; looks after each thing it takes in."""
        if is_so():
            return True
        is_late = False
        while not is_late and not self.is_closed:
            is_late = await self._progress(is_so, until)
            if is_so():
                return True
        return False

    async def wait_seen(self, unseen: Callable[[], list[Unseen]], until: float | None) -> bool:
        """Whether the own writes that `unseen` finds are all shown before the deadline.

        Those that were waited for with patience are late: from then on nobody waits for them any more.
        """
        began = timing.now()
        found = unseen()
        if not found:
            return True
        if self.writes.is_stuck or any(entry.is_late for entry in found):
            return False
        if await self.wait_until(lambda: not unseen(), until):
            return True
        if timing.now() - began > 0.9 * self._patience:  # who is in a hurry does not speak for the others
            self.writes.give_up(unseen())
        return False

    async def _progress(self, is_so: Callable[[], bool], until: float | None) -> bool:
        """Returns once that may have become true, or cannot any more; True if it is too late for it."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[bool] = loop.create_future()
        # A timer of its own, as many wait, and a block with a time limit costs several times as much.
        timer = None if until is None else loop.call_at(until, _end, waiter, True)
        self._waiting[waiter] = is_so
        try:
            return await waiter
        finally:
            self._waiting.pop(waiter, None)
            if timer is not None:
                timer.cancel()

    def _take(self, changes: Sequence[Change[Any]]) -> None:
        gone = [
            before.uid
            for change in changes
            if (before := change.before) is not None and ((after := change.after) is None or after.uid != before.uid)
        ]
        if gone:
            self.writes.observe_gone(gone)
        self.writes.observe(self.informer.observed)
        self._wake()

    def _wake(self) -> None:
        """Wakes those who have what they wait for, or wait in vain; to wake all of them would cost each a turn."""
        is_closed = self.is_closed
        for waiter, is_so in self._waiting.items():
            if is_closed or is_so():
                _end(waiter, False)


def _end(waiter: "asyncio.Future[bool]", is_late: bool) -> None:
    if not waiter.done():
        waiter.set_result(is_late)


def is_newer(version: str, than: str) -> bool:
    """Whether one resourceVersion is newer than another, or may be: those that are no numbers are only ever equal."""
    return version != than and not is_older(version, than)


def may_meet(scope: Scope, head: Head) -> bool:
    """Whether an object may meet the selectors, as far as its metadata tell."""
    told = {"metadata.name": head.name, "metadata.namespace": head.namespace or ""}
    known = FieldSelector(tuple(one for one in scope.fields.requirements if one.field in told))
    return scope.labels.matches(head.labels) and known.matches(told)
