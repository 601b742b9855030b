"""`levelset run --record`, `replay`, `record` and `--from`, on files and on a running manager."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from levelset import Client, Manager, ObjectMeta
from levelset import Config as Server
from levelset.apiserver import ApiServer
from levelset.cli.explore import explore
from levelset.cli.record import record
from levelset.cli.replay import replay
from levelset.cli.status import status, why
from levelset.client import Token
from levelset.runtime.manager.crd_install import install_crds, kinds_of
from levelset.runtime.manager.process_records import FOLDER_VARIABLE
from levelset.testing.replay import assert_replays
from tests.testing.replay import operators
from tests.testing.replay.operators import Config, Website, create_and_update, deployment, site

GROUP = click.Group(commands=[explore, record, replay, status, why])
START = "from levelset.cli import main; main()"
TARGET = "tests.testing.replay.operators:deployment"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "runtime"))


@pytest.fixture
def run(tmp_path: Path) -> str:
    operators.record(tmp_path / "run", deployment(), use=create_and_update)
    return str(tmp_path / "run")


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(GROUP, arguments, catch_exceptions=False)


def test_replay_says_that_everything_is_as_recorded(run: str) -> None:
    shown = invoke("replay", run, TARGET)
    assert shown.exit_code == 0
    assert "all as recorded" in shown.output
    tree = json.loads(invoke("replay", run, TARGET, "--until", "2", "-o", "json").output)
    assert tree["ok"]
    assert tree["reconciles"] >= 2


def test_quitting_the_debugger_is_no_difference(run: str) -> None:
    command = [sys.executable, "-c", START, "replay", run, TARGET, "--break", "2"]
    shown = subprocess.run(command, input="q\n", capture_output=True, text=True, check=False, timeout=60)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "until you quit the debugger, all as recorded" in shown.stdout


def test_replay_shows_the_first_difference_and_exits_with_1(run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operators, "config", lambda found, **data: config_of(found, data))
    shown = invoke("replay", run, TARGET)
    assert shown.exit_code == 1
    assert "the replay differs from the recording" in shown.output
    assert "operators.py" in shown.output


def config_of(found: Website, data: dict[str, str]) -> Config:
    metadata = ObjectMeta(name=found.name, namespace=found.namespace)
    return Config(metadata=metadata, data={**data, "image": "changed"})


def test_explore_plays_what_others_did_in_a_recording(run: str) -> None:
    chosen = ("--from", run, "--object", "website/site-2", "--until", "4s")
    shown = invoke("explore", TARGET, *chosen, "--budget", "1", "--jobs", "1", "-o", "json")
    assert [one["name"] for one in json.loads(shown.output)] == ["run"]
    plan = "crash-before:apply.ConfigMap/test/site-2#1"
    played = invoke("explore", TARGET, *chosen, "--replay", plan, "-o", "json")
    steps = json.loads(played.output)["steps"]
    assert any("create Website/test/site-2" in one for one in steps)
    assert not any("site-0" in one for one in steps)


def test_a_place_in_a_recording_needs_the_recording() -> None:
    shown = invoke("explore", TARGET, "--since", "3s")
    assert shown.exit_code == 2
    assert "--since is a place in a recording: add --from FILE" in shown.output


def test_why_and_status_read_a_recording(run: str) -> None:
    shown = invoke("why", "website/site-0", "--from", run).output
    assert "Website/test/site-0 by websites: requeued" in shown
    assert "because it has changed" in shown
    shown = invoke("status", "--from", run).output
    assert "websites" in shown
    assert "ConfigMap" in shown
    assert json.loads(invoke("why", "website/site-0", "--from", run, "-o", "json").output)[0]["requests"]
    failed = CliRunner().invoke(GROUP, ["why", "pod/x", "--from", run])
    assert failed.exit_code == 1
    assert "it has Website" in failed.output


def test_record_diff_shows_where_two_runs_part(run: str, tmp_path: Path) -> None:
    assert invoke("record", "diff", run, run).output == "both runs do the same\n"

    async def less(cluster) -> None:
        await create_and_update(cluster, ("nginx",) * 2)

    operators.record(tmp_path / "other", deployment(), use=less)
    shown = invoke("record", "diff", run, str(tmp_path / "other"))
    assert shown.exit_code == 1
    assert "the runs part in websites for test/site-2, reconcile 1 of it" in shown.output


async def connected(server: ApiServer) -> Client:
    return await Client.connect(Server(server=server.url, credentials=Token("secret")))


async def test_a_manager_on_a_real_socket_is_recorded_on_request_and_replays(tmp_path: Path) -> None:
    async with ApiServer(tls=False, token="secret") as server, await connected(server) as client:
        await install_crds(client, kinds_of([deployment()]))
        async with Manager(client, admin=True) as manager:
            manager.add(deployment())
            await manager.wait_elected()
            await client.create(site("early"))
            shown = await asyncio.to_thread(invoke, "record", "on", str(tmp_path / "run"))
            assert "recording in" in shown.output
            for number in range(5):
                await client.create(site(f"site-{number}"))
            await asyncio.sleep(1.5)
            assert "run: " in (await asyncio.to_thread(invoke, "record", "off")).output
    result = await asyncio.to_thread(assert_replays, tmp_path / "run", deployment())
    assert result.reconciles >= 5
    assert result.requests >= 5
