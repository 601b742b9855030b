"""Who watches a controller at work: metrics, traces, detectors and tests are observers."""

import logging
from collections.abc import Sequence
from typing import Any, Protocol

from levelset.objects.ref import Ref
from levelset.runtime.controller.actions import Outcome
from levelset.runtime.controller.request import Reason

__all__ = ["NullObserver", "Observer", "Observers", "hears", "report_observer"]

_log = logging.getLogger(__name__)


class Observer(Protocol):
    """Is told what a controller does, at the moment it happens; plain functions that must be quick and never raise.

    `name` is the controller's. What an observer raises is logged, and does not harm the controller.
    """

    def queued(self, name: str, depth: int, /) -> None:
        """A new request waits; so many wait now, those for a later time included."""
        ...

    def started(self, name: str, ref: Ref[Any], reasons: tuple[Reason, ...], /) -> None:
        """A worker takes up a request."""
        ...

    def finished(self, name: str, ref: Ref[Any], outcome: Outcome[Any], seconds: float, /) -> None:
        """A worker is done with it."""
        ...


class NullObserver:
    """Looks away."""

    __slots__ = ()

    def queued(self, name: str, depth: int, /) -> None:
        """Nothing."""

    def started(self, name: str, ref: Ref[Any], reasons: tuple[Reason, ...], /) -> None:
        """Nothing."""

    def finished(self, name: str, ref: Ref[Any], outcome: Outcome[Any], seconds: float, /) -> None:
        """Nothing."""


class Observers:
    """Several observers as one, told in order; what one of them raises is logged, and the others are told."""

    __slots__ = ("_all",)

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._all = tuple(observers)

    def queued(self, name: str, depth: int, /) -> None:
        """Tells each."""
        for one in self._all:
            try:
                one.queued(name, depth)
            except Exception as error:  # noqa: BLE001 -- who watches must not disturb
                report_observer(one, error)

    def started(self, name: str, ref: Ref[Any], reasons: tuple[Reason, ...], /) -> None:
        """Tells each."""
        for one in self._all:
            try:
                one.started(name, ref, reasons)
            except Exception as error:  # noqa: BLE001 -- who watches must not disturb
                report_observer(one, error)

    def finished(self, name: str, ref: Ref[Any], outcome: Outcome[Any], seconds: float, /) -> None:
        """Tells each."""
        for one in self._all:
            try:
                one.finished(name, ref, outcome, seconds)
            except Exception as error:  # noqa: BLE001 -- who watches must not disturb
                report_observer(one, error)


def hears(observer: Observer, word: str) -> bool:
    """Whether an observer does anything when it is told this; one who has it from NullObserver does not."""
    return getattr(type(observer), word, None) is not getattr(NullObserver, word)


def report_observer(observer: Observer, error: Exception) -> None:
    """Writes what an observer has raised into the log: who watches must not disturb."""
    _log.error("the observer %r has failed: %s", observer, error, exc_info=error)
