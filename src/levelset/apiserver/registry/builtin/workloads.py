"""Workloads (Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, CronJob): defaults and validation."""

from typing import Any

from levelset.apiserver.registry.builtin.pods import check_pod_spec, set_pod_spec_defaults
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.served_resource import Object
from levelset.apiserver.schema import field_errors
from levelset.errors import BadSelector, Cause
from levelset.objects.label_selectors import LabelSelector

__all__ = [
    "check_job",
    "check_workload",
    "prepare_job_create",
    "set_cron_job_defaults",
    "set_daemon_set_defaults",
    "set_deployment_defaults",
    "set_job_defaults",
    "set_replica_set_defaults",
    "set_replication_controller_defaults",
    "set_stateful_set_defaults",
]

DEPLOYMENT_ROLLING_UPDATE = {"maxUnavailable": "25%", "maxSurge": "25%"}
ROLLING_UPDATE = "RollingUpdate"


def set_deployment_defaults(tree: Object) -> None:
    """Sets the defaults of a Deployment."""
    spec = _with_template(tree)
    spec.setdefault("replicas", 1)
    _set_strategy_defaults(spec, "strategy", DEPLOYMENT_ROLLING_UPDATE)
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)


def set_replica_set_defaults(tree: Object) -> None:
    """Sets the defaults of a ReplicaSet."""
    _with_template(tree).setdefault("replicas", 1)


def set_replication_controller_defaults(tree: Object) -> None:
    """Sets the defaults of a ReplicationController, whose selector defaults to the labels of its template."""
    spec = _with_template(tree)
    spec.setdefault("replicas", 1)
    labels = map_member(spec["template"], "metadata").get("labels")
    if labels and not spec.get("selector"):
        spec["selector"] = dict(labels)


def set_stateful_set_defaults(tree: Object) -> None:
    """Sets the defaults of a StatefulSet."""
    spec = _with_template(tree)
    spec.setdefault("replicas", 1)
    spec.setdefault("podManagementPolicy", "OrderedReady")
    spec.setdefault("revisionHistoryLimit", 10)
    _set_strategy_defaults(spec, "updateStrategy", {"partition": 0})
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    retention.setdefault("whenDeleted", "Retain")
    retention.setdefault("whenScaled", "Retain")
    for claim in list_member(spec, "volumeClaimTemplates"):
        claim.setdefault("apiVersion", "v1")
        claim.setdefault("kind", "PersistentVolumeClaim")
        claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
        claim.setdefault("status", {}).setdefault("phase", "Pending")


def set_daemon_set_defaults(tree: Object) -> None:
    """Sets the defaults of a DaemonSet."""
    spec = _with_template(tree)
    _set_strategy_defaults(spec, "updateStrategy", {"maxUnavailable": 1, "maxSurge": 0})
    spec.setdefault("revisionHistoryLimit", 10)


def set_job_defaults(tree: Object) -> None:
    """Sets the defaults of a Job."""
    _set_job_spec_defaults(tree.setdefault("spec", {}))


def set_cron_job_defaults(tree: Object) -> None:
    """Sets the defaults of a CronJob; the defaults of its Jobs are set when they are created."""
    spec = tree.setdefault("spec", {})
    spec.setdefault("concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
    template = spec.setdefault("jobTemplate", {}).setdefault("spec", {}).setdefault("template", {})
    set_pod_spec_defaults(template.setdefault("spec", {}))


def _set_job_spec_defaults(spec: Object) -> None:
    if spec.get("parallelism") is None and spec.get("completions") is None:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("podReplacementPolicy", "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed")
    set_pod_spec_defaults(spec.setdefault("template", {}).setdefault("spec", {}))


def prepare_job_create(tree: Object) -> None:
    """Sets the selector and pod labels of a new Job from its uid, unless it has a manual selector."""
    spec, uid = tree["spec"], tree["metadata"].get("uid")
    if spec.get("manualSelector") or not uid:
        return
    labels = spec["template"].setdefault("metadata", {}).setdefault("labels", {})
    for key in ("batch.kubernetes.io/controller-uid", "controller-uid"):
        labels.setdefault(key, uid)
    for key in ("batch.kubernetes.io/job-name", "job-name"):
        labels.setdefault(key, tree["metadata"].get("name", ""))
    spec.setdefault("selector", {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}})


def _with_template(tree: Object) -> Object:
    spec: Object = tree.setdefault("spec", {})
    set_pod_spec_defaults(spec.setdefault("template", {}).setdefault("spec", {}))
    return spec


def _set_strategy_defaults(spec: Object, name: str, rolling: Object) -> None:
    strategy = spec.setdefault(name, {})
    strategy["type"] = strategy.get("type") or ROLLING_UPDATE
    if strategy["type"] == ROLLING_UPDATE:
        strategy["rollingUpdate"] = {**rolling, **map_member(strategy, "rollingUpdate")}


def check_workload(new: Object, old: Object | None) -> list[Cause]:
    """Validates a workload: its selector is immutable and matches its template, and its pods restart."""
    spec = map_member(new, "spec")
    causes = _check_selector(spec)
    if old is not None and spec.get("selector") != map_member(old, "spec").get("selector"):
        causes.append(field_errors.invalid("spec.selector", spec.get("selector"), "field is immutable"))
    if (spec.get("replicas") or 0) < 0:
        causes.append(field_errors.invalid("spec.replicas", spec["replicas"], "must be greater than or equal to 0"))
    pod = spec["template"]["spec"]
    causes += check_pod_spec(pod, "spec.template.spec")
    if pod["restartPolicy"] != "Always":
        causes.append(field_errors.not_supported("spec.template.spec.restartPolicy", pod["restartPolicy"], ["Always"]))
    return causes


def _check_selector(spec: Object) -> list[Cause]:
    selector = spec.get("selector")
    if not selector:
        return [field_errors.required("spec.selector")]
    labels = map_member(map_member(spec["template"], "metadata"), "labels")
    if _selects(selector, labels):
        return []
    return [
        field_errors.invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
    ]


def _selects(selector: Any, labels: dict[str, str]) -> bool:
    try:
        return LabelSelector.from_tree(selector).matches(labels)
    except BadSelector:
        return False


def check_job(new: Object, old: Object | None) -> list[Cause]:
    """Validates a Job: its pods do not always restart, and its template is immutable."""
    spec = map_member(new, "spec")
    causes = check_pod_spec(spec["template"]["spec"], "spec.template.spec")
    policy = spec["template"]["spec"]["restartPolicy"]
    if policy == "Always":
        causes.append(field_errors.not_supported("spec.template.spec.restartPolicy", policy, ["OnFailure", "Never"]))
    former = map_member(old, "spec")
    if old is not None:
        names = [name for name in ("selector", "template", "completionMode") if spec.get(name) != former.get(name)]
        causes += [field_errors.invalid(f"spec.{name}", spec.get(name), "field is immutable") for name in names]
    return causes
