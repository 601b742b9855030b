"""The table of built-in kinds: names, scope, subresources and selectable fields of what kube-apiserver serves.

Schemas, merge shapes and printer columns are data files that are loaded at first use. The rules of a kind (defaults,
validation, immutable fields) come from `strategies.py`.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from levelset.apiserver.registry.builtin.conversions import STORAGE_CONVERSIONS
from levelset.apiserver.registry.builtin.strategies import builtin_rules
from levelset.apiserver.resources.catalog import Catalog
from levelset.apiserver.resources.served_resource import ALL_VERBS, Column, Object, Rules, ScalePaths, ServedResource
from levelset.apiserver.schema import builtin_columns, builtin_kind
from levelset.patch import ANYTHING, Shape, builtin_shape

__all__ = ["BuiltinKind", "builtin_catalog", "builtin_kinds"]

ALL = ("all",)
API_EXTENSIONS = ("api-extensions",)
REPLICAS = ScalePaths(".spec.replicas", ".status.replicas")
REPLICAS_WITH_SELECTOR = ScalePaths(".spec.replicas", ".status.replicas", ".spec.selector")
CREATE_ONLY = ("create",)
READ_ONLY = ("get", "list")


class BuiltinKind(msgspec.Struct, frozen=True):
    """One built-in kind. Its plural is the lower-case kind with an "s" unless it is given."""

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
    deprecation: str | None = None


_OBJECT_FIELDS = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_POD_FIELDS = (
    *("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork"),
    *("status.phase", "status.podIP", "status.podIPs", "status.nominatedNodeName"),
)
_EVENT_FIELDS = ("reason", "reportingComponent", "source", "type")

BUILTIN_KINDS: dict[str, tuple[BuiltinKind, ...]] = {
    "/v1": (
        BuiltinKind("Binding", verbs=CREATE_ONLY),
        BuiltinKind(
            *("ComponentStatus", "cs"),
            plural="componentstatuses",
            cluster=True,
            verbs=READ_ONLY,
            deprecation="v1 ComponentStatus is deprecated in v1.19+",
        ),
        BuiltinKind("ConfigMap", "cm"),
        BuiltinKind(
            *("Endpoints", "ep"),
            plural="endpoints",
            deprecation="v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
        ),
        BuiltinKind("Event", "ev", selectable=(*(f"involvedObject.{one}" for one in _OBJECT_FIELDS), *_EVENT_FIELDS)),
        BuiltinKind("LimitRange", "limits"),
        BuiltinKind(
            *("Namespace", "ns"),
            cluster=True,
            status=True,
            subresources=("finalize",),
            selectable=("status.phase",),
            verbs=tuple(verb for verb in ALL_VERBS if verb != "deletecollection"),
        ),
        BuiltinKind(
            *("Node", "no"), cluster=True, status=True, subresources=("proxy",), selectable=("spec.unschedulable",)
        ),
        BuiltinKind("PersistentVolume", "pv", cluster=True, status=True),
        BuiltinKind("PersistentVolumeClaim", "pvc", status=True),
        BuiltinKind(
            *("Pod", "po"),
            categories=ALL,
            status=True,
            subresources=("binding", "ephemeralcontainers", "eviction", "proxy", "resize"),
            selectable=_POD_FIELDS,
        ),
        BuiltinKind("PodTemplate"),
        BuiltinKind(
            *("ReplicationController", "rc"),
            categories=ALL,
            status=True,
            scale=REPLICAS_WITH_SELECTOR,
            selectable=("status.replicas",),
        ),
        BuiltinKind("ResourceQuota", "quota", status=True),
        BuiltinKind("Secret", selectable=("type",)),
        BuiltinKind(
            *("Service", "svc"),
            categories=ALL,
            status=True,
            subresources=("proxy",),
            selectable=("spec.clusterIP", "spec.type"),
        ),
        BuiltinKind("ServiceAccount", "sa", subresources=("token",)),
    ),
    "admissionregistration.k8s.io/v1": (
        BuiltinKind(
            "MutatingAdmissionPolicy", plural="mutatingadmissionpolicies", cluster=True, categories=API_EXTENSIONS
        ),
        BuiltinKind("MutatingAdmissionPolicyBinding", cluster=True, categories=API_EXTENSIONS),
        BuiltinKind("MutatingWebhookConfiguration", cluster=True, categories=API_EXTENSIONS),
        BuiltinKind(
            "ValidatingAdmissionPolicy",
            plural="validatingadmissionpolicies",
            cluster=True,
            categories=API_EXTENSIONS,
            status=True,
        ),
        BuiltinKind("ValidatingAdmissionPolicyBinding", cluster=True, categories=API_EXTENSIONS),
        BuiltinKind("ValidatingWebhookConfiguration", cluster=True, categories=API_EXTENSIONS),
    ),
    "apiextensions.k8s.io/v1": (
        BuiltinKind("CustomResourceDefinition", "crd,crds", cluster=True, categories=API_EXTENSIONS, status=True),
    ),
    "apiregistration.k8s.io/v1": (BuiltinKind("APIService", cluster=True, categories=API_EXTENSIONS, status=True),),
    "apps/v1": (
        BuiltinKind("ControllerRevision"),
        BuiltinKind("DaemonSet", "ds", categories=ALL, status=True),
        BuiltinKind("Deployment", "deploy", categories=ALL, status=True, scale=REPLICAS_WITH_SELECTOR),
        BuiltinKind(
            "ReplicaSet",
            "rs",
            categories=ALL,
            status=True,
            scale=REPLICAS_WITH_SELECTOR,
        ),
        BuiltinKind("StatefulSet", "sts", categories=ALL, status=True, scale=REPLICAS_WITH_SELECTOR),
    ),
    "authentication.k8s.io/v1": (
        BuiltinKind("SelfSubjectReview", cluster=True, verbs=CREATE_ONLY),
        BuiltinKind("TokenReview", cluster=True, verbs=CREATE_ONLY),
    ),
    "authorization.k8s.io/v1": (
        BuiltinKind("LocalSubjectAccessReview", verbs=CREATE_ONLY),
        BuiltinKind("SelfSubjectAccessReview", cluster=True, verbs=CREATE_ONLY),
        BuiltinKind("SelfSubjectRulesReview", cluster=True, verbs=CREATE_ONLY),
        BuiltinKind("SubjectAccessReview", cluster=True, verbs=CREATE_ONLY),
    ),
    "autoscaling/v1": (BuiltinKind("HorizontalPodAutoscaler", "hpa", categories=ALL, status=True),),
    "autoscaling/v2": (BuiltinKind("HorizontalPodAutoscaler", "hpa", categories=ALL, status=True),),
    "batch/v1": (
        BuiltinKind("CronJob", "cj", categories=ALL, status=True),
        BuiltinKind("Job", categories=ALL, status=True, selectable=("status.successful",)),
    ),
    "certificates.k8s.io/v1": (
        BuiltinKind(
            *("CertificateSigningRequest", "csr"),
            cluster=True,
            status=True,
            subresources=("approval",),
            selectable=("spec.signerName",),
        ),
    ),
    "coordination.k8s.io/v1": (BuiltinKind("Lease"),),
    "discovery.k8s.io/v1": (BuiltinKind("EndpointSlice"),),
    "events.k8s.io/v1": (
        BuiltinKind(
            *("Event", "ev"),
            selectable=(*(f"regarding.{one}" for one in _OBJECT_FIELDS), "reason", "reportingController", "type"),
        ),
    ),
    "flowcontrol.apiserver.k8s.io/v1": (
        BuiltinKind("FlowSchema", cluster=True, status=True),
        BuiltinKind("PriorityLevelConfiguration", cluster=True, status=True),
    ),
    "networking.k8s.io/v1": (
        BuiltinKind("IPAddress", "ip", plural="ipaddresses", cluster=True),
        BuiltinKind("Ingress", "ing", plural="ingresses", status=True),
        BuiltinKind("IngressClass", plural="ingressclasses", cluster=True),
        BuiltinKind("NetworkPolicy", "netpol", plural="networkpolicies"),
        BuiltinKind("ServiceCIDR", cluster=True, status=True),
    ),
    "node.k8s.io/v1": (BuiltinKind("RuntimeClass", plural="runtimeclasses", cluster=True),),
    "policy/v1": (BuiltinKind("PodDisruptionBudget", "pdb", status=True),),
    "rbac.authorization.k8s.io/v1": (
        BuiltinKind("ClusterRole", cluster=True),
        BuiltinKind("ClusterRoleBinding", cluster=True),
        BuiltinKind("Role"),
        BuiltinKind("RoleBinding"),
    ),
    "resource.k8s.io/v1": (
        BuiltinKind("DeviceClass", plural="deviceclasses", cluster=True),
        BuiltinKind("ResourceClaim", status=True),
        BuiltinKind("ResourceClaimTemplate"),
        BuiltinKind("ResourceSlice", cluster=True, selectable=("spec.driver", "spec.nodeName")),
    ),
    "scheduling.k8s.io/v1": (BuiltinKind("PriorityClass", "pc", plural="priorityclasses", cluster=True),),
    "storage.k8s.io/v1": (
        BuiltinKind("CSIDriver", cluster=True),
        BuiltinKind("CSINode", cluster=True),
        BuiltinKind("CSIStorageCapacity", plural="csistoragecapacities"),
        BuiltinKind("StorageClass", "sc", plural="storageclasses", cluster=True),
        BuiltinKind("VolumeAttachment", cluster=True, status=True),
        BuiltinKind("VolumeAttributesClass", "vac", plural="volumeattributesclasses", cluster=True),
    ),
}


_NO_RULES: Final[Mapping[tuple[str, str], Rules]] = {}


def builtin_catalog(special: Mapping[tuple[str, str], Rules] = _NO_RULES) -> Catalog:
    """A catalog of all built-in kinds; `special` has the rules, by group and kind, that depend on a server's state."""
    replaced = [replace(one, rules=special[one.group, one.kind]) for one in _stateless_kinds(frozenset(special))]
    return _stateless_catalog().copy(replaced=replaced)


