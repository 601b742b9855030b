"""Parses what the command line tools of Docker and Podman print: inspect output and events."""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, TypeGuard, get_args

from levelset.errors import BadTime
from levelset.objects import parse_time
from levelset_dcp.engines.errors import Incomplete
from levelset_dcp.engines.models import (
    Attachment,
    ContainerInfo,
    ContainerStatusName,
    EngineEvent,
    EngineHealth,
    HealthName,
    ImageInfo,
    Mount,
    NetworkInfo,
    PortBinding,
    VolumeInfo,
)

__all__ = [
    "as_list",
    "as_mapping",
    "as_text",
    "as_texts",
    "as_time",
    "documents",
    "is_health",
    "parse_container",
    "parse_event",
    "parse_image",
    "parse_members",
    "parse_network",
    "parse_volume",
]

_DECODER: Final = json.JSONDecoder()
_NEVER: Final = 1
"""The year of the zero time, which stands for an unset time."""
_STATUSES: Final = frozenset(get_args(ContainerStatusName))
# States of Podman that Docker does not have.
_PODMAN_STATUSES: Final[Mapping[str, ContainerStatusName]] = {
    "configured": "created",
    "initialized": "created",
    "stopping": "running",
    "stopped": "exited",
}
_PODMAN_ACTIONS: Final = {"died": "die", "remove": "destroy", "exec_died": "exec_die"}


def documents(text: str) -> list[Mapping[str, Any]]:
    """The JSON objects of an output: concatenated, one on each line, or in a list; raises Incomplete."""
    found: list[Mapping[str, Any]] = []
    position = 0
    try:
        while (position := _skip_space(text, position)) < len(text):
            value, position = _DECODER.raw_decode(text, position)
            found += [as_mapping(one) for one in (as_list(value) if isinstance(value, list) else [value])]
    except (ValueError, RecursionError) as error:
        raise Incomplete(f"the output of the engine is not JSON: {text[:200]!r}") from error
    return found


def parse_container(tree: Mapping[str, Any]) -> ContainerInfo:
    """Parses the output of `container inspect`; raises Incomplete without an ID."""
    state, config, settings = (as_mapping(tree.get(key)) for key in ("State", "Config", "NetworkSettings"))
    status = _status(as_text(state.get("Status")))
    code = state.get("ExitCode")
    is_over = status in ("exited", "dead")
    started, finished = as_time(state.get("StartedAt")), as_time(state.get("FinishedAt"))
    if is_over and started is not None and finished is not None:
        finished = max(started, finished)  # Podman takes them from two clocks, one of which is coarse
    return ContainerInfo(
        id=_required(tree, "Id", "container"),
        name=as_text(tree.get("Name")).removeprefix("/"),
        image=as_text(tree.get("ImageName")) or as_text(config.get("Image")) or as_text(tree.get("Image")),
        status=status,
        created_at=as_time(tree.get("Created")),
        started_at=started,
        finished_at=finished,
        exit_code=code if is_over and isinstance(code, int) else None,
        error=as_text(state.get("Error")),
        command=(as_text(tree.get("Path")), *as_texts(tree.get("Args"))),
        env=_variables(config.get("Env")),
        labels=_texts_by_name(config.get("Labels")),
        mounts=tuple(_mount(as_mapping(one)) for one in as_list(tree.get("Mounts"))),
        # Podman assigns ports when a container is created, but they are open only while it runs.
        ports=tuple(_ports(as_mapping(settings.get("Ports")))) if status in ("running", "paused") else (),
        networks=tuple(_attachment(key, as_mapping(one)) for key, one in as_mapping(settings.get("Networks")).items()),
        health=_health(as_mapping(state.get("Health") or state.get("Healthcheck"))),
    )


def parse_image(tree: Mapping[str, Any]) -> ImageInfo:
    """Parses the output of `image inspect`; raises Incomplete without an ID."""
    config = as_mapping(tree.get("Config"))
    digests = as_texts(tree.get("RepoDigests"))
    entrypoint = config.get("Entrypoint")
    return ImageInfo(
        id=f"sha256:{_required(tree, 'Id', 'image').removeprefix('sha256:')}",
        tags=as_texts(tree.get("RepoTags")),
        digest=as_text(tree.get("Digest")) or (digests[0].partition("@")[2] if digests else ""),
        created_at=as_time(tree.get("Created")),
        labels=_texts_by_name(config.get("Labels") or tree.get("Labels")),
        env=_variables(config.get("Env")),
        entrypoint=(entrypoint,) if isinstance(entrypoint, str) and entrypoint else as_texts(entrypoint),
        command=as_texts(config.get("Cmd")),
        user=as_text(config.get("User")),
    )


