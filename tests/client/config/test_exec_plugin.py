"""Real plugins, run by this interpreter; each appends a line to a file when it runs."""

import asyncio
import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from levelset.client.config.exec_plugin import ExecPlugin, ExecSpec
from levelset.errors import ConfigError
from levelset.http.certificate_authority import Identity
from tests.client.config.kubeconfig_files import PEM, encoded, kubeconfig, load
from tests.client.event_loops import skipping, virtual_time

V1 = "client.authentication.k8s.io/v1"
START = datetime(2026, 1, 1, tzinfo=UTC)
COUNTING = """
import json, os, sys
with open(sys.argv[1] + "/runs", "a") as file:
    file.write("run\\n")
with open(sys.argv[1] + "/info", "w") as file:
    file.write(os.environ["KUBERNETES_EXEC_INFO"])
runs = len(open(sys.argv[1] + "/runs").readlines())
status = json.loads(os.environ.get("STATUS", "{}")) or {"token": f"t{runs}"}
print(json.dumps({"kind": "ExecCredential", "apiVersion": os.environ.get("VERSION", "VERSION1"), "status": status}))
""".replace("VERSION1", V1)


class Plugin:
    """A plugin in a folder, and the credentials that it returns."""

    def __init__(self, folder: Path, code: str = COUNTING, **options: Any) -> None:
        self.folder = folder
        self.now = START
        spec_options = {name: options.pop(name) for name in list(options) if name in {"env", "interactive", "cluster"}}
        spec = ExecSpec(
            command=sys.executable,
            args=("-c", code, str(folder)),
            owner="user 'me'",
            install_hint="Install it first.",
            **spec_options,
        )
        self.credentials = ExecPlugin(spec, now=lambda: self.now, is_terminal=lambda: False, **options)

    async def token(self) -> str:
        return (await self.credentials.headers())["Authorization"].removeprefix("Bearer ")

    async def runs(self) -> int:
        return len((await asyncio.to_thread((self.folder / "runs").read_text)).splitlines())


def status(**fields: Any) -> dict[str, str]:
    return {"STATUS": json.dumps(fields)}


async def test_the_plugin_runs_once_and_its_token_is_cached(tmp_path: Path) -> None:
    plugin = Plugin(tmp_path)
    assert [await plugin.token() for _ in range(3)] == ["t1", "t1", "t1"]
    assert await plugin.runs() == 1


async def test_concurrent_requests_share_one_run(tmp_path: Path) -> None:
    plugin = Plugin(tmp_path)
    assert set(await asyncio.gather(*(plugin.token() for _ in range(10)))) == {"t1"}
    assert await plugin.runs() == 1


async def test_the_plugin_runs_again_a_minute_before_the_token_expires(tmp_path: Path) -> None:
    plugin = Plugin(tmp_path, env=status(token="t", expirationTimestamp="2026-01-01T01:00:00Z"))
    await plugin.token()
    plugin.now = START + timedelta(minutes=58, seconds=59)
    await plugin.token()
    assert await plugin.runs() == 1
    plugin.now = START + timedelta(minutes=59)
    plugin.credentials._since -= 60
    await plugin.token()
    assert await plugin.runs() == 2


async def test_a_short_lived_token_is_used_for_three_quarters_of_its_lifetime(tmp_path: Path) -> None:
    plugin = Plugin(tmp_path, env=status(token="t", expirationTimestamp="2026-01-01T00:00:40Z"))
    await plugin.token()
    plugin.now = START + timedelta(seconds=29)
    await plugin.token()
    assert await plugin.runs() == 1
    plugin.now = START + timedelta(seconds=30)
    plugin.credentials._since -= 30
    await plugin.token()
    assert await plugin.runs() == 2


async def test_a_plugin_may_return_a_certificate_too(tmp_path: Path) -> None:
    plugin = Plugin(tmp_path, env=status(clientCertificateData="C", clientKeyData="K"))
    assert await plugin.credentials.certificate() == Identity(b"C", b"K")
    assert dict(await plugin.credentials.headers()) == {}
    assert await plugin.runs() == 1


@skipping
async def test_a_refused_token_is_renewed_unless_it_is_brand_new(tmp_path: Path, skip: Callable[[float], None]) -> None:
    plugin = Plugin(tmp_path)
    assert plugin.credentials.reject()  # none yet: a retry gets one
    refused = await plugin.credentials.headers()
    assert not plugin.credentials.reject(refused)
    skip(5)
    assert plugin.credentials.reject(refused)
    assert await plugin.token() == "t2"
    skip(5)
    assert plugin.credentials.reject(refused)  # refused before: a retry uses the new one
    assert await plugin.token() == "t2"


async def test_the_plugin_gets_the_cluster_info(tmp_path: Path) -> None:
    plugin = Plugin(tmp_path, cluster={"server": "https://box"})
    await plugin.token()
    reported = json.loads(await asyncio.to_thread((tmp_path / "info").read_text))
    assert reported["spec"] == {"interactive": False, "cluster": {"server": "https://box"}}


