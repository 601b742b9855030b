"""The create request of a container: image, environment, networks and lifecycle key."""

import asyncio
import hashlib
import json
from pathlib import Path
from typing import Any

from msgspec import Struct

from levelset import Context, Ref, encode
from levelset.objects import decode_tree
from levelset_dcp.containers.owned_objects import VOLUMES, mounted_volumes
from levelset_dcp.containers.state import name_of
from levelset_dcp.engines.models import ImageBuild, ImageBuildSecret, Mount, NewContainer, PortBinding
from levelset_dcp.kinds import Build, Container, ContainerNetwork, ContainerVolume
from levelset_dcp.names import labels_of
from levelset_dcp.workloads.environment import Effective, effective_of, read_env_files
from levelset_dcp.workloads.modes import container_policy
from levelset_dcp.workloads.templates import DependencyNotReady, container_context
from levelset_machine import Identity

__all__ = [
    "Joined",
    "Prepared",
    "build_of",
    "image_of",
    "key_of",
    "lifecycle_key",
    "networks_of",
    "new_container",
    "prepare",
    "require_volumes",
]


class Joined(Struct, frozen=True):
    """A network that the container is attached to when it is created."""

    name: str
    """The name of the ContainerNetwork."""
    network_id: str
    aliases: tuple[str, ...] = ()


class Prepared(Struct, frozen=True):
    """Everything that the start of a container needs from other objects."""

    effective: Effective
    key: str
    networks: tuple[Joined, ...] | None
    """None: the engine's default network."""


def image_of(container: Container) -> str:
    """The image of a container; a built image is named by its first tag."""
    build = container.spec.build
    if build is None:
        return container.spec.image
    return build.tags[0] if build.tags else container.spec.image or f"{container.name}:dev"


def build_of(container: Container, build: Build) -> ImageBuild:
    """The build request of a container's image."""
    image = image_of(container)
    return ImageBuild(
        context=build.context,
        tags=build.tags or (image,),
        dockerfile=build.dockerfile,
        args={one.name: one.value for one in build.args},
        secrets=tuple(
            ImageBuildSecret(id=one.id, type=one.type or "file", source=one.source, value=one.value)
            for one in build.secrets
        ),
        stage=build.stage,
        labels={one.key: one.value for one in build.labels},
        platform=build.platform,
        pull=container.spec.pull_policy == "always",
    )


def new_container(container: Container, prepared: Prepared, creator: Identity, *, image: str = "") -> NewContainer:
    """The create request of a container; it is attached to the first of its networks from the start."""
    spec = container.spec
    own = labels_of(container, creator, is_persistent=container_policy(spec).adopts, key=prepared.key)
    first = prepared.networks[0] if prepared.networks else None
    return NewContainer(
        image=image or image_of(container),
        name=name_of(container),
        command=spec.command,
        args=prepared.effective.args,
        env=prepared.effective.env,
        labels={**{one.key: one.value for one in spec.labels}, **own},
        mounts=tuple(
            Mount(source=one.source, target=one.target, type=one.type or "bind", read_only=one.read_only)
            for one in spec.volume_mounts
        ),
        ports=tuple(
            PortBinding(
                container_port=one.container_port,
                host_port=one.host_port,
                protocol="udp" if one.protocol == "UDP" else "tcp",
                host_ip=one.host_ip or "127.0.0.1",
            )
            for one in spec.ports
        ),
        network=first.network_id if first else "",
        aliases=first.aliases if first else (),
        restart_policy=spec.restart_policy,
        pull_policy="" if spec.build is not None else spec.pull_policy,
        tty=spec.terminal is not None,
        run_args=spec.run_args,
    )


def lifecycle_key(container: Container, effective: Effective, dockerfile: str = "") -> str:
    """The key of the spec, or a hash of everything that matters: another key means another container."""
    spec = container.spec
    if spec.lifecycle_key:
        return spec.lifecycle_key
    tree: dict[str, Any] = decode_tree(encode(container))["spec"]
    for name in ("start", "stop", "mode", "persistent", "env", "envFiles", "args", "healthProbes", "networks"):
        tree.pop(name, None)
    matters = {
        **tree,
        "args": list(effective.args),
        "env": sorted(effective.explicit.items()),
        "dockerfile": dockerfile,
    }
    text = json.dumps(matters, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


async def prepare(container: Container, ctx: Context) -> Prepared:
    """Resolves the templates and networks of a container; raises DependencyNotReady."""
    networks = networks_of(container, ctx)
    await require_volumes(container, ctx)
    effective, key = await key_of(container, ctx)
    return Prepared(effective, key, networks)


async def key_of(container: Container, ctx: Context) -> tuple[Effective, str]:
    """The effective environment and the lifecycle key; raises DependencyNotReady."""
    spec = container.spec
    files = await read_env_files(container.name, spec.env_files)
    effective = effective_of(spec.args, spec.env, context=container_context(container, ctx.cached), files=files)
    if not container_policy(spec).adopts or spec.lifecycle_key:
        return effective, spec.lifecycle_key
    dockerfile = "" if spec.build is None else await asyncio.to_thread(_dockerfile, spec.build)
    return effective, lifecycle_key(container, effective, dockerfile)


def networks_of(container: Container, ctx: Context) -> tuple[Joined, ...] | None:
    """The networks of a container; raises DependencyNotReady while one of them is not running."""
    if container.spec.networks is None:
        return None
    found: list[Joined] = []
    for one in container.spec.networks:
        network = ctx.cached(Ref(ContainerNetwork, one.name))
        if network is None or network.status is None or network.status.state != "Running":
            raise DependencyNotReady(f"network {one.name} is not running yet")
        found.append(Joined(one.name, network.status.id, one.aliases))
    return tuple(found)


async def require_volumes(container: Container, ctx: Context) -> None:
    """Raises DependencyNotReady until the ContainerVolumes that a container mounts are there.

    An engine would create a missing volume itself, without the labels by which the next session finds one that a killed
    session has left.
    """
    for name in mounted_volumes(container):
        for volume in await ctx.list(ContainerVolume, index=(VOLUMES, name)):
            is_ready = volume.status is not None and volume.status.state == "Ready"
            if not is_ready and volume.metadata.deletion_timestamp is None:
                raise DependencyNotReady(f"volume {volume.name} is not ready yet")


def _dockerfile(build: Build) -> str:
    """The content of the Dockerfile; empty if it cannot be read, which the build reports. Blocks."""
    context = Path(build.context)
    path = context / (build.dockerfile or "Dockerfile")
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""
