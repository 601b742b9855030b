"""Finds the tools of a registry: those with an address as they are, the others among Services, by a pure function."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from levelset.kinds.core_v1 import Service, ServicePort
from levelset.kinds.discovery_v1 import Endpoint, EndpointSlice
from levelset_omnia.kinds import DiscoveredTool, Tool
from levelset_omnia.kinds.toolregistry import ToolType
from levelset_omnia.naming import TOOL_DESCRIPTION, TOOL_NAME, TOOL_PATH, TOOL_TYPE

__all__ = ["Found", "choose_service", "discover", "endpoint_of", "has_ready_endpoints"]

_SCHEMES: Final[Mapping[ToolType, str]] = {"http": "http", "grpc": "grpc", "mcp": "http"}
_FIRST: Final = datetime(1, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Found:
    """A Service that is a tool: with what its annotations say, and the port at which it is reached."""

    service: Service
    port: ServicePort
    type: ToolType

    @property
    def url(self) -> str:
        """The address of the tool inside of the cluster."""
        service = self.service
        path = service.metadata.annotations.get(TOOL_PATH, "")
        host = f"{service.name}.{service.namespace}.svc.cluster.local"
        return f"{_SCHEMES[self.type]}://{host}:{self.port.port}{'' if path.startswith('/') or not path else '/'}{path}"


def discover(
    tool: Tool, service: Service | None, slices: Iterable[EndpointSlice] = (), *, namespace: str
) -> DiscoveredTool:
    """One tool as it is now, given the Service that was chosen for it; `namespace` is that of the registry."""
    selector = tool.endpoint.selector
    if tool.endpoint.url is not None:
        return _entry(tool, endpoint=tool.endpoint.url)
    if selector is None:
        return _entry(tool, problem="its endpoint has neither a url nor a selector")
    if service is None:
        wanted = ",".join(f"{name}={value}" for name, value in sorted(selector.match_labels.items()))
        return _entry(tool, problem=f"no Service in {selector.namespace or namespace} has {wanted}")
    found = endpoint_of(tool, service)
    if found is None:
        return _entry(tool, problem=f"Service {service.name} has no port")
    if service.spec.type != "ExternalName" and not has_ready_endpoints(found, slices):
        return _entry(tool, found=found, problem=f"Service {service.name} has no ready endpoints")
    return _entry(tool, found=found)


def choose_service(tool_name: str, services: Sequence[Service]) -> Service | None:
    """The one that is taken: that which names the tool, else one that names none, else any; the oldest, then by name.

    One that is being deleted is passed over.
    """

    def rank(service: Service) -> tuple[int, datetime, str]:
        said = service.metadata.annotations.get(TOOL_NAME)
        names = 0 if said == tool_name else 1 if not said else 2
        return names, service.metadata.creation_timestamp or _FIRST, service.name

    return min((one for one in services if one.metadata.deletion_timestamp is None), key=rank, default=None)


def endpoint_of(tool: Tool, service: Service) -> Found | None:
    """How a Service is reached as a tool: at the port that the selector names, or at its first; None without one."""
    ports = service.spec.ports
    if not ports:
        return None
    wanted = None if tool.endpoint.selector is None else tool.endpoint.selector.port
    port = next((one for one in ports if wanted is not None and one.name == wanted), ports[0])
    return Found(service, port, _type_of(service.metadata.annotations.get(TOOL_TYPE)) or tool.type)


def has_ready_endpoints(found: Found, slices: Iterable[EndpointSlice]) -> bool:
    """Whether somebody answers at that port of the Service."""
    return any(
        _is_ready(endpoint)
        for one in slices
        if not one.ports or any((port.name or "") == (found.port.name or "") for port in one.ports)
        for endpoint in one.endpoints
    )


def _is_ready(endpoint: Endpoint) -> bool:
    return endpoint.conditions.ready is not False and bool(endpoint.addresses)


def _type_of(said: str | None) -> ToolType | None:
    """The type that a Service says it has; a word that is none is passed over."""
    return next((one for one in _SCHEMES if one == said), None)


def _entry(tool: Tool, *, endpoint: str = "", found: Found | None = None, problem: str = "") -> DiscoveredTool:
    said = "" if found is None else found.service.metadata.annotations.get(TOOL_DESCRIPTION, "")
    return DiscoveredTool(
        name=tool.name,
        endpoint=endpoint if found is None else found.url,
        status="Unavailable" if problem else "Available",
        type=tool.type if found is None else found.type,
        description=tool.description or said,
        message=problem,
    )
