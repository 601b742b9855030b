"""The step limits of validating one write: cheap work runs on the event loop, expensive work in a thread.

Steps are those of `levelset.re2.step_budget`, about 100 ns each. Work that exceeds `LOOP_STEPS` is repeated in a
thread, one at a time, so that other requests are served meanwhile; beyond `REQUEST_STEPS` the request is refused.
"""

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from levelset.errors import ApiError
from levelset.re2.step_budget import StepsExceeded, within

__all__ = ["GROUPS_WITH_PROGRAMS", "LOOP_STEPS", "REQUEST_STEPS", "run_limited", "run_off_loop"]

T = TypeVar("T")

GROUPS_WITH_PROGRAMS: Final = frozenset({"admissionregistration.k8s.io", "apiextensions.k8s.io"})
"""The built-in groups whose objects contain patterns or expressions; those of custom resources are in their schemas.

The rules of all other built-in kinds are known and cheap: their writes do not count steps.
"""
LOOP_STEPS: Final = 100_000
"""Steps on the event loop: about 10 ms."""
REQUEST_STEPS: Final = 20_000_000
"""Steps in a thread: about two seconds."""


async def run_limited(lane: asyncio.Lock, work: Callable[[], T]) -> T:
    """The result of work that may be repeated; it does not suspend unless the work is expensive.

    `lane` admits one thread at a time: several would leave the event loop too little of the interpreter's time.
    """
    try:
        return within(LOOP_STEPS, work)
    except StepsExceeded:
        return await run_off_loop(lane, work)


async def run_off_loop(lane: asyncio.Lock, work: Callable[[], T]) -> T:
    """The result of expensive work, in a thread; raises ApiError (413) if it takes more than `REQUEST_STEPS`."""
    async with lane:
        try:
            return await asyncio.to_thread(within, REQUEST_STEPS, work)
        except StepsExceeded:
            raise _too_expensive() from None


def _too_expensive() -> ApiError:
    text = (
        f"Request entity too large: the patterns and rules of its schema take more than {REQUEST_STEPS} steps; "
        "shorten the values, or simplify the patterns and rules of the definition"
    )
    return ApiError(text, code=413, reason="RequestEntityTooLarge")
