"""The built-in kinds: a table of what a Kubernetes API server carries of its own accord.

Names, scope and habits are written down here; schemas, shapes and columns are data that is read when somebody asks.
Which rules a kind goes by is in `builtin_rules` and the files it draws on.
"""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from levelset.apiserver.registry.builtin.equivalent_kinds import VIEWS
from levelset.apiserver.registry.builtin.strategies import rules_of
from levelset.apiserver.resources.served_resource import ALL_VERBS, Column, Object, Rules, ScalePaths, ServedResource
from levelset.apiserver.schema import builtin_columns, builtin_kind
from levelset.patch import ANYTHING, Shape, builtin_shape

__all__ = ["Kind", "builtin_kinds"]

ALL = ("all",)
EXTENSIONS = ("api-extensions",)
REPLICAS = ScalePaths(".spec.replicas", ".status.replicas")
SELECTED = ScalePaths(".spec.replicas", ".status.replicas", ".spec.selector")
CREATE_ONLY = ("create",)


@dataclass(frozen=True, slots=True)
class Kind:
    """A row of the table. The plural is the lower-case kind with an "s" unless it says otherwise."""

    kind: str
    short: str = ""
    plural: str = ""
    cluster: bool = False
    categories: tuple[str, ...] = ()
    status: bool = False
    scale: ScalePaths | None = None
    subresources: tuple[str, ...] = ()
    selectable: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS


_OBJECT_FIELDS = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_POD_FIELDS = (
    *("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName"),
    *("status.phase", "status.podIP", "status.nominatedNodeName"),
)
_EVENT_FIELDS = ("reason", "reportingComponent", "source", "type")

TABLE: dict[str, tuple[Kind, ...]] = {
    "/v1": (
        Kind("ConfigMap", "cm"),
        Kind("Endpoints", "ep", plural="endpoints"),
        Kind("Event", "ev", selectable=(*(f"involvedObject.{one}" for one in _OBJECT_FIELDS), *_EVENT_FIELDS)),
        Kind("LimitRange", "limits"),
        Kind(
            *("Namespace", "ns"),
            cluster=True,
            status=True,
            subresources=("finalize",),
            selectable=("status.phase",),
            verbs=tuple(verb for verb in ALL_VERBS if verb != "deletecollection"),
        ),
        Kind("Node", "no", cluster=True, status=True),
        Kind("PersistentVolume", "pv", cluster=True, status=True),
        Kind("PersistentVolumeClaim", "pvc", status=True),
        Kind("Pod", "po", categories=ALL, status=True, subresources=("eviction",), selectable=_POD_FIELDS),
        Kind("PodTemplate"),
        Kind(
            *("ReplicationController", "rc"),
            categories=ALL,
            status=True,
            scale=SELECTED,
            selectable=("status.replicas",),
        ),
        Kind("ResourceQuota", "quota", status=True),
        Kind("Secret", selectable=("type",)),
        Kind("Service", "svc", categories=ALL, status=True, selectable=("spec.clusterIP", "spec.type")),
        Kind("ServiceAccount", "sa", subresources=("token",)),
    ),
    "admissionregistration.k8s.io/v1": (
        Kind("MutatingAdmissionPolicy", plural="mutatingadmissionpolicies", cluster=True, categories=EXTENSIONS),
        Kind("MutatingAdmissionPolicyBinding", cluster=True, categories=EXTENSIONS),
        Kind("MutatingWebhookConfiguration", cluster=True, categories=EXTENSIONS),
        Kind(
            "ValidatingAdmissionPolicy",
            plural="validatingadmissionpolicies",
            cluster=True,
            categories=EXTENSIONS,
            status=True,
        ),
        Kind("ValidatingAdmissionPolicyBinding", cluster=True),
        Kind("ValidatingWebhookConfiguration", cluster=True, categories=EXTENSIONS),
    ),
    "apiextensions.k8s.io/v1": (
        Kind("CustomResourceDefinition", "crd,crds", cluster=True, categories=EXTENSIONS, status=True),
    ),
    "apiregistration.k8s.io/v1": (Kind("APIService", cluster=True, categories=EXTENSIONS, status=True),),
    "apps/v1": (
        Kind("ControllerRevision"),
        Kind("DaemonSet", "ds", categories=ALL, status=True),
        Kind("Deployment", "deploy", categories=ALL, status=True, scale=SELECTED),
        Kind("ReplicaSet", "rs", categories=ALL, status=True, scale=SELECTED, selectable=("status.replicas",)),
        Kind("StatefulSet", "sts", categories=ALL, status=True, scale=SELECTED),
    ),
    "authentication.k8s.io/v1": (
        Kind("SelfSubjectReview", cluster=True, verbs=CREATE_ONLY),
        Kind("TokenReview", cluster=True, verbs=CREATE_ONLY),
    ),
    "authorization.k8s.io/v1": (
        Kind("LocalSubjectAccessReview", verbs=CREATE_ONLY),
        Kind("SelfSubjectAccessReview", cluster=True, verbs=CREATE_ONLY),
        Kind("SelfSubjectRulesReview", cluster=True, verbs=CREATE_ONLY),
        Kind("SubjectAccessReview", cluster=True, verbs=CREATE_ONLY),
    ),
    "autoscaling/v1": (Kind("HorizontalPodAutoscaler", "hpa", categories=ALL, status=True),),
    "autoscaling/v2": (Kind("HorizontalPodAutoscaler", "hpa", categories=ALL, status=True),),
    "batch/v1": (
        Kind("CronJob", "cj", categories=ALL, status=True),
        Kind("Job", categories=ALL, status=True),
    ),
    "certificates.k8s.io/v1": (
        Kind(
            *("CertificateSigningRequest", "csr"),
            cluster=True,
            status=True,
            subresources=("approval",),
            selectable=("spec.signerName",),
        ),
    ),
    "coordination.k8s.io/v1": (Kind("Lease"),),
    "discovery.k8s.io/v1": (Kind("EndpointSlice"),),
    "events.k8s.io/v1": (
        Kind(
            *("Event", "ev"),
            selectable=(*(f"regarding.{one}" for one in _OBJECT_FIELDS), "reason", "reportingController", "type"),
        ),
    ),
    "flowcontrol.apiserver.k8s.io/v1": (
        Kind("FlowSchema", cluster=True, status=True),
        Kind("PriorityLevelConfiguration", cluster=True, status=True),
    ),
    "networking.k8s.io/v1": (
        Kind("Ingress", "ing", plural="ingresses", status=True),
        Kind("IngressClass", plural="ingressclasses", cluster=True),
        Kind("NetworkPolicy", "netpol", plural="networkpolicies"),
    ),
    "node.k8s.io/v1": (Kind("RuntimeClass", plural="runtimeclasses", cluster=True),),
    "policy/v1": (Kind("PodDisruptionBudget", "pdb", status=True),),
    "rbac.authorization.k8s.io/v1": (
        Kind("ClusterRole", cluster=True),
        Kind("ClusterRoleBinding", cluster=True),
        Kind("Role"),
        Kind("RoleBinding"),
    ),
    "scheduling.k8s.io/v1": (Kind("PriorityClass", "pc", plural="priorityclasses", cluster=True),),
    "storage.k8s.io/v1": (Kind("StorageClass", "sc", plural="storageclasses", cluster=True),),
}


