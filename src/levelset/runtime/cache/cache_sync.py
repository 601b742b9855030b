"""The sync state of a cache: filled or not, suspended or not, closed or not, and how to wait for it."""

import asyncio

from levelset.aio import timing
from levelset.errors import NotReady

__all__ = ["Readiness"]


class Readiness:
    """Ready from the first complete list on, except while it is suspended; closing it ends every wait.

    `error` is the current problem as text and `cause` the exception behind it. Readiness is suspended for errors that
    last until a person acts (a missing kind or permission): until then the age of the cached objects is unbounded.
    """

    __slots__ = ("_settled", "cause", "error", "is_closed", "is_filled", "is_suspended", "what")

    def __init__(self, what: str) -> None:
        self.what = what
        self.is_filled = False
        self.is_suspended = False
        self.is_closed = False
        self.error: str | None = None
        self.cause: Exception | None = None
        self._settled = asyncio.Event()

    @property
    def is_ready(self) -> bool:
        """Whether it has been filled, and is not suspended."""
        return self.is_filled and not self.is_suspended

    def record_error(self, error: str, cause: Exception | None) -> None:
        """Stores the current error, which `wait` reports if it times out."""
        self.error, self.cause = error, cause

    def suspend(self, error: str, cause: Exception | None) -> None:
        """Stores an error that does not pass by itself: not ready until `clear_error` or `set_ready`."""
        self.record_error(error, cause)
        self.is_suspended = True
        if not self.is_closed:
            self._settled.clear()

    def clear_error(self) -> None:
        """Clears the error and ends a suspension."""
        self.error = self.cause = None
        if self.is_suspended:
            self.is_suspended = False
            if self.is_filled:
                self._settled.set()

    def set_ready(self) -> None:
        """Marks it as filled and ready, and wakes every waiter."""
        self.is_filled = True
        self.is_suspended = False
        self._settled.set()

    def close(self, cause: Exception | None = None) -> None:
        """Closes it and wakes every waiter: nothing more will be written."""
        self.is_closed = True
        if cause is not None:
            self.record_error(str(cause), cause)
        self._settled.set()

    async def wait(self, within: float | None = None) -> None:
        """Returns once it is ready, at once if it is already.

        Raises NotReady, with the last error as its cause, when it is closed first or not ready `within` seconds.
        """
        if not self.is_ready and not self.is_closed:
            try:
                async with timing.within(within):
                    while not self.is_ready and not self.is_closed:
                        await self._settled.wait()
            except TimeoutError:
                if self.is_ready:  # became ready in the same loop iteration as the timeout
                    return
                how = "has not synced" if not self.is_filled else "could not be kept current and did not recover"
                raise self._not_ready(f"{how} within {within} s") from self.cause
        if not self.is_ready:
            how = "before it had synced" if not self.is_filled else "while it could not be kept current"
            raise self._not_ready(f"was closed {how}") from self.cause

    def _not_ready(self, how: str) -> NotReady:
        why = f": {self.error}" if self.error else "; check that the API server answers"
        return NotReady(f"{self.what} {how}{why}", cause=self.cause)
