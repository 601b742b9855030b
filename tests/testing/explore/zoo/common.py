"""Shared parts of the planted bugs: ConfigMaps as children, and a cloud outside of the API."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from levelset import Object, ObjectMeta

__all__ = ["Cloud", "ConfigMap", "Expected", "Instance", "config_map"]


class ConfigMap(Object, api="v1"):
    """Stands for the volume, job or record that the real controller creates."""

    data: dict[str, str] = {}


def config_map(
    of: Object, name: str = "", *, labels: Mapping[str, str] | None = None, prefix: str = "", **data: Any
) -> ConfigMap:
    """A ConfigMap in the namespace of an object; `prefix` requests a generated name."""
    metadata = ObjectMeta(name=name, generate_name=prefix, namespace=of.namespace, labels=dict(labels or {}))
    return ConfigMap(metadata=metadata, data={key: str(value) for key, value in data.items()})


@dataclass(frozen=True)
class Instance:
    """A cloud instance; `tag` is the uid of its owner."""

    id: int
    tag: str


class Cloud:
    """A cloud provider that survives crashes and is not idempotent."""

    def __init__(self) -> None:
        self.instances: dict[int, Instance] = {}
        self._made = 0

    async def create(self, tag: str) -> Instance:
        self._made += 1
        made = self.instances[self._made] = Instance(self._made, tag)
        return made

    async def find(self, tag: str) -> Instance | None:
        return next((one for one in self.instances.values() if one.tag == tag), None)

    async def delete(self, number: int) -> None:
        self.instances.pop(number, None)


@dataclass(frozen=True)
class Expected:
    """The expected finding for a broken controller: the rule, and the verb and kind of the step."""

    rule: str
    verb: str
    kind: str
