"""The ConfigMaps and Secrets that a Pod names, and those of them that were found."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from levelset import Ref
from levelset.kinds.core_v1 import ConfigMap, Container, Pod, Secret, Volume

__all__ = ["Found", "Missing", "config_maps", "secrets"]

K = TypeVar("K")


class Missing(LookupError):
    """What a container or volume needs is not there; the message says what, as Kubernetes does."""


@dataclass(frozen=True, slots=True)
class Found:
    """What was found of that which a Pod names."""

    config_maps: Mapping[str, ConfigMap] = field(default_factory=dict[str, ConfigMap])
    secrets: Mapping[str, Secret] = field(default_factory=dict[str, Secret])

    def config_map(self, name: str | None, *, optional: bool | None) -> ConfigMap | None:
        """The ConfigMap; None if it may be missing, and Missing if it may not."""
        return _required(self.config_maps, "configmap", name, optional=optional)

    def secret(self, name: str | None, *, optional: bool | None) -> Secret | None:
        """The Secret; None if it may be missing, and Missing if it may not."""
        return _required(self.secrets, "secret", name, optional=optional)


def _required(found: Mapping[str, K], word: str, name: str | None, *, optional: bool | None) -> K | None:
    one = found.get(name or "")
    if one is None and not optional:
        raise Missing(f'{word} "{name or ""}" not found')
    return one


def config_maps(pod: Pod) -> Iterator[Ref[ConfigMap]]:
    """The ConfigMaps that a Pod names, each once."""
    for name in _once(_config_map_names(pod)):
        yield Ref(ConfigMap, name, pod.namespace)


def secrets(pod: Pod) -> Iterator[Ref[Secret]]:
    """The Secrets that a Pod names, each once."""
    for name in _once(_secret_names(pod)):
        yield Ref(Secret, name, pod.namespace)


def _once(names: Iterator[str | None]) -> list[str]:
    return list(dict.fromkeys(name for name in names if name))


def _containers(pod: Pod) -> tuple[Container, ...]:
    return (*pod.spec.init_containers, *pod.spec.containers)


def _config_map_names(pod: Pod) -> Iterator[str | None]:
    for source in _env_sources(pod):
        yield _name(source.config_map_key_ref)
    for container in _containers(pod):
        for many in container.env_from:
            yield _name(many.config_map_ref)
    for volume in pod.spec.volumes:
        yield _name(volume.config_map)
        for projection in _projections(volume):
            yield _name(projection.config_map)


def _secret_names(pod: Pod) -> Iterator[str | None]:
    for source in _env_sources(pod):
        yield _name(source.secret_key_ref)
    for container in _containers(pod):
        for many in container.env_from:
            yield _name(many.secret_ref)
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
