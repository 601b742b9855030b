"""Reads the events that Docker and Podman print, one JSON object on each line, into one set of words."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from levelset_dcp.engines.models import EngineEvent
from levelset_dcp.engines.parsing import as_mapping, as_text, as_time

__all__ = ["parse_event"]

_PODMAN_ACTIONS: Final = {"died": "die", "remove": "destroy", "exec_died": "exec_die"}


def parse_event(line: bytes | str) -> EngineEvent | None:
    """What a line tells; None if it is about something else than a container or a network, or cannot be read."""
    try:
        tree = as_mapping(json.loads(line))
    except (ValueError, RecursionError):
        return None
    kind = as_text(tree.get("Type"))
    if kind not in ("container", "network"):
        return None
    return _docker(tree, kind) if "Actor" in tree else _podman(tree, kind)


def _docker(tree: Mapping[str, Any], kind: str) -> EngineEvent:
    actor = as_mapping(tree.get("Actor"))
    key, attributes = as_text(actor.get("ID")), _attributes(actor.get("Attributes"))
    action, _, more = as_text(tree.get("Action")).partition(": ")
    if action == "health_status":
        attributes["health"] = more
    code = attributes.get("exitCode", "")
    return EngineEvent(
        kind="container" if kind == "container" else "network",
        action=action,
        id=key,
        name=attributes.get("name", ""),
        container=key if kind == "container" else attributes.get("container", ""),
        exit_code=int(code) if action == "die" and code.isdecimal() else None,
        attributes=attributes,
        at=_docker_time(tree),
    )


def _podman(tree: Mapping[str, Any], kind: str) -> EngineEvent:
    status, key = as_text(tree.get("Status")), as_text(tree.get("ID"))
    action = _PODMAN_ACTIONS.get(status, status)
    attributes = _attributes(tree.get("Attributes"))
    at = as_time(tree.get("Time"))
    if health := as_text(tree.get("health_status")) or as_text(tree.get("HealthStatus")):
        attributes["health"] = health
    if kind == "network":
        # Its ID is that of the container: what the network is called is all there is to know about that.
        name = as_text(tree.get("network")) or as_text(tree.get("Network"))
        return EngineEvent(kind="network", action=action, name=name, container=key, attributes=attributes, at=at)
    code = tree.get("ContainerExitCode", 0)  # left out if it is 0
    return EngineEvent(
        kind="container",
        action=action,
        id=key,
        name=as_text(tree.get("Name")),
        container=key,
        exit_code=code if action == "die" and isinstance(code, int) else None,
        attributes=attributes,
        at=at,
    )


def _attributes(value: Any) -> dict[str, str]:
    return {key: as_text(one) for key, one in as_mapping(value).items()}


def _docker_time(tree: Mapping[str, Any]) -> datetime | None:
    nanoseconds = tree.get("timeNano")
    if not isinstance(nanoseconds, int):
        return None
    try:
        return datetime.fromtimestamp(nanoseconds // 1000 / 1e6, UTC)
    except (OverflowError, OSError, ValueError):
        return None
