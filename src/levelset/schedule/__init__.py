"""When a key is due: the timeline, the scheduler that wakes workers for it, and the limits on how often.

`Timeline` decides and is pure, `Scheduler` waits. `Failures` says how long a key that fails waits, `TokenBucket` how
much is done at all.
"""

from levelset.schedule.due import LOW, NORMAL, Due
from levelset.schedule.limits import TRANSIENT, Failures, TokenBucket
from levelset.schedule.scheduler import Scheduler
from levelset.schedule.timeline import Timeline

__all__ = ["LOW", "NORMAL", "TRANSIENT", "Due", "Failures", "Scheduler", "Timeline", "TokenBucket"]
