"""The logs of a server without controllers: read from the files that another process names in the status."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from levelset import Client, Object, ObjectMeta, Ref, System, open_local, replace
from levelset.errors import BadRequest
from levelset.objects import MicroTime
from levelset_dcp.engines.memory import InMemoryEngine
from levelset_dcp.engines.models import NewContainer
from levelset_dcp.kinds import (
    Container,
    ContainerExec,
    ContainerExecSpec,
    ContainerExecStatus,
    ContainerSpec,
    ContainerStatus,
    Executable,
    ExecutableSpec,
    ExecutableStatus,
    Terminal,
)
from levelset_dcp.status_logs import StatusLogs
from levelset_dcp.system import KINDS

ONE = Ref(Executable, "one")
STORED = b"1 2026-01-31T12:00:00.000Z one\n2 2026-01-31T12:00:01.000Z two\n"
NOW = MicroTime.of(datetime(2026, 1, 31, tzinfo=UTC))


@asynccontextmanager
async def server(engine: InMemoryEngine | None = None) -> AsyncGenerator[Client, None]:
    """A server of the kinds, whose logs end with their objects at once."""
    logs = StatusLogs(engine, linger=0.0)
    system = System(
        name="dcp",
        kinds=KINDS,
        logs={kind: logs.source(kind) for kind in (Executable, Container, ContainerExec)},
        setup=logs.connect,
    )
    async with open_local(system) as local:
        yield local.client


def executable(**spec: Any) -> Executable:
    return Executable(metadata=ObjectMeta(name="one"), spec=ExecutableSpec(executable_path="web", **spec))


async def update(client: Client, obj: Object, status: Any) -> Any:
    """Writes a status, as the controllers in another process do."""
    return await client.update_status(replace(await client.get(obj.ref), status=status))


async def lines(client: Client, ref: Ref[Any], **query: Any) -> list[str]:
    async with client.logs(ref, **query) as found:
        return [line async for line in found]


async def written(path: Path, data: bytes) -> str:
    await asyncio.to_thread(path.write_bytes, data)
    return str(path)


async def test_the_files_of_the_status_are_read_with_the_options_of_kubectl(tmp_path: Path) -> None:
    out, err = await written(tmp_path / "out", STORED), await written(tmp_path / "err", b"plain\n")
    async with server() as client:
        made = await client.create(executable())
        await update(client, made, ExecutableStatus(state="Running", std_out_file=out, std_err_file=err))
        assert await lines(client, ONE) == ["one", "two"]
        assert await lines(client, ONE, source="stderr") == ["plain"]
        assert await lines(client, ONE, tail=1, timestamps=True) == ["2026-01-31T12:00:01.000Z two"]
        assert await lines(client, ONE, limit_bytes=2) == ["on"]


async def test_a_log_is_followed_from_before_the_start_to_the_end_of_the_program(tmp_path: Path) -> None:
    async with server() as client:
        made = await client.create(executable())
        async with client.logs(ONE, follow=True) as found:
            await update(client, made, ExecutableStatus(state="Running", std_out_file=str(tmp_path / "out")))
            await written(tmp_path / "out", STORED)
            assert [await anext(found), await anext(found)] == ["one", "two"]
            await written(tmp_path / "out", STORED + b"3 2026-01-31T12:00:02.000Z bye\n")
            assert await anext(found) == "bye"
            await update(client, made, ExecutableStatus(state="Finished", finish_timestamp=NOW))
            assert [line async for line in found] == []


@pytest.mark.parametrize("end", ["deleted", "failed"])
async def test_following_a_program_that_never_starts_ends_with_it(end: str) -> None:
    async with server() as client:
        made = await client.create(executable())
        async with client.logs(ONE, follow=True) as found:
            if end == "deleted":
                await client.delete(ONE)
            else:
                await update(client, made, ExecutableStatus(state="FailedToStart", finish_timestamp=NOW))
            assert [line async for line in found] == []


async def test_a_log_that_does_not_exist_yet_is_empty() -> None:
    async with server() as client:
        await client.create(executable())
        assert await lines(client, ONE) == []


@pytest.mark.parametrize(
    ("path", "query", "message"),
    [
        ("/dev/zero", {}, "no regular file of the server's user"),
        ("relative", {}, "no absolute path"),
        ("", {"source": "system"}, "belongs to the controllers"),
        ("", {"source": "startup_stdout"}, "Executable has stdout, stderr"),
        ("", {"limit_bytes": 0}, "limitBytes: must be at least 1"),
    ],
)
async def test_what_must_not_be_read_is_refused(path: str, query: dict[str, Any], message: str) -> None:
    async with server() as client:
        made = await client.create(executable())
        await update(client, made, ExecutableStatus(std_out_file=path))
        with pytest.raises(BadRequest, match=message):
            await lines(client, ONE, **query)


async def test_a_program_or_container_on_a_terminal_has_no_log() -> None:
    shown = Container(metadata=ObjectMeta(name="one"), spec=ContainerSpec(image="web", terminal=Terminal()))
    async with server(InMemoryEngine()) as client:
        for one in (executable(terminal=Terminal()), shown):
            await client.create(one)
            with pytest.raises(BadRequest, match="runs on a terminal"):
                await lines(client, one.ref)


async def test_commands_in_containers_and_startup_logs_are_read_from_their_files(tmp_path: Path) -> None:
    path = await written(tmp_path / "out", STORED)
    async with server() as client:
        command = ContainerExec(
            metadata=ObjectMeta(name="run"), spec=ContainerExecSpec(container_name="box", command="ls")
        )
        await update(client, await client.create(command), ContainerExecStatus(std_err_file=path))
        assert await lines(client, command.ref, source="stderr", tail=1) == ["two"]
        box = await client.create(Container(metadata=ObjectMeta(name="box"), spec=ContainerSpec(image="web")))
        await update(client, box, ContainerStatus(startup_std_out_file=path))
        assert await lines(client, box.ref, source="startup_stdout") == ["one", "two"]
        with pytest.raises(BadRequest, match="no container engine"):
            await lines(client, box.ref)


async def test_the_output_of_a_container_is_that_of_the_engine() -> None:
    engine = InMemoryEngine()
    async with server(engine) as client:
        box = await client.create(Container(metadata=ObjectMeta(name="box"), spec=ContainerSpec(image="web")))
        assert await lines(client, box.ref) == []
        container = await engine.create_container(NewContainer(name="box", image="web"))
        await engine.start_container(container)
        engine.print(container, "hello")
        await update(client, box, ContainerStatus(state="Running", container_id=container))
        assert await lines(client, box.ref) == ["hello"]
