"""Waits for the conversions that code needs which cannot wait itself: asks for them, and tries again.

Only kinds whose versions a webhook converts (`Served.awaits`) come here; all others are read and stored at once.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

from levelset.apiserver.conversion import NeedsConversion
from levelset.apiserver.objects import served_tree
from levelset.apiserver.served import Served
from levelset.storage import Item

__all__ = ["convert", "settle"]

T = TypeVar("T")


async def settle(function: Callable[[], T]) -> T:
    """What the function gives, once all conversions that it needs are known; it must have no effects before that.

    Raises what the function raises, and ServerFailed if a conversion cannot be had.
    """
    while True:
        try:
            return function()
        except NeedsConversion as need:
            await need.by.fulfil([need])


async def convert(served: Served, items: Iterable[Item]) -> None:
    """Has all of these converted that must be, with as few calls as possible; then they can be read at once."""
    listed = list(items)
    while needs := _needs(served, listed):
        await needs[0].by.fulfil(needs)  # the objects of a kind are all converted by the same one


def _needs(served: Served, items: list[Item]) -> list[NeedsConversion]:
    found: list[NeedsConversion] = []
    for item in items:
        try:
            served_tree(served, item)
        except NeedsConversion as need:
            found.append(need)
    return found
