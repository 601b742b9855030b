"""Sessions: kubeconfig, admin endpoint, cleanup, monitored process, signals and commands."""

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from levelset import Denied, ObjectMeta, Ref
from levelset.errors import ApiError, ConfigError, Forbidden
from levelset.http import Headers, Request, Response
from levelset_dcp.cli import main
from levelset_dcp.kinds import (
    Executable,
    ExecutableReplicaSet,
    ExecutableReplicaSetSpec,
    ExecutableSpec,
    ExecutableTemplate,
    Service,
    ServiceSpec,
)
from levelset_dcp.session import Session, SessionOptions, open_session
from levelset_machine import identity_of, is_alive
from systems.dcp.tests.support.executables import exe
from systems.dcp.tests.support.sessions import running_session, until_state


def options(tmp_path: Path, **more: Any) -> SessionOptions:
    return SessionOptions(kubeconfig=tmp_path / "kubeconfig", state=tmp_path / "state" / "state.sqlite3", **more)


async def send(
    session: Session, method: str = "GET", body: Any = None, kind: str = "application/merge-patch+json", **more: str
) -> tuple[int, Any]:
    headers = {"content-type": kind, "authorization": f"Bearer {session.local.server.token}", **more}
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = session.local.server.handle(
        Request(method, "/admin/execution", headers=Headers({k: v for k, v in headers.items() if v}), body=data)
    )
    answer = answer if isinstance(answer, Response) else await answer
    assert isinstance(answer.body, bytes)
    return answer.status, json.loads(answer.body) if answer.body else None


async def test_the_admin_endpoint_returns_the_status(tmp_path: Path) -> None:
    async with open_session(options(tmp_path)) as session:
        assert await send(session) == (200, {"status": "Running", "shutdownResourceCleanup": "Full"})


async def test_the_admin_endpoint_rejects_invalid_requests(tmp_path: Path) -> None:
    async with open_session(options(tmp_path)) as session:
        change = {"status": "Stopping"}
        refused = [
            await send(session, "PATCH", change, kind="application/json"),
            await send(session, "PATCH", b'{"status": "Stopping", "x": "' + b"y" * 512 + b'"}'),
            await send(session, "PATCH", b"{"),
            await send(session, "PATCH", []),
            await send(session, "PATCH", {"status": "Sleeping"}),
            await send(session, "PATCH", {"shutdownResourceCleanup": "Half"}),
            await send(session, "PATCH", change, authorization=""),
            await send(session, "PATCH", change, authorization="Bearer wrong"),
            await send(session, "GET", authorization=""),
            await send(session, "PUT", change),
        ]
        assert [code for code, _ in refused] == [415, 413, 400, 400, 422, 422, 401, 401, 401, 405]
        assert await send(session, "PATCH", {"status": "Running"}) == (204, None)
        assert session.status == "Running"


async def test_cleanup_without_stopping(tmp_path: Path) -> None:
    async with open_session(options(tmp_path)) as session:
        client = session.local.client
        await client.create(exe("/bin/sleep", args=("1000",)))
        running = await until_state(client, "one", "Running")
        assert (await send(session, "PATCH", {"status": "CleanupComplete"}))[0] == 202
        with pytest.raises((Denied, Forbidden, ApiError), match="shutting down"):
            await client.create(exe(name="two"))
        await client.wait_gone(running.ref, within=120)
        async with asyncio.timeout(120):
            await session.wait_cleaned()
        assert (await send(session, "PATCH", {"status": "CleaningResources"}))[0] == 200
        assert (await send(session, "PATCH", {"status": "CleanupComplete"}))[0] == 204
        assert (await send(session, "PATCH", {"status": "Running"}))[0] == 422
        assert (await send(session, "PATCH", {"status": "CleanupComplete", "shutdownResourceCleanup": "None"}))[
            0
        ] == 422
        assert (await send(session, "PATCH", {"status": "Stopping"}))[0] == 202
        await session.wait_stopping()
        assert session.report is not None
        assert session.report.is_complete
        assert session.report.deleted == {"Executable": 1}


async def test_dependents_are_deleted_before_their_dependencies(tmp_path: Path) -> None:
    async with open_session(options(tmp_path)) as session:
        client = session.local.client
        template = ExecutableTemplate(spec=ExecutableSpec(executable_path="/bin/sleep", args=("1000",)))
        await client.create(ExecutableReplicaSet.new("web", ExecutableReplicaSetSpec(template=template, replicas=2)))
        await client.create(Service.new("web", ServiceSpec()))
        await client.wait(
            Ref(ExecutableReplicaSet, "web"),
            lambda one: bool(one.status and one.status.running_replicas == 2),
            within=120,
        )
        replicas = [
            identity_of(one.status.pid) for one in await client.list(Executable) if one.status and one.status.pid
        ]
        assert len(replicas) == 2
        await session.end()
        assert session.report is not None
        assert session.report.is_complete
        assert not any(is_alive(one) for one in replicas if one)


async def test_objects_that_are_not_deleted_in_time_are_reported(tmp_path: Path) -> None:
    async with open_session(options(tmp_path, shutdown_within=0.2)) as session:
        held = ObjectMeta(name="held", finalizers=("example.dev/never",))
        await session.local.client.create(Service(metadata=held, spec=ServiceSpec()))
        await session.end()
        assert session.report is not None
        assert session.report.left == ["Service held"]
        assert not session.report.is_complete


