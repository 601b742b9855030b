"""The default ClusterRoles and ClusterRoleBindings of every cluster, reconciled at every start of the server.

`admin`, `edit` and `view` are aggregated roles: a ClusterRole with the label `aggregate-to-<role>` extends them. As in
Kubernetes, auto-reconciliation adds missing rules and subjects and retains additional ones; it skips roles and bindings
with the annotation `rbac.authorization.kubernetes.io/autoupdate: "false"`.
"""

from typing import Final

from levelset.apiserver.controllers.role_aggregation import aggregated_rules
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.resources.server_state import ServerState
from levelset.apiserver.verbs import create_and_update
from levelset.errors import AlreadyExists
from levelset.objects.json_tree import copy_tree

__all__ = ["bootstrap_bindings", "bootstrap_roles", "reconcile_bootstrap_roles"]

GROUP: Final = "rbac.authorization.k8s.io"
AUTOUPDATE: Final = "rbac.authorization.kubernetes.io/autoupdate"
LABEL: Final = "rbac.authorization.k8s.io/aggregate-to-"
DEFAULTS: Final = {"kubernetes.io/bootstrapping": "rbac-defaults"}

READ: Final = ["get", "list", "watch"]
WRITE: Final = ["create", "delete", "deletecollection", "patch", "update"]

# The resources that `view` may read, and those that `edit` may write, by API group.
VIEW_RESOURCES: Final[dict[str, str]] = {
    "": "bindings configmaps endpoints events limitranges namespaces namespaces/status persistentvolumeclaims"
    " persistentvolumeclaims/status pods pods/log pods/status podtemplates replicationcontrollers"
    " replicationcontrollers/scale replicationcontrollers/status resourcequotas resourcequotas/status serviceaccounts"
    " services services/status",
    "apps": "controllerrevisions daemonsets daemonsets/status deployments deployments/scale deployments/status"
    " replicasets replicasets/scale replicasets/status statefulsets statefulsets/scale statefulsets/status",
    "autoscaling": "horizontalpodautoscalers horizontalpodautoscalers/status",
    "batch": "cronjobs cronjobs/status jobs jobs/status",
    "discovery.k8s.io": "endpointslices",
    "networking.k8s.io": "ingresses ingresses/status networkpolicies",
    "policy": "poddisruptionbudgets poddisruptionbudgets/status",
}
EDIT_RESOURCES: Final[dict[str, str]] = {
    "": "configmaps events persistentvolumeclaims pods podtemplates replicationcontrollers replicationcontrollers/scale"
    " secrets serviceaccounts services",
    "apps": "daemonsets deployments deployments/rollback deployments/scale replicasets replicasets/scale statefulsets"
    " statefulsets/scale",
    "autoscaling": "horizontalpodautoscalers",
    "batch": "cronjobs jobs",
    "coordination.k8s.io": "leases",
    "networking.k8s.io": "ingresses networkpolicies",
    "policy": "poddisruptionbudgets",
}
DISCOVERY: Final = ["/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", "/version", "/version/"]
HEALTH: Final = ["/healthz", "/livez", "/readyz", "/version", "/version/"]


def bootstrap_roles() -> list[Object]:
    """Returns the default ClusterRoles; aggregated ones with their rules."""
    roles = [
        _role("cluster-admin", _rule(["*"], ["*"], ["*"]), {"verbs": ["*"], "nonResourceURLs": ["*"]}),
        _role("system:aggregate-to-view", *_rules(READ, VIEW_RESOURCES), aggregated_to="view"),
        _role("system:aggregate-to-edit", *_edit_rules(), aggregated_to="edit"),
        _role("system:aggregate-to-admin", *_admin_rules(), aggregated_to="admin"),
        _aggregated_role("view", "view", aggregated_to="edit"),
        _aggregated_role("edit", "edit", aggregated_to="admin"),
        _aggregated_role("admin", "admin"),
        _role("system:basic-user", *_self_rules()),
        _role("system:discovery", {"verbs": ["get"], "nonResourceURLs": [*DISCOVERY, "/healthz", "/livez", "/readyz"]}),
        _role("system:public-info-viewer", {"verbs": ["get"], "nonResourceURLs": HEALTH}),
        _role("system:monitoring", {"verbs": ["get"], "nonResourceURLs": ["/metrics", *HEALTH[:3], "/livez/*"]}),
        _role("system:auth-delegator", *_delegation_rules()),
    ]
    known = {role["metadata"]["name"]: role for role in roles}
    for name in ("view", "edit", "admin"):  # in this order: each of them aggregates the previous one
        known[name]["rules"] = [copy_tree(rule) for rule in aggregated_rules(known[name], known)]
    return roles


