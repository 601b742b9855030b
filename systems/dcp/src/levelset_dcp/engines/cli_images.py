"""Images, networks and volumes by way of a command line tool."""

from collections.abc import Mapping
from contextlib import suppress

from levelset_dcp.engines import arguments
from levelset_dcp.engines.arguments import Invocation, filters, inspect, named
from levelset_dcp.engines.dialects import Dialect
from levelset_dcp.engines.errors import EngineAlreadyExists, EngineNotFound, EngineRefused, ObjectInUse
from levelset_dcp.engines.interface import LONG_CALL, Sink
from levelset_dcp.engines.models import ImageBuild, ImageInfo, NetworkInfo, NewNetwork, VolumeInfo
from levelset_dcp.engines.parsing import documents, parse_image, parse_members, parse_network, parse_volume
from levelset_dcp.engines.refusals import explain
from levelset_dcp.engines.tool import Tool

__all__ = ["CliImages"]


class CliImages:
    """Builds and pulls images, makes networks and volumes, and connects containers."""

    _tool: Tool
    _dialect: Dialect

    async def build(self, what: ImageBuild, *, out: Sink | None = None, err: Sink | None = None) -> ImageInfo:
        """Builds an image; see Engine."""
        if not what.tags:
            raise EngineRefused(f"the image of {what.context!r} has no tag, so nobody could find it; give it one")
        invocation = arguments.build_image(what, extra=self._dialect.build_words)
        await self._tool.run(invocation, asked=f"build {what.tags[0]}", limit=LONG_CALL, out=out, err=err)
        return await self.inspect_image(what.tags[0])

    async def pull_image(self, image: str, *, out: Sink | None = None, err: Sink | None = None) -> ImageInfo:
        """Fetches an image; see Engine."""
        invocation = Invocation(("pull", named(image, "image")))
        await self._tool.run(invocation, asked=f"pull {image}", limit=LONG_CALL, out=out, err=err)
        return await self.inspect_image(image)

    async def inspect_image(self, image: str) -> ImageInfo:
        """What is known of an image; see Engine."""
        return parse_image(await self._inspect("image", image))

    async def create_network(self, spec: NewNetwork) -> NetworkInfo:
        """Creates a network; see Engine."""
        await self._tool.run(arguments.create_network(spec), asked=f"create the network {spec.name}")
        return await self.inspect_network(spec.name)

    async def inspect_network(self, network: str) -> NetworkInfo:
        """What is known of a network; see Engine."""
        return parse_network(await self._inspect("network", network), await self._members())

    async def list_networks(self, *, labels: Mapping[str, str] | None = None) -> tuple[NetworkInfo, ...]:
        """All networks with these labels; see Engine."""
        words = ("network", "ls", "--no-trunc", *filters(labels), "--format", "{{.ID}}")
        found = (await self._tool.run(Invocation(words), asked="list networks")).out.split()
        if not found:
            return ()
        members = await self._members()
        return tuple(parse_network(one, members) for one in await self._inspect_all("network", found))

    async def remove_network(self, network: str) -> None:
        """Removes a network; see Engine."""
        found = await self.inspect_network(network)
        if found.container_ids:
            # Asked by an ID, Podman takes away what containers are in; Docker counts only those that run.
            members = ", ".join(found.container_ids)
            raise ObjectInUse(f"network {found.name!r} has containers in it: {members}; disconnect them first")
        await self._tool.run(Invocation(("network", "rm", found.name)), asked=f"remove the network {network}")

    async def connect(self, network: str, container: str, *, aliases: tuple[str, ...] = ()) -> None:
        """Puts a container into a network; see Engine."""
        invocation = arguments.connect(network, container, aliases)
        await self._tool.run(invocation, asked=f"connect {container} to the network {network}")

    async def disconnect(self, network: str, container: str, *, force: bool = False) -> None:
        """Takes a container out of a network; see Engine."""
        invocation = arguments.disconnect(network, container, force=force)
        await self._tool.run(invocation, asked=f"disconnect {container} from the network {network}")

    async def create_volume(self, name: str, *, labels: Mapping[str, str] | None = None) -> VolumeInfo:
        """Creates a volume; see Engine."""
        with suppress(EngineAlreadyExists):  # only Podman says so
            await self._tool.run(arguments.create_volume(name, labels or {}), asked=f"create the volume {name}")
        return await self.inspect_volume(name)

    async def inspect_volume(self, name: str) -> VolumeInfo:
        """What is known of a volume; see Engine."""
        return parse_volume(await self._inspect("volume", name))

    async def remove_volume(self, name: str) -> None:
        """Removes a volume; see Engine."""
        await self._tool.run(Invocation(("volume", "rm", named(name, "volume"))), asked=f"remove the volume {name}")

    async def _inspect(self, kind: str, name: str) -> Mapping[str, object]:
        answer = await self._tool.run(inspect(kind, [name]), asked=f"inspect the {kind} {name}")
        found = documents(answer.out)
        if not found:
            raise EngineNotFound(f"there is no {kind} {name!r}")
        return found[0]

    async def _inspect_all(self, kind: str, names: list[str]) -> list[Mapping[str, object]]:
        """Those of them that are still there."""
        asked = f"inspect the {kind}s {', '.join(names)}"
        answer = await self._tool.try_run(inspect(kind, names), asked=asked)
        found = documents(answer.out)
        if answer.code != 0 and not isinstance(error := explain(asked, answer.code, answer.err), EngineNotFound):
            raise error
        return found

    async def _members(self) -> Mapping[str, tuple[str, ...]]:
        """Who is in which network: what the tools say of a network itself leaves out those that do not run."""
        words = ("ps", "--all", "--no-trunc", "--format", "{{.ID}} {{.Networks}}")
        return parse_members((await self._tool.run(Invocation(words), asked="list containers by networks")).out)
