"""The downward API: the values of fieldRef and resourceFieldRef."""

import math
import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field

from levelset import Quantity
from levelset.kinds.core_v1 import Container, ObjectFieldSelector, Pod, ResourceFieldSelector

__all__ = ["BadReference", "PodInfo", "field_value", "resource_value"]

_SUBSCRIPT: Final = re.compile(r"metadata\.(labels|annotations)\['([^']*)'\]")
_ONE: Final = Quantity("1")


class BadReference(ValueError):
    """A fieldRef or resourceFieldRef names an unknown field; the message is that of Kubernetes."""


class PodInfo(Struct, frozen=True):
    """A Pod with its address, and its node with the resources that it has."""

    pod: Pod
    address: str
    """The Pod's IP."""
    host: str = "127.0.0.1"
    node: str = "local"
    allocatable: Mapping[str, Quantity] = field(default_factory=dict[str, Quantity])

    @property
    def namespace(self) -> str:
        """The namespace of the Pod."""
        return self.pod.namespace or "default"


def field_value(selector: ObjectFieldSelector, info: PodInfo) -> str:
    """The value of a fieldRef; raises BadReference if the field is not supported."""
    path = selector.field_path
    subscript = _SUBSCRIPT.fullmatch(path)
    if subscript is not None:
        metadata = info.pod.metadata
        found = metadata.labels if subscript[1] == "labels" else metadata.annotations
        return found.get(subscript[2], "")
    known = _plain_fields(info)
    if path not in known:
        raise BadReference(f"unsupported fieldPath: {path}")
    return known[path]


def _plain_fields(info: PodInfo) -> dict[str, str]:
    metadata, spec = info.pod.metadata, info.pod.spec
    return {
        "metadata.name": metadata.name,
        "metadata.namespace": info.namespace,
        "metadata.uid": metadata.uid,
        "metadata.labels": _listed(metadata.labels),
        "metadata.annotations": _listed(metadata.annotations),
        "spec.nodeName": spec.node_name or info.node,
        "spec.serviceAccountName": spec.service_account_name or "default",
        "status.podIP": info.address,
        "status.podIPs": info.address,
        "status.hostIP": info.host,
        "status.hostIPs": info.host,
    }


def _listed(texts: Mapping[str, str]) -> str:
    return "\n".join(f'{name}="{_quoted(texts[name])}"' for name in sorted(texts))


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def resource_value(selector: ResourceFieldSelector, info: PodInfo, container: Container | None = None) -> str:
    """The limit or request of a container in units of the divisor, rounded up; raises BadReference if unknown.

    Without a limit it is the node's allocatable amount, without a request 0.
    """
    container = _named(selector, info, container)
    kind, _, resource = selector.resource.partition(".")
    if kind not in ("limits", "requests") or not resource:
        raise BadReference(f"unsupported container resource : {selector.resource}")
    given = container.resources.limits if kind == "limits" else container.resources.requests
    amount = given.get(resource)
    if amount is None:
        amount = info.allocatable.get(resource, Quantity("0")) if kind == "limits" else Quantity("0")
    divisor = selector.divisor or _ONE
    return str(math.ceil(amount.to_fraction() / divisor.to_fraction()))


def _named(selector: ResourceFieldSelector, info: PodInfo, container: Container | None) -> Container:
    if not selector.container_name and container is not None:
        return container
    spec = info.pod.spec
    for one in (*spec.containers, *spec.init_containers):
        if one.name == selector.container_name:
            return one
    raise BadReference(f"container {selector.container_name} not found")
