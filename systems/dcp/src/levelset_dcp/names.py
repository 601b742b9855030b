"""Names that others rely on: the API group, finalizers, annotations and the labels of engine objects."""

from collections.abc import Mapping
from typing import Any, Final

from levelset import Resource
from levelset_machine import Identity

__all__ = [
    "API",
    "CREATOR",
    "CREATOR_STARTED",
    "DISPLAY_NAME",
    "GROUP",
    "KEY",
    "LABELS",
    "PERSISTENT",
    "REPLICA_ID",
    "REPLICA_SET_NAME",
    "REPLICA_STATE",
    "SERVICE_PRODUCER",
    "UID",
    "creator_of",
    "finalizer",
    "labels_of",
    "uid_of",
]

GROUP: Final = "usvc-dev.developer.microsoft.com"
API: Final = f"{GROUP}/v1"
SERVICE_PRODUCER: Final = "service-producer"
"""The annotation with the Services that a workload produces, as JSON."""
REPLICA_STATE: Final = f"executable-replica-set.{GROUP}/replica-state"
DISPLAY_NAME: Final = f"executable-replica-set.{GROUP}/display-name"
REPLICA_ID: Final = f"executable-replica-set.{GROUP}/replica-id"
REPLICA_SET_NAME: Final = f"executable-replica-set.{GROUP}/replica-set-name"
LABELS: Final = "com.microsoft.developer.usvc-dev."
"""The prefix of the labels of containers, networks and volumes in the engine."""
UID: Final = f"{LABELS}uid"
KEY: Final = f"{LABELS}lifecycle-key"
PERSISTENT: Final = f"{LABELS}persistent"
CREATOR: Final = f"{LABELS}creatorProcessId"
CREATOR_STARTED: Final = f"{LABELS}creatorProcessStartTime"
_BUILD: Final = f"{LABELS}build"
_VERSION: Final = f"{LABELS}group-version"
_NAME: Final = f"{LABELS}name"


def finalizer(word: str) -> str:
    """The finalizer of a controller, such as `executable-reconciler`."""
    return f"{GROUP}/{word}"


def labels_of(owner: Resource[Any, Any], creator: Identity, *, is_persistent: bool, key: str = "") -> dict[str, str]:
    """The labels of an engine object; one with `is_persistent` is no orphan when its creator is dead."""
    found = {
        _BUILD: "levelset",
        _VERSION: API,
        _NAME: owner.name,
        UID: owner.metadata.uid,
        PERSISTENT: "true" if is_persistent else "false",
        CREATOR: str(creator.pid),
        CREATOR_STARTED: str(creator.started),
    }
    return {**found, KEY: key} if key else found


def uid_of(labels: Mapping[str, str]) -> str:
    """The UID of the object that an engine object belongs to; empty if it is foreign."""
    return labels.get(UID, "")


def creator_of(labels: Mapping[str, str]) -> Identity | None:
    """The process that created an engine object for its session; None if it is foreign or persistent."""
    pid, started = labels.get(CREATOR, ""), labels.get(CREATOR_STARTED, "")
    if labels.get(PERSISTENT) != "false" or not (pid.isdecimal() and started.isdecimal()):
        return None
    return Identity(int(pid), int(started))
