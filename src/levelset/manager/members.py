"""One thing that a manager runs: a task with a name, an end that somebody hears of, and a way to stop it."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from levelset.aio import Unstopped, timing

__all__ = ["Member", "Work"]

Work = Callable[[], Coroutine[Any, Any, object]]
"""Makes the coroutine that is run: a coroutine function."""

_FIRM: Final = 5.0


class Member:
    """Runs `work` in a task from `start` until it ends or is stopped.

    `ask_to_stop`, if there is one, is the polite way: it is given the seconds that are left, and returns when the work
    is done. Without it, to stop is to cancel at once; cleaning up has as long as is left. `ended` hears of an error
    that was not our doing; that of a member that is being stopped comes back from `stop`.
    """

    def __init__(self, name: str, work: Work, *, ended: Callable[["Member", Exception], None]) -> None:
        self.name = name
        self._work = work
        self._ended = ended
        self._task: asyncio.Task[object] | None = None
        self._is_stopped = self._has_failed = False

    @property
    def is_running(self) -> bool:
        """Whether it has been started and has not ended."""
        return self._task is not None and not self._task.done()

    def start(self) -> None:
        """Starts it; once."""
        self._task = asyncio.get_running_loop().create_task(self._work(), name=f"manager/{self.name}")
        self._task.add_done_callback(self._note_end)

    async def ask_to_stop(self, within: float | None) -> None:
        """The polite way; nothing unless a kind of member has one."""

    async def stop(self, within: float | None) -> None:
        """Returns when it has ended; raises what it failed with meanwhile, or Unstopped if it ignores its cancellation.

        None is as long as it takes.
        """
        self._is_stopped = True
        task = self._task
        if task is None:
            return
        until = timing.deadline(within)
        try:
            if not task.done():
                await self.ask_to_stop(within)
        finally:
            task.cancel()
            await self._wait_end(task, timing.remaining(until))
        if not self._has_failed and not task.cancelled() and isinstance(error := task.exception(), Exception):
            raise error

    async def _wait_end(self, task: "asyncio.Task[object]", left: float | None) -> None:
        seconds = None if left is None else max(left, _FIRM)
        await asyncio.wait([task], timeout=seconds)
        if not task.done():
            raise Unstopped("manager", [self.name], seconds or 0.0)

    def cancel(self) -> None:
        """Ends it at once, without waiting for it."""
        self._is_stopped = True
        if self._task is not None:
            self._task.cancel()

    def _note_end(self, task: "asyncio.Task[object]") -> None:
        if task.cancelled():
            if not self._is_stopped:
                self._ended(self, RuntimeError(f"{self.name} was cancelled, but not by its manager"))
            return
        error = task.exception()
        if error is None or self._is_stopped:
            return
        error.add_note(f"in {self.name!r} of the manager")
        # KeyboardInterrupt and SystemExit go their own way through the loop.
        if isinstance(error, Exception):
            self._has_failed = True
            self._ended(self, error)
