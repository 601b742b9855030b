"""The program that runs for a container's image: from a table of globs, an annotation of the Pod, or its command.

```python
Images({"ghcr.io/acme/web:*": ["python", "-m", "acme.web", "--bind", "$(POD_IP)"]})
```

Packages add lines to the table with an entry point of the group `levelset_local.images` that names such a mapping.
"""

import os
import shlex
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Final, cast

from levelset.errors import ConfigError
from levelset.kinds.core_v1 import Container, Pod

__all__ = ["COMMAND_ANNOTATION", "ENTRY_POINT_GROUP", "Images", "NoProgram", "installed_images"]

COMMAND_ANNOTATION: Final = "local.levelset.dev/command"
"""The annotation of a Pod with the command line of its first container; `<annotation>.<name>` is for another one."""
ENTRY_POINT_GROUP: Final = "levelset_local.images"


class NoProgram(LookupError):
    """There is no program for an image; the message explains how to add one."""


def installed_images() -> dict[str, tuple[str, ...]]:
    """The lines that installed packages add to the table; raises ConfigError if an entry point names no mapping."""
    # Imported late: the reader of metadata takes longer to load than the node.
    from importlib.metadata import entry_points  # noqa: PLC0415

    table: dict[str, tuple[str, ...]] = {}
    for point in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda one: one.name):
        given: object = point.load()
        if not isinstance(given, Mapping):
            raise ConfigError(
                f"the entry point {point.name!r} of {ENTRY_POINT_GROUP} is {given!r}; it must name a mapping"
            )
        lines = cast("Mapping[str, Sequence[str]]", given)
        table.update({glob: _argv(glob, argv) for glob, argv in lines.items()})
    return table


class Images:
    """The table from image globs to programs: the given lines, then those of installed packages.

    Those are read at the first look-up, which raises ConfigError if an entry point is wrong.
    """

    def __init__(
        self,
        table: Mapping[str, Sequence[str]] | None = None,
        *,
        installed: bool = True,
        find: Callable[[str], str | None] | None = None,
    ) -> None:
        self._given = {glob: _argv(glob, argv) for glob, argv in (table or {}).items()}
        self._has_installed = installed
        self._find: Callable[[str], str | None] = shutil.which if find is None else find

    def __repr__(self) -> str:
        return f"<Images {', '.join(self._lines) or 'without a line'}>"

    @cached_property
    def _lines(self) -> dict[str, tuple[str, ...]]:
        """All lines; the first that matches is used."""
        more = installed_images() if self._has_installed else {}
        return {**self._given, **{glob: argv for glob, argv in more.items() if glob not in self._given}}

    def command(self, pod: Pod, container: Container) -> tuple[str, ...]:
        """The command line of a container, before `$(VAR)` is expanded; raises NoProgram if there is none.

        The Pod's annotation takes precedence over the container's command, and that over the table. The container's
        args are appended in each case. A command that is an absolute path which only the image has, such as `/manager`,
        is the program of the image: the line of the table stands for it, and its other words stay.
        """
        annotated = _annotated(pod, container)
        if annotated:
            return (*annotated, *container.args)
        if container.command:
            if self._is_here(container.command[0], container):
                return (*container.command, *container.args)
            if not container.command[0].startswith(os.sep):
                raise NoProgram(self._no_command(container))
        line = self._line(container.image or "")
        if line is None:
            raise NoProgram(self._no_command(container) if container.command else self._no_line(container))
        return (*line, *container.command[1:], *container.args)

    def _line(self, image: str) -> tuple[str, ...] | None:
        names = (image, *_tagged(image))
        return next((argv for glob, argv in self._lines.items() if any(fnmatchcase(one, glob) for one in names)), None)

    def _is_here(self, program: str, container: Container) -> bool:
        """Whether a program exists on this machine; True for those below a mount path, which cannot be checked yet."""
        if any(program.startswith(mount.mount_path.rstrip("/") + "/") for mount in container.volume_mounts):
            return True
        if "$(" in program or (os.sep in program and not program.startswith(os.sep)):
            return True  # it can be resolved only after expansion, or in the working directory
        return self._find(program) is not None

    def _no_line(self, container: Container) -> str:
        return (
            f'Container image "{container.image}" is not present: images are not pulled here, programs of this machine '
            f"run instead, and {self._shown()} {self._ways(container)}"
        )

    def _no_command(self, container: Container) -> str:
        return (
            f'Container image "{container.image}" is not present: images are not pulled here, and its command '
            f"{container.command[0]!r} is no program of this machine. {self._ways(container)}"
        )

    def _shown(self) -> str:
        if not self._lines:
            return "the table of images has no lines."
        return f"none of the table's lines matches ({', '.join(sorted(self._lines))})."

    def _ways(self, container: Container) -> str:
        return (
            f"Annotate the Pod with {COMMAND_ANNOTATION}='program arg ...', give the container a command that is "
            f"installed here, or add a line to the table: "
            f'Options(images={{"{_glob(container.image or "")}": ["program", "arg"]}}), '
            f"or one with an entry point of the group {ENTRY_POINT_GROUP}"
        )


def _annotated(pod: Pod, container: Container) -> tuple[str, ...]:
    annotations = pod.metadata.annotations
    text = annotations.get(f"{COMMAND_ANNOTATION}.{container.name}")
    if text is None and container.name == pod.spec.containers[0].name:
        text = annotations.get(COMMAND_ANNOTATION)
    if not text:
        return ()
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise NoProgram(
            f"the annotation {COMMAND_ANNOTATION} is {text!r}, which is not a valid command line: {error}"
        ) from error


def _argv(glob: object, argv: object) -> tuple[str, ...]:
    is_list = isinstance(argv, Iterable) and not isinstance(argv, str)
    words = tuple(cast("Iterable[object]", argv)) if is_list else ()
    texts = tuple(word for word in words if isinstance(word, str))
    if not isinstance(glob, str) or not texts or len(texts) != len(words):
        raise ConfigError(
            f"the line {glob!r}: {argv!r} of the table of images is not valid; give a list of words, program first"
        )
    return texts


def _tagged(image: str) -> tuple[str, ...]:
    """The image with the tag `latest`, if it has none."""
    last = image.rpartition("/")[2]
    return () if ":" in last or "@" in last else (f"{image}:latest",)


def _glob(image: str) -> str:
    head, slash, last = image.rpartition("/")
    return f"{head}{slash}{last.partition('@')[0].partition(':')[0]}:*"
