"""Executables of type IDE, with a real server in the role of the IDE."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from levelset import Client, MergePatch, Ref, open_local
from levelset.http import CertificateAuthority
from levelset_dcp.kinds import EnvVar, Executable, ExecutableStatus
from levelset_dcp.system import Options, dcp_system
from systems.dcp.tests.support.executables import exe
from systems.dcp.tests.support.ide import CONFIGURATIONS, IdeDouble
from systems.dcp.tests.support.sessions import WITHIN, lines_of, until_state

ONE = Ref(Executable, "one")
ANNOTATION = "executable.usvc-dev.developer.microsoft.com/launch-configurations"


@pytest.fixture(scope="module")
def authority() -> CertificateAuthority:
    return CertificateAuthority.create("ide")


@asynccontextmanager
async def session(ide: IdeDouble, folder: Path, **env: str) -> AsyncGenerator[Client, None]:
    """DCP with this IDE."""
    options = Options(folder=folder / "s", grace=0.5, ide_environment={**ide.environment, **env})
    async with open_local(dcp_system(options)) as local:
        yield local.client


def program(configurations: str = CONFIGURATIONS, **spec: Any) -> Executable:
    return exe("web", annotations={ANNOTATION: configurations}, execution_type="IDE", **spec)


async def status_when(client: Client, is_wanted: Any) -> ExecutableStatus:
    found = await client.wait(ONE, lambda one: one.status is not None and is_wanted(one.status), within=WITHIN)
    assert found.status is not None
    return found.status


async def finished(client: Client) -> ExecutableStatus:
    found = (await until_state(client, "one", "Finished")).status
    assert found is not None
    return found


async def test_a_program_runs_in_a_session_of_the_ide(tmp_path: Path) -> None:
    async with IdeDouble() as ide, session(ide, tmp_path) as client:
        await client.create(program(env=(EnvVar(name="A", value="1"),), args=("-v", "2")))
        running = await status_when(client, lambda one: one.state == "Running")
        assert (running.execution_id, running.pid, running.exit_code) == ("s1", None, None)
        assert ide.sessions["s1"] == {
            "launch_configurations": [{"type": "project", "project_path": "/src/web.csproj", "mode": "NoDebug"}],
            "env": [{"name": "A", "value": "1"}],
            "args": ["-v", "2"],
        }
        ide.notify("processRestarted", pid=4711)
        assert (await status_when(client, lambda one: one.pid is not None)).pid == 4711
        ide.notify("processRestarted", pid=4712)
        await status_when(client, lambda one: one.pid == 4712)
        ide.notify("serviceLogs", is_std_err=False, log_message="hello\r\n")
        ide.notify("serviceLogs", is_std_err=True, log_message="oh")
        ide.notify("sessionMessage", message="attached", level="info")
        ide.notify("sessionTerminated", exit_code=7)
        ended = await finished(client)
        assert (ended.exit_code, ended.pid, ended.execution_id) == (7, None, "s1")
        assert ended.finish_timestamp is not None
        assert await lines_of(client, "one") == ["hello"]
        assert await lines_of(client, "one", source="stderr") == ["oh"]
        assert "IDE, info: attached" in await lines_of(client, "one", source="system")


async def test_every_request_has_the_token_the_instance_and_the_version(tmp_path: Path) -> None:
    async with IdeDouble() as ide, session(ide, tmp_path, DCP_INSTANCE_ID_PREFIX="apphost-") as client:
        await client.create(program())
        await until_state(client, "one", "Running")
        assert [(method, path) for method, path, _ in ide.requests] == [
            ("GET", "/info"),
            ("GET", "/run_session/notify?api-version=2025-10-01"),
            ("PUT", "/run_session?api-version=2025-10-01"),
        ]
        instances = {headers["microsoft-developer-dcp-instance-id"] for _, _, headers in ide.requests}
        (instance,) = instances
        assert instance.startswith("apphost-")
        assert len(instance) == len("apphost-") + 12
        assert "args" not in ide.sessions["s1"], "without arguments, those of the launch profile are used"


async def test_a_log_is_followed_while_the_ide_reports_it(tmp_path: Path) -> None:
    async with IdeDouble() as ide, session(ide, tmp_path) as client:
        await client.create(program())
        async with client.logs(ONE, follow=True) as lines:
            await until_state(client, "one", "Running")
            ide.notify("serviceLogs", log_message="one")
            assert await anext(lines) == "one"
            ide.notify("sessionTerminated", exit_code=0)
            assert [line async for line in lines] == []


@pytest.mark.parametrize("how", ["stop", "delete"])
async def test_a_stopped_session_ends_with_the_exit_code_that_the_ide_reports(how: str, tmp_path: Path) -> None:
    async with IdeDouble() as ide, session(ide, tmp_path) as client:
        await client.create(program())
        await until_state(client, "one", "Running")
        if how == "stop":
            await client.patch(ONE, MergePatch({"spec": {"stop": True}}))
            assert (await finished(client)).exit_code == 143
        else:
            await client.delete(ONE)
            await client.wait_gone(ONE, within=WITHIN)
        assert ide.sessions == {}
        assert ide.requests[-1][:2] == ("DELETE", "/run_session/s1?api-version=2025-10-01")


async def test_a_session_that_the_ide_does_not_know_any_more_has_no_exit_code(tmp_path: Path) -> None:
    async with IdeDouble() as ide, session(ide, tmp_path) as client:
        await client.create(program())
        await until_state(client, "one", "Running")
        ide.sessions.clear()
        await client.patch(ONE, MergePatch({"spec": {"stop": True}}))
        assert (await finished(client)).exit_code is None


async def test_a_session_that_cannot_be_stopped_becomes_unknown(tmp_path: Path) -> None:
    async with IdeDouble() as ide, session(ide, tmp_path) as client:
        await client.create(program())
        await until_state(client, "one", "Running")
        ide.stop_status = 500
        await client.patch(ONE, MergePatch({"spec": {"stop": True}}))
        found = (await until_state(client, "one", "Unknown")).status
        assert found is not None
        assert found.message == "the IDE did not stop it (500): Busy: a debugger is attached"


async def with_early_notifications(client: Client, ide: IdeDouble, *early: dict[str, Any]) -> None:
    """Creates a program whose session is notified of before the response to the request for it arrives."""
    await client.create(exe("web", "first", {ANNOTATION: CONFIGURATIONS}, execution_type="IDE"))
    await until_state(client, "first", "Running")
    ide.may_respond.clear()
    ide.created.clear()
    await client.create(program())
    await ide.created.wait()
    for one in early:
        ide.notify(**one, session="s2")
    # A line of another session, which is read after all of these.
    ide.notify("serviceLogs", "s1", log_message="after")
    async with client.logs(Ref(Executable, "first"), follow=True) as lines:
        assert await anext(lines) == "after"
    ide.may_respond.set()


async def test_what_ends_before_its_response_is_finished_in_one_update(tmp_path: Path) -> None:
    async with IdeDouble() as ide, session(ide, tmp_path) as client:
        await with_early_notifications(
            client,
            ide,
            {"kind": "processRestarted", "pid": 5},
            {"kind": "serviceLogs", "log_message": "quick"},
            {"kind": "sessionTerminated", "exit_code": 3},
        )
        states = list[str]()

        def is_finished(one: Executable) -> bool:
            states.append(one.status.state if one.status else "")
            return states[-1] == "Finished"

        found = await client.wait(ONE, is_finished, within=WITHIN)
        assert "Running" not in states
        assert found.status is not None
        assert found.status.exit_code == 3
        assert await lines_of(client, "one") == ["quick"]


async def test_what_ends_before_its_program_ran_has_failed_to_start(tmp_path: Path) -> None:
    async with IdeDouble() as ide, session(ide, tmp_path) as client:
        await with_early_notifications(client, ide, {"kind": "sessionTerminated", "exit_code": 1})
        found = (await until_state(client, "one", "FailedToStart")).status
        assert found is not None
        assert found.message == "IDE: the IDE ended it before the program ran"


async def test_a_session_that_is_deleted_while_it_starts_is_stopped_when_it_has_started(tmp_path: Path) -> None:
    async with IdeDouble() as ide, session(ide, tmp_path) as client:
        ide.may_respond.clear()
        await client.create(program())
        await ide.created.wait()
        await client.delete(ONE)
        ide.may_respond.set()
        await client.wait_gone(ONE, within=WITHIN)
        assert ide.sessions == {}


@pytest.mark.parametrize(
    ("configurations", "refusal", "message"),
    [
        ("", None, "IDE: the annotation executable.usvc-dev.developer.microsoft.com/launch-configurations is missing"),
        ("[{", None, "is not JSON"),
        ("{}", None, "is no list of objects"),
        ('[{"type": "python"}]', None, "the IDE runs launch configurations of type project, not python"),
        (
            CONFIGURATIONS,
            (400, b'{"error": {"code": "NoProject", "message": "not found", "details": [{"code": "Path"}]}}'),
            "the IDE did not start it (400): NoProject: not found; Path",
        ),
        (CONFIGURATIONS, (500, b"on fire"), "the IDE did not start it (500): on fire"),
        (CONFIGURATIONS, (200, b""), "the header Location is missing"),
    ],
)
async def test_a_session_that_cannot_be_started_is_explained(
    configurations: str, refusal: tuple[int, bytes] | None, message: str, tmp_path: Path
) -> None:
    async with IdeDouble() as ide, session(ide, tmp_path) as client:
        ide.refusal = refusal
        await client.create(program(configurations))
        found = (await until_state(client, "one", "FailedToStart")).status
        assert found is not None
        assert message in found.message
        assert found.finish_timestamp is not None


async def test_a_process_is_the_fallback_of_a_session_that_cannot_be_started(tmp_path: Path) -> None:
    async with IdeDouble() as ide, session(ide, tmp_path) as client:
        ide.refusal = (503, b"")
        one = exe("/bin/sh", args=("-c", "echo by myself"), execution_type="IDE", fallback_execution_types=("Process",))
        await client.create(one)
        assert (await finished(client)).exit_code == 0
        assert await lines_of(client, "one") == ["by myself"]


async def test_an_ide_of_an_unknown_version_is_refused(tmp_path: Path) -> None:
    async with IdeDouble(protocols_supported=["1999-01-01"]) as ide, session(ide, tmp_path) as client:
        await client.create(program())
        found = (await until_state(client, "one", "FailedToStart")).status
        assert found is not None
        assert "speaks no version of the protocol" in found.message


async def test_the_types_of_launch_configurations_are_those_of_the_ide(tmp_path: Path) -> None:
    info: dict[str, Any] = {"protocols_supported": ["2025-10-01"], "supported_launch_configurations": ["python"]}
    async with IdeDouble(**info) as ide, session(ide, tmp_path) as client:
        await client.create(program('[{"type": "python"}]'))
        await until_state(client, "one", "Running")


async def test_notifications_go_on_after_the_connection_was_lost(tmp_path: Path) -> None:
    async with IdeDouble() as ide, session(ide, tmp_path) as client:
        await client.create(program())
        await until_state(client, "one", "Running")
        ide.send(b'{"notification_type": "aNewOne", "session_id": "s1"}')  # of a later version: ignored
        ide.send(b"damaged")  # closes the connection, as does:
        ide.disconnect()
        await ide.subscribed.wait()
        ide.notify("sessionTerminated", exit_code=4294967295)
        assert (await finished(client)).exit_code == -1


async def test_the_certificate_of_the_environment_secures_the_connection(
    tmp_path: Path, authority: CertificateAuthority
) -> None:
    async with IdeDouble(authority.issue_server(["localhost"], [])) as ide, session(ide, tmp_path) as client:
        await client.create(program())
        await until_state(client, "one", "Running")
        ide.notify("sessionTerminated", exit_code=0)
        await finished(client)


async def test_an_ide_with_another_certificate_gets_no_token(tmp_path: Path, authority: CertificateAuthority) -> None:
    async with (
        IdeDouble(authority.issue_server(["localhost"], [])) as other,
        IdeDouble(authority.issue_server(["localhost"], [])) as ide,
        session(ide, tmp_path, DEBUG_SESSION_SERVER_CERTIFICATE=certificate_of(other)) as client,
    ):
        await client.create(program())
        found = (await until_state(client, "one", "FailedToStart")).status
        assert found is not None
        assert "is not the one of DEBUG_SESSION_SERVER_CERTIFICATE" in found.message
        assert ide.requests == []


def certificate_of(ide: IdeDouble) -> str:
    return ide.environment["DEBUG_SESSION_SERVER_CERTIFICATE"]


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ({"DEBUG_SESSION_TOKEN": ""}, "IDE: no IDE: DEBUG_SESSION_PORT and DEBUG_SESSION_TOKEN are not set"),
        ({"DEBUG_SESSION_PORT": "http"}, "DEBUG_SESSION_PORT: 'http' is no port"),
        ({"DEBUG_SESSION_SERVER_CERTIFICATE": "%"}, "DEBUG_SESSION_SERVER_CERTIFICATE is not base64"),
        ({"DEBUG_SESSION_SERVER_CERTIFICATE": "AAAA"}, "DEBUG_SESSION_SERVER_CERTIFICATE is no certificate"),
        ({"DEBUG_SESSION_TOKEN": "wrong"}, "the IDE speaks no version"),
        ({"DEBUG_SESSION_PORT": "localhost:1"}, "the IDE cannot be reached"),
    ],
)
async def test_an_endpoint_that_cannot_be_used_is_explained(env: dict[str, str], message: str, tmp_path: Path) -> None:
    async with IdeDouble() as ide, session(ide, tmp_path, **env) as client:
        await client.create(program())
        found = (await until_state(client, "one", "FailedToStart")).status
        assert found is not None
        assert message in found.message
