"""What a controller remembers between two looks, and the slow work it has done outside of them.

`StateMap` holds a frozen state for each object, found by its ref or by a key of the real world; what others have to say
to it waits as a deferred change. `WorkQueue` does the slow work.
"""

from levelset.state.deferred import Mishap, MishapKind
from levelset.state.statemap import StateMap, Unchanged
from levelset.state.work import Handle, Progress, WorkFailed, WorkQueue

__all__ = ["Handle", "Mishap", "MishapKind", "Progress", "StateMap", "Unchanged", "WorkFailed", "WorkQueue"]
