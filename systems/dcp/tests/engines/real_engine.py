"""The real engine of the suites, as the environment names it; see `podman.py` and `docker.py`."""

import os

from msgspec.structs import replace

from levelset_dcp.engines import PodmanEngine
from levelset_dcp.engines.cli.arguments import Invocation
from levelset_dcp.engines.cli.engine import DOCKER, CliEngine
from levelset_dcp.engines.cli.process import Tool

__all__ = ["NAME", "PROGRAM", "import_image", "open_real_engine"]

NAME = os.environ.get("LEVELSET_ENGINE", "podman")
PROGRAM = os.environ.get("LEVELSET_ENGINE_PROGRAM", NAME)


def open_real_engine() -> CliEngine:
    """The engine; of Docker also a version that is too old for users, since Debian 12 has no other."""
    if NAME == "podman":
        return PodmanEngine(PROGRAM)
    return CliEngine(replace(DOCKER, minimum_version=(20, 10)), PROGRAM)


async def import_image(name: str) -> None:
    """Imports the file system with a shell that LEVELSET_ENGINE_IMAGE names, unless it was imported."""
    tool = Tool(PROGRAM)
    if (await tool.try_run(Invocation(("image", "inspect", name)), operation="check the image")).code != 0:
        args = ("import", os.environ["LEVELSET_ENGINE_IMAGE"], name)
        await tool.run(Invocation(args), operation="import the image")
