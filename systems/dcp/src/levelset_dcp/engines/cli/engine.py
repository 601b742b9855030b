"""Docker and Podman through their command line tools."""

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from subprocess import DEVNULL, PIPE, STDOUT
from types import TracebackType
from typing import Final, Self

from msgspec import Struct

from levelset.aio import Backoff, timing
from levelset_dcp.engines.cli import arguments
from levelset_dcp.engines.cli.arguments import Invocation, filters, inspect, named
from levelset_dcp.engines.cli.error_mapping import map_error, may_be_container_error
from levelset_dcp.engines.cli.output import (
    documents,
    parse_container,
    parse_event,
    parse_image,
    parse_members,
    parse_network,
    parse_volume,
)
from levelset_dcp.engines.cli.process import Tail, Tool, pump
from levelset_dcp.engines.cli.status_cache import PERIOD, StatusCache
from levelset_dcp.engines.errors import (
    EngineAlreadyExists,
    EngineError,
    EngineNotFound,
    EngineRefused,
    EngineTimedOut,
    Incomplete,
    ObjectInUse,
    RuntimeNotHealthy,
)
from levelset_dcp.engines.interface import CALL, LONG_CALL, Sink
from levelset_dcp.engines.models import (
    ContainerInfo,
    EngineEvent,
    EngineStatus,
    ImageBuild,
    ImageInfo,
    LogOrigin,
    NetworkInfo,
    NewContainer,
    NewExec,
    NewNetwork,
    VolumeInfo,
)

__all__ = [
    "DOCKER",
    "PODMAN",
    "CliEngine",
    "Dialect",
    "DockerEngine",
    "PodmanEngine",
    "is_older",
    "version_of",
]

_CHUNK: Final = 65536
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 10.0
_LAST_PAUSE: Final = 0.5
_CONNECTED: Final = EngineEvent(kind="engine", action="connected")
_CANNOT_EXECUTE: Final = 126
_COMMAND_NOT_FOUND: Final = 127
_MISSING_COMMAND: Final = "executable file not found"
_VERSION_CALL: Final = 2.0
_RECONNECT: Final = Backoff(first=0.2, cap=10.0)


class Dialect(Struct, frozen=True, kw_only=True):
    """The differences between the tools of the engines."""

    name: str
    default_network: str
    host_name: str
    """The host name of this machine inside containers."""
    minimum_version: tuple[int, ...]
    """The minimum version."""
    extra_build_args: tuple[str, ...] = ()
    event_args: tuple[str, ...] = ()
    terminal_args: tuple[str, ...] = ()
    """Keeps signals of the tool away from the container; Docker does that by itself if it has a terminal."""


DOCKER: Final = Dialect(
    name="docker",
    default_network="bridge",
    host_name="host.docker.internal",
    minimum_version=(25, 0, 0),
    extra_build_args=("--progress", "plain"),
    event_args=("--filter", "type=container", "--filter", "type=network", "--format", "{{json .}}"),
)


PODMAN: Final = Dialect(
    name="podman",
    default_network="podman",
    host_name="host.containers.internal",
    minimum_version=(4, 0, 0),
    # Some versions combine several `type` filters with AND, so all events are read and filtered here.
    event_args=("--format", "json"),
    terminal_args=("--sig-proxy=false",),
)


