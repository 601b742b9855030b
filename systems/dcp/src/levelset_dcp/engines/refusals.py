"""Turns what the command line tools say when they refuse something into the errors of the tree."""

import re
from collections.abc import Sequence
from typing import Final

from levelset_dcp.engines.errors import (
    CouldNotAllocate,
    EngineAlreadyExists,
    EngineError,
    EngineNotFound,
    EngineRefused,
    ObjectInUse,
    RuntimeNotHealthy,
)

__all__ = ["explain", "is_about_the_container"]

_RULES: Final[Sequence[tuple[type[EngineError], str]]] = (
    (
        RuntimeNotHealthy,
        (
            r"cannot connect to (the docker daemon|podman)|is the docker daemon running|error during connect"
            r"|unable to connect to podman|trying to connect to the docker (daemon|api)|docker daemon is not running"
            r"|failed to connect to the docker api|docker desktop is (unable|manually paused)"
        ),
    ),
    (
        CouldNotAllocate,
        (
            r"port is already allocated|address already in use|ports are not available|failed to bind host port"
            r"|non-overlapping ipv[46] address pool|pool overlaps|could not find free subnet|subnet .* is already used"
            r"|all predefined address pools|proxy already running"
        ),
    ),
    (
        ObjectInUse,
        (
            r"has active endpoints|has associated containers|network is being used|volume is (being used|in use)"
            r"|volume .* is being used|container is running: stop|cannot remove a running container"
            r"|cannot remove container .* as it is running|container is (running or )?paused and must be unpaused"
            r"|image is (being used|in use)"
        ),
    ),
    (
        EngineAlreadyExists,
        r"is already in use by|name is already in use|already exists|already connected to network|already used",
    ),
    (
        EngineNotFound,
        (
            r"no such (container|object|image|volume|network|manifest)|no container with name or id|no volume with name"
            r"|network \S+ not found|unable to find network|network not found|image not known|does not exist"
            r"|is not connected to (the )?network|manifest unknown|pull access denied|repository .* not found"
            r"|manifest for .* not found|unable to find image .* locally$"
        ),
    ),
)
_COMPILED: Final = tuple((error, re.compile(pattern, re.IGNORECASE)) for error, pattern in _RULES)
_EXEC: Final = re.compile(
    r"^(Error response from daemon: .*(is not running|is paused)"
    r"|(Error|Error response from daemon): No such container"
    r"|Error: (can only create exec sessions on running|no container with name or ID)"
    r"|.*cannot exec in a stopped)",
    re.IGNORECASE | re.MULTILINE,
)
_SHOWN: Final = 1000


def explain(asked: str, code: int, said: str) -> EngineError:
    """The error for a command that has ended with a code; `asked` says in words what was wanted."""
    message = f"{asked}: {_last_words(said) or f'the tool has ended with {code}, and did not say why'}"
    # What was said last counts most: before it there may be warnings, and that an image had to be looked for.
    for text in (_last_words(said), said):
        for error, pattern in _COMPILED:
            if pattern.search(text):
                return error(message)
    return EngineRefused(message)


def is_about_the_container(said: str) -> bool:
    """Whether it may be that a command was not run inside of a container because that does not run."""
    return _EXEC.search(said) is not None


def _last_words(said: str) -> str:
    """The line that tells the error, and what follows it; without the tool's advice on how to get help."""
    lines = [line.strip() for line in said.splitlines() if line.strip() and not line.startswith("See '")]
    begins = [number for number, line in enumerate(lines) if line.startswith(("Error", "Cannot connect", "ERROR"))]
    return "\n".join(lines[begins[-1] :] if begins else lines[-3:])[-_SHOWN:]
