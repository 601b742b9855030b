"""The work queue of a controller: deduplication, delays, priorities and rate limits.

`WorkQueue` is the pure queue, `Scheduler` adds a clock and wakes workers. `FailureCounts` computes the backoff of a
failing key, `TokenBucket` limits the overall rate.
"""

from levelset.runtime.queue.rate_limits import DEFAULT_BACKOFF, FailureCounts, TokenBucket
from levelset.runtime.queue.scheduler import Scheduler
from levelset.runtime.queue.work_queue import LOW, NORMAL, Due, WorkQueue

__all__ = ["DEFAULT_BACKOFF", "LOW", "NORMAL", "Due", "FailureCounts", "Scheduler", "TokenBucket", "WorkQueue"]
