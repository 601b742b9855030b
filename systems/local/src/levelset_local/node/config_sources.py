"""The ConfigMaps and Secrets that a Pod references, and those of them that exist."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from levelset import Ref
from levelset.kinds.core_v1 import ConfigMap, Container, Pod, Secret, Volume

__all__ = ["ConfigSources", "MissingReference", "config_map_refs", "secret_refs"]

K = TypeVar("K")


class MissingReference(LookupError):
    """A ConfigMap, Secret or key that a container or volume needs does not exist; the message is that of Kubernetes."""


@dataclass(frozen=True, slots=True)
class ConfigSources:
    """The ConfigMaps and Secrets of a Pod that exist, by name."""

    config_maps: Mapping[str, ConfigMap] = field(default_factory=dict[str, ConfigMap])
    secrets: Mapping[str, Secret] = field(default_factory=dict[str, Secret])

    def config_map(self, name: str | None, *, optional: bool | None) -> ConfigMap | None:
        """The ConfigMap; if it does not exist, None if it is optional, else MissingReference is raised."""
        return _required(self.config_maps, "configmap", name, optional=optional)

    def secret(self, name: str | None, *, optional: bool | None) -> Secret | None:
        """The Secret; if it does not exist, None if it is optional, else MissingReference is raised."""
        return _required(self.secrets, "secret", name, optional=optional)


def _required(existing: Mapping[str, K], kind: str, name: str | None, *, optional: bool | None) -> K | None:
    one = existing.get(name or "")
    if one is None and not optional:
        raise MissingReference(f'{kind} "{name or ""}" not found')
    return one


def config_map_refs(pod: Pod) -> Iterator[Ref[ConfigMap]]:
    """The ConfigMaps that a Pod references, each once."""
    for name in _unique(_config_map_names(pod)):
        yield Ref(ConfigMap, name, pod.namespace)


def secret_refs(pod: Pod) -> Iterator[Ref[Secret]]:
    """The Secrets that a Pod references, each once."""
    for name in _unique(_secret_names(pod)):
        yield Ref(Secret, name, pod.namespace)


def _unique(names: Iterator[str | None]) -> list[str]:
    return list(dict.fromkeys(name for name in names if name))


def _containers(pod: Pod) -> tuple[Container, ...]:
    return (*pod.spec.init_containers, *pod.spec.containers)


def _config_map_names(pod: Pod) -> Iterator[str | None]:
    for source in _env_sources(pod):
        yield _name(source.config_map_key_ref)
    for container in _containers(pod):
        for env_from in container.env_from:
            yield _name(env_from.config_map_ref)
    for volume in pod.spec.volumes:
        yield _name(volume.config_map)
        for projection in _projections(volume):
            yield _name(projection.config_map)


def _secret_names(pod: Pod) -> Iterator[str | None]:
    for source in _env_sources(pod):
        yield _name(source.secret_key_ref)
    for container in _containers(pod):
        for env_from in container.env_from:
            yield _name(env_from.secret_ref)
    for volume in pod.spec.volumes:
        yield volume.secret.secret_name if volume.secret is not None else None
        for projection in _projections(volume):
            yield _name(projection.secret)


def _env_sources(pod: Pod) -> Iterator[Any]:
    for container in _containers(pod):
        for variable in container.env:
            if variable.value_from is not None:
                yield variable.value_from


def _projections(volume: Volume) -> tuple[Any, ...]:
    return volume.projected.sources if volume.projected is not None else ()


def _name(reference: Any) -> str | None:
    return None if reference is None else reference.name