async def test_a_missing_plugin_is_reported_with_its_install_hint() -> None:
    plugin = ExecPlugin(ExecSpec(command="no-such-program", owner="user 'me'", install_hint="Install it with apt."))
    expected = "The plugin 'no-such-program' of user 'me' cannot be run: the program was not found. .*apt"
    with pytest.raises(ConfigError, match=expected):
        await plugin.headers()


async def test_a_failing_plugin_is_reported_with_its_stderr_and_never_its_stdout(tmp_path: Path) -> None:
    code = "import sys; print('s3cret'); print('the session\\nhas ended', file=sys.stderr); sys.exit(3)"
    plugin = Plugin(tmp_path, code)
    with pytest.raises(
        ConfigError, match="exit code 3. Its error output: the session has ended. Install it first."
    ) as failure:
        await plugin.token()
    assert "s3cret" not in str(failure.value)


async def test_invalid_output_is_refused_and_the_plugin_runs_again(tmp_path: Path) -> None:
    plugin = Plugin(tmp_path, env={"VERSION": "v0"})
    for _ in range(2):
        with pytest.raises(ConfigError, match="printed another apiVersion"):
            await plugin.token()
    assert await plugin.runs() == 2


@virtual_time
async def test_a_plugin_that_hangs_is_killed_even_if_its_child_keeps_the_pipe_open(tmp_path: Path) -> None:
    code = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
os.close(1)
time.sleep(1000)
"""
    plugin = Plugin(tmp_path, code, timeout=30.0)
    with pytest.raises(ConfigError, match="did not finish within 30 seconds"):
        await plugin.token()


async def test_the_event_loop_keeps_running_while_a_plugin_runs(tmp_path: Path) -> None:
    waiting = "import os, sys, time\nwhile not os.path.exists(sys.argv[1] + '/go'): time.sleep(0.001)\n"
    plugin = Plugin(tmp_path, waiting + COUNTING)
    lookup = asyncio.create_task(plugin.token())
    await asyncio.to_thread((tmp_path / "go").touch)
    assert await lookup == "t1"


async def test_a_cancelled_caller_does_not_cancel_the_run_for_the_others(tmp_path: Path) -> None:
    plugin = Plugin(tmp_path)
    first = asyncio.create_task(plugin.token())
    second = asyncio.create_task(plugin.token())
    await asyncio.sleep(0)
    first.cancel()
    assert (await second).startswith("t")
    assert first.cancelled()


async def test_an_interactive_plugin_needs_a_terminal(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no terminal"):
        await Plugin(tmp_path, interactive="Always").token()
    assert await Plugin(tmp_path, interactive="IfAvailable").token() == "t1"
    assert await Plugin(tmp_path, interactive="Never").token() == "t2"


async def test_a_plugin_without_a_terminal_gets_no_stdin(tmp_path: Path) -> None:
    code = COUNTING + "assert sys.stdin.read() == ''\n"
    assert await Plugin(tmp_path, code).token() == "t1"


def test_a_plugin_of_a_kubeconfig_runs_with_its_args_environment_and_cluster(tmp_path: Path) -> None:
    (tmp_path / "login").write_text(f"#!{sys.executable}\n{COUNTING}")
    (tmp_path / "login").chmod(0o700)
    user = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1beta1",
            "command": "./login",
            "args": [str(tmp_path)],
            "env": [{"name": "VERSION", "value": "client.authentication.k8s.io/v1beta1"}],
            "provideClusterInfo": True,
            "interactiveMode": "Never",
        }
    }
    (tmp_path / "ca.pem").write_bytes(PEM)
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}}
    cluster = {"server": "https://box", "certificate-authority": "ca.pem", "extensions": [extension]}
    credentials = load(tmp_path, kubeconfig(cluster=cluster, user=user)).credentials
    assert asyncio.run(_headers(credentials)) == {"Authorization": "Bearer t1"}
    reported = json.loads((tmp_path / "info").read_text())
    assert reported["apiVersion"] == "client.authentication.k8s.io/v1beta1"
    expected = {"server": "https://box", "certificate-authority-data": encoded(PEM), "config": {"audience": "a"}}
    assert reported["spec"]["cluster"] == expected


async def _headers(credentials: Any) -> dict[str, str]:
    return dict(await credentials.headers())


@skipping
async def test_a_clock_that_is_ahead_does_not_run_the_plugin_for_every_request(
    tmp_path: Path, skip: Callable[[float], None]
) -> None:
    plugin = Plugin(tmp_path, env=status(token="t", expirationTimestamp="2026-01-01T01:00:00Z"))
    plugin.now = START + timedelta(days=1)
    for _ in range(5):
        await plugin.token()
    assert await plugin.runs() == 1
    skip(6)
    await plugin.token()
    assert await plugin.runs() == 2


async def test_a_clock_that_was_set_back_does_not_keep_a_token_that_the_server_refuses(tmp_path: Path) -> None:
    plugin = Plugin(tmp_path, env=status(token="t", expirationTimestamp="2026-01-01T01:00:00Z"))
    await plugin.token()
    plugin.now = START - timedelta(days=365)
    plugin.credentials._since -= 60
    assert plugin.credentials.reject()
    await plugin.token()
    assert await plugin.runs() == 2
