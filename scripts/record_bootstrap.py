"""Records the objects that kube-apiserver makes at its start: roles, bindings, flow control and APIServices.

    .venv/bin/python -m scripts.record_bootstrap

Writes src/levelset/apiserver/data/bootstrap.json, without what the server adds (uids, times, revisions, owners).
"""

import json
import sys
import time
from pathlib import Path
from typing import Any, Final

from scripts.kube_server import Server, serve

__all__ = ["main", "record"]

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
    return {plural: [_plain(one) for one in items] for plural, items in lists.items()}


def _plain(tree: dict[str, Any]) -> dict[str, Any]:
    given, wanted = tree["metadata"], ("name", "namespace", "labels", "annotations")
    metadata = {name: given[name] for name in wanted if name in given}
    return {"metadata": metadata, **{name: tree[name] for name in tree.keys() - {"metadata", "status"} if tree[name]}}


def main() -> int:
    """Writes the data file."""
    with serve() as server:
        found = record(server)
    groups: list[str] = []
    for plural, trees in found.items():
        lines = ",\n".join(json.dumps(one, separators=(",", ":")) for one in trees)
        groups.append(f'"{plural}": [\n{lines}\n]')
    DATA.write_text("{\n" + ",\n".join(groups) + "\n}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
