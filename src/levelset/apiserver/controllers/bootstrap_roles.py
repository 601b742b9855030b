"""The roles that every cluster has: written down as data, and put back into the store whenever a server starts.

`admin`, `edit` and `view` collect what is labelled for them, so that the author of a custom resource adds to them with
a ClusterRole of three lines. A role or binding that is annotated `rbac.authorization.kubernetes.io/autoupdate: "false"`
is left as somebody made it; the others get back what they lack, and keep what was added.
"""

from typing import Final

from levelset.apiserver.controllers.role_aggregation import collected_rules
from levelset.apiserver.resources.json_members import items, part
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.resources.server_state import World
from levelset.apiserver.verbs import create_and_update
from levelset.errors import AlreadyExists
from levelset.objects.json_tree import copy_tree

__all__ = ["bootstrap_bindings", "bootstrap_roles", "restore_roles"]

GROUP: Final = "rbac.authorization.k8s.io"
AUTOUPDATE: Final = "rbac.authorization.kubernetes.io/autoupdate"
LABEL: Final = "rbac.authorization.k8s.io/aggregate-to-"
DEFAULTS: Final = {"kubernetes.io/bootstrapping": "rbac-defaults"}

READ: Final = ["get", "list", "watch"]
WRITE: Final = ["create", "delete", "deletecollection", "patch", "update"]

# What people who work in a namespace see there, and what some of them change, by group.
VISIBLE: Final[dict[str, str]] = {
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
CHANGEABLE: Final[dict[str, str]] = {
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
    """The ClusterRoles, those that collect others with their rules collected."""
    roles = [
        _role("cluster-admin", _rule(["*"], ["*"], ["*"]), {"verbs": ["*"], "nonResourceURLs": ["*"]}),
        _role("system:aggregate-to-view", *_rules(READ, VISIBLE), collected_by="view"),
        _role("system:aggregate-to-edit", *_edit_rules(), collected_by="edit"),
        _role("system:aggregate-to-admin", *_admin_rules(), collected_by="admin"),
        _collector("view", "view", collected_by="edit"),
        _collector("edit", "edit", collected_by="admin"),
        _collector("admin", "admin"),
        _role("system:basic-user", *_self_rules()),
        _role("system:discovery", {"verbs": ["get"], "nonResourceURLs": [*DISCOVERY, "/healthz", "/livez", "/readyz"]}),
        _role("system:public-info-viewer", {"verbs": ["get"], "nonResourceURLs": HEALTH}),
        _role("system:monitoring", {"verbs": ["get"], "nonResourceURLs": ["/metrics", *HEALTH[:3], "/livez/*"]}),
        _role("system:auth-delegator", *_delegation_rules()),
    ]
    known = {role["metadata"]["name"]: role for role in roles}
    for name in ("view", "edit", "admin"):  # in this order: each of them collects the one before
        known[name]["rules"] = [copy_tree(rule) for rule in collected_rules(known[name], known)]
    return roles


def bootstrap_bindings() -> list[Object]:
    """The ClusterRoleBindings: masters may do everything, the known look around, and anybody sees the health."""
    known, unknown = "system:authenticated", "system:unauthenticated"
    return [
        _binding("cluster-admin", "system:masters"),
        _binding("system:basic-user", known),
        _binding("system:discovery", known),
        _binding("system:monitoring", "system:monitoring"),
        _binding("system:public-info-viewer", known, unknown),
    ]


async def restore_roles(world: World) -> None:
    """Makes the roles and bindings that are missing, and completes the others."""
    for plural, trees, word in (
        ("clusterroles", bootstrap_roles(), "rules"),
        ("clusterrolebindings", bootstrap_bindings(), "subjects"),
    ):
        served = world.catalog.find(GROUP, "v1", plural)
        assert served is not None  # built in
        for tree in trees:
            await _restore(world, served, tree, word)


async def _restore(world: World, served: ServedResource, tree: Object, word: str) -> None:
    name = tree["metadata"]["name"]
    if await create_and_update.get_item(world, served.key(None, name)) is not None:
        await create_and_update.mutate(world, served, None, name, lambda old: _mend(old, tree, word))
        return
    try:
        await create_and_update.create(world, served, None, tree)
    except AlreadyExists:
        return


def _mend(old: Object, wanted: Object, word: str) -> Object | None:
    annotations = part(old["metadata"], "annotations")
    if annotations.get(AUTOUPDATE) == "false":
        return None
    missing = [one for one in items(wanted, word) if one not in items(old, word)]
    return {**old, word: [*items(old, word), *missing]} if missing else None


def _rules(verbs: list[str], resources: dict[str, str]) -> list[Object]:
    return [_rule(verbs, [group], names.split()) for group, names in resources.items()]


def _rule(verbs: list[str], groups: list[str], resources: list[str]) -> Object:
    return {"verbs": list(verbs), "apiGroups": list(groups), "resources": list(resources)}


def _edit_rules() -> list[Object]:
    return [
        *_rules(WRITE, CHANGEABLE),
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


def _role(name: str, *rules: Object, collected_by: str = "") -> Object:
    labels = {**DEFAULTS, f"{LABEL}{collected_by}": "true"} if collected_by else dict(DEFAULTS)
    return {**_head("ClusterRole", name, labels), "rules": list(rules)}


def _collector(name: str, collects: str, *, collected_by: str = "") -> Object:
    selector = {"matchLabels": {f"{LABEL}{collects}": "true"}}
    rule = {"aggregationRule": {"clusterRoleSelectors": [selector]}}
    return {**_role(name, collected_by=collected_by), **rule}


def _binding(role: str, *groups: str) -> Object:
    reference = {"apiGroup": GROUP, "kind": "ClusterRole", "name": role}
    subjects = [{"apiGroup": GROUP, "kind": "Group", "name": group} for group in groups]
    return {**_head("ClusterRoleBinding", role, dict(DEFAULTS)), "roleRef": reference, "subjects": subjects}


def _head(kind: str, name: str, labels: dict[str, str]) -> Object:
    metadata = {"name": name, "labels": labels, "annotations": {AUTOUPDATE: "true"}}
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": metadata}
