"""What the engine is asked for, from the spec of a Container: the container, its image, and its lifecycle key; pure."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from levelset import encode
from levelset.objects import decode_tree
from levelset_dcp.containers.labels import labels_of
from levelset_dcp.containers.plan import habits_of, name_of
from levelset_dcp.engines.models import ImageBuild, ImageBuildSecret, Mount, NewContainer, PortBinding
from levelset_dcp.environment import Effective
from levelset_dcp.kinds import Build, Container
from levelset_machine import Identity

__all__ = ["Joined", "Prepared", "build_of", "image_of", "lifecycle_key", "new_container"]


@dataclass(frozen=True, slots=True)
class Joined:
    """A network that the container is in from the start."""

    name: str
    """Of the ContainerNetwork."""
    network_id: str
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything that is needed to start a container without looking at another object."""

    effective: Effective
    key: str
    networks: tuple[Joined, ...] | None
    """None: the engine's own."""


def image_of(container: Container) -> str:
    """The image that it is made from; that of a build is known by its first tag."""
    build = container.spec.build
    if build is None:
        return container.spec.image
    return build.tags[0] if build.tags else container.spec.image or f"{container.name}:dev"


def build_of(container: Container, build: Build) -> ImageBuild:
    """How its image is built."""
    image = image_of(container)
    return ImageBuild(
        context=build.context,
        tags=build.tags or (image,),
        dockerfile=build.dockerfile,
        args={one.name: one.value for one in build.args},
        secrets=tuple(
            ImageBuildSecret(id=one.id, type=one.type, source=one.source, value=one.value) for one in build.secrets
        ),
        stage=build.stage,
        labels={one.key: one.value for one in build.labels},
        platform=build.platform,
        pull=container.spec.pull_policy == "always",
    )


def new_container(container: Container, prepared: Prepared, creator: Identity, *, image: str = "") -> NewContainer:
    """The container that the engine is to create; it is in the first of its networks from the start."""
    spec = container.spec
    own = labels_of(container, creator, lasts=habits_of(spec).finds, key=prepared.key)
    first = prepared.networks[0] if prepared.networks else None
    return NewContainer(
        image=image or image_of(container),
        name=name_of(container),
        command=spec.command,
        args=prepared.effective.args,
        env=prepared.effective.env,
        labels={**{one.key: one.value for one in spec.labels}, **own},
        mounts=tuple(
            Mount(source=one.source, target=one.target, type=one.type, read_only=one.read_only)
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
    """The key that the spec gives, or one of everything that matters: another key means another container."""
    spec = container.spec
    if spec.lifecycle_key:
        return spec.lifecycle_key
    tree: dict[str, Any] = decode_tree(encode(container))["spec"]
    for name in ("start", "stop", "mode", "persistent", "env", "envFiles", "args", "healthProbes", "networks"):
        tree.pop(name, None)
    matters = {**tree, "args": list(effective.args), "env": sorted(effective.named.items()), "dockerfile": dockerfile}
    text = json.dumps(matters, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]
