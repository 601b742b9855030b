"""Sessions: kubeconfig, admin page, cleanup in order, the parent, and signals."""

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import pytest

from levelset import Denied, Forbidden, ObjectMeta, Ref
from levelset.errors import ApiError, ConfigError
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
from systems.dcp.tests.programs import exe
from systems.dcp.tests.sessions import running_session, until_state


def options(tmp_path: Path, **more: Any) -> SessionOptions:
    return SessionOptions(kubeconfig=tmp_path / "kubeconfig", state=tmp_path / "state" / "state.sqlite3", **more)


async def ask(
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


async def test_the_admin_page_says_how_far_it_is(tmp_path: Path) -> None:
    async with open_session(options(tmp_path)) as session:
        assert await ask(session) == (200, {"status": "Running", "shutdownResourceCleanup": "Full"})


async def test_the_admin_page_refuses_what_it_does_not_understand(tmp_path: Path) -> None:
    async with open_session(options(tmp_path)) as session:
        wish = {"status": "Stopping"}
        refused = [
            await ask(session, "PATCH", wish, kind="application/json"),
            await ask(session, "PATCH", b'{"status": "Stopping", "x": "' + b"y" * 512 + b'"}'),
            await ask(session, "PATCH", b"{"),
            await ask(session, "PATCH", []),
            await ask(session, "PATCH", {"status": "Sleeping"}),
            await ask(session, "PATCH", {"shutdownResourceCleanup": "Half"}),
            await ask(session, "PATCH", wish, authorization=""),
            await ask(session, "PATCH", wish, authorization="Bearer wrong"),
            await ask(session, "GET", authorization=""),
            await ask(session, "PUT", wish),
        ]
        assert [code for code, _ in refused] == [415, 413, 400, 400, 422, 422, 401, 401, 401, 405]
        assert await ask(session, "PATCH", {"status": "Running"}) == (204, None)
        assert session.status == "Running"


async def test_cleaning_up_without_stopping(tmp_path: Path) -> None:
    async with open_session(options(tmp_path)) as session:
        client = session.local.client
        await client.create(exe("/bin/sleep", args=("1000",)))
        running = await until_state(client, "one", "Running")
        assert (await ask(session, "PATCH", {"status": "CleanupComplete"}))[0] == 202
        with pytest.raises((Denied, Forbidden, ApiError), match="about to end"):
            await client.create(exe(name="two"))
        await client.wait_gone(running.ref, within=15)
        async with asyncio.timeout(15):
            await session.wait_cleaned()
        assert (await ask(session, "PATCH", {"status": "CleaningResources"}))[0] == 200
        assert (await ask(session, "PATCH", {"status": "CleanupComplete"}))[0] == 204
        assert (await ask(session, "PATCH", {"status": "Running"}))[0] == 422
        assert (await ask(session, "PATCH", {"status": "CleanupComplete", "shutdownResourceCleanup": "None"}))[0] == 422
        assert (await ask(session, "PATCH", {"status": "Stopping"}))[0] == 202
        await session.wait_stopping()
        assert session.report is not None
        assert session.report.is_complete
        assert session.report.deleted == {"Executable": 1}


async def test_what_needs_others_goes_before_them(tmp_path: Path) -> None:
    async with open_session(options(tmp_path)) as session:
        client = session.local.client
        template = ExecutableTemplate(spec=ExecutableSpec(executable_path="/bin/sleep", args=("1000",)))
        await client.create(ExecutableReplicaSet.new("web", ExecutableReplicaSetSpec(template=template, replicas=2)))
        await client.create(Service.new("web", ServiceSpec()))
        await client.wait(
            Ref(ExecutableReplicaSet, "web"),
            lambda one: bool(one.status and one.status.running_replicas == 2),
            within=15,
        )
        replicas = [
            identity_of(one.status.pid) for one in await client.list(Executable) if one.status and one.status.pid
        ]
        assert len(replicas) == 2
        await session.end()
        assert session.report is not None
        assert session.report.is_complete
        assert not any(is_alive(one) for one in replicas if one)


async def test_what_cannot_be_deleted_in_time_is_named(tmp_path: Path) -> None:
    async with open_session(options(tmp_path, shutdown_within=0.2)) as session:
        held = ObjectMeta(name="held", finalizers=("example.dev/never",))
        await session.local.client.create(Service(metadata=held, spec=ServiceSpec()))
        await session.end()
        assert session.report is not None
        assert session.report.left == ["Service held"]
        assert not session.report.is_complete


async def test_a_kubeconfig_of_a_session_that_runs_is_not_taken_away(tmp_path: Path) -> None:
    async with open_session(options(tmp_path)) as session:
        found = await asyncio.to_thread((tmp_path / "kubeconfig").stat)
        assert found.st_mode & 0o777 == 0o600
        with pytest.raises(ConfigError, match="choose another file"):
            await open_session(options(tmp_path)).__aenter__()
        assert session.status == "Running"
    assert not await asyncio.to_thread((tmp_path / "kubeconfig").exists)


async def test_a_session_ends_with_the_process_that_it_belongs_to(tmp_path: Path) -> None:
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
            async with asyncio.timeout(15):
                await session.wait_stopping()
            assert "has ended" in session.why
            assert not is_alive(program)
    finally:
        await parent.wait()


async def test_a_signal_ends_it_in_an_orderly_way(tmp_path: Path) -> None:
    async with running_session(tmp_path) as session:
        program = exe("/bin/sh", args=("-c", "trap 'exit 0' TERM; echo up; while :; do sleep 0.1; done"))
        await session.client.create(program)
        running = await until_state(session.client, "one", "Running")
        assert running.status is not None
        assert running.status.pid is not None
        identity = identity_of(running.status.pid)
        assert identity is not None
        session.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(15):
            assert await session.process.wait() == 0
        assert not is_alive(identity)
        assert not await asyncio.to_thread(session.kubeconfig.exists)
        assert b"SIGTERM was sent" in await session.said.read()


async def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    async with running_session(tmp_path) as session:
        await session.client.create(exe("/bin/sh", args=("-c", "trap '' TERM; echo up; while :; do sleep 0.1; done")))
        lines = session.client.logs(Ref(Executable, "one"), follow=True)
        async with lines:
            assert await anext(lines) == "up"
        session.process.send_signal(signal.SIGTERM)
        await session.client.wait(
            Ref(Executable, "one"), lambda one: one.metadata.deletion_timestamp is not None, within=15
        )
        session.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(5):
            assert await session.process.wait() == -signal.SIGTERM


def said(capfd: pytest.CaptureFixture[str], *words: str) -> tuple[Any, str, str]:
    """What the command says in this process, and its exit code."""
    with pytest.raises(SystemExit) as ended:
        main(words)
    shown = capfd.readouterr()
    return ended.value.code, shown.out, shown.err


SAYS = ExecutableSpec(executable_path="/bin/sh", args=("-c", "echo a; echo b; echo c >&2"))


async def test_the_command_shows_logs_and_stops_sessions(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    where = ("--kubeconfig", str(tmp_path / "kubeconfig"))
    async with open_session(options(tmp_path)) as session:
        await session.local.client.create(Executable(metadata=ObjectMeta(name="one"), spec=SAYS))
        assert await asyncio.to_thread(said, capfd, "logs", "one", "-f", *where) == (0, "a\nb\n", "")
        assert await asyncio.to_thread(said, capfd, "logs", "one", "--tail", "1", *where) == (0, "b\n", "")
        shown = await asyncio.to_thread(said, capfd, "logs", "executable/one", "--source", "stderr", *where)
        assert shown == (0, "c\n", "")
        code, _, err = await asyncio.to_thread(said, capfd, "logs", "other", *where)
        assert (code, "not found" in err) == (1, True)
        assert await asyncio.to_thread(said, capfd, "stop", *where) == (0, "", "")
        async with asyncio.timeout(15):
            await session.wait_stopping()
    code, _, err = await asyncio.to_thread(said, capfd, "stop", *where)
    assert (code, "no session is found" in err) == (2, True)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["logs", "pod/x"], "name an Executable"),
        (["start", "--monitor-identity-time", "5"], "give both, or none"),
        (["start", "--monitor", "1", "--monitor-identity-time", "99999999999"], "is another one"),
        (["start", "--monitor", "0"], "the number of a process"),
        (["start", "--port", "70000"], "a port from 1 to 65535"),
        (["nonsense"], "invalid choice"),
    ],
)
def test_what_is_not_understood_is_refused(words: list[str], told: str, capfd: pytest.CaptureFixture[str]) -> None:
    code, _, err = said(capfd, *words)
    assert code == 2
    assert told in err


def test_it_says_which_version_it_is(capfd: pytest.CaptureFixture[str]) -> None:
    code, out, _ = said(capfd, "version")
    assert code == 0
    assert json.loads(out)["version"]


def test_it_says_how_the_engine_is(capfd: pytest.CaptureFixture[str]) -> None:
    code, out, _ = said(capfd, "info", "--container-runtime", "memory")
    assert code == 0
    assert json.loads(out)["containers"]["running"] is True
    code, out, _ = said(capfd, "info", "--container-runtime", "none")
    assert json.loads(out)["containers"] == {"runtime": "none", "installed": False, "running": False}
