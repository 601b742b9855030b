"""Where requests arrive at a controller: which objects are meant, where they wait, and how everybody asks."""

from collections.abc import Collection
from dataclasses import dataclass

from levelset.controller.observing import Observer, hears, report_observer
from levelset.controller.requests import Reason
from levelset.controller.triggers import Asks, AsksAll, Target
from levelset.schedule import Scheduler

__all__ = ["Desk", "open_asking"]


@dataclass(frozen=True, kw_only=True)
class Desk:
    """The target, the scheduler, and the functions that everybody asks with: for one object, or for several."""

    target: Target
    scheduler: Scheduler[str, Reason]
    ask: Asks
    ask_all: AsksAll
    observer: Observer


def open_asking(name: str, scheduler: Scheduler[str, Reason], observer: Observer) -> tuple[Asks, AsksAll]:
    """The functions that put requests into a scheduler: its own, unless the observer wants to hear of each new one."""
    if not hears(observer, "queued"):
        return scheduler.ask, scheduler.ask_all
    asking = _Telling(name, scheduler, observer)
    return asking.ask, asking.ask_all


class _Telling:
    """Asks the scheduler of a controller, and tells the observer of each new request."""

    __slots__ = ("_name", "_observer", "_scheduler")

    def __init__(self, name: str, scheduler: Scheduler[str, Reason], observer: Observer) -> None:
        self._name = name
        self._scheduler = scheduler
        self._observer = observer

    def ask(self, key: str, reason: Reason, priority: int, /) -> None:
        if not self._scheduler.ask(key, reason, priority):
            return
        try:
            self._observer.queued(self._name, len(self._scheduler))
        except Exception as error:  # noqa: BLE001 -- who watches must not disturb
            report_observer(self._observer, error)

    def ask_all(self, keys: Collection[str], reason: Reason, priority: int, /) -> None:
        for key in keys:
            self.ask(key, reason, priority)
