"""Events are forgotten after a while: an hour after they were last written, as in Kubernetes."""

import asyncio
from typing import Any, Final

from levelset.apiserver.controllers.key_queue import Worker
from levelset.apiserver.resources.object_location import Spot, spot_of
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.resources.server_state import World
from levelset.apiserver.verbs import delete
from levelset.apiserver.wire.request_options import DeleteOptions
from levelset.errors import BadTime, NotFound
from levelset.objects import decode_tree, parse_time

__all__ = ["EventExpiry"]

_HOUR: Final = 3600.0


class EventExpiry:
    """Deletes events `after` seconds by the loop's clock; a write to an event gives it the whole time again."""

    def __init__(self, world: World, *, after: float = _HOUR) -> None:
        self._world = world
        self._after = after
        # In the order of their deadlines: each write moves its event to the end.
        self._deadlines: dict[Spot, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self.worker: Worker[Spot] = Worker("expiry of events", self._expire)

    async def start(self) -> None:
        """Takes up the events that are there, by their age, and begins to listen."""
        served = self._world.catalog.find("", "v1", "events")
        assert served is not None  # built in
        now, loop = self._world.now(), asyncio.get_running_loop()
        page = await self._world.storage.list(served.prefix)
        found: list[tuple[float, Spot]] = []
        for item in page.items:
            tree = decode_tree(item.value)
            age = _age(tree["metadata"].get("creationTimestamp"), now)
            found.append((loop.time() + max(0.0, self._after - age), spot_of(served, tree)))
        for deadline, spot in sorted(found, key=lambda one: one[0]):
            self._deadlines[spot] = deadline
        self._world.follow(served.prefix, self._stored)
        self.worker.start()
        self._arm()

    async def stop(self) -> None:
        """Ends the task and the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        await self.worker.stop()

    def _stored(self, served: ServedResource, before: Object | None, after: Object | None) -> None:
        tree = before if after is None else after
        if tree is None:
            return
        spot = spot_of(served, tree)
        self._deadlines.pop(spot, None)
        if after is not None:
            self._deadlines[spot] = asyncio.get_running_loop().time() + self._after
        if self._timer is None:
            self._arm()

    def _arm(self) -> None:
        """Sets the timer to the earliest deadline."""
        first = next(iter(self._deadlines.values()), None)
        self._timer = None if first is None else asyncio.get_running_loop().call_at(first, self._due)

    def _due(self) -> None:
        now = asyncio.get_running_loop().time()
        for spot, deadline in tuple(self._deadlines.items()):
            if deadline > now:
                break
            del self._deadlines[spot]
            self.worker.add(spot)
        self._arm()

    async def _expire(self, spot: Spot) -> None:
        if spot in self._deadlines:
            return  # written again meanwhile
        try:
            await delete.delete(self._world, spot.served, spot.namespace, spot.name, DeleteOptions())
        except NotFound:
            return


def _age(text: Any, now: Any) -> float:
    try:
        return max(0.0, float((now - parse_time(text)).total_seconds()))
    except BadTime:
        return 0.0