class CliEngine:
    """An engine that is driven through its command line tool.

    ```python
    async with DockerEngine() as engine:  # polls the status in the background
        await engine.check_status(cached=True)
    ```
    """

    def __init__(
        self, dialect: Dialect, program: str, *, env: Mapping[str, str] | None = None, period: float = PERIOD
    ) -> None:
        self._dialect = dialect
        self._tool = Tool(program, env=env)
        self._status_cache = StatusCache(self._check, period=period)

    @property
    def name(self) -> str:
        """The name of the engine."""
        return self._dialect.name

    @property
    def host_name(self) -> str:
        """The host name of this machine inside containers."""
        return self._dialect.host_name

    @property
    def default_network(self) -> str:
        """The network of containers that name none."""
        return self._dialect.default_network

    def is_installed(self) -> bool:
        """Whether its tool can be found, without running it; reads directories, so call it in a thread."""
        return self._tool.path is not None

    async def __aenter__(self) -> Self:
        await self._status_cache.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._status_cache.__aexit__(kind, error, trace)

    async def check_status(self, *, cached: bool = False) -> EngineStatus:
        """The status of the engine; see Engine."""
        return await (self._status_cache.cached() if cached else self._status_cache.now())

    async def watch(self) -> AsyncGenerator[EngineEvent, None]:
        """The events from now on; see Engine."""
        delays = _RECONNECT.delays()
        while True:
            if (await self.check_status()).is_healthy:
                begun = timing.now()
                try:
                    async with aclosing(self._events()) as events:
                        async for event in events:
                            yield event
                except RuntimeNotHealthy:
                    pass  # stopped in the meantime; checked again below
                if timing.now() - begun > _RECONNECT.cap:
                    delays.reset()
            await timing.sleep(next(delays))

    async def create_container(self, spec: NewContainer, *, out: Sink | None = None, err: Sink | None = None) -> str:
        """Creates a container; see Engine."""
        operation = f"create the container {spec.name or 'of ' + spec.image}"
        invocation = arguments.create_container(spec)
        printed = (await self._tool.run(invocation, operation=operation, limit=LONG_CALL, out=out, err=err)).out.split()
        if not printed:
            raise Incomplete(f"{operation}: the engine did not print its ID; inspect it by name")
        return printed[-1]

    async def start_container(self, container: str) -> None:
        """Starts a container; see Engine."""
        args = ("container", "start", named(container, "container"))
        await self._tool.run(Invocation(args), operation=f"start the container {container}")

    async def stop_container(self, container: str, *, grace: float = 10.0) -> None:
        """Stops a container; see Engine."""
        args = ("container", "stop", "--time", f"{max(0, round(grace))}", named(container, "container"))
        await self._tool.run(Invocation(args), operation=f"stop the container {container}", limit=CALL + grace)

    async def remove_container(self, container: str, *, force: bool = False) -> None:
        """Removes a container; see Engine."""
        operation = f"remove the container {container}"
        args = ("container", "rm", "--volumes", *(("--force",) if force else ()), named(container, "container"))
        result = await self._tool.run(Invocation(args), operation=operation)
        if not result.out.strip():
            # With --force some versions report a missing container as a warning, with exit code 0.
            raise (
                map_error(operation, result.code, result.err)
                if result.err
                else EngineNotFound(f"{operation}: no such container")
            )

    async def inspect_container(self, container: str) -> ContainerInfo:
        """Inspects a container; see Engine."""
        return parse_container(await self._inspect("container", container))

    async def list_containers(self, *, labels: Mapping[str, str] | None = None) -> tuple[ContainerInfo, ...]:
        """All containers with these labels; see Engine."""
        args = ("ps", "--all", "--no-trunc", *filters(labels), "--format", "{{.ID}}")
        found = (await self._tool.run(Invocation(args), operation="list containers")).out.split()
        return tuple(parse_container(one) for one in await self._inspect_all("container", found)) if found else ()

    async def exec(self, container: str, request: NewExec, *, out: Sink, err: Sink) -> int:
        """Runs a command inside a container; see Engine."""
        operation = f"run {' '.join(request.command[:1])} in the container {container}"
        stdout, stderr = Tail(out), Tail(err)
        async with self._tool.started(arguments.execute(container, request)) as child:
            await asyncio.gather(pump(child.out, stdout), pump(child.err, stderr))
            code = await child.wait()
        # The command itself may have printed such a text, so the state of the container decides.
        is_doubtful = code != 0 and may_be_container_error(stderr.text)
        if is_doubtful and not (await self.inspect_container(container)).is_running:
            raise EngineRefused(f"{operation}: the container does not run")
        # Older versions of Docker report a missing command as one that cannot be executed, and say so on stdout.
        is_missing = code == _CANNOT_EXECUTE and _MISSING_COMMAND in stdout.text + stderr.text
        return _COMMAND_NOT_FOUND if is_missing else code

    async def logs(
        self,
        container: str,
        *,
        origin: LogOrigin = "all",
        follow: bool = False,
        timestamps: bool = False,
        tail: int | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """The output of a container; see Engine."""
        await self.inspect_container(container)
        operation = f"read the log of the container {container}"
        invocation = arguments.logs(container, follow=follow, timestamps=timestamps, tail=tail)
        out, err = {"all": (PIPE, STDOUT), "stdout": (PIPE, DEVNULL), "stderr": (DEVNULL, PIPE)}[origin]
        stderr = Tail()
        async with self._tool.started(invocation, out=out, err=err) as child:
            stream = child.err if origin == "stderr" else child.out
            reading = self._followed(container, stream) if follow else _read(stream, operation)
            async with aclosing(reading) as chunks:
                async for data in chunks:
                    stderr.write(data)
                    yield data
            if not child.is_done:
                return  # the container has exited, and the tool did not notice
            code = await child.wait()
        if code != 0:
            why = map_error(operation, code, stderr.text)
            if not isinstance(why, EngineNotFound):  # removed in the meantime
                raise why

    async def copy_in(self, container: str, folder: str, archive: bytes) -> None:
        """Extracts an archive; see Engine."""
        invocation, operation = arguments.copy_in(container, folder), f"copy to {folder} of the container {container}"
        try:
            await self._tool.run(invocation, operation=operation, stdin=archive)
        except EngineRefused:
            await self.inspect_container(container)  # older versions of Docker do not say that there is none
            raise

    def terminal_command(self, container: str, *, start: bool) -> tuple[str, ...]:
        """The command line that shows a container on a terminal; see Engine."""
        words = ("start", "--attach", "--interactive") if start else ("attach",)
        return (self._tool.program, *words, *self._dialect.terminal_args, named(container, "container"))

    async def build(self, request: ImageBuild, *, out: Sink | None = None, err: Sink | None = None) -> ImageInfo:
        """Builds an image; see Engine."""
        if not request.tags:
            raise EngineRefused(f"the image of {request.context!r} has no tag to find it by; add one")
        invocation = arguments.build_image(request, extra=self._dialect.extra_build_args)
        await self._tool.run(invocation, operation=f"build {request.tags[0]}", limit=LONG_CALL, out=out, err=err)
        return await self.inspect_image(request.tags[0])

    async def pull_image(self, image: str, *, out: Sink | None = None, err: Sink | None = None) -> ImageInfo:
        """Pulls an image; see Engine."""
        invocation = Invocation(("pull", named(image, "image")))
        await self._tool.run(invocation, operation=f"pull {image}", limit=LONG_CALL, out=out, err=err)
        return await self.inspect_image(image)

    async def inspect_image(self, image: str) -> ImageInfo:
        """Inspects an image; see Engine."""
        return parse_image(await self._inspect("image", image))

    async def create_network(self, spec: NewNetwork) -> NetworkInfo:
        """Creates a network; see Engine."""
        await self._tool.run(arguments.create_network(spec), operation=f"create the network {spec.name}")
        return await self.inspect_network(spec.name)

    async def inspect_network(self, network: str) -> NetworkInfo:
        """Inspects a network; see Engine."""
        return parse_network(await self._inspect("network", network), await self._members())

    async def list_networks(self, *, labels: Mapping[str, str] | None = None) -> tuple[NetworkInfo, ...]:
        """All networks with these labels; see Engine."""
        args = ("network", "ls", "--no-trunc", *filters(labels), "--format", "{{.ID}}")
        found = (await self._tool.run(Invocation(args), operation="list networks")).out.split()
        if not found:
            return ()
        members = await self._members()
        return tuple(parse_network(one, members) for one in await self._inspect_all("network", found))

    async def remove_network(self, network: str) -> None:
        """Removes a network; see Engine."""
        found = await self.inspect_network(network)
        if found.container_ids:
            # By ID, Podman removes a network in use; Docker considers only running containers.
            members = ", ".join(found.container_ids)
            raise ObjectInUse(f"network {found.name!r} has containers in it: {members}; disconnect them first")
        await self._tool.run(Invocation(("network", "rm", found.name)), operation=f"remove the network {network}")

    async def connect(self, network: str, container: str, *, aliases: tuple[str, ...] = ()) -> None:
        """Connects a container to a network; see Engine."""
        invocation = arguments.connect(network, container, aliases)
        await self._tool.run(invocation, operation=f"connect {container} to the network {network}")

    async def disconnect(self, network: str, container: str, *, force: bool = False) -> None:
        """Disconnects a container from a network; see Engine."""
        invocation = arguments.disconnect(network, container, force=force)
        await self._tool.run(invocation, operation=f"disconnect {container} from the network {network}")

    async def create_volume(self, name: str, *, labels: Mapping[str, str] | None = None) -> VolumeInfo:
        """Creates a volume; see Engine."""
        with suppress(EngineAlreadyExists):  # only Podman fails here
            await self._tool.run(arguments.create_volume(name, labels or {}), operation=f"create the volume {name}")
        return await self.inspect_volume(name)

    async def inspect_volume(self, name: str) -> VolumeInfo:
        """Inspects a volume; see Engine."""
        return parse_volume(await self._inspect("volume", name))

    async def list_volumes(self, *, labels: Mapping[str, str] | None = None) -> tuple[VolumeInfo, ...]:
        """All volumes with these labels; see Engine."""
        args = ("volume", "ls", *filters(labels), "--format", "{{.Name}}")
        found = (await self._tool.run(Invocation(args), operation="list volumes")).out.split()
        return tuple(parse_volume(one) for one in await self._inspect_all("volume", found)) if found else ()

    async def remove_volume(self, name: str) -> None:
        """Removes a volume; see Engine."""
        await self._tool.run(Invocation(("volume", "rm", named(name, "volume"))), operation=f"remove the volume {name}")

    async def _events(self) -> AsyncGenerator[EngineEvent, None]:
        """The events of one run of the tool, since before its start, so that none is missed."""
        since = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        async with self._tool.started(Invocation(("events", "--since", since, *self._dialect.event_args))) as child:
            yield _CONNECTED
            stream = child.out
            while stream is not None:
                try:
                    line = await stream.readline()
                except ValueError:
                    continue  # a line longer than any event; its rest is not JSON either
                if not line:
                    return
                event = parse_event(line)
                if event is not None:
                    yield event

    async def _check(self) -> EngineStatus:
        """Checks that the tool is installed, is recent enough, and reaches its engine."""
        name = self._tool.program
        try:
            result = await self._tool.run(
                Invocation(("--version",)), operation=f"{name} --version", limit=_VERSION_CALL
            )
        except RuntimeNotHealthy as error:
            return EngineStatus(is_installed=False, is_running=False, message=str(error))
        except EngineError as error:
            return EngineStatus(is_installed=True, is_running=False, message=str(error))
        version = version_of(result.out)
        if is_older(version, self._dialect.minimum_version):
            minimum_version = ".".join(str(part) for part in self._dialect.minimum_version)
            message = f"{name} {version} is too old; install {minimum_version} or later"
            return EngineStatus(is_installed=True, is_running=False, version=version, message=message)
        try:
            await self._tool.run(Invocation(("network", "ls", "--format", "{{.ID}}")), operation=f"{name} network ls")
        except EngineError as error:
            return EngineStatus(is_installed=True, is_running=False, version=version, message=str(error))
        return EngineStatus(is_installed=True, is_running=True, version=version)

    async def _followed(self, container: str, stream: asyncio.StreamReader | None) -> AsyncGenerator[bytes, None]:
        """The followed output; some tools do not end when the container has exited, so it is inspected in pauses."""
        pause, is_over = _FIRST_PAUSE, False
        while True:
            try:
                async with timing.within(_LAST_PAUSE if is_over else pause):
                    data = b"" if stream is None else await stream.read(_CHUNK)
            except TimeoutError:
                if is_over:
                    return
                is_over = await self._is_over(container)
                pause = min(2 * pause, _LONGEST_PAUSE)
                continue
            if not data:
                return
            pause = _FIRST_PAUSE
            yield data

    async def _is_over(self, container: str) -> bool:
        try:
            return (await self.inspect_container(container)).status in ("exited", "dead", "removing")
        except EngineNotFound:
            return True
        except EngineError:
            return False  # unknown; the tool fails by itself if the engine is gone

    async def _inspect(self, kind: str, name: str) -> Mapping[str, object]:
        result = await self._tool.run(inspect(kind, [name]), operation=f"inspect the {kind} {name}")
        found = documents(result.out)
        if not found:
            raise EngineNotFound(f"there is no {kind} {name!r}")
        return found[0]

    async def _inspect_all(self, kind: str, names: list[str]) -> list[Mapping[str, object]]:
        """Inspects several objects; those that no longer exist are left out."""
        operation = f"inspect the {kind}s {', '.join(names)}"
        result = await self._tool.try_run(inspect(kind, names), operation=operation)
        found = documents(result.out)
        if result.code != 0 and not isinstance(error := map_error(operation, result.code, result.err), EngineNotFound):
            raise error
        return found

    async def _members(self) -> Mapping[str, tuple[str, ...]]:
        """The containers of each network; `network inspect` lists only running ones."""
        args = ("ps", "--all", "--no-trunc", "--format", "{{.ID}} {{.Networks}}")
        return parse_members((await self._tool.run(Invocation(args), operation="list containers by networks")).out)


class DockerEngine(CliEngine):
    """Docker 25 or later; `program` is the name or path of its tool, `env` the environment of the tool."""

    def __init__(
        self, program: str = "docker", *, env: Mapping[str, str] | None = None, period: float = PERIOD
    ) -> None:
        super().__init__(DOCKER, program, env=env, period=period)


class PodmanEngine(CliEngine):
    """Podman 4 or later; `program` is the name or path of its tool, `env` the environment of the tool."""

    def __init__(
        self, program: str = "podman", *, env: Mapping[str, str] | None = None, period: float = PERIOD
    ) -> None:
        super().__init__(PODMAN, program, env=env, period=period)


def version_of(text: str) -> str:
    """The first version number in a text: `28.2.2` of `Docker version 28.2.2, build e6534b4`."""
    found = re.search(r"\d+(\.\d+)+\S*?(?=[,\s]|$)", text)
    return found.group() if found else ""


def is_older(version: str, minimum_version: tuple[int, ...]) -> bool:
    """Whether a version is older than `oldest`; False if it cannot be parsed."""
    parts = re.match(r"\d{1,9}(\.\d{1,9})*", version)
    return parts is not None and tuple(int(part) for part in parts.group().split(".")) < minimum_version


async def _read(stream: asyncio.StreamReader | None, operation: str) -> AsyncGenerator[bytes, None]:
    """The output of the tool until it exits; raises EngineTimedOut if nothing comes for `CALL` seconds."""
    while stream is not None:
        try:
            async with timing.within(CALL):
                data = await stream.read(_CHUNK)
        except TimeoutError as error:
            raise EngineTimedOut(f"{operation}: no output for {CALL:g} s") from error
        if not data:
            return
        yield data
