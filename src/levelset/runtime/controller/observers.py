"""Observers of a controller: notified of queued, started and finished requests, for metrics, tracing and tests."""

import logging
from collections.abc import Sequence
from typing import Any, Protocol

from levelset.objects.ref import Ref
from levelset.runtime.controller.actions import Outcome
from levelset.runtime.controller.request import Reason

__all__ = ["NullObserver", "Observer", "Observers", "log_observer_error", "overrides"]

_log = logging.getLogger(__name__)


class Observer(Protocol):
    """Is notified of what a controller does, synchronously; the methods must be quick and should not raise.

    `name` is the controller's. What an observer raises is logged and otherwise ignored.
    """

    def queued(self, name: str, depth: int, /) -> None:
        """A new request was queued; `depth` is the number of queued requests, delayed ones included."""
        ...

    def started(self, name: str, ref: Ref[Any], reasons: tuple[Reason, ...], /) -> None:
        """A worker starts to reconcile an object."""
        ...

    def finished(self, name: str, ref: Ref[Any], outcome: Outcome[Any], seconds: float, /) -> None:
        """A worker has finished the reconcile; `ref` is the same object as in `started`."""
        ...


class NullObserver:
    """Ignores everything; the base class for observers that implement only some methods."""

    __slots__ = ()

    def queued(self, name: str, depth: int, /) -> None:
        """Does nothing."""

    def started(self, name: str, ref: Ref[Any], reasons: tuple[Reason, ...], /) -> None:
        """Does nothing."""

    def finished(self, name: str, ref: Ref[Any], outcome: Outcome[Any], seconds: float, /) -> None:
        """Does nothing."""


class Observers:
    """Several observers as one, notified in order; what one of them raises is logged, and the others are notified."""

    __slots__ = ("_all",)

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._all = tuple(observers)

    def queued(self, name: str, depth: int, /) -> None:
        """Notifies each."""
        for one in self._all:
            try:
                one.queued(name, depth)
            except Exception as error:  # noqa: BLE001 -- observers must not break the controller
                log_observer_error(one, error)

    def started(self, name: str, ref: Ref[Any], reasons: tuple[Reason, ...], /) -> None:
        """Notifies each."""
        for one in self._all:
            try:
                one.started(name, ref, reasons)
            except Exception as error:  # noqa: BLE001 -- observers must not break the controller
                log_observer_error(one, error)

    def finished(self, name: str, ref: Ref[Any], outcome: Outcome[Any], seconds: float, /) -> None:
        """Notifies each."""
        for one in self._all:
            try:
                one.finished(name, ref, outcome, seconds)
            except Exception as error:  # noqa: BLE001 -- observers must not break the controller
                log_observer_error(one, error)


def overrides(observer: Observer, method: str) -> bool:
    """Whether an observer implements a method itself, rather than inheriting it from NullObserver."""
    return getattr(type(observer), method, None) is not getattr(NullObserver, method)


def log_observer_error(observer: Observer, error: Exception) -> None:
    """Logs what an observer has raised."""
    _log.error("observer %r failed: %s", observer, error, exc_info=error)
