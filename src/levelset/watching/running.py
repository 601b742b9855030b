"""The machine with a client: asks what to do, does it, and hands on what is new, for ever."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from levelset.aio import timing
from levelset.aio.backoff import Backoff
from levelset.client.responses import retry_after_of
from levelset.client.watching import Watching
from levelset.errors import LevelsetError
from levelset.watching.asking import Question
from levelset.watching.events import Event
from levelset.watching.idling import Watchdog
from levelset.watching.machine import ListPage, Machine, OpenWatch, Phase, ReadWatch, Setback
from levelset.watching.troubles import Teller, Trouble

__all__ = ["Pace", "Run"]

K = TypeVar("K")

_LARGEST_BATCH: Final = 1000
_LONGEST_WAIT: Final = 600.0
_SETTLED: Final = 1.0
_SPREAD: Final = 0.25
_HEALED: Final = (LevelsetError, OSError)
"""What a server or the way to it can do to us; anything else is a mistake in the house, and raised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long everything may take, and how long to wait before trying again."""

    backoff: Backoff
    watch_timeout: float
    idle_timeout: float
    random: Callable[[], float]


class Run(AsyncIterator[list[Event[K]]]):
    """Does the steps of a machine, one batch at a time."""

    def __init__(self, question: Question, machine: Machine[K], teller: Teller, pace: Pace) -> None:
        self.machine = machine
        self.teller = teller
        self.told: str | None = None
        """The version up to which everything was handed on."""
        self.opens = 0
        self.last_heard: float | None = None
        self._question = question
        self._pace = pace
        self._delays = pace.backoff.delays(random=pace.random)
        self._watch: Watching | None = None
        self._watchdog: Watchdog | None = None
        self._opened = 0.0
        self._rest: list[Event[K]] = []
        self._has_healed = False

    async def __anext__(self) -> list[Event[K]]:
        while True:
            if self._rest:
                await asyncio.sleep(0)  # a long list must not keep everybody else waiting
                return self._slice(self._rest)
            match self.machine.step():
                case ReadWatch():
                    events = await self._read()
                case OpenWatch() as step:
                    events = await self._open(step)
                case ListPage() as step:
                    events = await self._list(step)
                case Setback() as setback:
                    events = await self._recover(setback)
            if events or self.machine.resource_version != self.told or self._has_healed:
                self._has_healed = False
                return self._slice(events)

    async def aclose(self) -> None:
        """Closes the connection."""
        await self._close()

    def trouble(self) -> Trouble | None:
        """The last trouble, unless there was progress since, or a watch that has stayed open."""
        if not self.machine.failures or (self._watch is not None and self._lasted() >= _SETTLED):
            return None
        return None if self._is_allowed() else self.teller.last

    def _slice(self, events: list[Event[K]]) -> list[Event[K]]:
        if len(events) <= _LARGEST_BATCH:
            self.told, self._rest = self.machine.resource_version, []
            return events
        self._rest = events[_LARGEST_BATCH:]
        return events[:_LARGEST_BATCH]

    async def _list(self, step: ListPage) -> list[Event[K]]:
        try:
            page = await self._question.list(step)
        except _HEALED as error:
            self.machine.failed(error)
            return []
        self.last_heard = timing.now()
        return self.machine.listed(page)

    async def _open(self, step: OpenWatch) -> list[Event[K]]:
        await self._close()
        seconds = self._pace.watch_timeout * (1.0 - _SPREAD * self._pace.random())
        try:
            self._watch = await self._question.open(step, seconds)
        except _HEALED as error:
            self.machine.failed(error)
            return []
        self.opens += 1
        self.last_heard = self._opened = timing.now()
        self._watchdog = Watchdog(self._pace.idle_timeout)
        self.machine.opened()
        self._has_healed = self._is_allowed()
        return []

    def _is_allowed(self) -> bool:
        """Whether a watch has gone on that was refused: then the server need not send anything for that to be over."""
        last = self.teller.last
        is_open = self._watch is not None and self.machine.phase is Phase.WATCHING
        return is_open and self.machine.failures > 0 and last is not None and last.is_standing

    async def _read(self) -> list[Event[K]]:
        watch, watchdog = self._watch, self._watchdog
        assert watch is not None  # opened before it is read
        assert watchdog is not None
        watchdog.enter()
        try:
            batch = await watch.__anext__()
        except StopAsyncIteration:
            self.machine.ended(lasted=self._lasted())
            return []
        except asyncio.CancelledError:
            if not watchdog.leave():
                raise
            self.machine.idled()
            return []
        except _HEALED as error:
            self.machine.failed(error, lasted=self._lasted())
            return []
        finally:
            watchdog.leave()
        self.last_heard = timing.now()
        events = self.machine.received(batch)
        if self.machine.skipped:
            self._tell_skipped()
        return events

    async def _recover(self, setback: Setback) -> list[Event[K]]:
        await self._close()
        failures, delay = self.machine.failures, 0.0
        if setback.waits:
            if failures <= 1:
                self._delays.reset()
            asked = retry_after_of(setback.error) or 0.0
            delay = max(self._delays.next_delay(timing.now()), min(asked, _LONGEST_WAIT))
        self.teller.tell(setback.error, attempt=failures, retry_after=delay)
        await timing.sleep(delay)
        return []

    def _tell_skipped(self) -> None:
        skipped, self.machine.skipped = self.machine.skipped, []
        for error in skipped:
            self.teller.tell_aside(error)

    def _lasted(self) -> float:
        return timing.now() - self._opened

    async def _close(self) -> None:
        watch, self._watch = self._watch, None
        if self._watchdog is not None:
            self._watchdog.stop()
            self._watchdog = None
        if watch is not None:
            await watch.aclose()
