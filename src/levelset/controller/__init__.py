"""The loop: a controller as a value, what it follows, and what its reconciler may do; and the same loop by hand.

`Controller(Website, reconcile, owns(Deployment))` says what is to be done; `running` (or a manager) does it. Inside,
changes become requests with reasons (`triggers`), one per object (`levelset.schedule`), which workers take
(`runner`) and answer by calling the reconciler (`invocation`) with a `Context`. `drive` is that loop without the rest.
"""

from levelset.controller.actions import Action, Outcome, Result, await_change, requeue
from levelset.controller.context import Context
from levelset.controller.controller import Controller, ControllerOptions
from levelset.controller.drive import drive
from levelset.controller.history import History
from levelset.controller.observing import NullObserver, Observer, Observers
from levelset.controller.relations import Relation, every, matches, owns, references, remembers, source, watches
from levelset.controller.requests import Reason, Request
from levelset.controller.running import RunningController, RunningStats, running
from levelset.controller.selfchanges import SELF_CHANGES
from levelset.controller.services import Services, open_services

__all__ = [
    "SELF_CHANGES",
    "Action",
    "Context",
    "Controller",
    "ControllerOptions",
    "History",
    "NullObserver",
    "Observer",
    "Observers",
    "Outcome",
    "Reason",
    "Relation",
    "Request",
    "Result",
    "RunningController",
    "RunningStats",
    "Services",
    "await_change",
    "drive",
    "every",
    "matches",
    "open_services",
    "owns",
    "references",
    "remembers",
    "requeue",
    "running",
    "source",
    "watches",
]
