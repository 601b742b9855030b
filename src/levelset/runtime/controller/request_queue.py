"""The request queue of a controller: its scheduler, its enqueue functions, and the streams and timers that enqueue."""

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import aclosing, nullcontext
from typing import Any, Final, Protocol

import msgspec

from levelset.aio import timing
from levelset.errors import ConfigError, LevelsetError
from levelset.objects.ref import Ref
from levelset.runtime.cache import Store
from levelset.runtime.controller.event_handlers import Enqueue, Target
from levelset.runtime.controller.observers import Observer, log_observer_error, overrides
from levelset.runtime.controller.relations import Every, Source, Stream
from levelset.runtime.controller.request import BULK, OUTSIDE, Reason, Request
from levelset.runtime.queue import LOW, NORMAL, Scheduler

__all__ = [
    "KeyFilter",
    "RequestQueue",
    "can_restart",
    "enqueue_all",
    "enqueue_item",
    "filtered_enqueue",
    "follow_source",
    "follow_ticks",
    "observed_enqueue",
]


class RequestQueue(msgspec.Struct, frozen=True, kw_only=True):
    """The scheduler of a controller, its kind (`target`), and the function that enqueues objects."""

    target: Target
    scheduler: Scheduler[str, Reason]
    enqueue: Enqueue
    observer: Observer


class KeyFilter(Protocol):
    """Which objects a controller reconciles, where several processes share them."""

    def wants(self, key: str, /) -> bool:
        """Whether requests for the object with this key are queued here."""
        ...

    def admits(self, key: str, /) -> bool:
        """Whether a reconcile of the object may start at this moment."""
        ...


def filtered_enqueue(enqueue: Enqueue, filter_: KeyFilter) -> Enqueue:
    """The same function without the keys that the filter does not want."""
    wants = filter_.wants

    def enqueue_wanted(keys: Collection[str], reason: Reason, priority: int, /) -> None:
        if wanted := [key for key in keys if wants(key)]:
            enqueue(wanted, reason, priority)

    return enqueue_wanted


def observed_enqueue(name: str, scheduler: Scheduler[str, Reason], observer: Observer) -> Enqueue:
    """The function that enqueues requests: the scheduler's own, unless the observer implements `queued`."""

    def enqueue(keys: Collection[str], reason: Reason, priority: int, /) -> None:
        for _ in range(scheduler.enqueue_all(keys, reason, priority)):
            try:
                observer.queued(name, len(scheduler))
            except Exception as error:  # noqa: BLE001 -- observers must not break the controller
                log_observer_error(observer, error)

    return enqueue if overrides(observer, "queued") else scheduler.enqueue_all


_BATCH: Final = 1000

_log = logging.getLogger(__name__)


async def follow_source(relation: Source, target: Target, enqueue: Enqueue) -> None:
    """Enqueues what a stream yields, until it ends; an item that is not of the controller's kind is logged."""
    async for item in _items_of(relation.stream):
        try:
            enqueue_item(item, target, enqueue)
        except LevelsetError as error:
            _log.error("source of %s: %s", target.view.gvk, error)


def enqueue_item(item: Any, target: Target, enqueue: Enqueue) -> None:
    """Enqueues a ref or a request; ConfigError if it is neither, or of another kind."""
    given: Any = item
    if isinstance(item, Ref):
        enqueue((target.key(given),), OUTSIDE, NORMAL)
    elif isinstance(item, Request):
        for reason in given.reasons or (OUTSIDE,):
            enqueue((target.key(given.ref),), reason, given.priority)
    else:
        raise ConfigError(f"a source yielded {item!r}, which is neither a Ref nor a Request; yield its ref")


async def follow_ticks(relation: Every, stores: Sequence[Store[Any]], enqueue: Enqueue) -> None:
    """Enqueues all objects at each tick."""
    ticks = relation.ticks
    async for _ in _ticks(ticks) if isinstance(ticks, int | float) else _items_of(ticks):
        await enqueue_all(stores, enqueue)


async def enqueue_all(stores: Sequence[Store[Any]], enqueue: Enqueue) -> None:
    """Enqueues all objects with low priority, yielding to the event loop between batches."""
    for store in stores:
        cached = store.state().cached
        for start in range(0, len(cached), _BATCH):
            enqueue([store.view.ref(one).key for one in cached[start : start + _BATCH]], BULK, LOW)
            await asyncio.sleep(0)


async def _ticks(seconds: float) -> AsyncIterator[None]:
    while True:
        await timing.sleep(seconds)
        yield None


async def _items_of(stream: Stream) -> AsyncIterator[Any]:
    given: Any = stream
    iterator: Any = aiter(given if hasattr(stream, "__aiter__") else given())
    async with aclosing(iterator) if hasattr(iterator, "aclose") else nullcontext():
        async for item in iterator:
            yield item


def can_restart(relation: Source | Every) -> bool:
    """Whether a stream that failed can be restarted: it comes from a function, or is a period in seconds."""
    stream: Any = relation.stream if isinstance(relation, Source) else relation.ticks
    return isinstance(stream, int | float) or (callable(stream) and not hasattr(stream, "__aiter__"))
