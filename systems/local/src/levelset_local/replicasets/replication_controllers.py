"""ReplicationControllers as ReplicaSets: the older kind differs in the form of its selector only; pure."""

from msgspec.structs import asdict

from levelset.kinds.apps_v1 import ReplicaSet, ReplicaSetCondition, ReplicaSetSpec, ReplicaSetStatus
from levelset.kinds.core_v1 import (
    ReplicationController,
    ReplicationControllerCondition,
    ReplicationControllerStatus,
)
from levelset.kinds.meta_v1 import LabelSelector

__all__ = ["as_replica_set", "as_replication_status"]


def as_replica_set(owner: ReplicationController) -> ReplicaSet:
    """A ReplicaSet that wants the same Pods, with the metadata and the status of the ReplicationController."""
    spec, status = owner.spec, owner.status
    return ReplicaSet(
        metadata=owner.metadata,
        spec=ReplicaSetSpec(
            selector=LabelSelector(match_labels=spec.selector),
            template=spec.template,
            replicas=spec.replicas,
            min_ready_seconds=spec.min_ready_seconds,
        ),
        status=None
        if status is None
        else ReplicaSetStatus(
            replicas=status.replicas,
            conditions=tuple(ReplicaSetCondition(**asdict(one)) for one in status.conditions),
        ),
    )


def as_replication_status(status: ReplicaSetStatus) -> ReplicationControllerStatus:
    """The status of a ReplicationController that is planned as the ReplicaSet of this status."""
    return ReplicationControllerStatus(
        replicas=status.replicas,
        fully_labeled_replicas=status.fully_labeled_replicas,
        ready_replicas=status.ready_replicas,
        available_replicas=status.available_replicas,
        observed_generation=status.observed_generation,
        conditions=tuple(ReplicationControllerCondition(**asdict(one)) for one in status.conditions),
    )
