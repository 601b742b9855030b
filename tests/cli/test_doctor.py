"""`levelset doctor`: each check with its next step; checks that depend on a failed one are skipped."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from levelset import Client
from levelset.apiserver import ApiServer
from levelset.apiserver.kubeconfig_file import ConnectionInfo, write_kubeconfig
from levelset.cli.dev import apply_crds
from levelset.cli.doctor import doctor
from levelset.cli.targets import load_targets
from tests.cli.fixtures.servers import NOWHERE, fake_server

HERE = "tests.cli.fixtures.operator"
PROJECT = load_targets([f"{HERE}:controllers"])


async def invoke_doctor(*arguments: str) -> Result:
    def invoke() -> Result:
        return CliRunner().invoke(doctor, arguments, catch_exceptions=False)

    return await asyncio.to_thread(invoke)


@asynccontextmanager
async def serving(folder: Path, *, token: str | None = None) -> AsyncGenerator[str, None]:
    """A server on the loopback interface; yields the path of its kubeconfig."""
    path = folder / "kubeconfig"
    async with ApiServer(tls=False) as server:
        contact = ConnectionInfo(server.url, token or server.token, server.ca)
        await asyncio.to_thread(write_kubeconfig, path, contact)
        async with await Client.connect(str(path) if token is None else server) as client:
            await apply_crds(client, PROJECT)
        yield str(path)


async def test_all_checks_pass_on_a_complete_server(tmp_path: Path) -> None:
    async with serving(tmp_path) as kubeconfig:
        result = await invoke_doctor("--kubeconfig", kubeconfig, f"{HERE}:controllers")
    assert result.exit_code == 0, result.output
    assert [line.split(":")[0].split(maxsplit=1) for line in result.output.splitlines()] == [
        ["ok", "kubeconfig"],
        ["ok", "server"],
        ["ok", "clock"],
        ["ok", "credentials"],
        ["ok", "crd sites.doctor.dev"],
        ["ok", "permissions"],
    ]


async def test_json_output(tmp_path: Path) -> None:
    async with serving(tmp_path) as kubeconfig:
        found = json.loads((await invoke_doctor("--kubeconfig", kubeconfig, "-o", "json")).output)
    assert {one["level"] for one in found} == {"ok"}


async def test_a_missing_crd_is_reported_with_the_next_step(tmp_path: Path) -> None:
    async with serving(tmp_path) as kubeconfig:
        result = await invoke_doctor("--kubeconfig", kubeconfig, f"{HERE}:stranger")
    assert result.exit_code == 1
    assert "fail crd strangers.doctor.dev: is not installed\n       next: levelset install" in result.output


async def test_a_crd_that_is_older_than_the_class_is_a_warning(tmp_path: Path) -> None:
    async with serving(tmp_path) as kubeconfig:
        result = await invoke_doctor("--kubeconfig", kubeconfig, f"{HERE}:other_controllers")
    assert result.exit_code == 0
    assert "warn crd sites.doctor.dev: is installed, but differs from the class" in result.output


async def test_a_rejected_token_skips_the_other_checks(tmp_path: Path) -> None:
    async with serving(tmp_path, token="not-the-token") as kubeconfig:
        result = await invoke_doctor("--kubeconfig", kubeconfig, f"{HERE}:controllers")
    assert result.exit_code == 1
    assert result.output.splitlines()[-2].startswith("fail credentials: ")
    assert "crd" not in result.output


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("not: a kubeconfig", "fail kubeconfig: "),
        (NOWHERE, "fail server: "),
    ],
)
async def test_a_broken_kubeconfig_is_reported_first(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "kubeconfig"
    await asyncio.to_thread(path.write_text, text)
    result = await invoke_doctor("--kubeconfig", str(path))
    assert result.exit_code == 1
    assert any(line.startswith(message) for line in result.output.splitlines())
    assert "next: " in result.output


async def test_controllers_that_cannot_be_imported_are_refused() -> None:
    result = await invoke_doctor("tests.cli.nothing_there")
    assert result.exit_code == 2
    assert result.stderr.startswith("there is no module tests.cli.nothing_there in ")


async def test_a_server_that_is_not_an_api_server_is_reported(tmp_path: Path) -> None:
    async with fake_server(tmp_path, {"/version": b'{"gitVersion": "v0"}'}) as kubeconfig:
        result = await invoke_doctor(f"{HERE}:controllers", "--kubeconfig", kubeconfig)
    assert result.exit_code == 1
    assert "info clock: the server sends no Date header" in result.output
    assert "fail definitions: cannot be checked: The server does not serve apiextensions.k8s.io/v1" in result.output
    assert "fail permissions: cannot be checked: " in result.output


async def test_the_crd_of_another_project_must_exist_and_may_differ(tmp_path: Path) -> None:
    mine, theirs = f"{HERE}:controllers", "tests.cli.fixtures.foreign_operator:controllers"
    async with serving(tmp_path) as kubeconfig:
        result = await invoke_doctor(theirs, "--kubeconfig", kubeconfig)
        assert "ok   crd sites.doctor.dev: is installed by another project" in result.output
        assert "fail crd signs.stranger.dev: is not installed" in result.output
        assert (await invoke_doctor(mine, "--kubeconfig", kubeconfig)).exit_code == 0
