"""The step budget of synchronous work: bounds matching and evaluating by counting steps, not by the clock.

A step stands for about 100 ns. Work inside of `within` is charged to its budget; without one nothing is limited. The
budget belongs to the thread, so that work in another thread has one of its own.
"""

import sys
import threading
from collections.abc import Callable
from typing import TypeVar

__all__ = ["StepsExceeded", "charge", "charge_import", "remaining", "spend", "within"]

T = TypeVar("T")


class StepsExceeded(Exception):
    """The work takes more steps than its budget has; it has no result, and may be repeated with a larger one."""


class _Budget(threading.local):
    left: int | None = None


_budget = _Budget()


def within(steps: int, work: Callable[[], T]) -> T:
    """The result of the work, which may take this number of steps; raises StepsExceeded."""
    before, _budget.left = _budget.left, steps
    try:
        return work()
    finally:
        _budget.left = before


def charge(steps: int) -> None:
    """Takes steps from the budget of this thread, if it has one; raises StepsExceeded if there are not enough."""
    left = _budget.left
    if left is not None:
        _budget.left = left = left - steps
        if left < 0:
            raise StepsExceeded


def charge_import(module: str, steps: int) -> None:
    """Charges for the first import of a module that takes long to load."""
    if module not in sys.modules:
        charge(steps)


def spend(steps: int) -> None:
    """As `charge`, but never raises: the next charge does."""
    if _budget.left is not None:
        _budget.left = max(_budget.left - steps, 0)


def remaining() -> int | None:
    """The steps that are left in the budget of this thread; None if nothing is limited."""
    return _budget.left
