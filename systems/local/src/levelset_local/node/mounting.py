"""Puts a Pod's volumes on the disk: below a folder of its own, files all at once, and found by their mount paths.

The files of a volume are in a folder with a name of its own, which the link `..data` names; each file is a link through
it. A change writes a new folder and moves the link, so that no reader ever sees a part of a change.
"""

import os
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from levelset.kinds.core_v1 import Container, VolumeMount
from levelset_local.node.expanding import expand
from levelset_local.node.paths import below
from levelset_local.node.volumes import BadVolume, Contents, Empty, File, Files, Host

__all__ = ["is_within", "mount", "put_volume", "remove_folder", "write_files"]

_DATA: Final = "..data"
_NEXT: Final = "..data_tmp"


def put_volume(folder: Path, contents: Contents) -> Path:
    """Makes a volume in a folder, or brings it up to date; gives where it is. BadVolume if that cannot be."""
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
    """Writes all files of a volume at once; whether anything was different."""
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
    """Has the folder show the files that there are, and no others."""
    for name in sorted(names):
        link = folder / name
        if not link.is_symlink():
            link.symlink_to(f"{_DATA}/{name}")
    for link in folder.iterdir():
        # Links elsewhere are mounts inside this volume, and no files of it.
        if link.is_symlink() and link.name not in names and link.readlink().parts[0] == _DATA:
            link.unlink()


def _host(path: Path, type_: str) -> Path:
    """A path of the machine itself, made or checked as its type says."""
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
    """Has a container find its volumes by their mount paths below the root; BadVolume if one is not there.

    A part of a volume of files (`subPath`) is copied: as in Kubernetes, it stays as it was when the container started.
    A mount inside another volume hides nothing, but takes the place of what is there; so nothing is mounted inside a
    path of the machine, only inside the Pod's `own` folder.
    """
    for one in sorted(container.volume_mounts, key=lambda each: each.mount_path):
        if one.name not in volumes:
            raise BadVolume(f'container {container.name} mounts "{one.name}", but there is no such volume')
        place = Path(below(str(root), one.mount_path))
        if place == root:
            raise BadVolume(f'volume "{one.name}" cannot be mounted at {one.mount_path}; name a folder below it')
        try:
            _mount_one(one, volumes[one.name], place, env, own)
        except OSError as error:
            raise BadVolume(f'volume "{one.name}" cannot be mounted at {one.mount_path} : {error}') from error


def is_within(place: Path, own: Path) -> bool:
    """Whether a path really is in a folder, wherever links lead."""
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
            f'volume "{one.name}" cannot be mounted at {one.mount_path}: there it would change '
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
        raise BadVolume(f"subPath {source.name!r} names nothing in its volume")


def _clear(place: Path) -> None:
    if place.is_symlink() or place.is_file():
        place.unlink()
    elif place.is_dir():
        remove_folder(place)


def remove_folder(folder: Path) -> None:
    """Removes a folder with everything in it, links but not what they name; it is no error if there is none."""
    with suppress(FileNotFoundError):
        shutil.rmtree(folder)