def builtin_kinds(special: dict[tuple[str, str], Rules] | None = None) -> Iterator[ServedResource]:
    """All built-in kinds; `special` holds the rules, by group and kind, that need more than the object to judge by."""
    for served in _usual_kinds():
        rules = None if special is None else special.get((served.group, served.kind))
        yield served if rules is None else replace(served, rules=rules)


@functools.cache
def _usual_kinds() -> tuple[ServedResource, ...]:
    """All built-in kinds with the rules that need nothing but the object; all servers of a process share them."""
    found: list[ServedResource] = []
    for path, kinds in TABLE.items():
        group, _, version = path.partition("/")
        found += [_served(group, version, row, rules_of(group, row.kind)) for row in kinds]
    return tuple(found)


def _served(group: str, version: str, row: Kind, rules: Rules) -> ServedResource:
    view = VIEWS.get((group, version, row.kind))
    from_stored: Callable[[Object], None] | None = None if view is None else view.from_stored
    to_stored: Callable[[Object], None] | None = None if view is None else view.to_stored
    singular = row.kind.lower()
    return ServedResource(
        group,
        version,
        row.kind,
        row.plural or f"{singular}s",
        singular,
        f"{row.kind}List",
        namespaced=not row.cluster,
        storage_version=version if view is None else view.version,
        storage_group=None if view is None else view.group,
        from_stored=from_stored,
        to_stored=to_stored,
        short_names=tuple(row.short.split(",")) if row.short else (),
        categories=row.categories,
        verbs=row.verbs,
        status=row.status,
        scale=row.scale,
        subresources=row.subresources,
        selectable=row.selectable,
        schema=functools.partial(builtin_kind, group, version, row.kind),
        shape=functools.partial(_shape, group, version, row.kind),
        column_source=functools.partial(_columns, group, version, row.plural or f"{singular}s"),
        rules=rules,
    )


@functools.cache
def _shape(group: str, version: str, kind: str) -> Shape:
    return builtin_shape(group, version, kind) or ANYTHING


@functools.cache
def _columns(group: str, version: str, plural: str) -> tuple[Column, ...]:
    found = builtin_columns(group, version, plural)
    return tuple(Column(one.name, one.type, one.format, one.priority) for one in found)
