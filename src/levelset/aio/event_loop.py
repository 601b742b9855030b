"""The event loop of servers and managers: uvloop if it is installed, otherwise asyncio's own."""

import asyncio
from collections.abc import Callable, Coroutine
from importlib import import_module
from typing import Any, Final, TypeVar

from levelset.garbage_collection import exempt, raise_threshold

__all__ = ["loop_factory", "run"]

T = TypeVar("T")

_FASTER: Final = "uvloop"


def run(main: Coroutine[Any, Any, T]) -> T:
    """Like `asyncio.run`, on uvloop if it is installed (`levelset[fast]`), and with rarer garbage collections."""
    raise_threshold()
    exempt("imports")
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(main)


def loop_factory(module: str = _FASTER) -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The `new_event_loop` of a module; None, which means asyncio's, if the module is missing or unusable."""
    try:
        factory: Callable[[], asyncio.AbstractEventLoop] = import_module(module).new_event_loop
    except (ImportError, AttributeError):
        return None
    return factory
