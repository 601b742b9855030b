"""`levelset logs` reads the logs of Pods and of other kinds that have one; kinds and names are completed."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result

from levelset.apiserver import ApiServer
from levelset.apiserver.kubeconfig_file import ConnectionInfo, write_kubeconfig
from levelset.apiserver.verbs.subresources.pod_logs import LogRequest
from levelset.cli import server_names
from levelset.cli.commands import levelset
from levelset.client import Client
from tests.client.fixtures import website_crd
from tests.dashboard.fixtures import tree

KUBECONFIG = "levelset.kubeconfig"


async def log(request: LogRequest) -> AsyncIterator[bytes]:
    """The query as a line, and two more; those that follow get lines until they leave."""

    async def read() -> AsyncIterator[bytes]:
        yield f"{json.dumps(dict(request.query), sort_keys=True)}\n\x1b[31mred\x1b[0m\nlast".encode()
        while request.query.get("follow") == "true":
            yield b"more\n"
            await asyncio.sleep(0.01)

    return read()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@asynccontextmanager
async def serving() -> AsyncGenerator[Client, None]:
    """A server with a Pod of one container and one of two, whose kubeconfig is in this folder."""
    server = ApiServer()
    server.serve_logs("", "Pod", log)
    async with server, await Client.connect(server) as client:
        info = ConnectionInfo(server.url, server.token, server.ca)
        await asyncio.to_thread(write_kubeconfig, Path(KUBECONFIG), info)
        for name, containers in {"web": ["app"], "pair": ["app", "proxy"]}.items():
            spec = {"containers": [{"name": one, "image": "i"} for one in containers]}
            await client.create(tree("v1", "Pod", name, spec=spec))
        yield client


def invoke(*words: str) -> Result:
    return CliRunner().invoke(levelset, ["logs", *words], catch_exceptions=False)


async def invoke_async(*words: str) -> Result:
    return await asyncio.to_thread(invoke, *words)


async def test_the_log_of_a_local_pod_is_printed_without_any_option() -> None:
    async with serving():
        results = [await invoke_async(word) for word in ("web", "pod/web", "Pods/web", "po/web")]
    assert {one.stdout for one in results} == {"{}\nred\nlast\n"}  # colours are for terminals


async def test_options_select_the_lines_the_container_and_the_source() -> None:
    async with serving():
        shown = await invoke_async("pod/pair", "--tail", "5", "-c", "proxy", "--source", "stderr", "-o", "json")
    lines = [json.loads(line) for line in shown.stdout.splitlines()]
    assert json.loads(lines[0]["line"]) == {"container": "proxy", "source": "stderr", "tailLines": "5"}
    assert {one["object"] for one in lines} == {"Pod/default/pair"}
    assert shown.stderr == ""


async def test_a_log_may_be_that_of_the_last_run_begin_later_and_have_times() -> None:
    async with serving():
        shown = await invoke_async("web", "-p", "--since", "10m", "--timestamps")
        wrong = await invoke_async("web", "--since", "soon")
    assert json.loads(shown.stdout.splitlines()[0]) == {"previous": "true", "sinceSeconds": "600", "timestamps": "true"}
    assert (wrong.exit_code, "soon: expected a time such as 90s, 10m or 1h" in wrong.stderr) == (2, True)


async def test_the_first_of_several_containers_is_read_and_the_others_are_named() -> None:
    async with serving():
        shown = await invoke_async("pair")
    assert shown.stdout.startswith('{"container": "app"}\n')
    assert shown.stderr == "the log of container app; the others: --container proxy\n"


@pytest.mark.parametrize(
    ("word", "code", "message"),
    [
        ("pod/none", 1, 'pods "none" not found'),
        ("wbe", 1, "there is no Pod wbe in namespace default. Did you mean web?"),
        ("namespace/default", 2, "Namespace has no log; Pods have one: levelset logs pod/NAME"),
        ("/web", 2, "'/web' is not KIND/NAME; write for example pod/web"),
        ("a/b/c", 2, "'a/b/c' is not KIND/NAME"),
        ("nothing/web", 1, "nothing"),
    ],
)
async def test_what_has_no_log_is_refused_in_a_sentence(word: str, code: int, message: str) -> None:
    async with serving():
        result = await invoke_async(word)
    assert result.exit_code == code
    assert message in result.stderr


async def test_a_followed_log_ends_with_the_signal_and_without_an_error() -> None:
    async with serving():
        command = ["-c", "from levelset.cli import main; main()", "logs", "web", "--follow"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        process = await asyncio.create_subprocess_exec(
            sys.executable, *command, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        async with asyncio.timeout(120):
            while await process.stdout.readline() != b"more\n":
                pass
            process.send_signal(signal.SIGINT)
            _, errors = await process.communicate()
    assert (process.returncode, errors) == (0, b"")


def complete(*words: str) -> list[str]:
    *before, incomplete = words
    return [one.value for one in ShellComplete(levelset, {}, "levelset", "_X").get_completions(before, incomplete)]


async def test_kinds_names_and_namespaces_are_completed_from_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_names, "_PATIENCE", 60.0)  # a user waits for two seconds at most
    async with serving() as client:
        await client.create(website_crd())

        async def completed(*words: str) -> list[str]:
            return await asyncio.to_thread(complete, *words)

        assert {"website/", "pod/"} <= set(await completed("trigger", ""))
        assert await completed("why", "pod/") == ["pod/pair", "pod/web"]
        assert await completed("why", "pod/w") == ["pod/web"]
        assert await completed("why", "-n", "other", "pod/") == []
        assert await completed("why", "pod", "w") == ["web"]  # as two words
        assert await completed("why", "pod/web", "") == await completed("why", "pod", "web", "") == []
        assert await completed("logs", "") == ["pair", "pod/pair", "pod/web", "web"]  # the only kind with a log
        assert await completed("logs", "w") == ["web"]
        assert await completed("logs", "pod", "w") == ["web"]
        assert await completed("logs", "-n", "other", "w") == []
        assert "default" in await completed("why", "-n", "def")


def test_without_a_server_nothing_is_completed() -> None:
    assert complete("why", "pod/") == []
    Path(KUBECONFIG).write_text("nonsense: [")
    assert complete("why", "pod/") == []
