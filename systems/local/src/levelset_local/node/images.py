"""Which program stands for a container's image: a table of globs, an annotation of the Pod, or its own command.

```python
Images({"ghcr.io/acme/web:*": ["python", "-m", "acme.web", "--bind", "$(POD_IP)"]})
```

Packages add lines to the table by an entry point of the group `levelset_local.images`, whose object is such a mapping.
"""

import os
import shlex
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from importlib.metadata import entry_points
from typing import Final, cast

from levelset import ConfigError
from levelset.kinds.core_v1 import Container, Pod

__all__ = ["COMMAND", "GROUP", "Images", "NoProgram", "installed_images"]

COMMAND: Final = "local.levelset.dev/command"
"""The annotation of a Pod that says in shell words what its container runs; `COMMAND.NAME` is for one of several."""
GROUP: Final = "levelset_local.images"


class NoProgram(LookupError):
    """There is no program for an image; the message explains the table."""


def installed_images() -> dict[str, tuple[str, ...]]:
    """The lines that installed packages add to the table; ConfigError if what an entry point names is no mapping."""
    table: dict[str, tuple[str, ...]] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda one: one.name):
        given: object = point.load()
        if not isinstance(given, Mapping):
            raise ConfigError(f"the entry point {point.name!r} of {GROUP} is {given!r}; let it name a mapping")
        lines = cast("Mapping[str, Sequence[str]]", given)
        table.update({glob: _argv(glob, argv) for glob, argv in lines.items()})
    return table


class Images:
    """The table from globs of images to programs: the lines that are given, then those of installed packages."""

    def __init__(
        self,
        table: Mapping[str, Sequence[str]] | None = None,
        *,
        installed: bool = True,
        find: Callable[[str], str | None] | None = None,
    ) -> None:
        lines = {glob: _argv(glob, argv) for glob, argv in (table or {}).items()}
        for glob, argv in (installed_images() if installed else {}).items():
            lines.setdefault(glob, argv)
        self._lines = lines
        self._find: Callable[[str], str | None] = shutil.which if find is None else find

    def __repr__(self) -> str:
        return f"<Images {', '.join(self._lines) or 'without a line'}>"

    def command(self, pod: Pod, container: Container) -> tuple[str, ...]:
        """What a container runs, before `$(VAR)` is expanded; NoProgram if nothing says so.

        The Pod's annotation comes first, then the container's command, then the table. Its args come behind each.
        """
        annotated = _annotated(pod, container)
        if annotated:
            return (*annotated, *container.args)
        if container.command:
            if self._is_here(container.command[0], container):
                return (*container.command, *container.args)
            raise NoProgram(self._no_command(container))
        line = self._line(container.image or "")
        if line is None:
            raise NoProgram(self._no_line(container))
        return (*line, *container.args)

    def _line(self, image: str) -> tuple[str, ...] | None:
        names = (image, *_tagged(image))
        return next((argv for glob, argv in self._lines.items() if any(fnmatchcase(one, glob) for one in names)), None)

    def _is_here(self, program: str, container: Container) -> bool:
        """Whether a program is one of this machine; below a mounted volume nobody can tell before it is mounted."""
        if any(program.startswith(mount.mount_path.rstrip("/") + "/") for mount in container.volume_mounts):
            return True
        if "$(" in program or (os.sep in program and not program.startswith(os.sep)):
            return True  # known only once it is expanded, or the working directory is
        return self._find(program) is not None

    def _no_line(self, container: Container) -> str:
        return (
            f'Container image "{container.image}" is not present: images are not pulled here, programs of this machine '
            f"stand for them, and {self._shown()} {self._ways(container)}"
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
            f"Annotate the Pod with {COMMAND}='program arg ...', give the container a command that is installed here, "
            f'or add a line to the table: Options(images={{"{_glob(container.image or "")}": ["program", "arg"]}}), '
            f"or one by an entry point of the group {GROUP}"
        )


def _annotated(pod: Pod, container: Container) -> tuple[str, ...]:
    annotations = pod.metadata.annotations
    text = annotations.get(f"{COMMAND}.{container.name}")
    if text is None and container.name == pod.spec.containers[0].name:
        text = annotations.get(COMMAND)
    if not text:
        return ()
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise NoProgram(f"the annotation {COMMAND} is {text!r}, which is no line of shell words: {error}") from error


def _argv(glob: object, argv: object) -> tuple[str, ...]:
    is_list = isinstance(argv, Iterable) and not isinstance(argv, str)
    words = tuple(cast("Iterable[object]", argv)) if is_list else ()
    texts = tuple(word for word in words if isinstance(word, str))
    if not isinstance(glob, str) or not texts or len(texts) != len(words):
        raise ConfigError(f"the line {glob!r}: {argv!r} of the table of images; give a list of words, program first")
    return texts


def _tagged(image: str) -> tuple[str, ...]:
    """The image as it is called in full, if its tag is left out."""
    last = image.rpartition("/")[2]
    return () if ":" in last or "@" in last else (f"{image}:latest",)


def _glob(image: str) -> str:
    head, slash, last = image.rpartition("/")
    return f"{head}{slash}{last.partition('@')[0].partition(':')[0]}:*"
