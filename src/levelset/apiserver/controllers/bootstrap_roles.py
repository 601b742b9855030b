"""The roles and bindings that a cluster with RBAC has from its start; flow control and APIServices of every cluster.

They are recorded from kube-apiserver 1.36.4 (`scripts/record_bootstrap.py`), as a create of them would store them:
completed and validated, so that a start only adds uids and times, and commits them together. `admin`, `edit` and `view`
are aggregated roles: a ClusterRole with the label `aggregate-to-<role>` extends them. As in Kubernetes,
auto-reconciliation at every start adds missing rules and subjects and retains additional ones; it skips roles and
bindings with the annotation `rbac.authorization.kubernetes.io/autoupdate: "false"`. Flow schemas and priority levels
are data here: the limits of requests are those of `request_limits.py`.
"""

import asyncio
import functools
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from levelset.apiserver.registry.metadata import new_uid, write_timestamp
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.resources.server_state import ServerState
from levelset.apiserver.verbs import create_and_update
from levelset.errors import AlreadyExists, NotFound

__all__ = ["bootstrap_objects", "preload", "reconcile_bootstrap_roles", "reconcile_flow_control"]

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
def _recorded() -> dict[str, list[msgspec.Raw]]:
    return msgspec.json.decode(preload(), type=dict[str, list[msgspec.Raw]])


def bootstrap_objects(plural: str) -> list[Object]:
    """The objects of a resource, with empty texts as uids and times; new ones at every call."""
    return [msgspec.json.decode(one) for one in _recorded()[plural]]


async def reconcile_bootstrap_roles(state: ServerState) -> None:
    """Creates what is missing, and adds missing rules and subjects to existing roles and bindings."""
    members = {"clusterroles": "rules", "clusterrolebindings": "subjects", "roles": "rules", "rolebindings": "subjects"}
    missing: list[tuple[ServedResource, Object]] = []
    for plural, field in members.items():
        served = _kind(state, GROUP, plural)
        trees = bootstrap_objects(plural)
        missing += [(served, one) for one in trees if not await _add_missing(state, served, one, field)]
    await _create(state, missing)


async def reconcile_flow_control(state: ServerState) -> None:
    """Creates the missing flow schemas, priority levels, and APIServices of the groups that are served."""
    groups = state.catalog.groups()
    rows = [
        (_kind(state, group, plural), tree)
        for group, plural in (
            (FLOW_CONTROL, "prioritylevelconfigurations"),
            (FLOW_CONTROL, "flowschemas"),
            (REGISTRATION, "apiservices"),
        )
        for tree in bootstrap_objects(plural)
        if group != REGISTRATION or tree["spec"].get("group", "") in groups
    ]
    await _create(state, [(served, tree) for served, tree in rows if not _exists(state, served, tree)])


def _kind(state: ServerState, group: str, plural: str) -> ServedResource:
    served = state.catalog.find(group, "v1", plural)
    assert served is not None  # built in
    return served


def _exists(state: ServerState, served: ServedResource, tree: Object) -> bool:
    metadata = tree["metadata"]
    return state.reader.get_nowait(served.key(metadata.get("namespace"), metadata["name"])) is not None


async def _create(state: ServerState, rows: Iterable[tuple[ServedResource, Object]]) -> None:
    """Creates the objects in this order, in one commit where the storage has such."""
    try:
        async with asyncio.TaskGroup() as group:
            for served, tree in rows:
                group.create_task(_create_one(state, served, tree), name="bootstrap")
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None


async def _create_one(state: ServerState, served: ServedResource, tree: Object) -> None:
    metadata, now = tree["metadata"], write_timestamp(state)
    metadata["uid"], metadata["creationTimestamp"] = new_uid(state.random), now
    for entry in metadata["managedFields"]:
        entry["time"] = now
    for condition in list_member(map_member(tree, "status"), "conditions"):
        condition["lastTransitionTime"] = now
    try:
        await create_and_update.create_complete(state, served, metadata.get("namespace"), tree)
    except (AlreadyExists, NotFound):  # another server was faster, or there is no such namespace
        return


async def _add_missing(state: ServerState, served: ServedResource, tree: Object, field: str) -> bool:
    """Adds what an existing object lacks; returns whether it exists."""
    namespace, name = tree["metadata"].get("namespace"), tree["metadata"]["name"]
    if not _exists(state, served, tree):
        return False
    await create_and_update.mutate(state, served, namespace, name, lambda old: _with_missing(old, tree, field))
    return True


def _with_missing(old: Object, wanted: Object, field: str) -> Object | None:
    annotations = map_member(old["metadata"], "annotations")
    if annotations.get(AUTOUPDATE) == "false":
        return None
    missing = [one for one in list_member(wanted, field) if one not in list_member(old, field)]
    return {**old, field: [*list_member(old, field), *missing]} if missing else None
