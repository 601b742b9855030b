"""The cells of the table columns of Pods, above all the STATUS column."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec

from levelset.apiserver.printers import cell_values
from levelset.apiserver.printers.cell_values import at, count, listed, number, text
from levelset.apiserver.resources.served_resource import Object

__all__ = ["POD"]

Cell = Callable[[Object, datetime], Any]


class _Summary(msgspec.Struct):
    reason: str
    ready: int = 0
    total: int = 0
    restarts: int = 0
    last_restart: str = ""

    def count_restarts(self, status: Any) -> None:
        self.restarts += number(status, "restartCount")
        # RFC 3339 strings in UTC sort chronologically.
        self.last_restart = max(self.last_restart, text(status, "lastState", "terminated", "finishedAt"))


def _summarise(tree: Object) -> _Summary:
    found = _Summary(text(tree, "status", "reason") or text(tree, "status", "phase"))
    if any(text(one, "reason") == "SchedulingGated" for one in listed(tree, "status", "conditions")):
        found.reason = "SchedulingGated"
    sidecars = _sidecars(tree)
    found.total = count(tree, "spec", "containers") + len(sidecars)
    if not _summarise_init_containers(tree, found, sidecars) or _has_condition(tree, "Initialized"):
        _summarise_containers(tree, found)
    return found


def _summarise_init_containers(tree: Object, found: _Summary, sidecars: set[str]) -> bool:
    """Whether the pod is still initialising; then the reason is set to `Init:...`."""
    for index, status in enumerate(listed(tree, "status", "initContainerStatuses")):
        found.count_restarts(status)
        is_sidecar = text(status, "name") in sidecars
        ended = at(status, "state", "terminated")
        if ended is not None and number(ended, "exitCode") == 0:
            continue
        if is_sidecar and at(status, "started") is True:
            found.ready += at(status, "ready") is True
            continue
        found.reason = f"Init:{_init_reason(status, index, count(tree, 'spec', 'initContainers'))}"
        return True
    return False


def _init_reason(status: Any, index: int, total: int) -> str:
    if at(status, "state", "terminated") is not None:
        return _end_reason(status)
    waiting = text(status, "state", "waiting", "reason")
    return waiting if waiting and waiting != "PodInitializing" else f"{index}/{total}"


def _summarise_containers(tree: Object, found: _Summary) -> None:
    is_any_running = False
    for status in reversed(listed(tree, "status", "containerStatuses")):
        found.count_restarts(status)
        if reason := text(status, "state", "waiting", "reason"):
            found.reason = reason
        elif at(status, "state", "terminated") is not None:
            found.reason = _end_reason(status)
        elif at(status, "ready") is True and at(status, "state", "running") is not None:
            is_any_running = True
            found.ready += 1
    if found.reason == "Completed" and is_any_running:
        found.reason = "Running" if _has_condition(tree, "Ready") else "NotReady"


def _end_reason(status: Any) -> str:
    ended = at(status, "state", "terminated")
    signal = number(ended, "signal")
    return text(ended, "reason") or (f"Signal:{signal}" if signal else f"ExitCode:{number(ended, 'exitCode')}")


def _has_condition(tree: Object, kind: str) -> bool:
    conditions = listed(tree, "status", "conditions")
    return any(text(one, "type") == kind and text(one, "status") == "True" for one in conditions)


def _sidecars(tree: Object) -> set[str]:
    every = listed(tree, "spec", "initContainers")
    return {text(one, "name") for one in every if text(one, "restartPolicy") == "Always"}


def _status(tree: Object, _: datetime) -> str:
    reason = _summarise(tree).reason
    if not at(tree, "metadata", "deletionTimestamp"):
        return reason
    if text(tree, "status", "reason") == "NodeLost":
        return "Unknown"
    return reason if text(tree, "status", "phase") in {"Succeeded", "Failed"} else "Terminating"


def _ready(tree: Object, _: datetime) -> str:
    found = _summarise(tree)
    return f"{found.ready}/{found.total}"


def _restarts(tree: Object, now: datetime) -> str:
    found = _summarise(tree)
    if found.restarts and found.last_restart:
        return f"{found.restarts} ({cell_values.age(found.last_restart, now)} ago)"
    return str(found.restarts)


def _gates(tree: Object, _: datetime) -> str:
    gates = listed(tree, "spec", "readinessGates")
    if not gates:
        return "<none>"
    return f"{sum(_has_condition(tree, text(one, 'conditionType')) for one in gates)}/{len(gates)}"


def _address(tree: Object, _: datetime) -> str:
    every = listed(tree, "status", "podIPs")
    return text(every[0], "ip") if every else text(tree, "status", "podIP") or "<none>"


POD: dict[str, Cell] = {
    "Ready": _ready,
    "Status": _status,
    "Restarts": _restarts,
    "IP": _address,
    "Node": lambda tree, _: text(tree, "spec", "nodeName") or "<none>",
    "Nominated Node": lambda tree, _: text(tree, "status", "nominatedNodeName") or "<none>",
    "Readiness Gates": _gates,
}
