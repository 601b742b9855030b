"""A server on which roles count, and a way to ask it in anybody's name."""

import json
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

from levelset.apiserver.package_data import read_data
from levelset.apiserver.server import ApiServer
from levelset.http import Headers, Peer, Request, Response

__all__ = ["RBAC", "Town", "binding", "open_town", "role", "rule"]

RBAC = "/apis/rbac.authorization.k8s.io/v1"

# A server on a virtual loop cannot wait for a thread.
read_data()


class Town:
    """The owner makes things; others try things."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server

    async def answer(self, request: Request) -> Response:
        made = self.server.handle(request)
        return made if isinstance(made, Response) else await made

    async def ask(
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
        """The answer to a user with a certificate; to somebody without credentials if it is None."""
        peer = None if user is None else Peer(user, tuple(groups))
        sent = Headers(headers)
        data = b"" if body is None else json.dumps(body).encode()
        response = await self.answer(Request(method, path, urlencode(query), sent, data, peer))
        if not isinstance(response.body, bytes):
            return response.status, None
        is_json = response.body.startswith(b"{")
        return response.status, json.loads(response.body) if is_json else response.body.decode()

    async def own(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        """What the owner gets, which must be a success."""
        peer = ApiServer.owner
        status, tree = await self.ask(peer.common_name, method, path, body, groups=peer.organizations, **more)
        assert status < 300, tree
        return tree

    async def allow(self, user: str, *rules: Any, namespace: str | None = "default", kind: str = "User") -> None:
        """Gives a user these rights: in a namespace, or everywhere if that is None."""
        name = f"{user}-{self.server.world.storage.revision}".replace("/", "-")
        where = RBAC if namespace is None else f"{RBAC}/namespaces/{namespace}"
        word = "clusterrole" if namespace is None else "role"
        await self.own("POST", f"{where}/{word}s", role(name, *rules, cluster=namespace is None))
        await self.own("POST", f"{where}/{word}bindings", binding(name, name, user, kind=kind, cluster=not namespace))


@asynccontextmanager
async def open_town(**options: Any) -> AsyncGenerator[Town, None]:
    """A started server without a socket, on which roles count."""
    server = ApiServer(**{"rbac": True, **options})
    await server.start(listen=False)
    try:
        yield Town(server)
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
