"""The work queue of a controller: deduplication, delays, priorities and rate limits.

`WorkQueue` is the pure queue, `Scheduler` adds a clock and wakes workers. `FailureCounts` computes the backoff of a
failing key, `TokenBucket` limits the overall rate.
"""

from typing import TYPE_CHECKING

from levelset.late_exports import late_exports

if TYPE_CHECKING:
    from levelset.runtime.queue.rate_limits import DEFAULT_BACKOFF, FailureCounts, TokenBucket
    from levelset.runtime.queue.scheduler import Scheduler
    from levelset.runtime.queue.work_queue import LOW, NORMAL, Due, WorkQueue

__all__ = ["DEFAULT_BACKOFF", "LOW", "NORMAL", "Due", "FailureCounts", "Scheduler", "TokenBucket", "WorkQueue"]

__getattr__, __dir__ = late_exports(
    __name__,
    {
        "levelset.runtime.queue.rate_limits": "DEFAULT_BACKOFF FailureCounts TokenBucket",
        "levelset.runtime.queue.scheduler": "Scheduler",
        "levelset.runtime.queue.work_queue": "LOW NORMAL Due WorkQueue",
    },
)
