"""The contents of a Pod's volumes: files of ConfigMaps, Secrets, tokens and the downward API, and folders.

Pure: nothing is written here; `mounts` writes it to disk.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Final

from msgspec import Struct

from levelset.kinds.core_v1 import DownwardAPIVolumeFile, KeyToPath, Volume, VolumeProjection
from levelset_local.node.config_sources import ConfigSources, MissingReference
from levelset_local.node.downward_api import BadReference, PodInfo, field_value, resource_value

__all__ = ["BadVolume", "Contents", "Empty", "File", "Files", "Host", "volume_contents"]

DEFAULT_MODE: Final = 0o644
PRIVATE_MODE: Final = 0o600
"""The default mode of a file with a secret: unlike a container's, the machine's folders are open to other users."""


class BadVolume(ValueError):
    """A volume cannot be set up; the message is that of a FailedMount event."""


class File(Struct, frozen=True):
    """A file of a volume."""

    path: str
    data: bytes
    mode: int = DEFAULT_MODE


class Files(Struct, frozen=True):
    """A volume of files, which are replaced together when their source changes."""

    files: tuple[File, ...]


class Empty(Struct, frozen=True):
    """An emptyDir volume."""


class Host(Struct, frozen=True):
    """A hostPath volume: a path of this machine."""

    path: str
    type: str = ""


Contents = Files | Empty | Host
"""The contents of a volume."""


def volume_contents(volume: Volume, info: PodInfo, sources: ConfigSources) -> Contents:
    """The contents of a volume; raises BadVolume if one of its sources is missing or invalid."""
    try:
        return _contents(volume, info, sources)
    except (MissingReference, BadReference, BadVolume) as error:
        raise BadVolume(f'MountVolume.SetUp failed for volume "{volume.name}" : {error}') from error


def _contents(volume: Volume, info: PodInfo, sources: ConfigSources) -> Contents:
    if "/" in volume.name or volume.name in ("", ".", ".."):
        raise BadVolume("the name is not valid for a folder; use letters, digits and dashes")
    if volume.empty_dir is not None:
        return Empty()
    if volume.host_path is not None:
        return Host(volume.host_path.path, volume.host_path.type or "")
    if volume.persistent_volume_claim is not None:
        return Host(*sources.claim(volume.persistent_volume_claim.claim_name))
    if volume.projected is not None:
        mode = volume.projected.default_mode
        parts = volume.projected.sources
        return Files(_checked(one for part in parts for one in _projected(part, info, sources, mode)))
    return Files(_checked(_single(volume, info, sources)))


def _single(volume: Volume, info: PodInfo, sources: ConfigSources) -> Iterable[File]:
    """The files of a volume with one source."""
    if volume.config_map is not None:
        config_map = volume.config_map
        return _of_config_map(
            config_map.name, config_map.items, sources, optional=config_map.optional, mode=config_map.default_mode
        )
    if volume.secret is not None:
        secret = volume.secret
        return _of_secret(secret.secret_name, secret.items, sources, optional=secret.optional, mode=secret.default_mode)
    if volume.downward_api is not None:
        return _of_pod(volume.downward_api.items, info, volume.downward_api.default_mode)
    raise BadVolume(
        "volumes of this type are not supported here; "
        "use configMap, secret, emptyDir, projected, downwardAPI, hostPath or persistentVolumeClaim"
    )


def _projected(part: VolumeProjection, info: PodInfo, sources: ConfigSources, mode: int | None) -> Iterable[File]:
    if part.config_map is not None:
        config_map = part.config_map
        return _of_config_map(config_map.name, config_map.items, sources, optional=config_map.optional, mode=mode)
    if part.secret is not None:
        secret = part.secret
        return _of_secret(secret.name, secret.items, sources, optional=secret.optional, mode=mode)
    if part.downward_api is not None:
        return _of_pod(part.downward_api.items, info, mode)
    if part.service_account_token is not None:
        token = part.service_account_token
        return (File(token.path, sources.token(token).encode(), PRIVATE_MODE),)
    sources_here = "configMap, secret, downwardAPI or serviceAccountToken"
    raise BadVolume(f"projected sources of this type are not supported here; use {sources_here}")


def _of_config_map(
    name: str | None, items: tuple[KeyToPath, ...], sources: ConfigSources, *, optional: bool | None, mode: int | None
) -> Iterable[File]:
    config_map = sources.config_map(name, optional=optional)
    if config_map is None:
        return ()
    data = {key: text.encode() for key, text in config_map.data.items()} | config_map.binary_data
    return _chosen(data, items, "config", optional=optional, mode=DEFAULT_MODE if mode is None else mode)


def _of_secret(
    name: str | None, items: tuple[KeyToPath, ...], sources: ConfigSources, *, optional: bool | None, mode: int | None
) -> Iterable[File]:
    secret = sources.secret(name, optional=optional)
    if secret is None:
        return ()
    # The API server defaults the mode to 0644, so an explicit 0644 is indistinguishable from none.
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


def _of_pod(items: tuple[DownwardAPIVolumeFile, ...], info: PodInfo, mode: int | None) -> Iterator[File]:
    for item in items:
        if item.field_ref is not None:
            text = field_value(item.field_ref, info)
        elif item.resource_field_ref is not None:
            text = resource_value(item.resource_field_ref, info)
        else:
            raise BadVolume(f"{item.path}: name a fieldRef or a resourceFieldRef")
        wanted = item.mode if item.mode is not None else mode
        yield File(item.path, text.encode(), DEFAULT_MODE if wanted is None else wanted)


def _checked(files: Iterable[File]) -> tuple[File, ...]:
    """The files, of equal paths the last one; raises BadVolume if a path would leave the volume."""
    checked: dict[str, File] = {}
    for one in files:
        parts = PurePosixPath(one.path).parts
        if not parts or one.path.startswith("/") or ".." in parts or parts[0].startswith(".."):
            raise BadVolume(f"invalid path {one.path!r}: must be relative, and must not begin with or contain '..'")
        checked["/".join(parts)] = one
    return tuple(checked.values())
