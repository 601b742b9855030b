"""When a key is due: the timeline, the scheduler that wakes workers for it, and the limits on how often.

`WorkQueue` decides and is pure, `Scheduler` waits. `Failures` says how long a key that fails waits, `TokenBucket` how
much is done at all.
"""

from levelset.runtime.queue.rate_limits import TRANSIENT, Failures, TokenBucket
from levelset.runtime.queue.scheduler import Scheduler
from levelset.runtime.queue.work_queue import LOW, NORMAL, Due, WorkQueue

__all__ = ["LOW", "NORMAL", "TRANSIENT", "Due", "Failures", "Scheduler", "TokenBucket", "WorkQueue"]
