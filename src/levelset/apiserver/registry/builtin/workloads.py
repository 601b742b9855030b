"""Deployments and their kin: what they mean when they leave something out, and what must hold of them."""

from typing import Any

from levelset.apiserver.registry.builtin.pods import check_pod_spec, fill_pod_spec
from levelset.apiserver.resources.json_members import items, part
from levelset.apiserver.resources.served_resource import Object
from levelset.apiserver.schema import field_errors
from levelset.errors import BadSelector, Cause
from levelset.objects.label_selectors import LabelSelector

__all__ = [
    "check_job",
    "check_workload",
    "fill_cron_job",
    "fill_daemon_set",
    "fill_deployment",
    "fill_job",
    "fill_replica_set",
    "fill_replication_controller",
    "fill_stateful_set",
    "prepare_job",
]

QUARTER = {"maxUnavailable": "25%", "maxSurge": "25%"}
ROLLING = "RollingUpdate"


def fill_deployment(tree: Object) -> None:
    """Fills in the defaults of a Deployment."""
    spec = _with_template(tree)
    spec.setdefault("replicas", 1)
    _fill_strategy(spec, "strategy", QUARTER)
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)


def fill_replica_set(tree: Object) -> None:
    """Fills in the defaults of a ReplicaSet."""
    _with_template(tree).setdefault("replicas", 1)


def fill_replication_controller(tree: Object) -> None:
    """Fills in the defaults of a ReplicationController, which selects what its template makes."""
    spec = _with_template(tree)
    spec.setdefault("replicas", 1)
    labels = part(spec["template"], "metadata").get("labels")
    if labels and not spec.get("selector"):
        spec["selector"] = dict(labels)


def fill_stateful_set(tree: Object) -> None:
    """Fills in the defaults of a StatefulSet."""
    spec = _with_template(tree)
    spec.setdefault("replicas", 1)
    spec.setdefault("podManagementPolicy", "OrderedReady")
    spec.setdefault("revisionHistoryLimit", 10)
    _fill_strategy(spec, "updateStrategy", {"partition": 0})
    kept = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    kept.setdefault("whenDeleted", "Retain")
    kept.setdefault("whenScaled", "Retain")
    for claim in items(spec, "volumeClaimTemplates"):
        claim.setdefault("apiVersion", "v1")
        claim.setdefault("kind", "PersistentVolumeClaim")
        claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
        claim.setdefault("status", {}).setdefault("phase", "Pending")


def fill_daemon_set(tree: Object) -> None:
    """Fills in the defaults of a DaemonSet."""
    spec = _with_template(tree)
    _fill_strategy(spec, "updateStrategy", {"maxUnavailable": 1, "maxSurge": 0})
    spec.setdefault("revisionHistoryLimit", 10)


def fill_job(tree: Object) -> None:
    """Fills in the defaults of a Job."""
    _fill_job_spec(tree.setdefault("spec", {}))


def fill_cron_job(tree: Object) -> None:
    """Fills in the defaults of a CronJob; those of the jobs are filled in when they are made."""
    spec = tree.setdefault("spec", {})
    spec.setdefault("concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
    template = spec.setdefault("jobTemplate", {}).setdefault("spec", {}).setdefault("template", {})
    fill_pod_spec(template.setdefault("spec", {}))


def _fill_job_spec(spec: Object) -> None:
    if spec.get("parallelism") is None and spec.get("completions") is None:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("podReplacementPolicy", "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed")
    fill_pod_spec(spec.setdefault("template", {}).setdefault("spec", {}))


def prepare_job(tree: Object) -> None:
    """A new job selects the pods that bear its own uid, unless it brings a selector."""
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
    fill_pod_spec(spec.setdefault("template", {}).setdefault("spec", {}))
    return spec


def _fill_strategy(spec: Object, name: str, rolling: Object) -> None:
    strategy = spec.setdefault(name, {})
    strategy["type"] = strategy.get("type") or ROLLING
    if strategy["type"] == ROLLING:
        strategy["rollingUpdate"] = {**rolling, **part(strategy, "rollingUpdate")}


def check_workload(new: Object, old: Object | None) -> list[Cause]:
    """A workload selects its own template's pods, always the same ones, and its pods restart."""
    spec = part(new, "spec")
    causes = _check_selector(spec)
    if old is not None and spec.get("selector") != part(old, "spec").get("selector"):
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
    labels = part(part(spec["template"], "metadata"), "labels")
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
    """A job's pods do not restart for ever, and what it runs does not change."""
    spec = part(new, "spec")
    causes = check_pod_spec(spec["template"]["spec"], "spec.template.spec")
    policy = spec["template"]["spec"]["restartPolicy"]
    if policy == "Always":
        causes.append(field_errors.not_supported("spec.template.spec.restartPolicy", policy, ["OnFailure", "Never"]))
    former = part(old, "spec")
    if old is not None:
        names = [name for name in ("selector", "template", "completionMode") if spec.get(name) != former.get(name)]
        causes += [field_errors.invalid(f"spec.{name}", spec.get(name), "field is immutable") for name in names]
    return causes
