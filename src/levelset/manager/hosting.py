"""A controller as a member of a manager: started with its cluster, drained when the manager stops."""

import asyncio
import math
from collections.abc import Callable
from datetime import datetime
from typing import Any

from levelset.controller.controller import Controller
from levelset.controller.history import Counts
from levelset.controller.hotloops import HotLoop
from levelset.controller.observing import Observer
from levelset.controller.requests import OUTSIDE, Reason
from levelset.controller.running import RunningController, running
from levelset.controller.services import wall_clock
from levelset.errors import NotReady
from levelset.manager.leader import fencing
from levelset.manager.members import Member
from levelset.manager.places import Place
from levelset.objects.identity import Ref

__all__ = ["Hosted"]


class Hosted(Member):
    """Runs one controller; `running` is what runs, from the moment it does.

    One that is `held` fills its caches and its queue, and looks at nothing before `release`. With a `fence`, whatever
    it writes, by a context or by the context's client, is refused as soon as that raises.
    """

    def __init__(
        self,
        controller: Controller[Any],
        place: Callable[[], Place],
        *,
        observer: Observer,
        count: Callable[[], Counts],
        now: Callable[[], datetime] = wall_clock,
        on_hot_loop: Callable[[HotLoop], object],
        ended: Callable[[Member, Exception], None],
    ) -> None:
        super().__init__(controller.name, self._host, ended=ended)
        self.controller = controller
        self.running: RunningController[Any] | None = None
        self.held = False
        self.fence: Callable[[], object] | None = None
        self._place = place
        self._observer = observer
        self._count = count
        self._now = now
        self._on_hot_loop = on_hot_loop
        self._is_up = asyncio.Event()

    @property
    def is_idle(self) -> bool:
        """Whether it has nothing to do now."""
        return self.running is not None and self.running.is_idle

    async def wait_running(self) -> RunningController[Any]:
        """What runs, as soon as it does."""
        await self._is_up.wait()
        assert self.running is not None, "it is up"
        return self.running

    async def wait_idle(self) -> None:
        """Returns once it runs and has nothing to do now; looks may be planned for later."""
        await (await self.wait_running()).wait_idle()

    def enqueue(self, ref: Ref[Any], reason: Reason | str = OUTSIDE) -> None:
        """Asks for a look at an object; NotReady before it runs."""
        if self.running is None:
            raise NotReady(f"{self.name} does not run yet: await wait_running() first")
        self.running.enqueue(ref, reason)

    def release(self) -> None:
        """Lets it look at its objects."""
        self.held = False
        if self.running is not None:
            self.running.release()

    def depth(self) -> int:
        """How many requests wait, those for a later time left out."""
        return 0 if self.running is None else self.running.stats().ready

    def asked(self) -> int:
        """How many new requests there were so far."""
        return 0 if self.running is None else self.running.stats().asked

    def ages(self) -> list[float]:
        """For how many seconds each look that is under way has gone on."""
        return [] if self.running is None else self.running.ages()

    def settle(self) -> None:
        """Has everything counted that came of its looks so far."""
        if self.running is not None:
            self.running.history.settle()

    async def ask_to_stop(self, within: float | None) -> None:
        """Lets the looks that are under way come to their end."""
        if self.running is not None:
            await self.running.stop(math.inf if within is None else within)

    async def _host(self) -> None:
        place = self._place()
        await place.wait_open()
        client = place.cluster.client
        made = running(
            self.controller,
            place.cluster,
            observer=self._observer,
            fence=self.fence,
            held=self.held,
            client=client if self.fence is None else client.hooked(fencing(self.fence)),
            count=self._count(),
            on_hot_loop=self._on_hot_loop,
            now=self._now,
        )
        async with made as self.running:
            self._is_up.set()
            if not self.held:  # released while it was being put together
                self.running.release()
            await asyncio.Event().wait()
