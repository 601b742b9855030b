"""`levelset doctor` says what is wrong and what to do next, and asks nothing that depends on what fails."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from levelset import Client
from levelset.apiserver import ApiServer
from levelset.apiserver.kubeconfig_file import Contact, write_kubeconfig
from levelset.cli.dev import define
from levelset.cli.doctor import doctor
from levelset.cli.targets import gather
from tests.cli.servers import NOWHERE, strange

HERE = "tests.cli.operator"
PROJECT = gather([f"{HERE}:controllers"])


async def ask(*arguments: str) -> Result:
    def invoke() -> Result:
        return CliRunner().invoke(doctor, arguments, catch_exceptions=False)

    return await asyncio.to_thread(invoke)


@asynccontextmanager
async def serving(folder: Path, *, token: str | None = None) -> AsyncGenerator[str, None]:
    """A server on the loopback interface; gives the kubeconfig."""
    path = folder / "kubeconfig"
    async with ApiServer(tls=False) as server:
        contact = Contact(server.url, token or server.token, server.ca)
        await asyncio.to_thread(write_kubeconfig, path, contact)
        async with await Client.connect(str(path) if token is None else server) as client:
            await define(client, PROJECT)
        yield str(path)


async def test_all_is_well_on_a_server_that_has_everything(tmp_path: Path) -> None:
    async with serving(tmp_path) as kubeconfig:
        told = await ask("--kubeconfig", kubeconfig, f"{HERE}:controllers")
    assert told.exit_code == 0, told.output
    assert [line.split(":")[0].split(maxsplit=1) for line in told.output.splitlines()] == [
        ["ok", "kubeconfig"],
        ["ok", "server"],
        ["ok", "clock"],
        ["ok", "credentials"],
        ["ok", "definition sites.doctor.dev"],
        ["ok", "permissions"],
    ]


async def test_it_speaks_json_to_programs(tmp_path: Path) -> None:
    async with serving(tmp_path) as kubeconfig:
        found = json.loads((await ask("--kubeconfig", kubeconfig, "-o", "json")).output)
    assert {one["how"] for one in found} == {"ok"}


async def test_a_definition_that_is_not_there_is_named_with_the_next_step(tmp_path: Path) -> None:
    async with serving(tmp_path) as kubeconfig:
        told = await ask("--kubeconfig", kubeconfig, f"{HERE}:stranger")
    assert told.exit_code == 1
    assert "fail definition strangers.doctor.dev: is not there\n       next: levelset install" in told.output


async def test_a_definition_that_is_older_than_the_class_is_a_warning(tmp_path: Path) -> None:
    async with serving(tmp_path) as kubeconfig:
        told = await ask("--kubeconfig", kubeconfig, f"{HERE}:other_controllers")
    assert told.exit_code == 0
    assert "warn definition sites.doctor.dev: is there, but not as the class is now" in told.output


async def test_a_token_that_is_not_accepted_is_told_and_nothing_more_is_asked(tmp_path: Path) -> None:
    async with serving(tmp_path, token="not-the-token") as kubeconfig:
        told = await ask("--kubeconfig", kubeconfig, f"{HERE}:controllers")
    assert told.exit_code == 1
    assert told.output.splitlines()[-2].startswith("fail credentials: ")
    assert "definition" not in told.output


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("not: a kubeconfig", "fail kubeconfig: "),
        (NOWHERE, "fail server: "),
    ],
)
async def test_a_kubeconfig_that_leads_nowhere_is_told_first(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "kubeconfig"
    await asyncio.to_thread(path.write_text, text)
    told = await ask("--kubeconfig", str(path))
    assert told.exit_code == 1
    assert any(line.startswith(said) for line in told.output.splitlines())
    assert "next: " in told.output


async def test_controllers_that_cannot_be_loaded_are_refused() -> None:
    told = await ask("tests.cli.nothing_there")
    assert told.exit_code == 2
    assert told.stderr.startswith("there is no module tests.cli.nothing_there; looked in ")


async def test_a_server_that_is_hardly_one_is_told_of_in_sentences(tmp_path: Path) -> None:
    async with strange(tmp_path, {"/version": b'{"gitVersion": "v0"}'}) as kubeconfig:
        told = await ask(f"{HERE}:controllers", "--kubeconfig", kubeconfig)
    assert told.exit_code == 1
    assert "info clock: the server does not say what time it is" in told.output
    assert "fail definitions: cannot be asked for: The server serves no apiextensions.k8s.io/v1" in told.output
    assert "fail permissions: cannot be asked for: " in told.output


async def test_the_definition_of_somebody_else_must_be_there_and_may_be_as_it_is(tmp_path: Path) -> None:
    mine, theirs = f"{HERE}:controllers", "tests.cli.strangers:controllers"
    async with serving(tmp_path) as kubeconfig:
        told = await ask(theirs, "--kubeconfig", kubeconfig)
        assert "ok   definition sites.doctor.dev: is there, and somebody else's" in told.output
        assert "fail definition signs.stranger.dev: is not there" in told.output
        assert (await ask(mine, "--kubeconfig", kubeconfig)).exit_code == 0
