"""A reader that is called: batches of changes, at once, for those who only put them somewhere else."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from levelset.cache.changes import Change
from levelset.cache.feeds import Feed, Joining
from levelset.cache.indexed import Report

__all__ = ["Listening"]

K = TypeVar("K")

_SHOWN: Final = 500
"""How many objects are shown at once to a listener who comes late."""


class Listening(Feed[K]):
    """Calls a function with what changes, in the same moment; it must be quick and must not wait.

    What is there already is shown first, a few hundred objects at a time. What the function raises is reported, and
    harms neither the informer nor other readers; the next change comes all the same.
    """

    def __init__(self, joining: Joining[K], call: Callable[[Sequence[Change[K]]], None], report: Report) -> None:
        super().__init__(joining)
        self.failures = 0
        self._call = call
        self._report = report
        self._timer: asyncio.Handle | None = None
        self._wake()

    def close(self) -> None:
        """Ends it: the function is not called any more. A second time does nothing."""
        super().close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wake(self) -> None:
        if self._replay is None or self._closed:
            self._check()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_soon(self._show)

    def _show(self) -> None:
        self._timer = None
        if self._replay is None:
            return
        shown = self._replay.take(_SHOWN)
        if len(shown) < _SHOWN:
            self._replay = None
        if shown:
            self._take(shown)
        self._wake()

    def _take(self, changes: Sequence[Change[K]]) -> None:
        try:
            self._call(changes)
        except Exception as error:  # noqa: BLE001 -- the function is the user's; the informer goes on
            self.failures += 1
            self._report(f"a listener of {self._joining.view.gvk}", error)

    def _is_drained(self) -> bool:
        return not self._closed and (self._replay is None or self._replay.is_resync)
