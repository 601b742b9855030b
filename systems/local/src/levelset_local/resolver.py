"""Names of a cluster on one machine: an HTTP server that says which address a Service has.

`GET /resolve?name=web.shop.svc.cluster.local` gives `{"address": "127.96.0.7"}`. Every Pod finds it in the variable
LEVELSET_RESOLVER; only this machine can reach it.
"""

import json
from typing import Final

from levelset import Client, NotFound, Ref
from levelset.http import Request, Response, Server
from levelset.kinds.core_v1 import Service
from levelset_machine import parse_service_name

__all__ = ["VARIABLE", "Resolver"]

VARIABLE: Final = "LEVELSET_RESOLVER"
_JSON: Final = (("Content-Type", "application/json"),)


class Resolver:
    """Answers for the Services that a client finds; 503 before there is one."""

    def __init__(self) -> None:
        self.client: Client | None = None
        self.server = Server(self.handle)

    @property
    def url(self) -> str:
        """Where it answers, once its server is open."""
        return f"{self.server.url}/resolve"

    async def handle(self, request: Request) -> Response:
        """One question."""
        name = request.parameter("name") or ""
        parsed = parse_service_name(name)
        if request.path != "/resolve" or parsed is None:
            return _told(404, f"{name!r} is no name of a Service; ask for /resolve?name=web.shop.svc.cluster.local")
        if self.client is None:
            return _told(503, "the control plane is not there yet")
        try:
            service = await self.client.get(Ref(Service, parsed.name, parsed.namespace or "default"))
        except NotFound as error:
            return _told(404, str(error))
        address = service.spec.cluster_ip
        if not address or address == "None":
            return _told(404, f"Service {parsed.name} has no address of its own")
        return Response(200, _JSON, json.dumps({"address": address}).encode())


def _told(status: int, words: str) -> Response:
    return Response(status, _JSON, json.dumps({"error": words}).encode())
