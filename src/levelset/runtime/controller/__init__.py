"""The loop: a controller as a value, what it follows, and what its reconciler may do; and the same loop by hand.

`Controller(Website, reconcile, owns(Deployment))` says what is to be done; `running` (or a manager) does it. Inside,
changes become requests with reasons (`triggers`), one per object (`levelset.runtime.queue`), which workers take
(`runner`) and answer by calling the reconciler (`invocation`) with a `Context`. `drive` is that loop without the rest.
"""

from levelset.runtime.controller.actions import Action, Outcome, Result, await_change, requeue
from levelset.runtime.controller.context import Context
from levelset.runtime.controller.context_dependencies import Services, open_services
from levelset.runtime.controller.controller import Controller, ControllerOptions
from levelset.runtime.controller.drive import drive
from levelset.runtime.controller.observers import NullObserver, Observer, Observers
from levelset.runtime.controller.reconcile_history import History
from levelset.runtime.controller.relations import Relation, every, matches, owns, references, remembers, source, watches
from levelset.runtime.controller.request import Reason, Request
from levelset.runtime.controller.running_controller import RunningController, RunningStats, running
from levelset.runtime.controller.triggers import SELF_CHANGES

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
