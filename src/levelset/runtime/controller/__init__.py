"""Controllers: a controller as a value, the objects it watches, and the reconcile loop that runs it.

`Controller(Website, reconcile, owns(Deployment))` declares a controller; `running` (or a manager) runs it. Changes
become requests with reasons (`event_handlers.py`), one per object (`levelset.runtime.queue`); workers (`worker.py`)
take them and call the reconcile function (`reconcile.py`) with a `Context` (`context.py`). `drive` is that loop without
informers.
"""

from typing import TYPE_CHECKING

from levelset.late_exports import late_exports

if TYPE_CHECKING:
    from levelset.runtime.controller.actions import Action, Outcome, Result, await_change, requeue
    from levelset.runtime.controller.context import Context
    from levelset.runtime.controller.context_dependencies import ContextDependencies, open_dependencies
    from levelset.runtime.controller.controller import Controller, ControllerOptions
    from levelset.runtime.controller.event_handlers import SELF_CHANGES
    from levelset.runtime.controller.immutable_children import ImmutableChildren
    from levelset.runtime.controller.observers import NullObserver, Observer, Observers
    from levelset.runtime.controller.outcome_stream import drive
    from levelset.runtime.controller.reconcile_history import ReconcileHistory
    from levelset.runtime.controller.relations import (
        Relation,
        every,
        matches,
        owns,
        references,
        remembers,
        source,
        watches,
    )
    from levelset.runtime.controller.request import Reason, Request
    from levelset.runtime.controller.running_controller import RunningController, RunningStats, running
    from levelset.runtime.controller.stream_triggers import trigger_others, trigger_owners, trigger_self

__all__ = [
    "SELF_CHANGES",
    "Action",
    "Context",
    "ContextDependencies",
    "Controller",
    "ControllerOptions",
    "ImmutableChildren",
    "NullObserver",
    "Observer",
    "Observers",
    "Outcome",
    "Reason",
    "ReconcileHistory",
    "Relation",
    "Request",
    "Result",
    "RunningController",
    "RunningStats",
    "await_change",
    "drive",
    "every",
    "matches",
    "open_dependencies",
    "owns",
    "references",
    "remembers",
    "requeue",
    "running",
    "source",
    "trigger_others",
    "trigger_owners",
    "trigger_self",
    "watches",
]

__getattr__, __dir__ = late_exports(
    __name__,
    {
        "levelset.runtime.controller.actions": "Action Outcome Result await_change requeue",
        "levelset.runtime.controller.context": "Context",
        "levelset.runtime.controller.context_dependencies": "ContextDependencies open_dependencies",
        "levelset.runtime.controller.controller": "Controller ControllerOptions",
        "levelset.runtime.controller.event_handlers": "SELF_CHANGES",
        "levelset.runtime.controller.immutable_children": "ImmutableChildren",
        "levelset.runtime.controller.observers": "NullObserver Observer Observers",
        "levelset.runtime.controller.outcome_stream": "drive",
        "levelset.runtime.controller.reconcile_history": "ReconcileHistory",
        "levelset.runtime.controller.relations": ("Relation every matches owns references remembers source watches"),
        "levelset.runtime.controller.request": "Reason Request",
        "levelset.runtime.controller.running_controller": "RunningController RunningStats running",
        "levelset.runtime.controller.stream_triggers": "trigger_others trigger_owners trigger_self",
    },
)
