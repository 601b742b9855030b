"""What the templates of an Executable may speak of: itself, and the Services that it produces and uses."""

from collections.abc import Callable, Mapping
from typing import Any

from levelset import Ref, encode
from levelset.objects import decode_tree
from levelset_dcp.kinds import Executable, Service
from levelset_dcp.named import producers
from levelset_dcp.templates import NotYet, Scene

__all__ = ["Ports", "scene_of"]

Ports = Mapping[str, int]
"""The ports that a program was given to produce its Services at, by their names."""


def scene_of(exe: Executable, ports: Ports, find: Callable[[Ref[Service]], Service | None]) -> Scene:
    """The scene of an Executable; `find` gives a Service, if it is there."""
    made = {one.service: one for one in producers(exe)}

    def service(name: str) -> Service:
        found = find(Ref(Service, name))
        if found is None:
            raise NotYet(f"Service {name} is not there yet")
        return found

    def port_for_serving(_: str, name: str) -> int:
        if name in made and (port := made[name].port or ports.get(name)):
            return port
        service(name)  # not there yet, most often
        raise NotYet(f"{exe.name} has no port for Service {name} yet; it must say that it produces it")

    def address_for_serving(_: str, name: str) -> str:
        return (made[name].address if name in made else "") or "localhost"

    def port_for(_: str, name: str) -> int:
        status = service(name).status
        if status is None or not status.effective_port:
            raise NotYet(f"Service {name} has no port yet")
        return status.effective_port

    def address_for(_: str, name: str) -> str:
        status = service(name).status
        if status is None or not status.effective_address:
            raise NotYet(f"Service {name} has no address yet")
        return status.effective_address

    functions: dict[str, Callable[[str, str], object]] = {
        "portForServing": port_for_serving,
        "addressForServing": address_for_serving,
        "portFor": port_for,
        "addressFor": address_for,
    }
    tree: Mapping[str, Any] = decode_tree(encode(exe))
    return Scene(name=exe.name, tree=tree, functions=functions)
