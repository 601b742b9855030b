"""Wakes a task out of what it waits for and takes the cancellation back, as `asyncio.timeout` does, for any reason."""

import asyncio

__all__ = ["Interruption"]


class Interruption:
    """A stretch of one task's work that others may interrupt: `enter`, wait for something, `leave`.

    In between, `interrupt` raises CancelledError in that task. `leave` says whether that was us and nobody else; only
    then may the task go on.
    """

    __slots__ = ("_cancels", "_interrupted", "task")

    def __init__(self) -> None:
        self.task: asyncio.Task[object] | None = None
        """The task that is inside; None if there is none."""
        self._cancels = 0  # how often it had been asked to cancel when it came in
        self._interrupted = False

    @property
    def is_cancelled(self) -> bool:
        """Whether somebody else has cancelled the task since it came in."""
        return self.task is not None and self.task.cancelling() - self._interrupted > self._cancels

    def enter(self) -> None:
        """Begins the stretch, for the current task; nobody else may be inside."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("this can only be used inside a task")
        self.task, self._cancels = task, task.cancelling()

    def interrupt(self) -> None:
        """Wakes the task that is inside; does nothing the second time, and when called by that task itself."""
        if self.task is None or self._interrupted or self.task is asyncio.current_task():
            return
        self._interrupted = True
        self.task.cancel()

    def leave(self) -> bool:
        """Ends the stretch; whether it was interrupted, and nobody else has cancelled the task. May be repeated."""
        task, self.task = self.task, None
        if task is None or not self._interrupted:
            return False
        self._interrupted = False
        return task.uncancel() <= self._cancels
