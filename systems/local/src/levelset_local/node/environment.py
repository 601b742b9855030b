"""The environment of a container: what its env and envFrom say, from whichever source, and what Kubernetes adds."""

from collections.abc import Iterable, Mapping

from levelset.kinds.core_v1 import Container, EnvFromSource, EnvVar, EnvVarSource, Service
from levelset_local.node.expanding import expand
from levelset_local.node.facts import BadReference, Facts, field_value, resource_value
from levelset_local.node.needs import Found, Missing
from levelset_local.node.service_links import service_links

__all__ = ["BadEnvironment", "container_environment"]


class BadEnvironment(ValueError):
    """A container's environment cannot be made; the message is that of CreateContainerConfigError."""


def container_environment(
    container: Container, facts: Facts, found: Found, services: Iterable[Service] = ()
) -> dict[str, str]:
    """The variables of a container, the later ones in the place of the earlier ones; BadEnvironment if one is missing.

    A value may name variables that come before it, and those of Services. What the container says itself wins over
    what it is given: POD_IP, HOSTNAME and the addresses of Services.
    """
    links = service_links(services)
    given = {"HOSTNAME": facts.pod.spec.hostname or facts.pod.name, "POD_IP": facts.address}
    said: dict[str, str] = {}
    try:
        for many in container.env_from:
            said.update(_all_of(many, facts, found))
        for variable in container.env:
            value = _value(variable, container, facts, found, {**given, **links, **said})
            if value is not None:
                said[variable.name] = value
    except (Missing, BadReference) as error:
        raise BadEnvironment(str(error)) from error
    return {**given, **links, **said}


def _all_of(many: EnvFromSource, facts: Facts, found: Found) -> dict[str, str]:
    texts: Mapping[str, str] = {}
    if many.config_map_ref is not None:
        config_map = found.config_map(many.config_map_ref.name, optional=many.config_map_ref.optional)
        texts = {} if config_map is None else config_map.data
    elif many.secret_ref is not None:
        secret = found.secret(many.secret_ref.name, optional=many.secret_ref.optional)
        where = f"Secret {facts.namespace}/{many.secret_ref.name}"
        texts = {} if secret is None else {key: _text(value, key, where) for key, value in secret.data.items()}
    named = {(many.prefix or "") + key: value for key, value in texts.items()}
    return {name: value for name, value in named.items() if name and "=" not in name}


def _value(variable: EnvVar, container: Container, facts: Facts, found: Found, known: Mapping[str, str]) -> str | None:
    """What a variable is; None if it may be missing and is."""
    source = variable.value_from
    if source is None:
        return expand(variable.value or "", known)
    if source.field_ref is not None:
        return field_value(source.field_ref, facts)
    if source.resource_field_ref is not None:
        return resource_value(source.resource_field_ref, facts, container)
    return _key_value(variable.name, source, facts, found)


def _key_value(name: str, source: EnvVarSource, facts: Facts, found: Found) -> str | None:
    if source.config_map_key_ref is not None:
        wanted = source.config_map_key_ref
        config_map = found.config_map(wanted.name, optional=wanted.optional)
        value = None if config_map is None else config_map.data.get(wanted.key)
        where = f"ConfigMap {facts.namespace}/{wanted.name}"
        return _of_key(value, wanted.key, where, optional=wanted.optional)
    if source.secret_key_ref is not None:
        asked = source.secret_key_ref
        secret = found.secret(asked.name, optional=asked.optional)
        where = f"Secret {facts.namespace}/{asked.name}"
        raw = None if secret is None else secret.data.get(asked.key)
        text = None if raw is None else _text(raw, asked.key, where)
        return _of_key(text, asked.key, where, optional=asked.optional)
    raise BadEnvironment(
        f"the variable {name} has a source that is not supported; use a ConfigMap, a Secret or a field"
    )


def _of_key(value: str | None, key: str, where: str, *, optional: bool | None) -> str | None:
    if value is None and not optional:
        raise Missing(f"couldn't find key {key} in {where}")
    return value


def _text(value: bytes, key: str, where: str) -> str:
    text = value.decode("utf-8", "surrogateescape")
    if "\0" in text:
        raise BadEnvironment(f"the key {key} in {where} has a NUL byte, which no variable can hold; mount it as a file")
    return text
