"""Asyncio tools for all other packages: time, backoff, channels, streams and supervised tasks.

`timing` is the clock and its waits, `Backoff` the delays between attempts. `Channel` passes items between tasks,
`Broadcast` to many subscribers; `Stream` transforms and merges them; `Debouncer` turns bursts of triggers into one,
`Batcher` collects items into lists.
`Supervisor` owns the tasks. Nothing here knows Kubernetes.
"""

from typing import TYPE_CHECKING

from levelset.aio import timing
from levelset.late_exports import late_exports

if TYPE_CHECKING:
    from levelset.aio.backoff import Backoff, Delays
    from levelset.aio.batch import Batcher
    from levelset.aio.broadcast import Broadcast, Lagged, Slow, Subscription
    from levelset.aio.channel import Channel, Closed, WouldBlock
    from levelset.aio.debounce import Debouncer, Leading, Trailing
    from levelset.aio.streams import Stream, merge
    from levelset.aio.supervisor import Crash, Crashed, Restart, Supervisor, Unstopped, Verdict

__all__ = [
    "Backoff",
    "Batcher",
    "Broadcast",
    "Channel",
    "Closed",
    "Crash",
    "Crashed",
    "Debouncer",
    "Delays",
    "Lagged",
    "Leading",
    "Restart",
    "Slow",
    "Stream",
    "Subscription",
    "Supervisor",
    "Trailing",
    "Unstopped",
    "Verdict",
    "WouldBlock",
    "merge",
    "timing",
]

__getattr__, __dir__ = late_exports(
    __name__,
    {
        "levelset.aio.backoff": "Backoff Delays",
        "levelset.aio.batch": "Batcher",
        "levelset.aio.broadcast": "Broadcast Lagged Slow Subscription",
        "levelset.aio.channel": "Channel Closed WouldBlock",
        "levelset.aio.debounce": "Debouncer Leading Trailing",
        "levelset.aio.streams": "Stream merge",
        "levelset.aio.supervisor": "Crash Crashed Restart Supervisor Unstopped Verdict",
    },
)
