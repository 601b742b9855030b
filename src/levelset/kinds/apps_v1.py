"""The kinds of apps/v1 and their parts; each module is loaded on first use.

Written by scripts/generate_kinds.py; change that, or its tables, and run `make kinds`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from levelset.kinds.apps_v1_deployments import (
        Deployment,
        DeploymentCondition,
        DeploymentSpec,
        DeploymentStatus,
        DeploymentStrategy,
        ReplicaSet,
        ReplicaSetCondition,
        ReplicaSetSpec,
        ReplicaSetStatus,
        RollingUpdateDeployment,
    )
    from levelset.kinds.apps_v1_sets import (
        ControllerRevision,
        DaemonSet,
        DaemonSetCondition,
        DaemonSetSpec,
        DaemonSetStatus,
        DaemonSetUpdateStrategy,
        RollingUpdateDaemonSet,
        RollingUpdateStatefulSetStrategy,
        StatefulSet,
        StatefulSetCondition,
        StatefulSetOrdinals,
        StatefulSetPersistentVolumeClaimRetentionPolicy,
        StatefulSetSpec,
        StatefulSetStatus,
        StatefulSetUpdateStrategy,
    )

__all__ = [
    "ControllerRevision",
    "DaemonSet",
    "DaemonSetCondition",
    "DaemonSetSpec",
    "DaemonSetStatus",
    "DaemonSetUpdateStrategy",
    "Deployment",
    "DeploymentCondition",
    "DeploymentSpec",
    "DeploymentStatus",
    "DeploymentStrategy",
    "ReplicaSet",
    "ReplicaSetCondition",
    "ReplicaSetSpec",
    "ReplicaSetStatus",
    "RollingUpdateDaemonSet",
    "RollingUpdateDeployment",
    "RollingUpdateStatefulSetStrategy",
    "StatefulSet",
    "StatefulSetCondition",
    "StatefulSetOrdinals",
    "StatefulSetPersistentVolumeClaimRetentionPolicy",
    "StatefulSetSpec",
    "StatefulSetStatus",
    "StatefulSetUpdateStrategy",
]

_PARTS: Final = {
    "levelset.kinds.apps_v1_deployments": (
        "Deployment DeploymentCondition DeploymentSpec DeploymentStatus DeploymentStrategy ReplicaSet "
        "ReplicaSetCondition ReplicaSetSpec ReplicaSetStatus RollingUpdateDeployment"
    ),
    "levelset.kinds.apps_v1_sets": (
        "ControllerRevision DaemonSet DaemonSetCondition DaemonSetSpec DaemonSetStatus DaemonSetUpdateStrategy "
        "RollingUpdateDaemonSet RollingUpdateStatefulSetStrategy StatefulSet StatefulSetCondition StatefulSetOrdinals "
        "StatefulSetPersistentVolumeClaimRetentionPolicy StatefulSetSpec StatefulSetStatus StatefulSetUpdateStrategy"
    ),
}
_LATE: Final = {name: part for part, names in _PARTS.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    part = _LATE.get(name)
    if part is None:
        raise AttributeError(f"module 'levelset.kinds.apps_v1' has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(part), name)
    return found


def __dir__() -> list[str]:
    return sorted(set(__all__) | set(globals()))
