"""Streams that ask for looks: refs from outside, and ticks at which everything is looked at."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import aclosing, nullcontext
from typing import Any, Final

from levelset.aio import timing
from levelset.cache import Store
from levelset.controller.relations import Every, Source, Stream
from levelset.controller.requests import BULK, OUTSIDE, Request
from levelset.controller.triggers import Asks, Target
from levelset.errors import ConfigError, LevelsetError
from levelset.objects.identity import Ref
from levelset.schedule import LOW, NORMAL

__all__ = ["ask_all", "ask_for", "can_restart", "follow_source", "follow_ticks"]

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
