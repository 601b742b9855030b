"""Where requests arrive at a controller: which objects are meant, where they wait, and how everybody asks.

Streams that ask for looks: refs from outside, and ticks at which everything is looked at.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Collection
from contextlib import aclosing, nullcontext
from dataclasses import dataclass
from typing import Any, Final

from levelset.aio import timing
from levelset.errors import ConfigError, LevelsetError
from levelset.objects.ref import Ref
from levelset.runtime.cache import Store
from levelset.runtime.controller.observers import Observer, hears, report_observer
from levelset.runtime.controller.relations import Every, Source, Stream
from levelset.runtime.controller.request import BULK, OUTSIDE, Reason, Request
from levelset.runtime.controller.triggers import Asks, AsksAll, Target
from levelset.runtime.queue import LOW, NORMAL, Scheduler

__all__ = ["Desk", "ask_all", "ask_for", "can_restart", "follow_source", "follow_ticks", "open_asking"]


@dataclass(frozen=True, kw_only=True)
class Desk:
    """The target, the scheduler, and the functions that everybody asks with: for one object, or for several."""

    target: Target
    scheduler: Scheduler[str, Reason]
    ask: Asks
    ask_all: AsksAll
    observer: Observer


def open_asking(name: str, scheduler: Scheduler[str, Reason], observer: Observer) -> tuple[Asks, AsksAll]:
    """The functions that put requests into a scheduler: its own, unless the observer wants to hear of each new one."""
    if not hears(observer, "queued"):
        return scheduler.ask, scheduler.ask_all
    asking = _Telling(name, scheduler, observer)
    return asking.ask, asking.ask_all


class _Telling:
    """Asks the scheduler of a controller, and tells the observer of each new request."""

    __slots__ = ("_name", "_observer", "_scheduler")

    def __init__(self, name: str, scheduler: Scheduler[str, Reason], observer: Observer) -> None:
        self._name = name
        self._scheduler = scheduler
        self._observer = observer

    def ask(self, key: str, reason: Reason, priority: int, /) -> None:
        if not self._scheduler.ask(key, reason, priority):
            return
        try:
            self._observer.queued(self._name, len(self._scheduler))
        except Exception as error:  # noqa: BLE001 -- who watches must not disturb
            report_observer(self._observer, error)

    def ask_all(self, keys: Collection[str], reason: Reason, priority: int, /) -> None:
        for key in keys:
            self.ask(key, reason, priority)


_SLICE: Final = 1000

_log = logging.getLogger(__name__)


async def follow_source(relation: Source, target: Target, ask: Asks) -> None:
    """Asks for whatever a stream yields, until it ends; what is no ref of the controller's kind is reported."""
    async for item in _opened(relation.stream):
        try:
            ask_for(item, target, ask)
        except LevelsetError as error:
            _log.error("a source of %s: %s", target.view.gvk, error)


def ask_for(item: Any, target: Target, ask: Asks) -> None:
    """Asks for a ref, or what a request says; ConfigError if it is neither, or of another kind."""
    asked: Any = item
    if isinstance(item, Ref):
        ask(target.key(asked), OUTSIDE, NORMAL)
    elif isinstance(item, Request):
        for reason in asked.reasons or (OUTSIDE,):
            ask(target.key(asked.ref), reason, asked.priority)
    else:
        raise ConfigError(f"a source gave {item!r}, which is neither a Ref nor a Request; give its ref")


async def follow_ticks(relation: Every, store: Store[Any], ask: Asks) -> None:
    """Asks for all objects at each tick."""
    ticks = relation.ticks
    async for _ in _periods(ticks) if isinstance(ticks, int | float) else _opened(ticks):
        await ask_all(store, ask)


async def ask_all(store: Store[Any], ask: Asks) -> None:
    """Asks for all objects there are, some at a time."""
    for number, kept in enumerate(store.state().kept, 1):
        ask(store.view.ref(kept).key, BULK, LOW)
        if number % _SLICE == 0:
            await asyncio.sleep(0)


async def _periods(seconds: float) -> AsyncIterator[None]:
    while True:
        await timing.sleep(seconds)
        yield None


async def _opened(stream: Stream) -> AsyncIterator[Any]:
    given: Any = stream
    iterator: Any = aiter(given if hasattr(stream, "__aiter__") else given())
    async with aclosing(iterator) if hasattr(iterator, "aclose") else nullcontext():
        async for item in iterator:
            yield item


def can_restart(relation: Source | Every) -> bool:
    """Whether what has failed can be begun anew: its stream comes from a function."""
    stream: Any = relation.stream if isinstance(relation, Source) else relation.ticks
    return callable(stream) and not hasattr(stream, "__aiter__")
