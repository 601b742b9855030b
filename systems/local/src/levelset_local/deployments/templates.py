"""A Deployment's template: the label that tells its Pods from those of other templates, and whether two are the same.

Whether a ReplicaSet has the template of its Deployment is decided by comparing the two. The hash only makes a name and
a label, so that it may change with levelset, and the Pods stay.
"""

import hashlib
import json
from typing import Final

from levelset import replace
from levelset.kinds.apps_v1 import Deployment, ReplicaSet, ReplicaSetSpec
from levelset.kinds.core_v1 import PodTemplateSpec
from levelset.kinds.meta_v1 import LabelSelector
from levelset.objects import to_tree

__all__ = ["HASH_LABEL", "has_template_of", "hash_template", "new_set"]

HASH_LABEL: Final = "pod-template-hash"
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"  # no vowels, and nothing that looks like something else
_LENGTH: Final = 10


def hash_template(template: PodTemplateSpec, collisions: int | None = None) -> str:
    """A word for a template, always the same for the same one; another one for each collision."""
    said = json.dumps(to_tree(template), sort_keys=True) + ("" if collisions is None else str(collisions))
    number = int.from_bytes(hashlib.sha256(said.encode()).digest()[:8])
    letters: list[str] = []
    for _ in range(_LENGTH):
        number, place = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[place])
    return "".join(letters)


def has_template_of(owned: ReplicaSet, owner: Deployment) -> bool:
    """Whether a ReplicaSet makes the Pods that the Deployment wants now."""
    return owned.spec.template is not None and _unmarked(owned.spec.template) == _unmarked(owner.spec.template)


def new_set(owner: Deployment, *, replicas: int) -> ReplicaSet:
    """The ReplicaSet for the template of a Deployment, not made yet."""
    template = owner.spec.template
    word = hash_template(template, owner.status.collision_count if owner.status else None)
    mark = {HASH_LABEL: word}
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
    return ReplicaSet.new(f"{owner.name}-{word}", spec, namespace=owner.namespace, labels=labels)


def _unmarked(template: PodTemplateSpec) -> PodTemplateSpec:
    labels = {key: value for key, value in template.metadata.labels.items() if key != HASH_LABEL}
    return replace(template, metadata=replace(template.metadata, labels=labels))
