"""The revisions of a Deployment: a ReplicaSet for each Pod template, its hash label and its revision number; pure.

Whether a ReplicaSet has the template of its Deployment is decided by comparing the templates. The hash is only part of
names and labels, so another version of levelset may compute it differently without replacing any Pod.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from levelset import replace
from levelset.kinds.apps_v1 import Deployment, ReplicaSet, ReplicaSetSpec
from levelset.kinds.core_v1 import PodTemplateSpec
from levelset.kinds.meta_v1 import LabelSelector
from levelset.objects import to_tree

__all__ = [
    "DESIRED_REPLICAS",
    "HASH_LABEL",
    "HISTORY",
    "MAX_REPLICAS",
    "REVISION",
    "hash_template",
    "matches_template",
    "new_replica_set",
    "new_revision_annotations",
    "revision_of",
    "revisions_to_prune",
    "size_annotations",
]

HASH_LABEL: Final = "pod-template-hash"
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"  # the safe alphabet of Kubernetes: no vowels, no ambiguous characters
_LENGTH: Final = 10
REVISION: Final = "deployment.kubernetes.io/revision"
HISTORY: Final = "deployment.kubernetes.io/revision-history"
DESIRED_REPLICAS: Final = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS: Final = "deployment.kubernetes.io/max-replicas"
_NOT_COPIED: Final = frozenset(
    {
        REVISION,
        HISTORY,
        DESIRED_REPLICAS,
        MAX_REPLICAS,
        "kubectl.kubernetes.io/last-applied-configuration",
        "deprecated.deployment.rollback.to",
    }
)
_LONGEST_HISTORY: Final = 2000


def hash_template(template: PodTemplateSpec, collisions: int | None = None) -> str:
    """The hash of a template as a label value; each collision count gives another one."""
    text = json.dumps(to_tree(template), sort_keys=True) + ("" if collisions is None else str(collisions))
    number = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
    letters: list[str] = []
    for _ in range(_LENGTH):
        number, place = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[place])
    return "".join(letters)


def matches_template(owned: ReplicaSet, owner: Deployment) -> bool:
    """Whether a ReplicaSet has the current template of the Deployment."""
    template = owned.spec.template
    return template is not None and _without_hash(template) == _without_hash(owner.spec.template)


def new_replica_set(owner: Deployment, *, replicas: int) -> ReplicaSet:
    """The ReplicaSet to create for the current template of a Deployment."""
    template = owner.spec.template
    template_hash = hash_template(template, owner.status.collision_count if owner.status else None)
    mark = {HASH_LABEL: template_hash}
    labels = {**template.metadata.labels, **mark}
    selector = owner.spec.selector
    spec = ReplicaSetSpec(
        replicas=replicas,
        min_ready_seconds=owner.spec.min_ready_seconds,
        selector=LabelSelector(
            match_labels={**selector.match_labels, **mark}, match_expressions=selector.match_expressions
        ),
        template=replace(template, metadata=replace(template.metadata, labels=labels)),
    )
    return ReplicaSet.new(f"{owner.name}-{template_hash}", spec, namespace=owner.namespace, labels=labels)


def _without_hash(template: PodTemplateSpec) -> PodTemplateSpec:
    labels = {key: value for key, value in template.metadata.labels.items() if key != HASH_LABEL}
    return replace(template, metadata=replace(template.metadata, labels=labels))


def revision_of(owned: ReplicaSet) -> int:
    """The revision number of a ReplicaSet; 0 if it has none, or an invalid one."""
    text = owned.metadata.annotations.get(REVISION, "")
    return int(text) if text.isascii() and text.isdigit() else 0


def new_revision_annotations(owner: Deployment, new: ReplicaSet, olds: Iterable[ReplicaSet]) -> dict[str, str]:
    """The annotations of the current ReplicaSet: those of its Deployment, and the highest revision number.

    After a rollback it gets a new number; the numbers that it had before are its revision history.
    """
    found = {**new.metadata.annotations}
    found.update({key: value for key, value in owner.metadata.annotations.items() if key not in _NOT_COPIED})
    before, number = revision_of(new), max(map(revision_of, olds), default=0) + 1
    if before >= number:
        return found
    found[REVISION] = str(number)
    if before:
        found[HISTORY] = _history(found.get(HISTORY, ""), before)
    return found


def size_annotations(desired: int, max_total: int) -> Mapping[str, str]:
    """The annotations with the Deployment's size, by which scaling is distinguished from a rollout."""
    return {DESIRED_REPLICAS: str(desired), MAX_REPLICAS: str(max_total)}


def revisions_to_prune(owner: Deployment, olds: Sequence[ReplicaSet]) -> tuple[ReplicaSet, ...]:
    """The empty ReplicaSets among the oldest, above the `revisionHistoryLimit` of a Deployment."""
    limit = owner.spec.revision_history_limit
    present = [one for one in olds if one.metadata.deletion_timestamp is None]
    if limit is None or len(present) <= limit:
        return ()
    oldest = sorted(present, key=lambda one: (revision_of(one), one.name))[: len(present) - limit]
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
