"""An API server with RBAC enabled, and requests to it as any user."""

import json
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

from levelset.apiserver.package_data import load_package_data
from levelset.apiserver.server import ApiServer
from levelset.http import Headers, Peer, Request, Response

__all__ = ["RBAC", "RbacServer", "binding", "open_rbac_server", "role", "rule"]

RBAC = "/apis/rbac.authorization.k8s.io/v1"

# A server that starts on a virtual event loop cannot wait for a thread.
load_package_data()


class RbacServer:
    """Sends requests to a server as its owner or as any other user."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server

    async def send(self, request: Request) -> Response:
        made = self.server.handle(request)
        return made if isinstance(made, Response) else await made

    async def request(
        self,
        user: str | None,
        method: str,
        path: str,
        body: Any = None,
        *,
        groups: Iterable[str] = (),
        headers: Mapping[str, str] | Iterable[tuple[str, str]] = (),
        **query: str,
    ) -> tuple[int, Any]:
        """Returns the status and the body for a user with a client certificate; anonymous if `user` is None."""
        peer = None if user is None else Peer(user, tuple(groups))
        sent = Headers(headers)
        data = b"" if body is None else json.dumps(body).encode()
        response = await self.send(Request(method, path, urlencode(query), sent, data, peer))
        if not isinstance(response.body, bytes):
            return response.status, None
        is_json = response.body.startswith(b"{")
        return response.status, json.loads(response.body) if is_json else response.body.decode()

    async def request_as_owner(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        """Returns the response to the owner, which must be a success."""
        peer = ApiServer.owner
        status, tree = await self.request(peer.common_name, method, path, body, groups=peer.organizations, **more)
        assert status < 300, tree
        return tree

    async def grant(self, user: str, *rules: Any, namespace: str | None = "default", kind: str = "User") -> None:
        """Grants a user these rules: in a namespace, or cluster-wide if that is None."""
        name = f"{user}-{self.server.state.storage.revision}".replace("/", "-")
        where = RBAC if namespace is None else f"{RBAC}/namespaces/{namespace}"
        word = "clusterrole" if namespace is None else "role"
        await self.request_as_owner("POST", f"{where}/{word}s", role(name, *rules, cluster=namespace is None))
        await self.request_as_owner(
            "POST", f"{where}/{word}bindings", binding(name, name, user, kind=kind, cluster=not namespace)
        )


@asynccontextmanager
async def open_rbac_server(**options: Any) -> AsyncGenerator[RbacServer, None]:
    """Starts a server with RBAC and without a socket."""
    server = ApiServer(**{"rbac": True, **options})
    await server.start(listen=False)
    try:
        yield RbacServer(server)
    finally:
        await server.stop()


def rule(verbs: str, resources: str, *, group: str = "", names: str = "") -> Any:
    made = {"verbs": verbs.split(), "apiGroups": [group], "resources": resources.split()}
    return {**made, "resourceNames": names.split()} if names else made


def role(name: str, *rules: Any, cluster: bool = False, **more: Any) -> Any:
    kind = "ClusterRole" if cluster else "Role"
    metadata = {"name": name, **more.pop("metadata", {})}
    return {"apiVersion": RBAC[6:], "kind": kind, "metadata": metadata, "rules": list(rules), **more}


def binding(name: str, role: str, *users: str, kind: str = "User", cluster: bool = False, ref: str = "") -> Any:
    reference = {"apiGroup": RBAC[6:-3], "kind": ref or ("ClusterRole" if cluster else "Role"), "name": role}
    subjects = [{"kind": kind, "name": user} for user in users]
    word = "ClusterRoleBinding" if cluster else "RoleBinding"
    made = {"apiVersion": RBAC[6:], "kind": word, "metadata": {"name": name}}
    return {**made, "roleRef": reference, "subjects": subjects}
