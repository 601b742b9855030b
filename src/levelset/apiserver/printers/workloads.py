"""The cells of the table columns of Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs and CronJobs."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from levelset.apiserver.printers import cell_values
from levelset.apiserver.printers.cell_values import (
    at,
    containers,
    count,
    images,
    labels,
    listed,
    number,
    selector,
    text,
)
from levelset.apiserver.resources.served_resource import Object
from levelset.errors import BadTime
from levelset.objects import parse_time

__all__ = ["CRON_JOB", "DAEMON_SET", "DEPLOYMENT", "JOB", "POD_TEMPLATE", "REPLICA_SET", "STATEFUL_SET"]

Cell = Callable[[Object, datetime], Any]


def _number_at(*path: str) -> Cell:
    return lambda tree, _: number(tree, *path)


def _ready(tree: Object, _: datetime) -> str:
    return f"{number(tree, 'status', 'readyReplicas')}/{number(tree, 'spec', 'replicas')}"


_TEMPLATE: dict[str, Cell] = {
    "Containers": lambda tree, _: containers(at(tree, "spec", "template", "spec")),
    "Images": lambda tree, _: images(at(tree, "spec", "template", "spec")),
    "Selector": lambda tree, _: _selector(at(tree, "spec", "selector")),
}


def _selector(tree: Any) -> str:
    # The selector of a ReplicationController is a plain map of labels.
    plain = isinstance(tree, dict) and not {"matchLabels", "matchExpressions"} & tree.keys()
    return labels(tree) if plain else selector(tree)


POD_TEMPLATE: dict[str, Cell] = {
    "Containers": lambda tree, _: containers(at(tree, "template", "spec")),
    "Images": lambda tree, _: images(at(tree, "template", "spec")),
    "Pod Labels": lambda tree, _: labels(at(tree, "template", "metadata", "labels")),
}
DEPLOYMENT: dict[str, Cell] = {
    "Ready": _ready,
    "Up-to-date": _number_at("status", "updatedReplicas"),
    "Available": _number_at("status", "availableReplicas"),
    **_TEMPLATE,
}
REPLICA_SET: dict[str, Cell] = {
    "Desired": _number_at("spec", "replicas"),
    "Current": _number_at("status", "replicas"),
    "Ready": _number_at("status", "readyReplicas"),
    **_TEMPLATE,
}
STATEFUL_SET: dict[str, Cell] = {"Ready": _ready, **_TEMPLATE}
DAEMON_SET: dict[str, Cell] = {
    "Desired": _number_at("status", "desiredNumberScheduled"),
    "Current": _number_at("status", "currentNumberScheduled"),
    "Ready": _number_at("status", "numberReady"),
    "Up-to-date": _number_at("status", "updatedNumberScheduled"),
    "Available": _number_at("status", "numberAvailable"),
    "Node Selector": lambda tree, _: labels(at(tree, "spec", "template", "spec", "nodeSelector")),
    **_TEMPLATE,
}


def _has_condition(tree: Object, kind: str) -> bool:
    return any(
        text(one, "type") == kind and text(one, "status") == "True" for one in listed(tree, "status", "conditions")
    )


def _job_status(tree: Object, _: datetime) -> str:
    for condition, shown in (("Complete", "Complete"), ("Failed", "Failed")):
        if _has_condition(tree, condition):
            return shown
    if at(tree, "metadata", "deletionTimestamp"):
        return "Terminating"
    for condition, shown in (("Suspended", "Suspended"), ("FailureTarget", "FailureTarget")):
        if _has_condition(tree, condition):
            return shown
    return "SuccessCriteriaMet" if _has_condition(tree, "SuccessCriteriaMet") else "Running"


def _job_completions(tree: Object, _: datetime) -> str:
    done = number(tree, "status", "succeeded")
    wanted = at(tree, "spec", "completions")
    if isinstance(wanted, int):
        return f"{done}/{wanted}"
    parallel = number(tree, "spec", "parallelism")
    return f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"


def _job_duration(tree: Object, now: datetime) -> str:
    start = text(tree, "status", "startTime")
    if not start:
        return ""
    end = text(tree, "status", "completionTime")
    try:
        return cell_values.age(start, parse_time(end) if end else now)
    except BadTime:
        return "<invalid>"


JOB: dict[str, Cell] = {
    "Status": _job_status,
    "Completions": _job_completions,
    "Duration": _job_duration,
    **_TEMPLATE,
}


def _last_schedule(tree: Object, now: datetime) -> str:
    last = text(tree, "status", "lastScheduleTime")
    return cell_values.age(last, now) if last else "<none>"


def _job_spec(tree: Object) -> Any:
    return at(tree, "spec", "jobTemplate", "spec")


CRON_JOB: dict[str, Cell] = {
    "Schedule": lambda tree, _: text(tree, "spec", "schedule"),
    "Timezone": lambda tree, _: text(tree, "spec", "timeZone") or "<none>",
    "Suspend": lambda tree, _: str(bool(at(tree, "spec", "suspend"))),
    "Active": lambda tree, _: count(tree, "status", "active"),
    "Last Schedule": _last_schedule,
    "Containers": lambda tree, _: containers(at(_job_spec(tree), "template", "spec")),
    "Images": lambda tree, _: images(at(_job_spec(tree), "template", "spec")),
    "Selector": lambda tree, _: selector(at(_job_spec(tree), "selector")),
}
