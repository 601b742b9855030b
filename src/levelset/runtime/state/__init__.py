"""The in-memory state of a controller between two reconciles, and slow work outside of the reconciler.

`StateMap` holds a frozen state for each object, found by its ref or by an external key; other tasks change it with
deferred changes. `BackgroundWork` runs slow work for objects.
"""

from typing import TYPE_CHECKING

from levelset.late_exports import late_exports

if TYPE_CHECKING:
    from levelset.runtime.state.background_work import BackgroundWork, WorkFailed, WorkHandle, WorkProgress
    from levelset.runtime.state.deferred_changes import DeferFailure, DeferFailureKind
    from levelset.runtime.state.object_state_map import StateMap, Unchanged

__all__ = [
    "BackgroundWork",
    "DeferFailure",
    "DeferFailureKind",
    "StateMap",
    "Unchanged",
    "WorkFailed",
    "WorkHandle",
    "WorkProgress",
]

__getattr__, __dir__ = late_exports(
    __name__,
    {
        "levelset.runtime.state.background_work": "BackgroundWork WorkFailed WorkHandle WorkProgress",
        "levelset.runtime.state.deferred_changes": "DeferFailure DeferFailureKind",
        "levelset.runtime.state.object_state_map": "StateMap Unchanged",
    },
)