def parse_network(tree: Mapping[str, Any], members: Mapping[str, Iterable[str]] | None = None) -> NetworkInfo:
    """Parses the output of `network inspect`, with the members of `parse_members`; raises Incomplete."""
    # Docker's field names are capitalized, Podman's are not.
    low = {key.lower(): value for key, value in tree.items()}
    name = as_text(low.get("name"))
    ranges = as_list(low.get("subnets")) or as_list(as_mapping(low.get("ipam")).get("Config"))
    pairs = [{key.lower(): value for key, value in as_mapping(one).items()} for one in ranges]
    return NetworkInfo(
        id=_required(low, "id", "network"),
        name=name,
        driver=as_text(low.get("driver")),
        ipv6=(low.get("enableipv6") or low.get("ipv6_enabled")) is True,
        subnets=tuple(as_text(one.get("subnet")) for one in pairs if one.get("subnet")),
        gateways=tuple(as_text(one.get("gateway")) for one in pairs if one.get("gateway")),
        container_ids=tuple((members or {}).get(name, ())),
        labels=_texts_by_name(low.get("labels")),
        created_at=as_time(low.get("created")),
    )


def parse_members(text: str) -> Mapping[str, tuple[str, ...]]:
    """The container IDs by network; each line has an ID, a space, and comma-separated network names."""
    found: dict[str, tuple[str, ...]] = {}
    for line in text.splitlines():
        container, _, names = line.strip().partition(" ")
        for name in names.split(","):
            if name.strip():
                found[name.strip()] = (*found.get(name.strip(), ()), container)
    return found


def parse_volume(tree: Mapping[str, Any]) -> VolumeInfo:
    """Parses the output of `volume inspect`; raises Incomplete without a name."""
    return VolumeInfo(
        name=_required(tree, "Name", "volume"),
        driver=as_text(tree.get("Driver")),
        mount_point=as_text(tree.get("Mountpoint")),
        labels=_texts_by_name(tree.get("Labels")),
        created_at=as_time(tree.get("CreatedAt")),
    )


