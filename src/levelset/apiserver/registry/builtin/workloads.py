"""Workloads (Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, CronJob): defaults."""

from levelset.apiserver.registry.builtin.normal_forms import set_canonical_list
from levelset.apiserver.registry.builtin.pods import set_pod_spec_defaults
from levelset.apiserver.registry.builtin.volumes import set_source_groups
from levelset.apiserver.registry.builtin.written_members import equal
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.served_resource import Object
from levelset.apiserver.schema.formats import INT64
from levelset.objects.names import is_label_value

__all__ = [
    "TEMPLATE_GENERATION",
    "has_labels_of_template",
    "prepare_daemon_set_create",
    "prepare_daemon_set_part",
    "prepare_daemon_set_update",
    "prepare_job_create",
    "preserve_template_generation",
    "read_labels_of_template",
    "set_cron_job_defaults",
    "set_daemon_set_defaults",
    "set_deployment_defaults",
    "set_job_defaults",
    "set_labels_of_template",
    "set_replica_set_defaults",
    "set_replication_controller_defaults",
    "set_stateful_set_defaults",
]

DEPLOYMENT_ROLLING_UPDATE = {"maxUnavailable": "25%", "maxSurge": "25%"}
ROLLING_UPDATE = "RollingUpdate"
_PREFIXES = ("", "batch.kubernetes.io/")
_GENERATED_LABELS = frozenset(prefix + name for prefix in _PREFIXES for name in ("controller-uid", "job-name"))


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
    """Sets the defaults of a ReplicationController, whose selector and labels default to those of its template."""
    spec: Object = tree.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    if spec.get("template") is None:
        return
    set_pod_spec_defaults(spec["template"].setdefault("spec", {}))
    labels = map_member(spec["template"], "metadata").get("labels")
    if labels and not spec.get("selector"):
        spec["selector"] = dict(labels)
    if labels and not tree["metadata"].get("labels"):
        tree["metadata"]["labels"] = dict(labels)


def set_stateful_set_defaults(tree: Object) -> None:
    """Sets the defaults of a StatefulSet."""
    spec = _with_template(tree)
    spec.setdefault("replicas", 1)
    spec["podManagementPolicy"] = spec.get("podManagementPolicy") or "OrderedReady"
    spec.setdefault("revisionHistoryLimit", 10)
    strategy = map_member(spec, "updateStrategy")
    if not strategy.get("type") or strategy.get("rollingUpdate") is not None:
        _set_strategy_defaults(spec, "updateStrategy", {"partition": 0})
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    for name in ("whenDeleted", "whenScaled"):
        retention[name] = retention.get(name) or "Retain"
    if spec.get("ordinals") is not None:
        spec["ordinals"].setdefault("start", 0)
    for claim in list_member(spec, "volumeClaimTemplates"):
        claim["apiVersion"], claim["kind"] = "v1", "PersistentVolumeClaim"
        claim_spec = claim.setdefault("spec", {})
        claim_spec.setdefault("volumeMode", "Filesystem")
        resources = claim_spec.setdefault("resources", {})
        set_canonical_list(resources.get("requests"))
        set_canonical_list(resources.get("limits"))
        set_source_groups(claim_spec)
        status = claim.setdefault("status", {})
        status.setdefault("phase", "Pending")
        for name in ("capacity", "allocatedResources"):
            set_canonical_list(status.get(name))


def set_daemon_set_defaults(tree: Object) -> None:
    """Sets the defaults of a DaemonSet.

    The annotation that counts the changes of its template belongs to the writer of the object, though the server sets
    its value.
    """
    tree["metadata"].setdefault("annotations", {}).setdefault(TEMPLATE_GENERATION, "0")
    spec = _with_template(tree)
    _set_strategy_defaults(spec, "updateStrategy", {"maxUnavailable": 1, "maxSurge": 0})
    rolling = spec["updateStrategy"].get("rollingUpdate")
    if rolling is not None and spec["updateStrategy"]["type"] != ROLLING_UPDATE:  # no pointers, as Go converts it
        spec["updateStrategy"]["rollingUpdate"] = {"maxUnavailable": 0, "maxSurge": 0, **rolling}
    spec.setdefault("revisionHistoryLimit", 10)


def set_job_defaults(tree: Object) -> None:
    """Sets the defaults of a Job."""
    spec = tree.setdefault("spec", {})
    _set_job_spec_defaults(spec)
    labels, metadata = map_member(spec["template"], "metadata").get("labels"), tree["metadata"]
    if labels and not metadata.get("labels"):
        metadata["labels"] = labels  # the same map, as upstream: what the server adds to one is in both


def has_labels_of_template(job: Object) -> bool:
    """Whether a Job has the labels that the server gives its template, as one that came without any.

    Upstream, these are set when it is read, and so are not in what a create stores.
    """
    template = map_member(map_member(job, "spec"), "template")
    labels: Object = map_member(template, "metadata").get("labels") or {}
    return job["metadata"].get("labels") == labels and _GENERATED_LABELS.issuperset(labels)


