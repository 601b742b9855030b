"""A request to reconcile an object, and its reasons, which the reconciler, logs, metrics and history show."""

from typing import Any, Final, Generic, TypeVar

import msgspec

from levelset.objects.ref import Ref
from levelset.runtime.queue import NORMAL

__all__ = ["BULK", "CHANGED", "FIRST", "MOVED", "OUTSIDE", "REMEMBERED", "REQUEUED", "RETRIED", "Reason", "Request"]

K_co = TypeVar("K_co", covariant=True)

_WORDS: Final = {
    "changed": "it has changed",
    "first": "it was there at the start",
    "requeued": "the reconciler requeued it",
    "retried": "the last reconcile failed",
    "bulk": "all objects are reconciled",
    "outside": "it was enqueued from outside",
    "remembered": "its state map entry has changed",
    "moved": "it belonged to another member",
}


class Reason(msgspec.Struct, frozen=True, gc=False):
    """Why an object is reconciled, and because of which other object, if there is one.

    The built-in kinds: `changed` (the object itself), `first` (it was there at the start), `related` (another object
    has changed), `requeued` (the reconciler returned `requeue`), `retried` (the last reconcile failed), `bulk` (all
    objects at once), `outside` (a source, or `enqueue`), `remembered` (a deferred change in a StateMap), `moved` (it
    belonged to another member of the shards). Any other text is user defined and shown as it is.
    """

    kind: str
    about: Ref[Any] | None = None

    def __str__(self) -> str:
        if self.kind == "related":
            return "another object has changed" if self.about is None else f"{self.about} has changed"
        words = _WORDS.get(self.kind, self.kind)
        return words if self.about is None else f"{words} ({self.about})"


CHANGED: Final = Reason("changed")
FIRST: Final = Reason("first")
REQUEUED: Final = Reason("requeued")
RETRIED: Final = Reason("retried")
BULK: Final = Reason("bulk")
OUTSIDE: Final = Reason("outside")
REMEMBERED: Final = Reason("remembered")
MOVED: Final = Reason("moved")


class Request(msgspec.Struct, Generic[K_co], frozen=True, gc=False):
    """Which object to reconcile, and why.

    `attempt` is the number of failures in a row before this reconcile: 0 is a first try. A source that yields requests
    instead of refs chooses reasons and priority itself; `attempt` is always set by the controller.
    """

    ref: Ref[K_co]
    reasons: tuple[Reason, ...] = ()
    priority: int = NORMAL
    attempt: int = 0

    def __str__(self) -> str:
        return f"{self.ref}: {'; '.join(map(str, self.reasons)) or 'no reason'}"
