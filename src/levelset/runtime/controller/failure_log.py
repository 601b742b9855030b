"""Logs failed reconciles: an error in full the first time, and as a line with its count while it repeats."""

import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

from levelset.objects.ref import Ref
from levelset.runtime.controller.actions import Action, Result

__all__ = ["FailureLog"]

_log: Final = logging.getLogger("levelset.runtime.controller")

_FULL_AGAIN: Final = 600.0
"""An error that was not seen for this many seconds is logged in full again: its traceback may be out of reach."""
_MOST: Final = 1_000
"""How many different errors are remembered; of more, the one that was not seen for the longest time is forgotten."""

_Signature = tuple[type[BaseException], int]
"""What makes two errors the same: their type and the lines that they passed. Messages may name objects and times."""


class FailureLog:
    """The log of the failed reconciles of a controller.

    Many objects may fail by the same error, and one object may fail with it again and again: the traceback is logged
    once, and then each failure is a line with the number of failures by that error so far. Conflicts and retries that
    a reconciler chose are no failures, and go to the debug log.
    """

    __slots__ = ("_clock", "_controller", "_seen")

    def __init__(self, controller: str, clock: Callable[[], float]) -> None:
        self._controller = controller
        self._clock = clock
        self._seen: OrderedDict[_Signature, tuple[int, float]] = OrderedDict()
        """How often an error was seen, and when last."""

    def add(self, ref: Ref[Any], result: Result, action: Action, error: Exception) -> None:
        """Logs a failure, with what is done about it."""
        extra: dict[str, Any] = {"controller": self._controller, "ref": str(ref), "result": result}
        if result in ("conflict", "retry"):
            _log.debug("%s: %s, %s: %s", ref, result, action, error, extra=extra)
            return
        count = self._count(error)
        if count > 1:
            extra["count"] = count
        level, does = (
            (logging.ERROR, "gave up until something changes")
            if result == "gave_up"
            else (logging.WARNING, f"failed, {action}")
        )
        name = type(error).__name__
        _log.log(level, "%s: %s: %s: %s", ref, does, name, error, extra=extra, exc_info=error if count == 1 else None)

    def _count(self, error: Exception) -> int:
        """How often this error was seen, now included; 1 again after a while without it."""
        now, signature = self._clock(), _signature_of(error)
        count, last = self._seen.pop(signature, (0, now))
        count = count + 1 if now - last <= _FULL_AGAIN else 1
        self._seen[signature] = count, now
        if len(self._seen) > _MOST:
            self._seen.popitem(last=False)
        return count


def _signature_of(error: BaseException) -> _Signature:
    """The type and a hash of the lines of its traceback; of a group with those of its first error."""
    lines: list[Any] = []
    step = error.__traceback__
    while step is not None:
        lines.append((step.tb_frame.f_code.co_filename, step.tb_lineno))
        step = step.tb_next
    inner: tuple[BaseException, ...] = getattr(error, "exceptions", ())
    if inner:
        lines.append(_signature_of(inner[0]))
    return type(error), hash(tuple(lines))
