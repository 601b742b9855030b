"""Finds out what a container gets before it is started: variables, arguments, networks, and its lifecycle key."""

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path

from levelset import Context, Ref
from levelset_dcp.containers.plan import habits_of
from levelset_dcp.containers.scenes import scene_of
from levelset_dcp.containers.specs import Joined, Prepared, lifecycle_key
from levelset_dcp.environment import Effective, effective_of, read_env_file
from levelset_dcp.kinds import Build, Container, ContainerNetwork
from levelset_dcp.templates import NotYet

__all__ = ["key_of", "networks_of", "prepare", "read_env_files"]

log = logging.getLogger(__name__)


async def prepare(container: Container, ctx: Context) -> Prepared:
    """Everything that the start needs; raises NotYet while a template or a network has to be waited for."""
    networks = networks_of(container, ctx)
    effective, key = await key_of(container, ctx)
    return Prepared(effective, key, networks)


async def key_of(container: Container, ctx: Context) -> tuple[Effective, str]:
    """What the program gets, and the lifecycle key; raises NotYet while a template has to wait."""
    spec = container.spec
    files = await read_env_files(container.name, spec.env_files)
    effective = effective_of(spec.args, spec.env, scene=scene_of(container, ctx.cached), files=files)
    if not habits_of(spec).finds or spec.lifecycle_key:
        return effective, spec.lifecycle_key
    dockerfile = "" if spec.build is None else await asyncio.to_thread(_dockerfile, spec.build)
    return effective, lifecycle_key(container, effective, dockerfile)


def networks_of(container: Container, ctx: Context) -> tuple[Joined, ...] | None:
    """The networks that it is in from the start; raises NotYet while one of them does not run."""
    if container.spec.networks is None:
        return None
    found: list[Joined] = []
    for one in container.spec.networks:
        network = ctx.cached(Ref(ContainerNetwork, one.name))
        if network is None or network.status is None or network.status.state != "Running":
            raise NotYet(f"network {one.name} is not running yet")
        found.append(Joined(one.name, network.status.id, one.aliases))
    return tuple(found)


async def read_env_files(name: str, paths: tuple[str, ...]) -> list[Mapping[str, str]]:
    """The variables of all files, or of none of them if one cannot be read."""
    if not paths:
        return []
    try:
        texts = await asyncio.to_thread(lambda: [Path(one).read_text(encoding="utf-8") for one in paths])
    except (OSError, ValueError) as error:
        log.warning("%s: its variables are not read from files: %s", name, error)
        return []
    return [read_env_file(one) for one in texts]


def _dockerfile(build: Build) -> str:
    """What the Dockerfile says; nothing if it cannot be read, which the build will tell. Blocks."""
    context = Path(build.context)
    path = context / (build.dockerfile or "Dockerfile")
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""
