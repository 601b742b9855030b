"""Kinds that a cluster runs and this machine does not: whoever makes one of them is told at once, and not left to wait.

The objects are stored as any others; kubectl shows the words as a warning.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from levelset import Object, Review, validates
from levelset.kinds.apps_v1 import DaemonSet, StatefulSet
from levelset.kinds.autoscaling_v2 import HorizontalPodAutoscaler
from levelset.kinds.batch_v1 import CronJob
from levelset.kinds.core_v1 import PersistentVolumeClaim, ReplicationController
from levelset.kinds.networking_v1 import Ingress, NetworkPolicy

__all__ = ["uncarried_hooks"]

_INSTEAD: Final[Mapping[type[Object], str]] = {
    CronJob: "`kubectl create job --from=cronjob/NAME` runs it once",
    DaemonSet: "with one node, a Deployment does the same",
    HorizontalPodAutoscaler: "`kubectl scale` changes the number of Pods",
    Ingress: "Services have addresses that this machine reaches",
    NetworkPolicy: "every Pod of this machine reaches every other",
    PersistentVolumeClaim: "a hostPath volume is a folder that stays",
    ReplicationController: "a Deployment does the same",
    StatefulSet: "a Deployment with a hostPath volume may do",
}


def uncarried_hooks() -> Sequence[Any]:
    """The webhooks that tell so."""
    return [validates(kind, _told(kind.__name__, words), on=("create",)) for kind, words in _INSTEAD.items()]


def _told(kind: str, words: str) -> Callable[[Any, Review[Any]], None]:
    def tell(_new: Any, review: Review[Any]) -> None:
        review.warn(f"{kind} is stored, but nobody carries it out on this machine; {words}")

    return tell
