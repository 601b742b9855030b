"""The roles and bindings that a cluster with RBAC has from its start; flow control and APIServices of every cluster.

They are recorded from kube-apiserver 1.36.4 (`scripts/record_bootstrap.py`). `admin`, `edit` and `view` are aggregated
roles: a ClusterRole with the label `aggregate-to-<role>` extends them. As in Kubernetes, auto-reconciliation at every
start adds missing rules and subjects and retains additional ones; it skips roles and bindings with the annotation
`rbac.authorization.kubernetes.io/autoupdate: "false"`. Flow schemas and priority levels are data here: the limits of
requests are those of `request_limits.py`.
"""

import functools
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from levelset.apiserver.controllers.role_aggregation import aggregated_rules
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.resources.server_state import ServerState
from levelset.apiserver.verbs import create_and_update
from levelset.errors import AlreadyExists, NotFound
from levelset.objects.json_tree import copy_tree

__all__ = ["bootstrap_bindings", "bootstrap_roles", "preload", "reconcile_bootstrap_roles", "reconcile_flow_control"]

GROUP: Final = "rbac.authorization.k8s.io"
FLOW_CONTROL: Final = "flowcontrol.apiserver.k8s.io"
REGISTRATION: Final = "apiregistration.k8s.io"
DATA: Final = Path(__file__).parent.parent / "data" / "bootstrap.json"
AUTOUPDATE: Final = "rbac.authorization.kubernetes.io/autoupdate"


@functools.cache
def preload() -> bytes:
    """Reads the recorded objects, which are decoded on demand."""
    return DATA.read_bytes()


@functools.cache
def _recorded() -> dict[str, list[Object]]:
    """The recorded objects by resource; shared, so not to be changed."""
    return cast("dict[str, list[Object]]", msgspec.json.decode(preload()))


def _objects(plural: str) -> list[Any]:
    return [copy_tree(tree) for tree in _recorded()[plural]]


def bootstrap_roles() -> list[Object]:
    """Returns the default ClusterRoles; aggregated ones with their rules."""
    known = {role["metadata"]["name"]: role for role in _objects("clusterroles")}
    for name in ("view", "edit", "admin"):  # in this order: each of them aggregates the previous one
        known[name]["rules"] = [copy_tree(rule) for rule in aggregated_rules(known[name], known)]
    return list(known.values())


def bootstrap_bindings() -> list[Object]:
    """Returns the default ClusterRoleBindings."""
    return _objects("clusterrolebindings")


async def reconcile_bootstrap_roles(state: ServerState) -> None:
    """Creates what is missing, and adds missing rules and subjects to existing roles and bindings."""
    for plural, trees, field in (
        ("clusterroles", bootstrap_roles(), "rules"),
        ("clusterrolebindings", bootstrap_bindings(), "subjects"),
        ("roles", _objects("roles"), "rules"),
        ("rolebindings", _objects("rolebindings"), "subjects"),
    ):
        served = _kind(state, GROUP, plural)
        for tree in trees:
            await _reconcile(state, served, tree, field)


async def reconcile_flow_control(state: ServerState) -> None:
    """Creates the missing flow schemas, priority levels, and APIServices of the groups that are served."""
    for plural in ("prioritylevelconfigurations", "flowschemas"):
        for tree in _objects(plural):
            await _create_missing(state, _kind(state, FLOW_CONTROL, plural), tree)
    for tree in _objects("apiservices"):
        if tree["spec"].get("group", "") in state.catalog.groups():
            await _create_missing(state, _kind(state, REGISTRATION, "apiservices"), tree)


def _kind(state: ServerState, group: str, plural: str) -> ServedResource:
    served = state.catalog.find(group, "v1", plural)
    assert served is not None  # built in
    return served


async def _create_missing(state: ServerState, served: ServedResource, tree: Object) -> None:
    namespace, name = tree["metadata"].get("namespace"), tree["metadata"]["name"]
    if state.reader.get_nowait(served.key(namespace, name)) is not None:
        return
    try:
        await create_and_update.create(state, served, namespace, tree)
    except (AlreadyExists, NotFound):  # another server was faster, or there is no such namespace
        return


async def _reconcile(state: ServerState, served: ServedResource, tree: Object, field: str) -> None:
    namespace, name = tree["metadata"].get("namespace"), tree["metadata"]["name"]
    if state.reader.get_nowait(served.key(namespace, name)) is not None:
        await create_and_update.mutate(state, served, namespace, name, lambda old: _with_missing(old, tree, field))
        return
    await _create_missing(state, served, tree)


def _with_missing(old: Object, wanted: Object, field: str) -> Object | None:
    annotations = map_member(old["metadata"], "annotations")
    if annotations.get(AUTOUPDATE) == "false":
        return None
    missing = [one for one in list_member(wanted, field) if one not in list_member(old, field)]
    return {**old, field: [*list_member(old, field), *missing]} if missing else None
