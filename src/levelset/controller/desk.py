"""Where requests arrive at a controller: which objects are meant, where they wait, and how everybody asks."""

from dataclasses import dataclass
from typing import Any

from levelset.controller.observing import Observer, hears, report_observer
from levelset.controller.requests import Reason
from levelset.controller.triggers import Asks, Target
from levelset.objects.identity import Ref
from levelset.schedule import Scheduler

__all__ = ["Asking", "Desk"]


class Asking:
    """Puts requests into the scheduler of a controller, counts the new ones, and tells the observer of each."""

    __slots__ = ("_add", "_is_heard", "_name", "_observer", "_scheduler", "asked")

    def __init__(self, name: str, scheduler: Scheduler[Ref[Any], Reason], observer: Observer) -> None:
        self.asked = 0
        """How many new requests there were; what was merged into another is none."""
        self._name = name
        self._scheduler = scheduler
        self._observer = observer
        self._add = scheduler.add
        self._is_heard = hears(observer, "queued")

    def ask(self, ref: Ref[Any], reason: Reason, priority: int, /) -> None:
        """Asks for a look at an object; whoever is asked for already is looked at once."""
        if self._add(ref, priority=priority, reason=reason):
            self.asked += 1
            if self._is_heard:
                self._tell()

    def _tell(self) -> None:
        try:
            self._observer.queued(self._name, len(self._scheduler))
        except Exception as error:  # noqa: BLE001 -- who watches must not disturb
            report_observer(self._observer, error)


@dataclass(frozen=True, kw_only=True)
class Desk:
    """The target, the scheduler, and the function that everybody asks with."""

    target: Target
    scheduler: Scheduler[Ref[Any], Reason]
    asking: Asking
    ask: Asks
    observer: Observer
