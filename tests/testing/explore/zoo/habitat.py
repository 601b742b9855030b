"""What the animals of the zoo live on: ConfigMaps for whatever a controller makes, and a cloud outside of the API."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from levelset import Object, ObjectMeta

__all__ = ["Cloud", "ConfigMap", "Expected", "Instance", "config_map"]


class ConfigMap(Object, api="v1"):
    """Stands for the volume, the job or the record that the real controller makes."""

    data: dict[str, str] = {}


def config_map(
    of: Object, name: str = "", *, labels: Mapping[str, str] | None = None, prefix: str = "", **data: Any
) -> ConfigMap:
    """A ConfigMap where an object is; `prefix` has the server make up the rest of its name."""
    metadata = ObjectMeta(name=name, generate_name=prefix, namespace=of.namespace, labels=dict(labels or {}))
    return ConfigMap(metadata=metadata, data={key: str(value) for key, value in data.items()})


@dataclass(frozen=True)
class Instance:
    """A machine that somebody pays for; `tag` is what its maker wrote on it."""

    id: int
    tag: str


class Cloud:
    """A provider that outlives every controller: it makes what it is asked for, as often as it is asked."""

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
    """What the explorer has to say about the broken one: the rule, and the step after which it is broken."""

    rule: str
    verb: str
    kind: str
