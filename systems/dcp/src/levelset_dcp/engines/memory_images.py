"""Images, networks and volumes of the pretended engine: what the controllers ask for."""

from collections.abc import Mapping
from dataclasses import replace

from levelset_dcp.engines.errors import EngineAlreadyExists, EngineNotFound, EngineRefused, ObjectInUse
from levelset_dcp.engines.interface import Sink
from levelset_dcp.engines.memory_objects import HeldNetwork
from levelset_dcp.engines.memory_world import World
from levelset_dcp.engines.models import ImageBuild, ImageInfo, NetworkInfo, NewNetwork, VolumeInfo

__all__ = ["MemoryImages"]


class MemoryImages:
    """Builds and pulls images, makes networks and volumes, and connects containers."""

    _world: World

    async def build(self, what: ImageBuild, *, out: Sink | None = None, err: Sink | None = None) -> ImageInfo:  # noqa: ARG002  (the words of Engine)
        """Says that it has built an image; nothing of the folder is looked at."""
        name = what.tags[0] if what.tags else ""
        async with self._world.call("build", name):
            if not what.tags:
                raise EngineRefused(f"the image of {what.context!r} has no tag, so nobody could find it; give it one")
            if out is not None:
                out.write(f"building {name} from {what.context}\n".encode())
            return self._add_image(what.tags, what.labels)

    async def pull_image(self, image: str, *, out: Sink | None = None, err: Sink | None = None) -> ImageInfo:  # noqa: ARG002  (the words of Engine)
        """Says that it has fetched an image: there is every image, except those that were told to be missing."""
        async with self._world.call("pull_image", image):
            return self._pull(image, out)

    async def inspect_image(self, image: str) -> ImageInfo:
        """What is known of an image; see Engine."""
        async with self._world.call("inspect_image", image):
            if image not in self._world.images:
                raise EngineNotFound(f"there is no image {image!r}")
            return self._world.images[image]

    async def create_network(self, spec: NewNetwork) -> NetworkInfo:
        """Creates a network; see Engine."""
        async with self._world.call("create_network", spec.name):
            if self._world.find_network(spec.name) is not None:
                raise EngineAlreadyExists(f"there is a network {spec.name!r} already")
            made = self._world.add_network(
                spec.name, "bridge", ipv6=spec.ipv6, labels=dict(spec.labels), at=self._world.now()
            )
            self._world.tell("network", "create", id=made.info.id, name=spec.name)
        return made.info

    async def inspect_network(self, network: str) -> NetworkInfo:
        """What is known of a network; see Engine."""
        async with self._world.call("inspect_network", network):
            return self._network_info(self._world.network(network))

    async def list_networks(self, *, labels: Mapping[str, str] | None = None) -> tuple[NetworkInfo, ...]:
        """All networks with these labels; see Engine."""
        async with self._world.call("list_networks", ""):
            wanted = (labels or {}).items()
            found = [one for one in self._world.networks.values() if wanted <= one.info.labels.items()]
            return tuple(self._network_info(one) for one in found)

    async def remove_network(self, network: str) -> None:
        """Removes a network; see Engine."""
        async with self._world.call("remove_network", network):
            held = self._world.network(network)
            if held.is_built_in:
                raise EngineRefused(f"the network {network!r} is the engine's own, and cannot be removed")
            members = self._world.members(held)
            if members:
                names = ", ".join(one.name for one in members)
                raise ObjectInUse(f"network {held.info.name!r} has containers in it: {names}; disconnect them first")
            del self._world.networks[held.info.id]
            self._world.tell("network", "destroy", id=held.info.id, name=held.info.name)

    async def connect(self, network: str, container: str, *, aliases: tuple[str, ...] = ()) -> None:
        """Puts a container into a network; see Engine."""
        async with self._world.call("connect", container):
            held, into = self._world.container(container), self._world.network(network)
            if into.info.id in held.networks:
                raise EngineAlreadyExists(f"container {held.name!r} is in the network {into.info.name!r} already")
            self._world.join(into, held, aliases)

    async def disconnect(self, network: str, container: str, *, force: bool = False) -> None:  # noqa: ARG002  (the words of Engine)
        """Takes a container out of a network; see Engine."""
        async with self._world.call("disconnect", container):
            held, out_of = self._world.container(container), self._world.network(network)
            if held.networks.pop(out_of.info.id, None) is None:
                raise EngineNotFound(f"container {held.name!r} is not in the network {out_of.info.name!r}")
            self._world.tell("network", "disconnect", id=out_of.info.id, name=out_of.info.name, container=held.id)

    async def create_volume(self, name: str, *, labels: Mapping[str, str] | None = None) -> VolumeInfo:
        """Creates a volume; see Engine."""
        async with self._world.call("create_volume", name):
            made = VolumeInfo(name=name, labels=dict(labels or {}), created_at=self._world.now())
            return self._world.volumes.setdefault(name, made)

    async def inspect_volume(self, name: str) -> VolumeInfo:
        """What is known of a volume; see Engine."""
        async with self._world.call("inspect_volume", name):
            if name not in self._world.volumes:
                raise EngineNotFound(f"there is no volume {name!r}")
            return self._world.volumes[name]

    async def remove_volume(self, name: str) -> None:
        """Removes a volume; see Engine."""
        async with self._world.call("remove_volume", name):
            if name not in self._world.volumes:
                raise EngineNotFound(f"there is no volume {name!r}")
            users = [
                one.name
                for one in self._world.containers.values()
                if any(mount.type == "volume" and mount.source == name for mount in one.spec.mounts)
            ]
            if users:
                raise ObjectInUse(f"volume {name!r} is used by {', '.join(users)}; remove them first")
            del self._world.volumes[name]

    def _pull(self, image: str, out: Sink | None) -> ImageInfo:
        if image in self._world.missing:
            raise EngineNotFound(f"there is no image {image!r}, neither here nor where it could be pulled from")
        if out is not None:
            out.write(f"pulling {image}\n".encode())
        found = self._world.images.get(image)
        return found if found is not None else self._add_image((image,), {})

    def _add_image(self, tags: tuple[str, ...], labels: Mapping[str, str]) -> ImageInfo:
        made = ImageInfo(
            id=f"sha256:{self._world.new_id()}", tags=tags, labels=dict(labels), created_at=self._world.now()
        )
        self._world.images.update(dict.fromkeys((*tags, made.id), made))
        return made

    def _network_info(self, held: HeldNetwork) -> NetworkInfo:
        return replace(held.info, container_ids=tuple(one.id for one in self._world.members(held)))
