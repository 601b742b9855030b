"""The step limits of validating one write: cheap work runs on the event loop, expensive work in a thread.

Steps are those of `levelset.re2.step_budget`, about 100 ns each. Work that exceeds `LOOP_STEPS` is repeated in a
thread, one at a time, so that other requests are served meanwhile; beyond `REQUEST_STEPS` the request is refused.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from levelset.apiserver.resources.expensive_work import ExpensiveWork
from levelset.errors import ApiError
from levelset.re2.step_budget import StepsExceeded, within

__all__ = [
    "LARGE_OBJECT",
    "LOOP_STEPS",
    "REQUEST_STEPS",
    "run_limited",
    "run_off_loop",
]

T = TypeVar("T")

LARGE_OBJECT: Final = 32 * 1024
"""Bytes of a body or a stored object beyond which a thread prepares the write: some 2,700 values at most."""
LOOP_STEPS: Final = 50_000
"""Steps on the event loop: 5 ms, and up to 20 ms where a step takes longer than most."""
REQUEST_STEPS: Final = 20_000_000
"""Steps in a thread: about two seconds."""


async def run_limited(expensive: ExpensiveWork, work: Callable[[], T], *, is_large: bool = False) -> T:
    """The result of work that may be repeated; it does not suspend unless the work is expensive, or `is_large`."""
    if is_large:
        return await run_off_loop(expensive, work)
    try:
        return within(LOOP_STEPS, work)
    except StepsExceeded:
        return await run_off_loop(expensive, work)


async def run_off_loop(expensive: ExpensiveWork, work: Callable[[], T]) -> T:
    """The result of expensive work, in a thread; raises ApiError (413) if it takes more than `REQUEST_STEPS`."""
    try:
        return await expensive.run(partial(within, REQUEST_STEPS, work))
    except StepsExceeded:
        raise _too_expensive() from None


def _too_expensive() -> ApiError:
    text = (
        f"Request entity too large: its patterns and rules, or those of a policy, take more than {REQUEST_STEPS} "
        "steps; shorten the values, or simplify the patterns and rules"
    )
    return ApiError(text, code=413, reason="RequestEntityTooLarge")
