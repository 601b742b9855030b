"""Writes a Pod's volumes to disk, and mounts them with symbolic links below a root folder of each container.

As in a kubelet, the files of a volume are in a versioned folder to which the link `..data` points, and each file is a
link through it. An update writes a new folder and replaces the link, so that readers never see part of an update.

No path is mounted for real: a container finds `/etc/app` at `$LEVELSET_MOUNT_ROOT/etc/app`, and mount paths in its
arguments and variables are rewritten accordingly.
"""

import os
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Final

from levelset.kinds.core_v1 import Container, VolumeMount
from levelset_local.node.environment import expand
from levelset_local.node.volumes import BadVolume, Contents, Empty, File, Files, Host

__all__ = [
    "MOUNT_ROOT",
    "is_within",
    "mount",
    "mount_paths",
    "path_below",
    "remove_folder",
    "rewrite_mount_path",
    "set_up_volume",
    "termination_message_path",
    "write_files",
]

_DATA: Final = "..data"
_NEXT: Final = "..data_tmp"
MOUNT_ROOT: Final = "LEVELSET_MOUNT_ROOT"
"""The variable with the folder below which a container finds its mount paths."""
_MESSAGE: Final = "/dev/termination-log"


def set_up_volume(folder: Path, contents: Contents) -> Path:
    """Creates or updates a volume in a folder and returns its path; raises BadVolume."""
    try:
        match contents:
            case Files(files):
                write_files(folder, files)
            case Empty():
                folder.mkdir(parents=True, exist_ok=True)
            case Host(path, type):
                return _host(Path(path), type)
    except OSError as error:
        raise BadVolume(f'MountVolume.SetUp failed for volume "{folder.name}" : {error}') from error
    return folder


