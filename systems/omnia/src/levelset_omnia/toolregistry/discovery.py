"""Tool discovery as a pure function: tools with a URL as they are, the others by a Service and its endpoints."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from msgspec import Struct

from levelset.kinds.core_v1 import Service, ServicePort
from levelset.kinds.discovery_v1 import Endpoint, EndpointSlice
from levelset_omnia.kinds import DiscoveredTool, Tool
from levelset_omnia.kinds.toolregistry import ToolType
from levelset_omnia.well_known import TOOL_DESCRIPTION, TOOL_NAME, TOOL_PATH, TOOL_TYPE

__all__ = ["ToolService", "choose_service", "discover", "endpoint_of", "has_ready_endpoints"]

_SCHEMES: Final[Mapping[ToolType, str]] = {"http": "http", "grpc": "grpc", "mcp": "http"}
_FIRST: Final = datetime(1, 1, 1, tzinfo=UTC)


class ToolService(Struct, frozen=True):
    """A Service that provides a tool: its port, and its type from the annotations."""

    service: Service
    port: ServicePort
    type: ToolType

    @property
    def url(self) -> str:
        """The URL of the tool inside of the cluster."""
        service = self.service
        path = service.metadata.annotations.get(TOOL_PATH, "")
        host = f"{service.name}.{service.namespace}.svc.cluster.local"
        return f"{_SCHEMES[self.type]}://{host}:{self.port.port}{'' if path.startswith('/') or not path else '/'}{path}"


def discover(
    tool: Tool, service: Service | None, slices: Iterable[EndpointSlice] = (), *, namespace: str
) -> DiscoveredTool:
    """The observed state of one tool with its chosen Service; `namespace` is that of the registry."""
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
    """The Service of a tool: one that names it, else one that names none, else any; the oldest, then by name.

    Services that are being deleted are skipped.
    """

    def rank(service: Service) -> tuple[int, datetime, str]:
        named = service.metadata.annotations.get(TOOL_NAME)
        match = 0 if named == tool_name else 1 if not named else 2
        return match, service.metadata.creation_timestamp or _FIRST, service.name

    return min((one for one in services if one.metadata.deletion_timestamp is None), key=rank, default=None)


def endpoint_of(tool: Tool, service: Service) -> ToolService | None:
    """The endpoint of a Service as a tool: the port that the selector names, or its first; None without a port."""
    ports = service.spec.ports
    if not ports:
        return None
    wanted = None if tool.endpoint.selector is None else tool.endpoint.selector.port
    port = next((one for one in ports if wanted is not None and one.name == wanted), ports[0])
    return ToolService(service, port, _type_of(service.metadata.annotations.get(TOOL_TYPE)) or tool.type)


def has_ready_endpoints(found: ToolService, slices: Iterable[EndpointSlice]) -> bool:
    """Whether the port of the Service has a ready endpoint."""
    return any(
        _is_ready(endpoint)
        for one in slices
        if not one.ports or any((port.name or "") == (found.port.name or "") for port in one.ports)
        for endpoint in one.endpoints
    )


def _is_ready(endpoint: Endpoint) -> bool:
    return endpoint.conditions.ready is not False and bool(endpoint.addresses)


def _type_of(annotation: str | None) -> ToolType | None:
    """The tool type of an annotation; None if it is missing or not a type."""
    return next((one for one in _SCHEMES if one == annotation), None)


def _entry(tool: Tool, *, endpoint: str = "", found: ToolService | None = None, problem: str = "") -> DiscoveredTool:
    description = "" if found is None else found.service.metadata.annotations.get(TOOL_DESCRIPTION, "")
    return DiscoveredTool(
        name=tool.name,
        endpoint=endpoint if found is None else found.url,
        status="Unavailable" if problem else "Available",
        type=tool.type if found is None else found.type,
        description=tool.description or description,
        message=problem,
    )
