"""The labels that containers, networks and volumes of the engine get: whose they are, and who made them."""

from collections.abc import Mapping
from typing import Any, Final

from levelset import Resource
from levelset_dcp.naming import API, LABELS
from levelset_machine import Identity

__all__ = ["CREATOR", "CREATOR_STARTED", "KEY", "PERSISTENT", "UID", "creator_of", "labels_of", "uid_of"]

UID: Final = f"{LABELS}uid"
KEY: Final = f"{LABELS}lifecycle-key"
PERSISTENT: Final = f"{LABELS}persistent"
CREATOR: Final = f"{LABELS}creatorProcessId"
CREATOR_STARTED: Final = f"{LABELS}creatorProcessStartTime"

_BUILD: Final = f"{LABELS}build"
_VERSION: Final = f"{LABELS}group-version"
_NAME: Final = f"{LABELS}name"


def labels_of(owner: Resource[Any, Any], creator: Identity, *, lasts: bool, key: str = "") -> dict[str, str]:
    """The labels of what is made for an object; what `lasts` is not removed when its creator is dead."""
    found = {
        _BUILD: "levelset",
        _VERSION: API,
        _NAME: owner.name,
        UID: owner.metadata.uid,
        PERSISTENT: "true" if lasts else "false",
        CREATOR: str(creator.pid),
        CREATOR_STARTED: str(creator.started),
    }
    return {**found, KEY: key} if key else found


def uid_of(labels: Mapping[str, str]) -> str:
    """The object that something was made for; empty if it was made by others."""
    return labels.get(UID, "")


def creator_of(labels: Mapping[str, str]) -> Identity | None:
    """Who made something for its session; None if it was made by others, or is to last."""
    pid, started = labels.get(CREATOR, ""), labels.get(CREATOR_STARTED, "")
    if labels.get(PERSISTENT) != "false" or not (pid.isdecimal() and started.isdecimal()):
        return None
    return Identity(int(pid), int(started))
