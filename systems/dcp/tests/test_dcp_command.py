"""The `dcp` command as an Aspire AppHost uses it: its output, its life, and requests in the C# client's spelling."""

import asyncio
import json
import logging
import os
import ssl
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from msgspec.structs import replace

from levelset.apiserver import ConnectionInfo, read_kubeconfig
from levelset.command_parser import CommandParser
from levelset.http import CertificateAuthority
from levelset_dcp import cli
from levelset_dcp.dcp_command import _remove_session_folder, main, parser
from levelset_machine import identity_of
from systems.dcp.tests.support.sessions import WITHIN, environment, wait_for_exit

GROUP = "/apis/usvc-dev.developer.microsoft.com/v1"


def output_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("command", "words"),
    [(parser, ()), (parser, ("start-apiserver",)), (parser, ("info",)), (parser, ("version",))]
    + [(cli.parser, words) for words in ((), ("start",), ("cleanup",), ("logs",), ("info",), ("version",), ("stop",))],
)
def test_the_help_of_every_command_has_an_example(
    command: Callable[[], CommandParser], words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    made = command()
    with pytest.raises(SystemExit):
        made.parse_args([*words, "--help"])
    assert f"Example: {' '.join((made.prog, *words))}" in " ".join(capsys.readouterr().out.split())


def test_the_version_is_one_that_an_apphost_accepts(capsys: pytest.CaptureFixture[str]) -> None:
    assert output_of(capsys, "version") == {"version": "dev"}


def test_info_has_the_fields_that_an_apphost_reads(capsys: pytest.CaptureFixture[str]) -> None:
    found = output_of(capsys, "info", "--container-runtime", "memory")
    assert found["version"] == "dev"
    assert found["containers"].keys() >= {"runtime", "hostName", "installed", "running"}
    assert found["containers"]["running"] is True
    none = output_of(capsys, "info", "--container-runtime", "none")
    assert none["containers"] == {"runtime": "none", "hostName": "", "installed": False, "running": False}


def test_info_with_diagnostics_has_the_system_and_the_client_version(capsys: pytest.CaptureFixture[str]) -> None:
    found = output_of(capsys, "info", "--container-runtime", "memory", "--diagnostics", "-t", "1m")
    assert (found["os"], found["architecture"] in ("amd64", "arm64")) == ("linux", True)
    assert found["containers"]["clientVersion"]
    assert "os" not in output_of(capsys, "info", "--container-runtime", "memory")


def test_info_reports_an_engine_that_does_not_answer_in_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = tmp_path / "podman"
    engine.write_text("#!/bin/sh\nexec sleep 60\n", encoding="utf-8")
    engine.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    found = output_of(capsys, "info", "--container-runtime", "podman", "--timeout", "50ms")
    assert found["containers"]["running"] is False
    assert found["containers"]["error"] == "the container engine did not answer within 50ms"


@pytest.mark.parametrize(
    ("arguments", "level"),
    [
        (["version"], None),
        (["-v", "debug", "version"], logging.DEBUG),
        (["version", "-v=debug"], logging.DEBUG),
        (["version", "--verbosity=info"], logging.INFO),
        (["version", "-v", "error"], logging.ERROR),
        (["version", "-v", "3"], logging.DEBUG),
    ],
)
def test_the_verbosity_is_given_before_or_after_the_command(arguments: list[str], level: int | None) -> None:
    assert parser().parse_args(arguments).verbosity == level


@pytest.mark.parametrize("arguments", [["version", "-v", "loud"], ["version", "-v", "0"], ["info", "-t", "soon"]])
def test_an_unknown_verbosity_or_duration_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert arguments[-1] in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tls-cert-file", "x"], "--tls-cert-file and --tls-key-file belong together"),
        (["--tls-cert-file", "x", "--tls-key-file", "y"], "x cannot be read: No such file"),
        (["--tls-cert-thumbprint", "00" * 20], "only Windows has a certificate store"),
        (["--tls-ca-file", "x"], "--tls-ca-file needs --tls-cert-file"),
        (["--monitor", "1", "--monitor-identity-time", "1999-01-01T00:00:00.000Z"], "process 1 is another one"),
    ],
)
def test_what_is_not_supported_is_refused(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["start-apiserver", "--kubeconfig", str(tmp_path / "kubeconfig"), *arguments])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_the_kubeconfig_of_a_cluster_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    foreign = tmp_path / "config"
    foreign.write_text("apiVersion: v1\nkind: Config\nclusters: []\n", encoding="utf-8")
    with pytest.raises(SystemExit) as ended:
        main(["start-apiserver", "--kubeconfig", str(foreign)])
    assert ended.value.code == 2
    assert str(foreign) in capsys.readouterr().err


