"""Records the objects that kube-apiserver makes at its start: roles, bindings, flow control and APIServices.

    .venv/bin/python -m scripts.record_bootstrap

Writes src/levelset/apiserver/data/bootstrap.json: the objects as this server stores them when they are created, with
empty texts in place of uids and times. A start then completes and validates none of them. After a change of how these
kinds are completed, `--again` writes the file from its own objects, without kube-apiserver.
"""

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any, Final

from scripts.kube_server import Server, serve

from levelset.apiserver import ApiServer
from levelset.apiserver.controllers.role_aggregation import aggregated_rules
from levelset.apiserver.registry.storage_codec import served_tree
from levelset.apiserver.verbs import create_and_update

__all__ = ["main", "plain", "record", "stored"]

DATA: Final = Path(__file__).parent.parent / "src/levelset/apiserver/data/bootstrap.json"
PATHS: Final = {
    "clusterroles": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "clusterrolebindings": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "roles": "/apis/rbac.authorization.k8s.io/v1/roles",
    "rolebindings": "/apis/rbac.authorization.k8s.io/v1/rolebindings",
    "prioritylevelconfigurations": "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations",
    "flowschemas": "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
    "apiservices": "/apis/apiregistration.k8s.io/v1/apiservices",
}
_SETTLED_SECONDS: Final = 10.0  # the server makes some of them after it is ready


def record(server: Server) -> dict[str, list[Any]]:
    """The objects by resource, in the form of requests."""
    time.sleep(_SETTLED_SECONDS)
    lists = {plural: server.request("GET", path).body["items"] for plural, path in PATHS.items()}
    return {plural: [plain(one) for one in items] for plural, items in lists.items()}


async def stored(recorded: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """The objects as a server stores them; aggregated roles with their rules, and without uids and times."""
    roles = {role["metadata"]["name"]: role for role in recorded["clusterroles"]}
    for name in ("view", "edit", "admin"):  # in this order: each of them aggregates the previous one
        roles[name]["rules"] = list(aggregated_rules(roles[name], roles))
    server = ApiServer()
    await server.start(listen=False)
    try:
        return {plural: [await _stored(server, plural, one) for one in trees] for plural, trees in recorded.items()}
    finally:
        await server.stop()


async def _stored(server: ApiServer, plural: str, tree: dict[str, Any]) -> dict[str, Any]:
    _, _, group, version, _ = PATHS[plural].split("/")
    served = server.state.catalog.find(group, version, plural)
    assert served is not None
    namespace = tree["metadata"].get("namespace")
    whole = {"apiVersion": served.api_version, "kind": served.kind, **json.loads(json.dumps(tree))}
    written = await create_and_update.create(server.state, served, namespace, whole)
    assert written.item is not None
    found: dict[str, Any] = served_tree(served, written.item)
    metadata = found["metadata"]
    del metadata["resourceVersion"]
    metadata["uid"] = metadata["creationTimestamp"] = ""
    for entry in metadata["managedFields"]:
        entry["time"] = ""
    for condition in found.get("status", {}).get("conditions", ()):
        condition["lastTransitionTime"] = ""
    return found


def plain(tree: dict[str, Any]) -> dict[str, Any]:
    """The object in the form of a request, without what a server adds."""
    given, wanted = tree["metadata"], ("name", "namespace", "labels", "annotations")
    metadata = {name: given[name] for name in wanted if name in given}
    return {
        "metadata": metadata,
        **{name: tree[name] for name in tree.keys() - {"apiVersion", "kind", "metadata", "status"} if tree[name]},
    }


def main() -> int:
    """Writes the data file."""
    if "--again" in sys.argv[1:]:
        known: dict[str, list[Any]] = json.loads(DATA.read_bytes())
        recorded = {plural: [plain(one) for one in trees] for plural, trees in known.items()}
    else:
        with serve() as server:
            recorded = record(server)
    found = asyncio.run(stored(recorded))
    groups: list[str] = []
    for plural, trees in found.items():
        lines = ",\n".join(json.dumps(one, separators=(",", ":")) for one in trees)
        groups.append(f'"{plural}": [\n{lines}\n]')
    DATA.write_text("{\n" + ",\n".join(groups) + "\n}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
