"""`exec`, `attach` and `port-forward` of Pods: commands beside a container's process, its output, and its ports.

A command runs in the environment and the working directory of the container, and ends with the client's connection or
with the container. As elsewhere on this node, mount paths at the beginning of its words are rewritten.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Final, Protocol, Self

from levelset import decode, encode, replace
from levelset.apiserver import (
    STDERR,
    STDOUT,
    ConnectPort,
    PortConnection,
    RemoteStreams,
    RunCommand,
    StreamRequest,
    StreamSources,
)
from levelset.errors import BadRequest, ServerFailed
from levelset.kinds.core_v1 import Pod
from levelset_local.node.container_run import ContainerRun
from levelset_local.node.mounts import mount_paths, rewrite_mount_path
from levelset_local.node.node import Node
from levelset_local.node.pod_logs import choose_container
from levelset_machine import ERR, OUT, CannotStart, Command, LogOptions, Run, Session

__all__ = ["pod_streams"]

FindRun = Callable[[str, str], ContainerRun | None]
"""Finds the running process of a container, by the uid of its Pod and its name."""
_COPY: Final = ("tar", "cf", "-")
_GRACE: Final = 2.0
_CONNECT_WITHIN: Final = 10.0


class _SessionRunner(Protocol):
    def start_session(self, session: Session, command: Command) -> Run: ...


def pod_streams(node: Node, find_run: FindRun) -> StreamSources:
    """The streams of a node's Pods; they raise BadRequest with the messages of Kubernetes."""

    async def exec_(request: StreamRequest) -> RunCommand:
        words = request.query.get("command", ())
        if not words:
            raise BadRequest("you must specify at least 1 command for the container")
        run = _running(request, find_run)
        runner: Any = node.runner
        if not hasattr(runner, "start_session"):
            raise BadRequest("commands cannot be run on this node")
        argv = await asyncio.to_thread(_rewrite, words, run)
        command = replace(run.command, argv=(*run.enter, *argv))
        return lambda streams: _exec(node, runner, run, command, streams)

    async def attach(request: StreamRequest) -> RunCommand:
        run = _running(request, find_run)
        if run.streams is not None:
            return run.streams.attach
        return lambda streams: _attach(node, run, streams)

    async def portforward(request: StreamRequest) -> ConnectPort:
        pod = _bound_pod(request)
        address = pod.status.pod_ip if pod.status is not None else None
        if not address or pod.status is None or pod.status.phase != "Running":
            raise BadRequest(f"pod {pod.name} is not running")
        return lambda port: _connect(address, port)

    return StreamSources(exec=exec_, attach=attach, portforward=portforward)


def _bound_pod(request: StreamRequest) -> Pod:
    pod = decode(Pod, encode(request.tree))
    if not pod.spec.node_name:
        raise BadRequest(f"pod {pod.name} does not have a host assigned")
    return pod


def _running(request: StreamRequest, find_run: FindRun) -> ContainerRun:
    """The run of the container that a request names, or of the only one; raises BadRequest."""
    pod = _bound_pod(request)
    default = pod.metadata.annotations.get("kubectl.kubernetes.io/default-container")
    container = choose_container(pod, request.parameter("container") or default)
    run = find_run(pod.metadata.uid, container)
    # The reconciler forgets a run some time after its process has ended.
    if run is None or run.process.ended is not None:
        raise BadRequest(f'container "{container}" in pod "{pod.name}" is not running')
    return run


def _rewrite(words: Sequence[str], run: ContainerRun) -> tuple[str, ...]:
    """The words of a command with mount paths moved below the mount root; call it in a thread.

    `kubectl cp` runs `tar cf - PATH`, and refuses an archive with other names than that path: so tar gets it relative
    to the mount root. A volume is a link there, and is followed as the mount that it stands for.
    """
    mounts, root = tuple(mount_paths(run.container)), str(run.root)
    rewritten = tuple(rewrite_mount_path(word, mounts, root) for word in words)
    if tuple(words[:-1]) != _COPY or rewritten[-1] == words[-1]:
        return rewritten
    name, place = words[-1].strip("/"), Path(rewritten[-1])
    is_mount = any(one.strip("/") == name for one in mounts)
    if is_mount and place.is_dir():
        name = f"{name}/."
    return (*_COPY, *(("-h",) if is_mount and place.is_file() else ()), "-C", root, name)


async def _exec(node: Node, runner: _SessionRunner, run: ContainerRun, command: Command, streams: RemoteStreams) -> int:
    """Runs a command beside a container, and returns its exit code."""
    session = Session(stdin=streams.stdin is not None, terminal=streams.tty)
    try:
        process = runner.start_session(session, command)
    except CannotStart as error:
        raise ServerFailed(f"error executing command in container: {error}", code=500) from error
    try:
        return await _until_over(process, run, session, streams)
    finally:
        session.close()
        await node.runner.stop(process, grace=_GRACE)


async def _until_over(process: Run, run: ContainerRun, session: Session, streams: RemoteStreams) -> int:
    """Copies the streams until the command has ended and its output is read; 137 if its container ends first."""
    async with _Tasks() as tasks:
        _typing, _sizing = tasks.start(_type(session, streams)), tasks.start(_follow_size(session, streams))
        output = [tasks.start(_show(session, OUT, STDOUT, streams)), tasks.start(_show(session, ERR, STDERR, streams))]
        ended, gone = tasks.start(process.wait()), tasks.start(run.process.wait())
        await asyncio.wait([ended, gone], return_when=asyncio.FIRST_COMPLETED)
        if not ended.done():
            return 137
        # Children that the command has left behind may hold its output open; they are not waited for.
        await asyncio.wait(output, timeout=_GRACE)
        return int(ended.result().code)


class _Tasks:
    """Tasks that are cancelled at the end of a block."""

    def __init__(self) -> None:
        self._tasks = list[asyncio.Task[Any]]()

    def start(self, work: Coroutine[Any, Any, Any] | Awaitable[Any]) -> "asyncio.Task[Any]":
        task = asyncio.ensure_future(work)
        assert isinstance(task, asyncio.Task), "work is a coroutine"
        self._tasks.append(task)
        return task

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _type(session: Session, streams: RemoteStreams) -> None:
    if streams.stdin is None:
        return
    while data := await streams.stdin.read():
        await session.write(data)
    if not streams.tty:
        session.close_input()


async def _follow_size(session: Session, streams: RemoteStreams) -> None:
    async for size in streams.sizes():
        session.resize(columns=size.columns, rows=size.rows)


async def _show(session: Session, source: int, target: int, streams: RemoteStreams) -> None:
    while data := await session.read(source):
        await streams.write(target, data)


async def _attach(node: Node, run: ContainerRun, streams: RemoteStreams) -> int:
    """Shows what a container writes from now on, until it ends. Its process has no stdin."""
    target = STDOUT if streams.wants(STDOUT) else STDERR
    options = LogOptions.of_query({"follow": "true", "tailLines": "0"}, now=node.runner.now())
    async for data in node.logs.read(run.log, options):
        await streams.write(target, data)
    return 0


async def _connect(address: str, port: int) -> PortConnection:
    try:
        async with asyncio.timeout(_CONNECT_WITHIN):
            reader, writer = await asyncio.open_connection(address, port)
    except TimeoutError as error:
        raise OSError(f"{address}:{port} does not answer") from error
    return PortConnection(reader, writer)
