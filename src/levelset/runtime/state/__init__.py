"""What a controller remembers between two looks, and the slow work it has done outside of them.

`StateMap` holds a frozen state for each object, found by its ref or by a key of the real world; what others have to say
to it waits as a deferred change. `WorkQueue` does the slow work.
"""

from levelset.runtime.state.background_work import Handle, Progress, WorkFailed, WorkQueue
from levelset.runtime.state.deferred_changes import Mishap, MishapKind
from levelset.runtime.state.object_state_map import StateMap, Unchanged

__all__ = ["Handle", "Mishap", "MishapKind", "Progress", "StateMap", "Unchanged", "WorkFailed", "WorkQueue"]
