"""The variables that tell a container where the Services of its namespace are."""

from collections.abc import Iterable

from levelset.kinds.core_v1 import Service, ServicePort

__all__ = ["service_links"]


def service_links(services: Iterable[Service]) -> dict[str, str]:
    """`WEB_SERVICE_HOST`, `WEB_SERVICE_PORT`, `WEB_PORT_80_TCP` and so on, for each Service that has an address."""
    made: dict[str, str] = {}
    for service in sorted(services, key=lambda one: (one.namespace or "", one.name)):
        spec = service.spec
        if spec.cluster_ip and spec.cluster_ip != "None" and spec.ports:
            made.update(_links(_variable(service.name), spec.cluster_ip, spec.ports))
    return made


def _links(word: str, address: str, ports: tuple[ServicePort, ...]) -> dict[str, str]:
    made = {f"{word}_SERVICE_HOST": address, f"{word}_SERVICE_PORT": str(ports[0].port)}
    for port in ports:
        if port.name:
            made[f"{word}_SERVICE_PORT_{_variable(port.name)}"] = str(port.port)
    for number, port in enumerate(ports):
        protocol = port.protocol or "TCP"
        url = f"{protocol.lower()}://{address}:{port.port}"
        prefix = f"{word}_PORT_{port.port}_{protocol}"
        if number == 0:
            made[f"{word}_PORT"] = url
        made |= {
            prefix: url,
            f"{prefix}_PROTO": protocol.lower(),
            f"{prefix}_PORT": str(port.port),
            f"{prefix}_ADDR": address,
        }
    return made


def _variable(name: str) -> str:
    return name.upper().replace("-", "_")
