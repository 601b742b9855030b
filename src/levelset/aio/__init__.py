"""Time, tasks and streams: what every other room waits with; knows nothing of Kubernetes.

`timing` says what time it is, `Backoff` how long to wait before trying again. `Channel` passes items between tasks,
`Broadcast` passes them to many; `Stream` transforms and merges them; `Debouncer` makes one trigger of many.
`Supervisor` owns the tasks in which all that happens.
"""

from levelset.aio import timing
from levelset.aio.backoff import Backoff, Delays
from levelset.aio.broadcast import Broadcast, Lagged, Slow, Subscription
from levelset.aio.channel import Channel, Closed, WouldBlock
from levelset.aio.debounce import Debouncer, Leading, Trailing
from levelset.aio.streams import Stream, merge
from levelset.aio.supervisor import Crash, Crashed, Restart, Supervisor, Unstopped, Verdict

__all__ = [
    "Backoff",
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
