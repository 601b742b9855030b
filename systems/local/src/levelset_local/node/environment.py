"""The environment of a container: its `env` and `envFrom`, expanded, and the variables of Services."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from levelset.kinds.core_v1 import Container, EnvFromSource, EnvVar, EnvVarSource, Service, ServicePort
from levelset_local.node.config_sources import ConfigSources, MissingReference
from levelset_local.node.downward_api import BadReference, PodInfo, field_value, resource_value

__all__ = ["BadEnvironment", "container_environment", "expand", "service_variables"]

_EXPANSION: Final = re.compile(r"\$(?:(\$)|\(([^)]*)\))")


class BadEnvironment(ValueError):
    """The environment of a container cannot be made; the message is that of CreateContainerConfigError."""


def container_environment(
    container: Container, info: PodInfo, sources: ConfigSources, services: Iterable[Service] = ()
) -> dict[str, str]:
    """The variables of a container; raises BadEnvironment if a source of one is missing.

    A later definition replaces an earlier one. A value may refer to variables that are defined before it, and to those
    of Services. The container's own definitions override POD_IP, HOSTNAME and the variables of Services.
    """
    links = service_variables(services)
    given = {"HOSTNAME": info.pod.spec.hostname or info.pod.name, "POD_IP": info.address}
    own: dict[str, str] = {}
    try:
        for env_from in container.env_from:
            own.update(_all_keys(env_from, info, sources))
        for variable in container.env:
            value = _value(variable, container, info, sources, {**given, **links, **own})
            if value is not None:
                own[variable.name] = value
    except (MissingReference, BadReference) as error:
        raise BadEnvironment(str(error)) from error
    return {**given, **links, **own}


def _all_keys(env_from: EnvFromSource, info: PodInfo, sources: ConfigSources) -> dict[str, str]:
    texts: Mapping[str, str] = {}
    if env_from.config_map_ref is not None:
        config_map = sources.config_map(env_from.config_map_ref.name, optional=env_from.config_map_ref.optional)
        texts = {} if config_map is None else config_map.data
    elif env_from.secret_ref is not None:
        secret = sources.secret(env_from.secret_ref.name, optional=env_from.secret_ref.optional)
        where = f"Secret {info.namespace}/{env_from.secret_ref.name}"
        texts = {} if secret is None else {key: _text(value, key, where) for key, value in secret.data.items()}
    named = {(env_from.prefix or "") + key: value for key, value in texts.items()}
    return {name: value for name, value in named.items() if name and "=" not in name}


def _value(
    variable: EnvVar, container: Container, info: PodInfo, sources: ConfigSources, defined: Mapping[str, str]
) -> str | None:
    """The value of a variable; None if its source is optional and missing."""
    source = variable.value_from
    if source is None:
        return expand(variable.value or "", defined)
    if source.field_ref is not None:
        return field_value(source.field_ref, info)
    if source.resource_field_ref is not None:
        return resource_value(source.resource_field_ref, info, container)
    return _key_value(variable.name, source, info, sources)


def _key_value(name: str, source: EnvVarSource, info: PodInfo, sources: ConfigSources) -> str | None:
    if source.config_map_key_ref is not None:
        selector = source.config_map_key_ref
        config_map = sources.config_map(selector.name, optional=selector.optional)
        value = None if config_map is None else config_map.data.get(selector.key)
        where = f"ConfigMap {info.namespace}/{selector.name}"
        return _of_key(value, selector.key, where, optional=selector.optional)
    if source.secret_key_ref is not None:
        secret_selector = source.secret_key_ref
        secret = sources.secret(secret_selector.name, optional=secret_selector.optional)
        where = f"Secret {info.namespace}/{secret_selector.name}"
        raw = None if secret is None else secret.data.get(secret_selector.key)
        text = None if raw is None else _text(raw, secret_selector.key, where)
        return _of_key(text, secret_selector.key, where, optional=secret_selector.optional)
    raise BadEnvironment(
        f"the variable {name} has a source that is not supported; use a ConfigMap, a Secret or a field"
    )


def _of_key(value: str | None, key: str, where: str, *, optional: bool | None) -> str | None:
    if value is None and not optional:
        raise MissingReference(f"couldn't find key {key} in {where}")
    return value


def _text(value: bytes, key: str, where: str) -> str:
    text = value.decode("utf-8", "surrogateescape")
    if "\0" in text:
        raise BadEnvironment(f"the key {key} in {where} has a NUL byte, which no variable can hold; mount it as a file")
    return text


def expand(text: str, variables: Mapping[str, str]) -> str:
    """The text with each `$(NAME)` of a defined variable replaced; others stay, and `$$(NAME)` is `$(NAME)`."""

    def replacement(match: re.Match[str]) -> str:
        return "$" if match[1] else variables.get(match[2], match[0])

    return _EXPANSION.sub(replacement, text)


def service_variables(services: Iterable[Service]) -> dict[str, str]:
    """`WEB_SERVICE_HOST`, `WEB_SERVICE_PORT`, `WEB_PORT_80_TCP` and so on, for each Service with a cluster IP."""
    made: dict[str, str] = {}
    for service in sorted(services, key=lambda one: (one.namespace or "", one.name)):
        spec = service.spec
        if spec.cluster_ip and spec.cluster_ip != "None" and spec.ports:
            made.update(_links(_variable(service.name), spec.cluster_ip, spec.ports))
    return made


def _links(name: str, address: str, ports: tuple[ServicePort, ...]) -> dict[str, str]:
    made = {f"{name}_SERVICE_HOST": address, f"{name}_SERVICE_PORT": str(ports[0].port)}
    for port in ports:
        if port.name:
            made[f"{name}_SERVICE_PORT_{_variable(port.name)}"] = str(port.port)
    for number, port in enumerate(ports):
        protocol = port.protocol or "TCP"
        url = f"{protocol.lower()}://{address}:{port.port}"
        prefix = f"{name}_PORT_{port.port}_{protocol}"
        if number == 0:
            made[f"{name}_PORT"] = url
        made |= {
            prefix: url,
            f"{prefix}_PROTO": protocol.lower(),
            f"{prefix}_PORT": str(port.port),
            f"{prefix}_ADDR": address,
        }
    return made


def _variable(name: str) -> str:
    return name.upper().replace("-", "_")