def bootstrap_bindings() -> list[Object]:
    """Returns the default ClusterRoleBindings of masters, authenticated and unauthenticated users."""
    authenticated, unauthenticated = "system:authenticated", "system:unauthenticated"
    return [
        _binding("cluster-admin", "system:masters"),
        _binding("system:basic-user", authenticated),
        _binding("system:discovery", authenticated),
        _binding("system:monitoring", "system:monitoring"),
        _binding("system:public-info-viewer", authenticated, unauthenticated),
    ]


async def reconcile_bootstrap_roles(state: ServerState) -> None:
    """Creates the missing default roles and bindings, and adds missing rules and subjects to the others."""
    for plural, trees, field in (
        ("clusterroles", bootstrap_roles(), "rules"),
        ("clusterrolebindings", bootstrap_bindings(), "subjects"),
    ):
        served = state.catalog.find(GROUP, "v1", plural)
        assert served is not None  # built in
        for tree in trees:
            await _reconcile(state, served, tree, field)


async def _reconcile(state: ServerState, served: ServedResource, tree: Object, field: str) -> None:
    name = tree["metadata"]["name"]
    if state.reader.get_nowait(served.key(None, name)) is not None:
        await create_and_update.mutate(state, served, None, name, lambda old: _with_missing(old, tree, field))
        return
    try:
        await create_and_update.create(state, served, None, tree)
    except AlreadyExists:
        return


def _with_missing(old: Object, wanted: Object, field: str) -> Object | None:
    annotations = map_member(old["metadata"], "annotations")
    if annotations.get(AUTOUPDATE) == "false":
        return None
    missing = [one for one in list_member(wanted, field) if one not in list_member(old, field)]
    return {**old, field: [*list_member(old, field), *missing]} if missing else None


def _rules(verbs: list[str], resources: dict[str, str]) -> list[Object]:
    return [_rule(verbs, [group], names.split()) for group, names in resources.items()]


def _rule(verbs: list[str], groups: list[str], resources: list[str]) -> Object:
    return {"verbs": list(verbs), "apiGroups": list(groups), "resources": list(resources)}


def _edit_rules() -> list[Object]:
    return [
        *_rules(WRITE, EDIT_RESOURCES),
        _rule(READ, [""], ["secrets"]),
        _rule(READ, ["coordination.k8s.io"], ["leases"]),
        _rule(["impersonate"], [""], ["serviceaccounts"]),
        _rule(["create"], [""], ["pods/eviction"]),
        _rule(["create"], [""], ["serviceaccounts/token"]),
    ]


def _admin_rules() -> list[Object]:
    return [
        _rule(["create"], ["authorization.k8s.io"], ["localsubjectaccessreviews"]),
        _rule([*WRITE, *READ], [GROUP], ["rolebindings", "roles"]),
    ]


def _self_rules() -> list[Object]:
    return [
        _rule(["create"], ["authorization.k8s.io"], ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]),
        _rule(["create"], ["authentication.k8s.io"], ["selfsubjectreviews"]),
    ]


def _delegation_rules() -> list[Object]:
    return [
        _rule(["create"], ["authentication.k8s.io"], ["tokenreviews"]),
        _rule(["create"], ["authorization.k8s.io"], ["subjectaccessreviews"]),
    ]


def _role(name: str, *rules: Object, aggregated_to: str = "") -> Object:
    labels = {**DEFAULTS, f"{LABEL}{aggregated_to}": "true"} if aggregated_to else dict(DEFAULTS)
    return {**_head("ClusterRole", name, labels), "rules": list(rules)}


def _aggregated_role(name: str, aggregates: str, *, aggregated_to: str = "") -> Object:
    selector = {"matchLabels": {f"{LABEL}{aggregates}": "true"}}
    rule = {"aggregationRule": {"clusterRoleSelectors": [selector]}}
    return {**_role(name, aggregated_to=aggregated_to), **rule}


def _binding(role: str, *groups: str) -> Object:
    reference = {"apiGroup": GROUP, "kind": "ClusterRole", "name": role}
    subjects = [{"apiGroup": GROUP, "kind": "Group", "name": group} for group in groups]
    return {**_head("ClusterRoleBinding", role, dict(DEFAULTS)), "roleRef": reference, "subjects": subjects}


def _head(kind: str, name: str, labels: dict[str, str]) -> Object:
    metadata = {"name": name, "labels": labels, "annotations": {AUTOUPDATE: "true"}}
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": metadata}
