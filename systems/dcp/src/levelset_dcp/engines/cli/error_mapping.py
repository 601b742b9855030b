"""Maps the error messages of the command line tools to EngineErrors."""

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

__all__ = ["map_error", "may_be_container_error"]

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
_EXEC: Final = (
    r"^(Error response from daemon: .*(is not running|is paused)"
    r"|(Error|Error response from daemon): No such container"
    r"|Error: (can only create exec sessions on running|no container with name or ID)"
    r"|.*cannot exec in a stopped)"
)
_SHOWN: Final = 1000
_SUMMARY: Final = ("Error: failed to start containers:", "failed to start containers:")
"""What Docker prints after the reason."""


def map_error(operation: str, code: int, stderr: str) -> EngineError:
    """The error of a command that failed with an exit code; `operation` describes the operation."""
    message = f"{operation}: {_last_error(stderr) or f'exit code {code} without an error message'}"
    # The last message decides: before it there may be warnings, e.g. that an image was not found locally.
    for text in (_last_error(stderr), stderr):
        for error, pattern in _RULES:
            if re.search(pattern, text, re.IGNORECASE):
                return error(message)
    return EngineRefused(message)


def may_be_container_error(stderr: str) -> bool:
    """Whether a failed `exec` may mean that the container does not run."""
    return re.search(_EXEC, stderr, re.IGNORECASE | re.MULTILINE) is not None


def _last_error(stderr: str) -> str:
    """The last error line and what follows it, without the tool's hints."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip() and not line.startswith("See '")]
    lines = [line for line in lines if not line.startswith(_SUMMARY)] or lines
    starts = [number for number, line in enumerate(lines) if line.startswith(("Error", "Cannot connect", "ERROR"))]
    return "\n".join(lines[starts[-1] :] if starts else lines[-3:])[-_SHOWN:]
