"""The TTL of events: deletes an event one hour after its last write, as kube-apiserver does (`--event-ttl`)."""

import asyncio
from typing import Any, Final

from levelset.apiserver.controllers.key_queue import KeyQueue
from levelset.apiserver.resources.json_members import map_member
from levelset.apiserver.resources.object_location import ObjectLocation, location_of
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.resources.server_state import ServerState
from levelset.apiserver.verbs import delete
from levelset.apiserver.wire.request_options import DeleteOptions
from levelset.errors import BadTime, NotFound
from levelset.objects import decode_tree, parse_time

__all__ = ["EventExpiryController"]

_DEFAULT_TTL_SECONDS: Final = 3600.0


class EventExpiryController:
    """Deletes events `ttl` seconds after their last write, by the clock of the event loop.

    So a wall clock that is set neither ends events nor keeps them. Only at the start their age is read from the wall
    clock; events of the future count as new.
    """

    def __init__(self, state: ServerState, *, ttl: float = _DEFAULT_TTL_SECONDS) -> None:
        self._state = state
        self._ttl = ttl
        # Ordered by deadline: a write moves its event to the end.
        self._deadlines: dict[ObjectLocation, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        # Those that another server is to delete; kept until that is seen, in case it does not.
        self._overdue: dict[ObjectLocation, None] = {}
        self._is_paused = False
        self.queue: KeyQueue[ObjectLocation] = KeyQueue("event expiry", self._expire)

    async def start(self) -> None:
        """Schedules the stored events by their age, listens to writes, and starts the queue."""
        served = self._state.catalog.find("", "v1", "events")
        assert served is not None  # built in
        now, loop = self._state.now(), asyncio.get_running_loop()
        page = await self._state.storage.list(served.prefix)
        found: list[tuple[float, ObjectLocation]] = []
        for item in page.items:
            tree = decode_tree(item.value)
            age = min([_age(time, now) for time in _times(tree)], default=0.0)
            found.append((loop.time() + max(0.0, self._ttl - age), location_of(served, tree)))
        for deadline, location in sorted(found, key=lambda one: one[0]):
            self._deadlines[location] = deadline
        self._state.add_resource_listener(served.prefix, self._on_write)
        self.queue.start()
        self._set_timer()

    async def stop(self) -> None:
        """Stops the queue and the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        await self.queue.stop()

    def pause(self) -> None:
        """Leaves the deletions to another server."""
        self._is_paused = True
        self.queue.pause()

    async def resume(self) -> None:
        """Deletes events from now on, beginning with those that another server has left."""
        self._is_paused = False
        overdue, self._overdue = self._overdue, {}
        await self.queue.resume(overdue)

    def _on_write(self, served: ServedResource, before: Object | None, after: Object | None) -> None:
        tree = before if after is None else after
        if tree is None:
            return
        location = location_of(served, tree)
        self._deadlines.pop(location, None)
        self._overdue.pop(location, None)
        if after is not None:
            self._deadlines[location] = asyncio.get_running_loop().time() + self._ttl
        if self._timer is None:
            self._set_timer()

    def _set_timer(self) -> None:
        """Sets the timer to the earliest deadline."""
        first = next(iter(self._deadlines.values()), None)
        self._timer = None if first is None else asyncio.get_running_loop().call_at(first, self._enqueue_expired)

    def _enqueue_expired(self) -> None:
        now = asyncio.get_running_loop().time()
        for location, deadline in tuple(self._deadlines.items()):
            if deadline > now:
                break
            del self._deadlines[location]
            if self._is_paused:
                self._overdue[location] = None
            self.queue.add(location)
        self._set_timer()

    async def _expire(self, location: ObjectLocation) -> None:
        if location in self._deadlines:
            return  # written again since
        try:
            await delete.delete(self._state, location.served, location.namespace, location.name, DeleteOptions())
        except NotFound:
            return


def _times(tree: Object) -> list[Any]:
    """When an event was created and last happened, as far as it says so: its last write was not before."""
    found = [tree["metadata"].get("creationTimestamp"), tree.get("lastTimestamp")]
    found.append(map_member(tree, "series").get("lastObservedTime"))
    return [one for one in found if one]


def _age(text: Any, now: Any) -> float:
    try:
        return max(0.0, float((now - parse_time(text)).total_seconds()))
    except BadTime:
        return 0.0