class AppHost(Struct):
    """A process in the role of an AppHost, with the server that `dcp` started for it."""

    process: asyncio.subprocess.Process
    contact: ConnectionInfo
    kubeconfig: Path
    folder: Path
    log: bytearray

    def open(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        """Sends a request as the C# client does, and returns the open response. Blocks."""
        headers = {"Authorization": f"Bearer {self.contact.token}", "Content-Type": kind, "Accept": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.contact.url}{GROUP}{path}", data, headers, method=method)
        trusted = ssl.create_default_context(cadata=self.contact.ca.decode()) if self.contact.ca else None
        return urllib.request.urlopen(request, context=trusted, timeout=WITHIN)

    async def send(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        """Sends a request, and returns the decoded response."""

        def call() -> Any:
            with self.open(method, path, body, kind) as response:
                return json.loads(response.read())

        return await asyncio.to_thread(call)

    async def until(self, path: str, is_wanted: Callable[[Any], bool]) -> Any:
        """Watches a collection, without a resourceVersion as the C# client, up to an event."""

        def follow() -> Any:
            with self.open("GET", f"{path}?watch=true") as response:
                return next(event for event in map(json.loads, response) if is_wanted(event))

        return await asyncio.wait_for(asyncio.to_thread(follow), WITHIN)


async def until_true(is_true: Callable[[], bool]) -> None:
    """Polls, as an AppHost does."""

    def poll() -> None:
        deadline = time.monotonic() + WITHIN
        while not is_true():
            assert time.monotonic() < deadline, "it did not become true in time"
            time.sleep(0.05)

    await asyncio.to_thread(poll)


@pytest.mark.parametrize("kind", ["own", "shared", "link", "around"])
def test_only_a_folder_of_this_user_alone_is_removed_at_the_end(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = named = tmp_path / "session"
    (folder / "logs").mkdir(parents=True)
    match kind:
        case "shared":
            folder.chmod(0o1777)
        case "link":
            named = tmp_path / "link"
            named.symlink_to(folder)
        case "around":
            monkeypatch.chdir(folder / "logs")
        case _:
            pass
    _remove_session_folder({"DCP_SESSION_FOLDER": str(named)})
    assert folder.exists() is (kind != "own")


@asynccontextmanager
async def apphost(home: Path, *arguments: str, token: str = "", preserve: str = "") -> AsyncGenerator[AppHost, None]:
    """Starts `dcp` as an AppHost does; it ends with the AppHost's process."""
    folder, log, writers = home / "session", bytearray(), set[asyncio.StreamWriter]()
    await asyncio.to_thread(folder.mkdir)
    kubeconfig = folder / "kubeconfig"

    async def read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.add(writer)
        while data := await reader.read(65536):
            log.extend(data)
        writer.close()
        await writer.wait_closed()
        writers.discard(writer)

    sockets = await asyncio.start_unix_server(read, home / "log.sock")
    process = await asyncio.create_subprocess_exec("sleep", "3600")
    names = {"DCP_SESSION_FOLDER": str(folder), "DCP_LOG_SOCKET": str(home / "log.sock"), "DCP_EXTENSIONS_PATH": "/x"}
    try:
        started = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "levelset_dcp.dcp_command", "start-apiserver", "--monitor", str(process.pid)),
            *("--detach", "--kubeconfig", str(kubeconfig), "--container-runtime", "none", *arguments),
            env={**environment(home), **names, "DCP_SECURE_TOKEN": token, "DCP_PRESERVE_EXECUTABLE_LOGS": preserve},
        )
        assert await asyncio.wait_for(started.wait(), WITHIN) == 0
        await until_true(kubeconfig.exists)
        yield AppHost(process, await asyncio.to_thread(read_kubeconfig, kubeconfig), kubeconfig, folder, log)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await until_true(lambda: not (kubeconfig if preserve else folder).exists())
        await until_true(lambda: not writers)  # the process has ended, and its log with it
        sockets.close()


def spelled(kind: str, name: str, spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """An object in the C# client's spelling: an empty namespace, nulls, and a status that is not there yet."""
    empty = dict.fromkeys(("creationTimestamp", "labels", "finalizers", "ownerReferences", "generation", "uid"))
    return {
        "apiVersion": "usvc-dev.developer.microsoft.com/v1",
        "kind": kind,
        "metadata": {**empty, "annotations": None, "name": name, "namespace": "", **metadata},
        "spec": spec,
        "status": None,
    }


SERVER = """
import http.server, os
print("hello")
address = ("127.0.0.1", int(os.environ["PORT"]))
http.server.HTTPServer(address, http.server.SimpleHTTPRequestHandler).serve_forever()
"""
PROGRAM: dict[str, Any] = {
    "executablePath": sys.executable,
    "workingDirectory": None,
    "args": ["-u", "-c", SERVER],
    "env": [{"name": "PORT", "value": '{{- portForServing "web" -}}'}, {"name": "EMPTY", "value": None}],
    "envFiles": None,
    "executionType": "Process",
    "fallbackExecutionTypes": None,
    "ambientEnvironment": {"behavior": None},
    "start": None,
    "stop": None,
    "mode": "",
    "persistent": None,
    "healthProbes": None,
    "pemCertificates": None,
    "terminal": None,
    "monitorPid": None,
    "monitorTimestamp": None,
}
SERVICE = {"address": None, "port": None, "protocol": "TCP", "addressAllocationMode": "Localhost"}


async def test_the_requests_of_an_apphost_are_answered(tmp_path: Path) -> None:
    async with apphost(tmp_path) as host:
        made = await host.send("POST", "/services", spelled("Service", "web", SERVICE))
        assert "namespace" not in made["metadata"]
        producer = {"service-producer": '[{"serviceName":"web","serviceNamespace":"","address":null,"port":null}]'}
        await host.send("POST", "/executables", spelled("Executable", "one", PROGRAM, annotations=producer))
        running = await host.until(
            "/executables", lambda event: event["object"].get("status", {}).get("state") == "Running"
        )
        ready = await host.until("/services", in_state("Ready"))
        assert ready["object"]["status"]["effectivePort"] > 0
        listed = await host.send("GET", "/endpoints")
        assert [one["spec"]["serviceName"] for one in listed["items"]] == ["web"]
        query = "follow=true&timestamps=true&source=stdout"
        with await asyncio.to_thread(host.open, "GET", f"/executables/one/log?{query}") as lines:
            line: bytes = await asyncio.to_thread(lines.readline)
        assert line.rstrip().endswith(b"hello")
        stop = [{"op": "add", "path": "/spec/stop", "value": True}]
        await host.send("PATCH", "/executables/one", stop, "application/json-patch+json")
        await host.until("/executables", in_state("Finished"))
        await host.send("DELETE", "/executables/one")
        await until_true(lambda: not exists(host))
        assert running["object"]["status"]["pid"]
        assert b"\tinfo\tdcp.levelset_dcp\tthe API server is at https://" in host.log
    await until_true(lambda: b"the monitored process" in host.log)


def in_state(state: str) -> Callable[[Any], bool]:
    return lambda event: event["object"].get("status", {}).get("state") == state


def exists(host: AppHost) -> bool:
    try:
        host.open("GET", "/executables/one").close()
    except urllib.error.HTTPError as error:
        assert error.code == 404
        return False
    return True


def certificate_flags(authority: CertificateAuthority, folder: Path) -> list[str]:
    certificate, key, ca = (folder / name for name in ("server.crt", "server.key", "ca.crt"))
    authority.issue_server(["localhost"], []).save(certificate, key)
    ca.write_bytes(authority.certificate)
    return ["--tls-cert-file", str(certificate), "--tls-key-file", str(key), "--tls-ca-file", str(ca)]


async def test_the_server_has_the_certificate_of_the_flags_and_the_token_of_the_environment(tmp_path: Path) -> None:
    authority = CertificateAuthority.create("own")
    flags = await asyncio.to_thread(certificate_flags, authority, tmp_path)
    async with apphost(tmp_path, *flags, token="known") as host:
        assert host.contact.ca == authority.certificate
        assert host.contact.url.startswith("https://localhost:")
        assert host.contact.token == "<placeholder>"
        with pytest.raises(urllib.error.HTTPError, match="401"):
            await host.send("GET", "/executables")
        host.contact = replace(host.contact, token="known")
        assert (await host.send("GET", "/executables"))["items"] == []


async def test_other_controllers_can_use_the_server_only(tmp_path: Path) -> None:
    log = tmp_path / "out.log"
    await asyncio.to_thread(log.write_text, "".join(f"{n} 2026-01-31T12:00:0{n}.000Z line {n}\n" for n in (1, 2, 3)))
    async with apphost(tmp_path, "--server-only") as host:
        made = await host.send("POST", "/executables", spelled("Executable", "one", {"executablePath": "web"}))
        assert not made.get("status")
        status = {"status": {"state": "Running", "stdOutFile": str(log), "finishTimestamp": None}}
        await host.send("PATCH", "/executables/one/status", status, "application/merge-patch+json")

        async def read(query: str) -> list[bytes]:
            with await asyncio.to_thread(host.open, "GET", f"/executables/one/log?{query}") as lines:
                return [line.rstrip() for line in await asyncio.to_thread(lines.readlines)]

        assert await read("skip=1&limit=1&line_numbers=true&timestamps=true") == [b"2 2026-01-31T12:00:02.000Z line 2"]
        assert await read("tail=1&source=stdout") == [b"line 3"]
        with pytest.raises(urllib.error.HTTPError, match="400"):
            await read("limit=1&follow=true")
        with pytest.raises(urllib.error.HTTPError, match="422"):
            await host.send("POST", "/executables", spelled("Executable", "two", {"executablePath": ""}))
        assert (await host.send("GET", "/executables/one"))["status"]["state"] == "Running"


async def test_logs_of_programs_are_preserved_on_request(tmp_path: Path) -> None:
    async with apphost(tmp_path, preserve="true") as host:
        program = {**PROGRAM, "executablePath": "echo", "args": ["kept"], "env": []}
        await host.send("POST", "/executables", spelled("Executable", "one", program))
        event = await host.until("/executables", in_state("Finished"))
        await host.send("DELETE", "/executables/one")
        await until_true(lambda: not exists(host))
    path = Path(event["object"]["status"]["stdOutFile"])
    assert path.is_relative_to(host.folder)
    assert (await asyncio.to_thread(path.read_bytes)).endswith(b" kept\n")


async def test_everything_ends_with_the_apphost(tmp_path: Path) -> None:
    async with apphost(tmp_path) as host:
        program = {**PROGRAM, "executablePath": "sleep", "args": ["300"], "env": []}
        await host.send("POST", "/executables", spelled("Executable", "one", program))
        event = await host.until("/executables", in_state("Running"))
        identity = identity_of(event["object"]["status"]["pid"])
        assert identity is not None
        host.process.kill()
        await wait_for_exit(identity, within=WITHIN)
    assert not await asyncio.to_thread(host.kubeconfig.exists)
