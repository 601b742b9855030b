"""What is in a Pod's volumes: files from ConfigMaps, Secrets and the Pod itself, empty folders, and the machine's own.

Nothing is written here; `mounting` does that.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from levelset.kinds.core_v1 import DownwardAPIVolumeFile, KeyToPath, Volume, VolumeProjection
from levelset_local.node.facts import BadReference, Facts, field_value, resource_value
from levelset_local.node.needs import Found, Missing

__all__ = ["BadVolume", "Contents", "Empty", "File", "Files", "Host", "contents"]

DEFAULT_MODE: Final = 0o644
PRIVATE_MODE: Final = 0o600
"""What a file with a secret has if it says nothing: the folders of a machine are not a container's alone."""


class BadVolume(ValueError):
    """A volume cannot be made; the message is that of a FailedMount event."""


@dataclass(frozen=True, slots=True)
class File:
    """A file of a volume."""

    path: str
    data: bytes
    mode: int = DEFAULT_MODE


@dataclass(frozen=True, slots=True)
class Files:
    """A volume of files that are replaced together when what they are made from changes."""

    files: tuple[File, ...]


@dataclass(frozen=True, slots=True)
class Empty:
    """A folder that is empty at first."""


@dataclass(frozen=True, slots=True)
class Host:
    """A path of this machine."""

    path: str
    type: str = ""


Contents = Files | Empty | Host
"""What a volume is."""


def contents(volume: Volume, facts: Facts, found: Found) -> Contents:
    """What is in a volume; BadVolume if something that it needs is missing or wrong."""
    try:
        return _contents(volume, facts, found)
    except (Missing, BadReference, BadVolume) as error:
        raise BadVolume(f'MountVolume.SetUp failed for volume "{volume.name}" : {error}') from error


def _contents(volume: Volume, facts: Facts, found: Found) -> Contents:
    if "/" in volume.name or volume.name in ("", ".", ".."):
        raise BadVolume("its name cannot be that of a folder; use letters, digits and dashes")
    if volume.empty_dir is not None:
        return Empty()
    if volume.host_path is not None:
        return Host(volume.host_path.path, volume.host_path.type or "")
    if volume.projected is not None:
        mode = volume.projected.default_mode
        parts = volume.projected.sources
        return Files(_checked(one for part in parts for one in _projected(part, facts, found, mode)))
    return Files(_checked(_single(volume, facts, found)))


def _single(volume: Volume, facts: Facts, found: Found) -> Iterable[File]:
    """The files of a volume with one source."""
    if volume.config_map is not None:
        its = volume.config_map
        return _of_config_map(its.name, its.items, found, optional=its.optional, mode=its.default_mode)
    if volume.secret is not None:
        own = volume.secret
        return _of_secret(own.secret_name, own.items, found, optional=own.optional, mode=own.default_mode)
    if volume.downward_api is not None:
        return _of_pod(volume.downward_api.items, facts, volume.downward_api.default_mode)
    raise BadVolume(
        "volumes of this type are not supported here; "
        "use configMap, secret, emptyDir, projected, downwardAPI or hostPath"
    )


def _projected(part: VolumeProjection, facts: Facts, found: Found, mode: int | None) -> Iterable[File]:
    if part.config_map is not None:
        its = part.config_map
        return _of_config_map(its.name, its.items, found, optional=its.optional, mode=mode)
    if part.secret is not None:
        own = part.secret
        return _of_secret(own.name, own.items, found, optional=own.optional, mode=mode)
    if part.downward_api is not None:
        return _of_pod(part.downward_api.items, facts, mode)
    raise BadVolume("projected sources of this type are not supported here; use configMap, secret or downwardAPI")


def _of_config_map(
    name: str | None, items: tuple[KeyToPath, ...], found: Found, *, optional: bool | None, mode: int | None
) -> Iterable[File]:
    config_map = found.config_map(name, optional=optional)
    if config_map is None:
        return ()
    data = {key: text.encode() for key, text in config_map.data.items()} | config_map.binary_data
    return _chosen(data, items, "config", optional=optional, mode=DEFAULT_MODE if mode is None else mode)


def _of_secret(
    name: str | None, items: tuple[KeyToPath, ...], found: Found, *, optional: bool | None, mode: int | None
) -> Iterable[File]:
    secret = found.secret(name, optional=optional)
    if secret is None:
        return ()
    # The server fills in 0644; a file that says so cannot be told from one that says nothing.
    wanted = PRIVATE_MODE if mode in (None, DEFAULT_MODE) else mode
    return _chosen(secret.data, items, "secret", optional=optional, mode=wanted or PRIVATE_MODE)


def _chosen(
    data: Mapping[str, bytes], items: tuple[KeyToPath, ...], word: str, *, optional: bool | None, mode: int
) -> Iterator[File]:
    if not items:
        yield from (File(key, data[key], mode) for key in sorted(data))
        return
    for item in items:
        if item.key in data:
            yield File(item.path, data[item.key], mode if item.mode is None else item.mode)
        elif not optional:
            raise BadVolume(f"references non-existent {word} key: {item.key}")


def _of_pod(items: tuple[DownwardAPIVolumeFile, ...], facts: Facts, mode: int | None) -> Iterator[File]:
    for item in items:
        if item.field_ref is not None:
            text = field_value(item.field_ref, facts)
        elif item.resource_field_ref is not None:
            text = resource_value(item.resource_field_ref, facts)
        else:
            raise BadVolume(f"{item.path}: name a fieldRef or a resourceFieldRef")
        wanted = item.mode if item.mode is not None else mode
        yield File(item.path, text.encode(), DEFAULT_MODE if wanted is None else wanted)


def _checked(files: Iterable[File]) -> tuple[File, ...]:
    """The files, the later ones in the place of the earlier ones; BadVolume if a path would leave the volume."""
    made: dict[str, File] = {}
    for one in files:
        parts = PurePosixPath(one.path).parts
        if not parts or one.path.startswith("/") or ".." in parts or parts[0].startswith(".."):
            raise BadVolume(f"invalid path {one.path!r}: must be relative, and must not begin with or contain '..'")
        made["/".join(parts)] = one
    return tuple(made.values())
