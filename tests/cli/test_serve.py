"""`levelset serve` and `levelset compact` as processes: output and shutdown."""

import http.client
import json
import os
import re
import signal
import socket
import sqlite3
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from levelset.apiserver.kubeconfig_file import ConnectionInfo, read_kubeconfig

START = """
import click
from levelset.cli.compact import compact
from levelset.cli.serve import serve
click.Group(commands=[serve, compact])()
"""

# The process runs in another folder, so relative paths are resolved first.
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(str(Path(one).resolve()) for one in sys.path if one)}


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", START, *arguments]
    return subprocess.run(
        command, cwd=folder, env=ENVIRONMENT, check=False, capture_output=True, text=True, timeout=120
    )


@contextmanager
def serving(
    folder: Path, *arguments: str, lines: int = 4
) -> Generator[tuple[subprocess.Popen[str], list[str]], None, None]:
    command = [sys.executable, "-c", START, "serve", *arguments]
    with subprocess.Popen(
        command, cwd=folder, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield process, [process.stdout.readline() for _ in range(lines)]
        finally:
            process.kill()


def stop(process: subprocess.Popen[str], number: signal.Signals) -> tuple[int, str]:
    process.send_signal(number)
    _, errors = process.communicate(timeout=120)
    return process.returncode, errors


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_prints_its_url_and_the_next_step_and_stops_on_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    with serving(tmp_path) as (process, lines):
        contact = read_kubeconfig(tmp_path / "levelset.kubeconfig")
        assert lines[0].split() == ["kubeconfig", "levelset.kubeconfig"]
        assert lines[1].split() == ["API", "server", contact.url]
        assert re.fullmatch(r"ready in \d+ ms. Type next, in another terminal:\n", lines[2])
        assert lines[3].strip() == "kubectl --kubeconfig levelset.kubeconfig get namespaces"
        assert stop(process, number) == (0, "")


@pytest.mark.parametrize(
    ("options", "is_full"), [((), True), (("--durability", "full"), True), (("--durability", "normal"), False)]
)
def test_writes_survive_a_loss_of_power_unless_normal_durability_is_chosen(
    tmp_path: Path, options: tuple[str, ...], is_full: bool
) -> None:
    with serving(tmp_path, "--data", "data.db", *options) as (process, _):
        # Only a log that is synced is allocated beforehand: a sync has no size to change then.
        assert ((tmp_path / "data.db-wal").stat().st_size >= 4_000 * 4_096) == is_full
        assert stop(process, signal.SIGTERM) == (0, "")


def test_json_output(tmp_path: Path) -> None:
    with serving(tmp_path, "--output", "json", "--data", "data.db", lines=1) as (process, lines):
        result = json.loads(lines[0])
        contact = read_kubeconfig(tmp_path / result["kubeconfig"])
        assert (result["url"], result["data"], list(result)[-1]) == (contact.url, "data.db", "ready_ms")
        assert 0 < result["ready_ms"] < 20_000
        assert stop(process, signal.SIGTERM) == (0, "")


@pytest.mark.parametrize(("host", "contact"), [("0.0.0.0", "127.0.0.1"), ("localhost", "localhost")])
def test_the_kubeconfig_has_an_address_that_reaches_the_host(tmp_path: Path, host: str, contact: str) -> None:
    with serving(tmp_path, "--host", host) as (process, _):
        found = read_kubeconfig(tmp_path / "levelset.kubeconfig")
        assert found.url.rpartition(":")[0] == f"https://{contact}"
        assert found.ca is not None
        context = ssl.create_default_context(cadata=found.ca.decode())
        with urllib.request.urlopen(f"{found.url}/readyz", timeout=120, context=context) as response:
            assert response.status == 200
        assert stop(process, signal.SIGTERM) == (0, "")


def test_watches_end_properly_when_the_server_stops(tmp_path: Path) -> None:
    with serving(tmp_path) as (process, _):
        contact = read_kubeconfig(tmp_path / "levelset.kubeconfig")
        assert contact.ca is not None
        context = ssl.create_default_context(cadata=contact.ca.decode())
        connection = http.client.HTTPSConnection(contact.url.partition("//")[2], timeout=120, context=context)
        connection.request("GET", "/api/v1/namespaces?watch=1", headers={"Authorization": f"Bearer {contact.token}"})
        response = connection.getresponse()
        first = [json.loads(response.readline())["type"] for _ in range(4)]
        assert stop(process, signal.SIGTERM) == (0, "")
        assert (first, response.read()) == (["ADDED"] * 4, b"")
        connection.close()


def test_two_service_ranges_make_a_dual_stack_cluster(tmp_path: Path) -> None:
    ranges = ["10.5.0.0/24", "fd05::/112"]
    with serving(tmp_path, "--service-cluster-ip-range", ",".join(ranges)) as (process, _):
        contact = read_kubeconfig(tmp_path / "levelset.kubeconfig")
        assert contact.ca is not None
        context = ssl.create_default_context(cadata=contact.ca.decode())
        path = "/apis/networking.k8s.io/v1/servicecidrs/kubernetes"
        request = urllib.request.Request(contact.url + path, headers={"Authorization": f"Bearer {contact.token}"})
        with urllib.request.urlopen(request, timeout=120, context=context) as response:
            assert json.load(response)["spec"]["cidrs"] == ranges
        assert stop(process, signal.SIGTERM) == (0, "")


def test_service_ranges_of_one_family_are_an_error_with_exit_code_2(tmp_path: Path) -> None:
    outcome = run(tmp_path, "serve", "--service-cluster-ip-range", "10.5.0.0/24,10.6.0.0/24")
    assert (outcome.returncode, outcome.stdout) == (2, "")
    assert "give one, or one of IPv4 and one of IPv6" in outcome.stderr


def test_compact_removes_the_history_of_a_running_server_and_fails_for_a_stopped_one(tmp_path: Path) -> None:
    with serving(tmp_path, "--data", "data.db", "--token-file", "token", "--kubeconfig", "my k") as (_, lines):
        assert "  kubectl --kubeconfig 'my k' get namespaces\n" in lines  # quoted for the shell
        outcome = run(tmp_path, "compact", "--kubeconfig", "my k")
        assert outcome.stdout == "compacted 63 changes; history begins at revision 63\n"
        assert read_kubeconfig(tmp_path / "my k").token == (tmp_path / "token").read_text().strip()
    outcome = run(tmp_path, "compact", "--kubeconfig", "my k")
    assert outcome.returncode == 1
    assert "Is it running?" in outcome.stderr


@dataclass(frozen=True)
class Restart:
    """What a server leaves that was started twice on one file, the second time with files that others can open."""

    folder: Path
    contacts: list[ConnectionInfo]
    outcomes: list[tuple[int, str]]


SECRET = ["a.db", "a.db.token", "a.db.authority"]


@pytest.fixture(scope="module")
def restart(tmp_path_factory: pytest.TempPathFactory) -> Restart:
    made = Restart(tmp_path_factory.mktemp("restart"), [], [])
    for _ in range(2):
        with serving(made.folder, "--data", "a.db") as (process, _):
            made.contacts.append(read_kubeconfig(made.folder / "levelset.kubeconfig"))
            made.outcomes.append(stop(process, signal.SIGTERM))
        for name in SECRET:
            (made.folder / name).chmod(0o644)
    return made


def test_data_in_a_file_survives_a_restart(restart: Restart) -> None:
    assert [code for code, _ in restart.outcomes] == [0, 0]
    with sqlite3.connect(restart.folder / "a.db") as connection:
        assert connection.execute("pragma integrity_check").fetchone() == ("ok",)
    connection.close()


def test_clients_continue_after_a_restart_on_the_same_file(restart: Restart) -> None:
    before, after = restart.contacts
    assert (before.token, before.ca) == (after.token, after.ca)


def test_files_that_other_users_can_open_are_named_at_the_start(restart: Restart) -> None:
    (_, before), (_, after) = restart.outcomes
    assert (before, len(after.splitlines())) == ("", len(SECRET))
    for name in SECRET:
        assert f"{name} can be opened by other users" in after
        assert f"run chmod 600 {name}" in after


def test_a_port_in_use_is_an_error_with_exit_code_2(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        outcome = run(tmp_path, "serve", "--port", str(taken.getsockname()[1]), "--data", "data.db")
    assert outcome.returncode == 2
    assert "in use" in outcome.stderr
    assert "Traceback" not in outcome.stderr
    assert list(tmp_path.iterdir()) == []  # it is found before the data file is opened


def test_an_unreadable_data_file_is_an_error_and_stays_unchanged(tmp_path: Path) -> None:
    (tmp_path / "data.db").write_text("no database at all, just words " * 100)
    before = (tmp_path / "data.db").read_bytes()
    outcome = run(tmp_path, "serve", "--data", "data.db")
    assert (outcome.returncode, outcome.stdout, len(outcome.stderr.splitlines())) == (2, "", 1)
    assert (tmp_path / "data.db").read_bytes() == before


def test_a_directory_as_data_is_an_error_that_suggests_a_file(tmp_path: Path) -> None:
    outcome = run(tmp_path, "serve", "--data", ".")
    assert outcome.returncode == 2
    assert outcome.stderr == ". is a directory, but --data needs a database file: try --data levelset.db\n"
    assert list(tmp_path.iterdir()) == []


def test_a_foreign_kubeconfig_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "k").write_text("clusters:\n- name: production\n")
    outcome = run(tmp_path, "serve", "--kubeconfig", "k", "--data", "data.db")
    assert (outcome.returncode, outcome.stdout) == (2, "")
    assert (tmp_path / "k").read_text() == "clusters:\n- name: production\n"
    assert [path.name for path in tmp_path.iterdir()] == ["k"]  # it is found before anything is created


def test_revisions_of_a_memory_server_grow_over_restarts(tmp_path: Path) -> None:
    versions: list[int] = []
    for _ in range(2):
        with serving(tmp_path) as (process, _):
            result = run(tmp_path, "compact").stdout
            versions.append(int(result.split()[-1]))
            assert stop(process, signal.SIGTERM) == (0, "")
    assert 10**10 < versions[0] < versions[1] < 10**12


def test_compact_without_a_kubeconfig_is_refused(tmp_path: Path) -> None:
    outcome = run(tmp_path, "compact")
    assert (outcome.returncode, outcome.stdout) == (2, "")
    assert "levelset serve" in outcome.stderr
