"""`levelset status`, `why` and `trigger` ask a manager that runs, and say what to do when none does."""

import asyncio
import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from levelset import Context, GiveUp
from levelset.cli.status import status, trigger, why
from levelset.runtime.manager import Manager
from levelset.runtime.manager.process_records import FOLDER_VARIABLE, Record, write_record
from tests.client.world import Website, website
from tests.runtime.manager.shop import open_server, websites

GROUP = click.Group(commands=[status, trigger, why])


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    found = tmp_path / "runtime"
    monkeypatch.setenv(FOLDER_VARIABLE, str(found))
    return found


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(GROUP, arguments, catch_exceptions=False)


async def ask(*arguments: str) -> Result:
    """The command, while the manager in this process goes on."""
    return await asyncio.to_thread(invoke, *arguments)


async def reconcile(site: Website, _: Context) -> None:
    if site.name == "bad":
        raise GiveUp("nobody can serve this")


@asynccontextmanager
async def managing() -> AsyncGenerator[Manager, None]:
    async with open_server() as server, Manager(server, admin=True) as manager:
        manager.add(websites(reconcile))
        await manager.client.create(website("blog"))
        await manager.client.create(website("bad"))
        await manager.wait_idle()
        yield manager


async def test_status_shows_controllers_queues_watches_and_the_last_errors() -> None:
    async with managing():
        shown = (await ask("status")).output
    lines = shown.splitlines()
    assert lines[0] == f"process {os.getpid()}, leads"
    assert lines[1].split() == ["CONTROLLER", "KIND", "READY", "RUNNING", "DUE", "LATER", "LOOKS", "FAILING"]
    assert lines[2].split()[:6] == ["websites", "Website", "yes", "0", "0", "0"]
    assert any(line.startswith("example.dev/v1 Website") for line in lines)
    assert "fail Website/default/bad: GiveUp: nobody can serve this (await a change)" in lines


async def test_status_speaks_json_to_programs() -> None:
    async with managing():
        (found,) = json.loads((await ask("status", "-o", "json")).output)
    assert found["pid"] == os.getpid()
    assert found["controllers"][0]["name"] == "websites"
    assert found["watches"][0]["is_ready"]


@pytest.mark.parametrize("kind", ["Website", "website", "websites"])
async def test_why_tells_the_reasons_and_the_result_of_each_look(kind: str) -> None:
    async with managing():
        shown = (await ask("why", f"{kind}/bad")).output
    assert "Website/default/bad by websites: gave_up" in shown
    assert "because it has changed" in shown or "because it was there at the start" in shown
    assert "GiveUp: nobody can serve this" in shown


async def test_trigger_has_the_object_looked_at_once_more() -> None:
    async with managing() as manager:
        told = await ask("trigger", "website/blog")
        await manager.wait_idle()
        looks = json.loads((await ask("why", "website/blog", "-o", "json")).output)
    assert told.output == "asked websites; see what came of it: levelset why website/blog\n"
    assert looks[-1]["reasons"] == ["somebody typed `levelset trigger`"]


async def test_a_kind_that_nobody_looks_at_is_named_with_those_that_are() -> None:
    async with managing():
        told = await ask("why", "pod/x")
    assert told.exit_code == 1
    assert told.stderr == "no controller here looks at pod; they look at Website\n"


@pytest.mark.parametrize("thing", ["blog", "website/", "/blog", "a/b/c"])
def test_what_is_no_object_is_refused_with_an_example(thing: str) -> None:
    told = invoke("why", thing)
    assert (told.exit_code, told.stderr) == (2, f"{thing!r} is no KIND/NAME; write for example website/blog\n")


@pytest.mark.parametrize("words", [["status"], ["why", "website/blog"], ["trigger", "website/blog"]])
def test_when_nothing_runs_it_says_how_to_start_something(words: list[str]) -> None:
    told = invoke(*words)
    assert told.exit_code == 1
    assert told.stderr.startswith("no manager of yours runs on this machine; start one: levelset run ")


async def test_a_process_that_is_no_manager_is_refused() -> None:
    async with managing():
        told = await ask("status", "--pid", "1")
    assert (told.exit_code, told.stderr) == (2, f"process 1 is no manager of yours; there is {os.getpid()}\n")


async def test_the_file_is_private_and_gone_at_the_end(folder: Path) -> None:
    async with managing():
        modes = await asyncio.to_thread(lambda: [one.stat().st_mode & 0o777 for one in (folder, *folder.iterdir())])
        assert modes == [0o700, 0o600]
    assert await asyncio.to_thread(os.listdir, folder) == []


def test_a_manager_that_does_not_answer_is_named() -> None:
    write_record(Record(pid=os.getpid(), url="http://127.0.0.1:1", token="t"))
    told = invoke("status")
    assert told.exit_code == 1
    assert told.stderr.startswith(f"the manager of process {os.getpid()} does not answer: ")
