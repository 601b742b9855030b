"""What the templates of a Container may speak of, which Services it produces, and which objects it names; pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from levelset import Ref, encode
from levelset.objects import decode_tree
from levelset_dcp.endpoints import endpoint_of
from levelset_dcp.engines.models import PortBinding
from levelset_dcp.kinds import Container, ContainerNetwork, Endpoint, Service
from levelset_dcp.named import producers
from levelset_dcp.templates import Lookup, NotYet, Scene

__all__ = ["endpoints_of", "networks_named", "scene_of"]

_ANYWHERE: Final = ("0.0.0.0", "::", "")  # noqa: S104 - only compared
Find = Callable[[Ref[Service]], Service | None]


def networks_named(container: Container) -> Iterator[Ref[ContainerNetwork]]:
    """The networks that it wants to be in."""
    for one in container.spec.networks or ():
        yield Ref(ContainerNetwork, one.name)


def endpoints_of(container: Container, ports: Sequence[PortBinding]) -> list[Endpoint]:
    """Where the Services that it produces are reached on this machine: at the ports that the engine has published."""
    found: list[Endpoint] = []
    for one in producers(container):
        binding = _published(one.port, ports)
        if binding is not None:
            own = "127.0.0.1" if binding.host_ip in _ANYWHERE else binding.host_ip
            found.append(endpoint_of(container, one.service, one.address or own, binding.host_port))
    return found


def scene_of(container: Container, find: Find) -> Scene:
    """The scene of a Container; `find` gives a Service, if it is there."""
    made = {one.service: one for one in producers(container)}
    inside = container.spec.ports[0].container_port if len(container.spec.ports) == 1 else None

    def port_for_serving(_: str, name: str) -> int:
        port = made[name].port or inside if name in made else None
        if port is None:
            raise NotYet(f"{container.name} has no port for Service {name}; it must say that it produces it, and where")
        return port

    def address_for_serving(_: str, name: str) -> str:
        return (made[name].address if name in made else "") or "0.0.0.0"  # noqa: S104 - inside of the container

    functions: dict[str, Lookup] = {
        "portForServing": port_for_serving,
        "addressForServing": address_for_serving,
        "portFor": lambda _, name: _reached(find, name)[1],
        "addressFor": lambda _, name: _reached(find, name)[0],
    }
    tree: Mapping[str, Any] = decode_tree(encode(container))
    return Scene(name=container.name, tree=tree, functions=functions)


def _reached(find: Find, name: str) -> tuple[str, int]:
    """Where a Service is reached."""
    service = find(Ref(Service, name))
    if service is None:
        raise NotYet(f"Service {name} is not there yet")
    if service.status is None or not (service.status.effective_address and service.status.effective_port):
        raise NotYet(f"Service {name} has no address and port yet")
    return service.status.effective_address, service.status.effective_port


def _published(wanted: int | None, ports: Sequence[PortBinding]) -> PortBinding | None:
    if wanted is None:
        return ports[0] if len(ports) == 1 else None
    inside = next((one for one in ports if one.container_port == wanted), None)
    return inside or next((one for one in ports if one.host_port == wanted), None)
