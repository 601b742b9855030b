"""The revisions of a Deployment: numbers that ReplicaSets bear as annotations, as `kubectl rollout` shows; pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from levelset.kinds.apps_v1 import Deployment, ReplicaSet

__all__ = [
    "DESIRED",
    "HISTORY",
    "MOST",
    "REVISION",
    "annotations_of_new",
    "outdated",
    "revision_of",
    "size_annotations",
]

REVISION: Final = "deployment.kubernetes.io/revision"
HISTORY: Final = "deployment.kubernetes.io/revision-history"
DESIRED: Final = "deployment.kubernetes.io/desired-replicas"
MOST: Final = "deployment.kubernetes.io/max-replicas"
_OWN: Final = frozenset(
    {
        REVISION,
        HISTORY,
        DESIRED,
        MOST,
        "kubectl.kubernetes.io/last-applied-configuration",
        "deprecated.deployment.rollback.to",
    }
)
_LONGEST_HISTORY: Final = 2000


def revision_of(owned: ReplicaSet) -> int:
    """The revision that a ReplicaSet bears; 0 if it bears none, or nonsense."""
    text = owned.metadata.annotations.get(REVISION, "")
    return int(text) if text.isascii() and text.isdigit() else 0


def annotations_of_new(owner: Deployment, new: ReplicaSet, olds: Iterable[ReplicaSet]) -> dict[str, str]:
    """The annotations of the ReplicaSet that is rolled to: those of its Deployment, and the highest revision.

    One that is rolled back to gets a new number; those that it had before are its history.
    """
    found = {**new.metadata.annotations}
    found.update({key: value for key, value in owner.metadata.annotations.items() if key not in _OWN})
    before, number = revision_of(new), max(map(revision_of, olds), default=0) + 1
    if before >= number:
        return found
    found[REVISION] = str(number)
    if before:
        found[HISTORY] = _history(found.get(HISTORY, ""), before)
    return found


def size_annotations(desired: int, most: int) -> Mapping[str, str]:
    """What a ReplicaSet remembers of the Deployment's size, so that a change of it can be told from a roll."""
    return {DESIRED: str(desired), MOST: str(most)}


def outdated(owner: Deployment, olds: Sequence[ReplicaSet]) -> tuple[ReplicaSet, ...]:
    """The old ReplicaSets that are more than a Deployment wants to remember, and are empty."""
    limit = owner.spec.revision_history_limit
    living = [one for one in olds if one.metadata.deletion_timestamp is None]
    if limit is None or len(living) <= limit:
        return ()
    oldest = sorted(living, key=lambda one: (revision_of(one), one.name))[: len(living) - limit]
    return tuple(one for one in oldest if _is_empty(one))


def _is_empty(owned: ReplicaSet) -> bool:
    status = owned.status
    return (
        owned.spec.replicas == 0
        and status is not None
        and status.replicas == 0
        and not status.terminating_replicas
        and status.observed_generation >= owned.metadata.generation
    )


def _history(before: str, number: int) -> str:
    numbers = [*filter(None, before.split(",")), str(number)]
    while len(",".join(numbers)) > _LONGEST_HISTORY:
        numbers.pop(0)
    return ",".join(numbers)
