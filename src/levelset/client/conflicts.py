"""Tries a write again that lost a race: read, decide, write, until nobody was faster."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from levelset.aio import timing
from levelset.aio.backoff import Backoff
from levelset.errors import AlreadyExists, ApplyConflict, Conflict

__all__ = ["retry_on_conflict"]

T = TypeVar("T")

_BACKOFF: Final = Backoff(first=0.01, factor=5.0, cap=1.0)


async def retry_on_conflict(
    attempt: Callable[[], Awaitable[T]], /, *, attempts: int = 5, backoff: Backoff = _BACKOFF
) -> T:
    """What `attempt` gives, tried again after each Conflict; it has to read the object anew every time.

    A name that is taken and a field that another manager owns are conflicts too, but trying again does not help, so
    AlreadyExists and ApplyConflict are raised at once.

    ```python
    async def promote() -> Website:
        site = await client.get(Website, "blog")
        return await client.update(site.with_spec(replicas=site.spec.replicas + 1))


    await retry_on_conflict(promote)
    ```
    """
    delays = backoff.delays()
    for _ in range(attempts - 1):
        try:
            return await attempt()
        except (AlreadyExists, ApplyConflict):
            raise
        except Conflict:
            await timing.sleep(next(delays))
    return await attempt()