def write_files(folder: Path, files: Iterable[File]) -> bool:
    """Replaces the files of a volume atomically; returns whether they have changed."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {one.path: one for one in files}
    data = folder / _DATA
    if data.is_symlink() and _holds(data, wanted):
        return False
    new = _new_folder(folder)
    try:
        for one in wanted.values():
            _write(new / one.path, one)
    except OSError:
        remove_folder(new)
        raise
    old = folder / data.readlink() if data.is_symlink() else None
    (folder / _NEXT).unlink(missing_ok=True)
    (folder / _NEXT).symlink_to(new.name)
    (folder / _NEXT).replace(data)
    _link(folder, {path.partition("/")[0] for path in wanted})
    if old is not None and old != new:
        remove_folder(old)
    return True


def _holds(data: Path, wanted: Mapping[str, File]) -> bool:
    there = {str(path.relative_to(data)): path for path in data.rglob("*") if path.is_file()}
    if there.keys() != wanted.keys():
        return False
    return all(
        path.read_bytes() == wanted[name].data and path.stat().st_mode & 0o777 == wanted[name].mode
        for name, path in there.items()
    )


def _new_folder(folder: Path) -> Path:
    number = 1 + max((int(one.name[2:]) for one in folder.glob("..[0-9]*") if one.name[2:].isdecimal()), default=0)
    made = folder / f"..{number}"
    made.mkdir(mode=0o755)
    return made


def _write(path: Path, one: File) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(one.data)
    path.chmod(one.mode)


def _link(folder: Path, names: set[str]) -> None:
    """Creates the links to the files of a volume, and removes those of files that are gone."""
    for name in sorted(names):
        link = folder / name
        if not link.is_symlink():
            link.symlink_to(f"{_DATA}/{name}")
    for link in folder.iterdir():
        # Links to other places are mounts inside of this volume.
        if link.is_symlink() and link.name not in names and link.readlink().parts[0] == _DATA:
            link.unlink()


def _host(path: Path, type_: str) -> Path:
    """The path of a hostPath volume, created or checked as its type requires."""
    if type_ == "DirectoryOrCreate":
        path.mkdir(parents=True, exist_ok=True)
    elif type_ == "FileOrCreate":
        path.touch(exist_ok=True)
    checks = {"Directory": path.is_dir, "File": path.is_file, "Socket": path.is_socket}
    check = checks.get(type_)
    if check is not None and not check():
        raise BadVolume(f"hostPath type check failed: {path} is not a {type_.lower()}")
    return path


def mount(container: Container, volumes: Mapping[str, Path], root: Path, env: Mapping[str, str], own: Path) -> None:
    """Links the volumes of a container at their mount paths below the root; raises BadVolume.

    A `subPath` of a volume of files is copied: as in Kubernetes, it is not updated while the container runs. A mount
    inside of another volume replaces what is there instead of hiding it, so nothing is mounted inside of a hostPath,
    only inside of the Pod's `own` folder.
    """
    for one in sorted(container.volume_mounts, key=lambda each: each.mount_path):
        if one.name not in volumes:
            raise BadVolume(f'container {container.name} mounts "{one.name}", but there is no such volume in the Pod')
        place = Path(path_below(str(root), one.mount_path))
        if place == root:
            raise BadVolume(f'volume "{one.name}" cannot be mounted at {one.mount_path}; name a folder below it')
        try:
            _mount_one(one, volumes[one.name], place, env, own)
        except OSError as error:
            raise BadVolume(f'volume "{one.name}" cannot be mounted at {one.mount_path} : {error}') from error


def is_within(place: Path, own: Path) -> bool:
    """Whether a path is inside of a folder after all links are resolved."""
    return place.parent.resolve().is_relative_to(own.resolve())


def _mount_one(one: VolumeMount, volume: Path, place: Path, env: Mapping[str, str], own: Path) -> None:
    sub_path = one.sub_path or (expand(one.sub_path_expr, env) if one.sub_path_expr else "")
    if ".." in Path(sub_path).parts or sub_path.startswith("/"):
        raise BadVolume(f"subPath {sub_path!r} must be relative, and must not contain '..'")
    target = volume / sub_path if sub_path else volume
    if not is_within(place, own):
        if place.exists() and target.exists() and place.samefile(target):
            return
        raise BadVolume(
            f'volume "{one.name}" cannot be mounted at {one.mount_path}: that would change '
            f"{place.parent.resolve()} of this machine; mount it outside of the hostPath"
        )
    place.parent.mkdir(parents=True, exist_ok=True)
    if sub_path and (volume / _DATA).is_symlink():
        _copy(target, place)
        return
    if sub_path and not target.exists():
        target.mkdir(parents=True)
    if place.is_symlink() and place.readlink() == target:
        return
    _clear(place)
    place.symlink_to(target)


def _copy(source: Path, place: Path) -> None:
    _clear(place)
    if source.is_dir():
        shutil.copytree(source, place)
    elif source.exists():
        shutil.copy2(source, place)
    else:
        raise BadVolume(f"subPath {source.name!r} does not exist in its volume")


def _clear(place: Path) -> None:
    if place.is_symlink() or place.is_file():
        place.unlink()
    elif place.is_dir():
        remove_folder(place)


def remove_folder(folder: Path) -> None:
    """Removes a folder with its content, without following links; does nothing if it does not exist."""
    with suppress(FileNotFoundError):
        shutil.rmtree(folder)


def termination_message_path(container: Container) -> str:
    """The path of the termination message file inside of the container."""
    return container.termination_message_path or _MESSAGE


def mount_paths(container: Container) -> list[str]:
    """The paths of a container that are below its mount root on this machine."""
    return [*(one.mount_path for one in container.volume_mounts), termination_message_path(container)]


def path_below(root: str, path: str) -> str:
    """The path on this machine of an absolute path of a container; `..` never leaves the root."""
    parts: list[str] = []
    for part in PurePosixPath(path).parts:
        if part == "..":
            parts = parts[:-1]
        elif part != "/":
            parts.append(part)
    return "/".join((root.rstrip("/"), *parts))


def rewrite_mount_path(text: str, mounts: Iterable[str], root: str) -> str:
    """The text with the mount path that it begins with moved below the root; any other text is unchanged.

    Of an option such as `--config=/etc/app/config.yaml` the value is rewritten.
    """
    option, equals, value = text.partition("=")
    if equals and option.startswith("-"):
        return f"{option}={rewrite_mount_path(value, mounts, root)}"
    for mount in sorted(mounts, key=len, reverse=True):
        clean = mount.rstrip("/")
        if clean and (text == clean or text.startswith(f"{clean}/")):
            return path_below(root, clean) + text[len(clean) :]
    return text
