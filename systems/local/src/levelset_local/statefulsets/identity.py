"""The identity of a StatefulSet's Pods: their ordinals and names, and the claims that each of them has; pure.

A claim outlives its Pod. Which owner it has, and so with what it is deleted, follows from the retention policy.
"""

import re
from collections.abc import Iterable
from typing import Final

from levelset import ObjectMeta, replace
from levelset.kinds.apps_v1 import StatefulSet
from levelset.kinds.core_v1 import (
    PersistentVolumeClaim,
    PersistentVolumeClaimVolumeSource,
    Pod,
    PodTemplateSpec,
    Volume,
)
from levelset.objects import OwnerReference, owner_reference
from levelset_local.controller_revisions import POD_REVISION
from levelset_local.pod_state import pod_from_template

__all__ = [
    "INDEX_LABEL",
    "NAME_LABEL",
    "claims_of",
    "has_identity",
    "has_stale_owner",
    "is_member",
    "new_pod",
    "ordinal_of",
    "ordinals",
    "with_identity",
    "with_retention",
]

NAME_LABEL: Final = "statefulset.kubernetes.io/pod-name"
INDEX_LABEL: Final = "apps.kubernetes.io/pod-index"
_NAME: Final = re.compile(r"(.*)-(0|[1-9][0-9]{0,8})")


def ordinals(owner: StatefulSet) -> range:
    """The ordinals that a StatefulSet should have."""
    start = 0 if owner.spec.ordinals is None else owner.spec.ordinals.start or 0
    return range(start, start + (1 if owner.spec.replicas is None else owner.spec.replicas))


def ordinal_of(pod: Pod) -> int:
    """The ordinal of a member of a StatefulSet."""
    found = _NAME.fullmatch(pod.name)
    assert found is not None, "not a member of a StatefulSet"
    return int(found[2])


def is_member(owner: StatefulSet, pod: Pod) -> bool:
    """Whether a Pod has the name of a member of a StatefulSet."""
    found = _NAME.fullmatch(pod.name)
    return found is not None and found[1] == owner.name


def new_pod(owner: StatefulSet, ordinal: int, template: PodTemplateSpec, revision: str) -> Pod:
    """The Pod to create for an ordinal, with the volumes of its claims."""
    draft = pod_from_template(template, generate_name=f"{owner.name}-", namespace=owner.namespace)
    made = with_identity(draft.with_metadata(name=f"{owner.name}-{ordinal}"))
    labels = {**made.metadata.labels, POD_REVISION: revision}
    own = {template_claim: claim.name for template_claim, claim in _named_claims(owner, ordinal)}
    volumes = (
        *(
            Volume(name=name, persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name=claim))
            for name, claim in own.items()
        ),
        *(one for one in template.spec.volumes if one.name not in own),
    )
    spec = replace(template.spec, hostname=made.name, subdomain=owner.spec.service_name, volumes=volumes)
    return replace(made.with_metadata(labels=labels), spec=spec)


def has_identity(pod: Pod) -> bool:
    """Whether a Pod has the label with its name."""
    return pod.metadata.labels.get(NAME_LABEL) == pod.name


def with_identity(pod: Pod) -> Pod:
    """The Pod with the labels of its name and ordinal."""
    labels = {**pod.metadata.labels, NAME_LABEL: pod.name, INDEX_LABEL: str(ordinal_of(pod))}
    return pod.with_metadata(labels=labels)


def claims_of(owner: StatefulSet, ordinal: int) -> Iterable[PersistentVolumeClaim]:
    """The claims that the Pod of an ordinal has, as they are created."""
    return (claim for _, claim in _named_claims(owner, ordinal))


def _named_claims(owner: StatefulSet, ordinal: int) -> Iterable[tuple[str, PersistentVolumeClaim]]:
    for template in owner.spec.volume_claim_templates:
        metadata = ObjectMeta(
            name=f"{template.name}-{owner.name}-{ordinal}",
            namespace=owner.namespace,
            labels={**template.metadata.labels, **owner.spec.selector.match_labels},
            annotations=dict(template.metadata.annotations),
        )
        yield template.name, PersistentVolumeClaim(metadata=metadata, spec=template.spec)


def has_stale_owner(claim: PersistentVolumeClaim, pod_name: str) -> bool:
    """Whether a claim belongs to an earlier Pod of this name: it is deleted with that Pod, so it cannot be used."""
    return any(one.kind == "Pod" and one.name == pod_name for one in claim.metadata.owner_references)


def with_retention(claim: PersistentVolumeClaim, owner: StatefulSet, pod: Pod) -> PersistentVolumeClaim:
    """The claim with the owner that the retention policy gives it; unchanged if it has a controller of another kind.

    A claim is deleted with its StatefulSet by `whenDeleted`, and with a Pod that is scaled down by `whenScaled`.
    """
    refs = claim.metadata.owner_references
    others = tuple(one for one in refs if not _is_of(one, owner) and not _is_of(one, pod))
    is_stale = any((_is_of(one, owner) or _is_of(one, pod)) and not _is_current(one, owner, pod) for one in refs)
    if is_stale or any(one.controller for one in others):
        return claim
    controller = _retaining_controller(owner, pod)
    own = () if controller is None else (owner_reference(controller, controller=True, block_owner_deletion=True),)
    return claim if (*others, *own) == refs else claim.with_metadata(owner_references=(*others, *own))


def _retaining_controller(owner: StatefulSet, pod: Pod) -> StatefulSet | Pod | None:
    policy = owner.spec.persistent_volume_claim_retention_policy
    if policy is None:
        return None
    if policy.when_scaled == "Delete" and ordinal_of(pod) not in ordinals(owner):
        return pod
    return owner if policy.when_deleted == "Delete" else None


def _is_of(ref: OwnerReference, obj: StatefulSet | Pod) -> bool:
    return (ref.api_version, ref.kind, ref.name) == (obj.api_version, obj.kind, obj.name)


def _is_current(ref: OwnerReference, *objects: StatefulSet | Pod) -> bool:
    return any(ref.uid == one.metadata.uid for one in objects)