async def test_the_kubeconfig_of_a_running_session_is_not_overwritten(tmp_path: Path) -> None:
    async with open_session(options(tmp_path)) as session:
        found = await asyncio.to_thread((tmp_path / "kubeconfig").stat)
        assert found.st_mode & 0o777 == 0o600
        with pytest.raises(ConfigError, match="choose another file"):
            await open_session(options(tmp_path)).__aenter__()
        assert session.status == "Running"
    assert not await asyncio.to_thread((tmp_path / "kubeconfig").exists)


async def test_a_session_stops_with_its_monitored_process(tmp_path: Path) -> None:
    parent = await asyncio.create_subprocess_exec("/bin/sleep", "1000")
    try:
        async with open_session(options(tmp_path, monitor=identity_of(parent.pid))) as session:
            await session.local.client.create(exe("/bin/sleep", args=("1000",)))
            running = await until_state(session.local.client, "one", "Running")
            assert running.status is not None
            assert running.status.pid is not None
            program = identity_of(running.status.pid)
            assert program is not None
            parent.kill()
            async with asyncio.timeout(120):
                await session.wait_stopping()
            assert "has exited" in session.why
            assert not is_alive(program)
    finally:
        await parent.wait()


async def test_a_signal_stops_a_session_gracefully(tmp_path: Path) -> None:
    async with running_session(tmp_path) as session:
        program = exe("/bin/sh", args=("-c", "trap 'exit 0' TERM; echo up; while :; do sleep 0.1; done"))
        await session.client.create(program)
        running = await until_state(session.client, "one", "Running")
        assert running.status is not None
        assert running.status.pid is not None
        identity = identity_of(running.status.pid)
        assert identity is not None
        session.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(120):
            assert await session.process.wait() == 0
        assert not is_alive(identity)
        assert not await asyncio.to_thread(session.kubeconfig.exists)
        assert b"received SIGTERM" in await session.stdout.read()


async def test_a_second_signal_terminates_a_session(tmp_path: Path) -> None:
    async with running_session(tmp_path) as session:
        await session.client.create(exe("/bin/sh", args=("-c", "trap '' TERM; echo up; while :; do sleep 0.1; done")))
        lines = session.client.logs(Ref(Executable, "one"), follow=True)
        async with lines:
            assert await anext(lines) == "up"
        session.process.send_signal(signal.SIGTERM)
        await session.client.wait(
            Ref(Executable, "one"), lambda one: one.metadata.deletion_timestamp is not None, within=120
        )
        session.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(120):
            assert await session.process.wait() == -signal.SIGTERM


def run_command(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[Any, str, str]:
    """Runs the command in this process; returns its exit code, stdout and stderr."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    shown = capfd.readouterr()
    return ended.value.code, shown.out, shown.err


PRINTS = ExecutableSpec(executable_path="/bin/sh", args=("-c", "echo a; echo b; echo c >&2"))


async def test_the_command_shows_logs_and_stops_sessions(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    where = ("--kubeconfig", str(tmp_path / "kubeconfig"))
    async with open_session(options(tmp_path)) as session:
        await session.local.client.create(Executable(metadata=ObjectMeta(name="one"), spec=PRINTS))
        assert await asyncio.to_thread(run_command, capfd, "logs", "one", "-f", *where) == (0, "a\nb\n", "")
        assert await asyncio.to_thread(run_command, capfd, "logs", "one", "--tail", "1", *where) == (0, "b\n", "")
        shown = await asyncio.to_thread(run_command, capfd, "logs", "executable/one", "--source", "stderr", *where)
        assert shown == (0, "c\n", "")
        code, _, err = await asyncio.to_thread(run_command, capfd, "logs", "other", *where)
        assert (code, "not found" in err) == (1, True)
        assert await asyncio.to_thread(run_command, capfd, "stop", *where) == (0, "", "")
        async with asyncio.timeout(120):
            await session.wait_stopping()
    code, _, err = await asyncio.to_thread(run_command, capfd, "stop", *where)
    assert (code, "there is no session" in err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["logs", "pod/x"], "name an Executable"),
        (["start", "--monitor-identity-time", "5"], "give both, or none"),
        (["start", "--monitor", "1", "--monitor-identity-time", "99999999999"], "is another one"),
        (["start", "--monitor", "0"], "expected a process ID"),
        (["start", "--port", "70000"], "a port from 1 to 65535"),
        (["nonsense"], "invalid choice"),
    ],
)
def test_usage_errors_are_reported(arguments: list[str], message: str, capfd: pytest.CaptureFixture[str]) -> None:
    code, _, err = run_command(capfd, *arguments)
    assert code == 2
    assert message in err


def test_version_prints_the_version(capfd: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run_command(capfd, "version")
    assert code == 0
    assert json.loads(out)["version"]


def test_info_prints_the_status_of_the_engine(capfd: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run_command(capfd, "info", "--container-runtime", "memory")
    assert code == 0
    assert json.loads(out)["containers"]["running"] is True
    code, out, _ = run_command(capfd, "info", "--container-runtime", "none")
    none = {"runtime": "none", "hostName": "", "installed": False, "running": False}
    assert json.loads(out)["containers"] == none
