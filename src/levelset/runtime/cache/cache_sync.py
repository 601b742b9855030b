"""Whether a cache has been filled and can be kept current: everybody may wait, and whoever waits in vain learns why."""

import asyncio

from levelset.aio import timing
from levelset.errors import NotReady

__all__ = ["Readiness"]


class Readiness:
    """Ready from the first filling on, but for the times when it is suspended; or closed, which ends the waiting too.

    `trouble` is what stands in the way at the moment, in words, with the error itself in `cause`. It is suspended for
    trouble that stays until somebody does something about it: then nobody knows how old the contents will get.
    """

    __slots__ = ("_settled", "cause", "is_closed", "is_filled", "is_suspended", "trouble", "what")

    def __init__(self, what: str) -> None:
        self.what = what
        self.is_filled = False
        self.is_suspended = False
        self.is_closed = False
        self.trouble: str | None = None
        self.cause: Exception | None = None
        self._settled = asyncio.Event()

    @property
    def is_ready(self) -> bool:
        """Whether it has been filled, and is not suspended."""
        return self.is_filled and not self.is_suspended

    def blame(self, trouble: str, cause: Exception | None) -> None:
        """Notes what stands in the way."""
        self.trouble, self.cause = trouble, cause

    def suspend(self, trouble: str, cause: Exception | None) -> None:
        """Notes what stands in the way and will not go away by itself: it is not ready until `praise` or `settle`."""
        self.blame(trouble, cause)
        self.is_suspended = True
        if not self.is_closed:
            self._settled.clear()

    def praise(self) -> None:
        """Notes that nothing does any more."""
        self.trouble = self.cause = None
        if self.is_suspended:
            self.is_suspended = False
            if self.is_filled:
                self._settled.set()

    def settle(self) -> None:
        """Wakes everybody: it is filled, and ready."""
        self.is_filled = True
        self.is_suspended = False
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
                    while not self.is_ready and not self.is_closed:
                        await self._settled.wait()
            except TimeoutError:
                if self.is_ready:  # meanwhile: whoever has no patience is told how things are, not how they were
                    return
                how = "has not synced" if not self.is_filled else "could not be kept current, and was not again"
                raise self._not_ready(f"{how} within {within} s") from self.cause
        if not self.is_ready:
            how = "before it had synced" if not self.is_filled else "when it could not be kept current"
            raise self._not_ready(f"was closed {how}") from self.cause

    def _not_ready(self, how: str) -> NotReady:
        why = f": {self.trouble}" if self.trouble else "; see whether the server answers"
        return NotReady(f"{self.what} {how}{why}", cause=self.cause)
