"""The commands of small processes that end containers when another process has ended, also when we are gone."""

import os
import sys
from collections.abc import Mapping
from datetime import datetime
from typing import Final

from levelset_machine import Command, Identity

__all__ = ["container_guard", "session_guard"]

_MODULE: Final = "levelset_dcp.containers.monitoring"
_KEPT: Final = ("PATH", "HOME", "DOCKER_HOST", "DOCKER_CONTEXT", "CONTAINER_HOST", "XDG_RUNTIME_DIR")


def container_guard(engine: str, container_id: str, pid: int, at: datetime, ambient: Mapping[str, str]) -> Command:
    """Stops a container when the process `pid`, which began `at` that time, has ended."""
    return _command(ambient, "container", engine, container_id, str(pid), str(at.timestamp()))


def session_guard(engine: str, creator: Identity, ambient: Mapping[str, str]) -> Command:
    """Removes what a session has made for itself when it was killed."""
    return _command(ambient, "session", engine, str(creator.pid), str(creator.started))


def _command(ambient: Mapping[str, str], *words: str) -> Command:
    env = {name: ambient[name] for name in _KEPT if name in ambient}
    env |= {name: value for name, value in ambient.items() if name.startswith(("CONTAINERS_", "DOCKER_"))}
    env["PYTHONPATH"] = os.pathsep.join(one for one in sys.path if one)
    return Command(argv=(sys.executable, "-m", _MODULE, *words), env=env)
