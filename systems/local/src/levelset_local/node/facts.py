"""What a container may be told about its Pod and the machine: the values of fieldRef and resourceFieldRef."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from levelset import Quantity
from levelset.kinds.core_v1 import Container, ObjectFieldSelector, Pod, ResourceFieldSelector

__all__ = ["BadReference", "Facts", "field_value", "resource_value"]

_SUBSCRIPT: Final = re.compile(r"metadata\.(labels|annotations)\['([^']*)'\]")
_ONE: Final = Quantity("1")


class BadReference(ValueError):
    """A fieldRef or resourceFieldRef names what there is not; the message says what, as Kubernetes does."""


@dataclass(frozen=True, slots=True)
class Facts:
    """A Pod, and what its node has decided for it."""

    pod: Pod
    address: str
    """The Pod's own address."""
    host: str = "127.0.0.1"
    node: str = "local"
    allocatable: Mapping[str, Quantity] = field(default_factory=dict[str, Quantity])

    @property
    def namespace(self) -> str:
        """Where the Pod is."""
        return self.pod.namespace or "default"


def field_value(selector: ObjectFieldSelector, facts: Facts) -> str:
    """What a fieldRef stands for; BadReference if it names no such field."""
    path = selector.field_path
    subscript = _SUBSCRIPT.fullmatch(path)
    if subscript is not None:
        metadata = facts.pod.metadata
        found = metadata.labels if subscript[1] == "labels" else metadata.annotations
        return found.get(subscript[2], "")
    known = _plain_fields(facts)
    if path not in known:
        raise BadReference(f"unsupported fieldPath: {path}")
    return known[path]


def _plain_fields(facts: Facts) -> dict[str, str]:
    metadata, spec = facts.pod.metadata, facts.pod.spec
    return {
        "metadata.name": metadata.name,
        "metadata.namespace": facts.namespace,
        "metadata.uid": metadata.uid,
        "metadata.labels": _listed(metadata.labels),
        "metadata.annotations": _listed(metadata.annotations),
        "spec.nodeName": spec.node_name or facts.node,
        "spec.serviceAccountName": spec.service_account_name or "default",
        "status.podIP": facts.address,
        "status.podIPs": facts.address,
        "status.hostIP": facts.host,
        "status.hostIPs": facts.host,
    }


def _listed(texts: Mapping[str, str]) -> str:
    return "\n".join(f'{name}="{_quoted(texts[name])}"' for name in sorted(texts))


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def resource_value(selector: ResourceFieldSelector, facts: Facts, container: Container | None = None) -> str:
    """How much of a resource a container may have, in units of the divisor, rounded up; BadReference if unknown.

    What has no limit may have all that the node has; what has no request has asked for nothing.
    """
    container = _named(selector, facts, container)
    kind, _, resource = selector.resource.partition(".")
    if kind not in ("limits", "requests") or not resource:
        raise BadReference(f"unsupported container resource : {selector.resource}")
    given = container.resources.limits if kind == "limits" else container.resources.requests
    amount = given.get(resource)
    if amount is None:
        amount = facts.allocatable.get(resource, Quantity("0")) if kind == "limits" else Quantity("0")
    divisor = selector.divisor or _ONE
    return str(math.ceil(amount.to_fraction() / divisor.to_fraction()))


def _named(selector: ResourceFieldSelector, facts: Facts, container: Container | None) -> Container:
    if not selector.container_name and container is not None:
        return container
    spec = facts.pod.spec
    for one in (*spec.containers, *spec.init_containers):
        if one.name == selector.container_name:
            return one
    raise BadReference(f"container {selector.container_name} not found")
