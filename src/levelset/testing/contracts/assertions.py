"""Assertion helpers of the contracts, independent of a test framework."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from typing import Generic, TypeVar

from levelset.storage import Change, Page, Storage, Watch

__all__ = ["Caught", "expect", "keys_of", "raises", "take", "write"]

_Error = TypeVar("_Error", bound=BaseException)
# Only a broken backend ever waits this long: a contract that hangs would not say what is broken.
_PATIENCE = 10.0


class Caught(Generic[_Error]):
    """The error that a `raises` block ended with."""

    error: _Error


@contextmanager
def raises(kind: type[_Error] | tuple[type[_Error], ...]) -> Generator[Caught[_Error], None, None]:
    """Expects the block to raise an error of this class, or of one of these classes."""
    caught: Caught[_Error] = Caught()
    try:
        yield caught
    except kind as error:
        caught.error = error
    else:
        names = " or ".join(one.__name__ for one in (kind if isinstance(kind, tuple) else (kind,)))
        raise AssertionError(f"{names} was expected, but nothing was raised")


def expect(found: object, wanted: object, what: str) -> None:
    """Raises AssertionError with both values if they differ; `what` names the compared value."""
    if found != wanted:
        raise AssertionError(f"{what}: found {found!r}, expected {wanted!r}")


def keys_of(page: Page) -> list[str]:
    """The keys of a page."""
    return [item.key for item in page.items]


async def write(storage: Storage, *keys: str) -> None:
    """Puts an empty value under each key."""
    for key in keys:
        await storage.put(key, b"", expected=None)


async def take(watch: Watch, number: int) -> list[Change]:
    """Reads exactly that many changes from a watch, in any number of batches."""
    changes: list[Change] = []
    async with asyncio.timeout(_PATIENCE):
        while len(changes) < number:
            batch = await anext(watch)
            if not batch:
                raise AssertionError("a watch returned an empty batch")
            changes += batch
    expect(len(changes), number, "the number of changes")
    return changes
