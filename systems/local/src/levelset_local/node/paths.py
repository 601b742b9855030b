"""Absolute paths of a container on a machine that mounts nothing: each is found below a folder of its own."""

from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Final

from levelset.kinds.core_v1 import Container

__all__ = ["MOUNT_ROOT", "below", "message_path", "mount_paths", "rewritten"]

MOUNT_ROOT: Final = "LEVELSET_MOUNT_ROOT"
"""The variable that names the folder below which a container finds its mount paths."""
_MESSAGE: Final = "/dev/termination-log"


def message_path(container: Container) -> str:
    """The file into which a container may write its last words, as it knows it."""
    return container.termination_message_path or _MESSAGE


def mount_paths(container: Container) -> list[str]:
    """The paths of a container that are found elsewhere on this machine."""
    return [*(one.mount_path for one in container.volume_mounts), message_path(container)]


def below(root: str, path: str) -> str:
    """Where an absolute path of a container is on this machine; one that leads upwards stays below the root."""
    parts: list[str] = []
    for part in PurePosixPath(path).parts:
        if part == "..":
            parts = parts[:-1]
        elif part != "/":
            parts.append(part)
    return "/".join((root.rstrip("/"), *parts))


def rewritten(text: str, mounts: Iterable[str], root: str) -> str:
    """The text with the mount path that it begins with moved below the root; any other text as it is.

    An option with a value, such as `--config=/etc/app/config.yaml`, counts by its value.
    """
    option, equals, value = text.partition("=")
    if equals and option.startswith("-"):
        return f"{option}={rewritten(value, mounts, root)}"
    for mount in sorted(mounts, key=len, reverse=True):
        clean = mount.rstrip("/")
        if clean and (text == clean or text.startswith(f"{clean}/")):
            return below(root, clean) + text[len(clean) :]
    return text