def as_mapping(value: Any) -> Mapping[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if _is_mapping(value) else {}


def as_list(value: Any) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return value if _is_list(value) else []


def as_text(value: Any) -> str:
    """The value if it is a string, else an empty one."""
    return value if isinstance(value, str) else ""


def as_texts(value: Any) -> tuple[str, ...]:
    """The strings of a list."""
    return tuple(one for one in as_list(value) if isinstance(one, str))


def as_time(value: Any) -> datetime | None:
    """Parses a time; None if it is invalid or the zero time."""
    try:
        found = parse_time(as_text(value))
    except BadTime:
        return None
    return None if found.year <= _NEVER else found


def is_health(text: str) -> TypeGuard[HealthName]:
    """Whether a string is a valid health status."""
    return text in get_args(HealthName)


def _skip_space(text: str, position: int) -> int:
    while position < len(text) and text[position].isspace():
        position += 1
    return position


def _is_mapping(value: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def _is_list(value: Any) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def _required(tree: Mapping[str, Any], key: str, kind: str) -> str:
    found = as_text(tree.get(key))
    if not found:
        raise Incomplete(f"the engine has returned a {kind} without {key}")
    return found


def _is_status(text: str) -> TypeGuard[ContainerStatusName]:
    return text in _STATUSES


def _status(text: str) -> ContainerStatusName:
    return text if _is_status(text) else _PODMAN_STATUSES.get(text, "unknown")


def _texts_by_name(value: Any) -> Mapping[str, str]:
    return {key: as_text(one) for key, one in as_mapping(value).items()}


def _variables(value: Any) -> Mapping[str, str]:
    return {name: text for name, _, text in (one.partition("=") for one in as_texts(value))}


def _mount(tree: Mapping[str, Any]) -> Mount:
    is_volume = tree.get("Type") == "volume"
    return Mount(
        type="volume" if is_volume else "bind",
        source=as_text(tree.get("Name" if is_volume else "Source")),
        target=as_text(tree.get("Destination")),
        read_only=tree.get("RW") is False,
    )


def _ports(tree: Mapping[str, Any]) -> Iterable[PortBinding]:
    for key, places in tree.items():
        number, _, protocol = key.partition("/")
        for place in (as_mapping(one) for one in as_list(places)):
            port = as_text(place.get("HostPort"))
            if number.isdecimal() and port.isdecimal():
                yield PortBinding(
                    container_port=int(number),
                    host_port=int(port),
                    protocol="udp" if protocol == "udp" else "tcp",
                    host_ip=as_text(place.get("HostIp")),
                )


def _attachment(name: str, tree: Mapping[str, Any]) -> Attachment:
    key = as_text(tree.get("NetworkID"))
    return Attachment(
        network=name,
        network_id="" if key == name else key,  # Podman repeats the name
        aliases=as_texts(tree.get("Aliases")),
        address=as_text(tree.get("IPAddress")),
        gateway=as_text(tree.get("Gateway")),
    )


def _health(tree: Mapping[str, Any]) -> EngineHealth | None:
    status = as_text(tree.get("Status"))
    if not is_health(status):
        return None
    checks = as_list(tree.get("Log"))
    last = as_mapping(checks[-1] if checks else None)
    return EngineHealth(status=status, output=as_text(last.get("Output")), at=as_time(last.get("End")))


def parse_event(line: bytes | str) -> EngineEvent | None:
    """Parses an event; None if it is invalid, or not about a container or network."""
    try:
        tree = as_mapping(json.loads(line))
    except (ValueError, RecursionError):
        return None
    kind = as_text(tree.get("Type"))
    if kind not in ("container", "network"):
        return None
    return _docker(tree, kind) if "Actor" in tree else _podman(tree, kind)


def _docker(tree: Mapping[str, Any], kind: str) -> EngineEvent:
    actor = as_mapping(tree.get("Actor"))
    key, attributes = as_text(actor.get("ID")), _attributes(actor.get("Attributes"))
    action, _, more = as_text(tree.get("Action")).partition(": ")
    if action == "health_status":
        attributes["health"] = more
    code = attributes.get("exitCode", "")
    return EngineEvent(
        kind="container" if kind == "container" else "network",
        action=action,
        id=key,
        name=attributes.get("name", ""),
        container=key if kind == "container" else attributes.get("container", ""),
        exit_code=int(code) if action == "die" and code.isdecimal() else None,
        attributes=attributes,
        at=_docker_time(tree),
    )


def _podman(tree: Mapping[str, Any], kind: str) -> EngineEvent:
    status, key = as_text(tree.get("Status")), as_text(tree.get("ID"))
    action = _PODMAN_ACTIONS.get(status, status)
    attributes = _attributes(tree.get("Attributes"))
    at = as_time(tree.get("Time"))
    if health := as_text(tree.get("health_status")) or as_text(tree.get("HealthStatus")):
        attributes["health"] = health
    if kind == "network":
        # The ID of the event is that of the container; only the name of the network is given.
        name = as_text(tree.get("network")) or as_text(tree.get("Network"))
        return EngineEvent(kind="network", action=action, name=name, container=key, attributes=attributes, at=at)
    code = tree.get("ContainerExitCode", 0)  # omitted if it is 0
    return EngineEvent(
        kind="container",
        action=action,
        id=key,
        name=as_text(tree.get("Name")),
        container=key,
        exit_code=code if action == "die" and isinstance(code, int) else None,
        attributes=attributes,
        at=at,
    )


def _attributes(value: Any) -> dict[str, str]:
    return {key: as_text(one) for key, one in as_mapping(value).items()}


def _docker_time(tree: Mapping[str, Any]) -> datetime | None:
    nanoseconds = tree.get("timeNano")
    if not isinstance(nanoseconds, int):
        return None
    try:
        return datetime.fromtimestamp(nanoseconds // 1000 / 1e6, UTC)
    except (OverflowError, OSError, ValueError):
        return None