@functools.cache
def _stateless_catalog() -> Catalog:
    return Catalog(builtin_kinds())


@functools.lru_cache(maxsize=8)
def _stateless_kinds(kinds: frozenset[tuple[str, str]]) -> tuple[ServedResource, ...]:
    """These built-in kinds, by group and kind, in all versions."""
    return tuple(one for one in builtin_kinds() if (one.group, one.kind) in kinds)


@functools.cache
def builtin_kinds() -> tuple[ServedResource, ...]:
    """All built-in kinds with stateless rules; shared by all servers of a process."""
    found: list[ServedResource] = []
    for path, kinds in BUILTIN_KINDS.items():
        group, _, version = path.partition("/")
        found += [_served(group, version, row, builtin_rules(group, row.kind)) for row in kinds]
    return tuple(found)


def _served(group: str, version: str, row: BuiltinKind, rules: Rules) -> ServedResource:
    conversion = STORAGE_CONVERSIONS.get((group, version, row.kind))
    from_stored: Callable[[Object], None] | None = None if conversion is None else conversion.from_stored
    to_stored: Callable[[Object], None] | None = None if conversion is None else conversion.to_stored
    singular = row.kind.lower()
    return ServedResource(
        group,
        version,
        row.kind,
        row.plural or f"{singular}s",
        singular,
        f"{row.kind}List",
        namespaced=not row.cluster,
        storage_version=version if conversion is None else conversion.version,
        storage_group=None if conversion is None else conversion.group,
        from_stored=from_stored,
        to_stored=to_stored,
        short_names=tuple(row.short.split(",")) if row.short else (),
        categories=row.categories,
        verbs=row.verbs,
        status=row.status,
        scale=row.scale,
        subresources=row.subresources,
        selectable=row.selectable,
        deprecation=row.deprecation,
        # Cached again, without arguments: every write reads them.
        schema=functools.cache(functools.partial(builtin_kind, group, version, row.kind)),
        shape=functools.cache(functools.partial(_shape, group, version, row.kind)),
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
