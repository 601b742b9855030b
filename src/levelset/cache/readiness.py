"""Whether a cache has been filled: everybody may wait for it, and whoever waits in vain learns why."""

import asyncio

from levelset.aio import timing
from levelset.errors import NotReady

__all__ = ["Readiness"]


class Readiness:
    """Becomes ready once and stays so; or is closed, which ends the waiting too.

    `trouble` is what stands in the way at the moment, in words, with the error itself in `cause`.
    """

    __slots__ = ("_settled", "cause", "is_closed", "is_ready", "trouble", "what")

    def __init__(self, what: str) -> None:
        self.what = what
        self.is_ready = False
        self.is_closed = False
        self.trouble: str | None = None
        self.cause: Exception | None = None
        self._settled = asyncio.Event()

    def blame(self, trouble: str, cause: Exception | None) -> None:
        """Notes what stands in the way."""
        self.trouble, self.cause = trouble, cause

    def praise(self) -> None:
        """Notes that nothing does any more."""
        self.trouble = self.cause = None

    def settle(self) -> None:
        """Wakes everybody: it is ready."""
        self.is_ready = True
        self._settled.set()

    def close(self, cause: Exception | None = None) -> None:
        """Wakes everybody who still waits: nothing will come any more."""
        self.is_closed = True
        if cause is not None:
            self.blame(str(cause), cause)
        self._settled.set()

    async def wait(self, within: float | None = None) -> None:
        """Returns once it is ready, at once if it is already.

        Raises NotReady, with the last trouble as its cause, when it is closed first or not ready `within` seconds.
        """
        if not self.is_ready and not self.is_closed:
            try:
                async with timing.within(within):
                    await self._settled.wait()
            except TimeoutError:
                raise self._not_ready(f"has not synced within {within} s") from self.cause
        if not self.is_ready:
            raise self._not_ready("was closed before it had synced") from self.cause

    def _not_ready(self, how: str) -> NotReady:
        why = f": {self.trouble}" if self.trouble else "; see whether the server answers"
        return NotReady(f"{self.what} {how}{why}", cause=self.cause)