def set_cron_job_defaults(tree: Object) -> None:
    """Sets the defaults of a CronJob; the defaults of its Jobs are set when they are created."""
    spec = tree.setdefault("spec", {})
    spec["concurrencyPolicy"] = spec.get("concurrencyPolicy") or "Allow"
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
    job = spec.setdefault("jobTemplate", {}).setdefault("spec", {})
    _set_failure_policy_defaults(job)
    template = job.setdefault("template", {})
    set_pod_spec_defaults(template.setdefault("spec", {}))


def _set_job_spec_defaults(spec: Object) -> None:
    if spec.get("parallelism") is None and spec.get("completions") is None:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6 if spec.get("backoffLimitPerIndex") is None else 2**31 - 1)
    spec.setdefault("manualSelector", False)
    _set_failure_policy_defaults(spec)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("podReplacementPolicy", "TerminatingOrFailed" if spec.get("podFailurePolicy") is None else "Failed")
    set_pod_spec_defaults(spec.setdefault("template", {}).setdefault("spec", {}))


def _set_failure_policy_defaults(spec: Object) -> None:
    for rule in list_member(spec.get("podFailurePolicy"), "rules"):
        for pattern in list_member(rule, "onPodConditions"):
            pattern["status"] = pattern.get("status") or "True"


def prepare_job_create(tree: Object) -> None:
    """Sets the selector and pod labels of a new Job from its uid, unless it has a manual selector; and its labels."""
    spec, metadata = tree["spec"], tree["metadata"]
    uid, template = metadata.get("uid"), spec["template"].setdefault("metadata", {})
    is_shared = not metadata.get("labels") or metadata["labels"] is template.get("labels")
    # Upstream shares a map that is there: without one, it sets the labels of the Job after they have been checked.
    is_checked = template.get("labels") is not None or is_label_value(metadata.get("name", ""))
    if not spec.get("manualSelector") and uid:
        labels = template["labels"] = dict(map_member(template, "labels"))
        for key in ("batch.kubernetes.io/controller-uid", "controller-uid"):
            labels.setdefault(key, uid)
        for key in ("batch.kubernetes.io/job-name", "job-name"):
            labels.setdefault(key, metadata.get("name", ""))
        selector = spec["selector"] = dict(map_member(spec, "selector"))
        chosen = selector["matchLabels"] = dict(map_member(selector, "matchLabels"))
        chosen.setdefault("batch.kubernetes.io/controller-uid", uid)
    if is_shared and template.get("labels") and is_checked:
        metadata["labels"] = dict(template["labels"])


TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


def prepare_daemon_set_create(tree: Object) -> None:
    """Sets the annotation that counts the changes of the template; a count that is given goes on."""
    annotations = tree["metadata"].setdefault("annotations", {})
    given = annotations.get(TEMPLATE_GENERATION, "")
    is_count = given.isascii() and given.isdigit() and 1 <= int(given) <= INT64[1]
    annotations[TEMPLATE_GENERATION] = str(int(given)) if is_count else "1"


def prepare_daemon_set_update(new: Object, old: Object) -> None:
    """Counts the changes of the template; a client cannot."""
    former = map_member(old["metadata"], "annotations").get(TEMPLATE_GENERATION, "1")
    changed = not equal(map_member(new, "spec").get("template"), map_member(old, "spec").get("template"))
    count = int(former) + changed if former.isdigit() else 1
    annotations = dict(map_member(new["metadata"], "annotations"))
    new["metadata"]["annotations"] = {**annotations, TEMPLATE_GENERATION: str(count)}


def prepare_daemon_set_part(new: Object, _old: Object, _subresource: str, _now: str) -> None:
    """Sets the default of the annotation that counts the changes of the template."""
    new["metadata"]["annotations"] = {TEMPLATE_GENERATION: "0", **map_member(new["metadata"], "annotations")}


def preserve_template_generation(new: Object, old: Object) -> None:
    """Puts back the annotation that counts the changes of the template."""
    former = map_member(old["metadata"], "annotations").get(TEMPLATE_GENERATION)
    if former is not None:
        new["metadata"]["annotations"] = {**map_member(new["metadata"], "annotations"), TEMPLATE_GENERATION: former}


def set_labels_of_template(tree: Object) -> None:
    """Gives an object without labels those of its template, which are its default."""
    labels = map_member(map_member(map_member(tree, "spec"), "template"), "metadata").get("labels")
    if labels and not tree["metadata"].get("labels"):
        tree["metadata"]["labels"] = dict(labels)


def read_labels_of_template(new: Object, _old: Object) -> None:
    """Gives an object that was stored without labels those of its template, which it is read with.

    No manager owns them; and one that the write removes is not read again.
    """
    metadata = new["metadata"]
    if "deletionTimestamp" not in metadata or metadata.get("finalizers"):
        set_labels_of_template(new)


def _with_template(tree: Object) -> Object:
    spec: Object = tree.setdefault("spec", {})
    set_pod_spec_defaults(spec.setdefault("template", {}).setdefault("spec", {}))
    return spec


def _set_strategy_defaults(spec: Object, name: str, rolling: Object) -> None:
    strategy = spec.setdefault(name, {})
    strategy["type"] = strategy.get("type") or ROLLING_UPDATE
    if strategy["type"] == ROLLING_UPDATE:
        strategy["rollingUpdate"] = {**rolling, **map_member(strategy, "rollingUpdate")}
