"""`levelset serve --workers`: several servers behind one port, secrets in etcd, and what happens when one ends."""

import asyncio
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from levelset.client import Client
from levelset.kinds.core_v1 import ConfigMap
from levelset.objects import ObjectMeta
from levelset.storage import EtcdStorage
from tests.etcd.etcd_cluster import EtcdCluster

pytestmark = [pytest.mark.usefixtures("file_access"), pytest.mark.timeout(180)]

_prefixes = itertools.count()
_LEVELSET = [sys.executable, "-c", "from levelset.cli.main import main; main()"]


@contextmanager
def serve(folder: Path, cluster: EtcdCluster, *options: str) -> Iterator[tuple[subprocess.Popen[bytes], Any]]:
    """A running `levelset serve`, and what it has printed when it was ready."""
    command = [*_LEVELSET, "serve", "-o", "json", "--etcd", cluster.endpoints, *options]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with (
        (folder / "errors.log").open("ab") as errors,
        subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=errors) as process,
    ):
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, (folder / "errors.log").read_text()
            yield process, json.loads(line)
        finally:
            process.terminate()
            process.wait(30)


def children(parent: int) -> list[int]:
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(parent)], capture_output=True, text=True, check=False)
    return sorted(int(line) for line in found.stdout.split())


def until(what: Callable[[], bool], *, within: float = 30.0) -> None:
    end = time.monotonic() + within
    while not what():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] != "Z" if Path("/proc").exists() else True


async def write_and_read(kubeconfig: Path, names: list[str]) -> None:
    """Each request on a connection of its own, so that all workers have some."""
    for name in names:
        async with await Client.connect(kubeconfig) as client:
            await client.create(ConfigMap(metadata=ObjectMeta(name=name)))
        async with await Client.connect(kubeconfig) as client:
            assert (await client.get(ConfigMap, name)).metadata.name == name


def audit_lines(folder: Path) -> list[int]:
    """How many lines each worker has written to its audit log."""
    return [len(path.read_text().splitlines()) for path in sorted(folder.glob("audit.worker-*.log"))]


@pytest.fixture
def prefix() -> str:
    return f"/workers-{next(_prefixes)}"


def test_workers_serve_one_port_and_are_started_again_and_end_with_their_parent(
    shared_cluster: EtcdCluster, tmp_path: Path, prefix: str
):
    options = ("--workers", "3", "--etcd-prefix", prefix, "--audit-log", "audit.log")
    with serve(tmp_path, shared_cluster, *options) as (process, ready):
        kubeconfig = tmp_path / ready["kubeconfig"]
        first = children(process.pid)
        assert len(first) == 3
        asyncio.run(write_and_read(kubeconfig, [f"a{number}" for number in range(12)]))
        # Requests do not wait for the audit log: a killed worker loses the lines that its thread has not written yet.
        until(lambda: sum(audit_lines(tmp_path)) >= 24)
        os.kill(first[1], signal.SIGKILL)
        until(lambda: len(children(process.pid)) == 3 and first[1] not in children(process.pid))
        until(lambda: "serves again" in (tmp_path / "errors.log").read_text())
        asyncio.run(write_and_read(kubeconfig, [f"b{number}" for number in range(12)]))
    assert process.returncode == 0
    until(lambda: not any(map(is_alive, first)))
    assert "worker 1 ended with code -9" in (tmp_path / "errors.log").read_text()
    lines = audit_lines(tmp_path)
    assert len(lines) == 3
    assert sum(lines) >= 48


def test_workers_end_when_their_parent_is_killed(shared_cluster: EtcdCluster, tmp_path: Path, prefix: str):
    with serve(tmp_path, shared_cluster, "--workers", "2", "--etcd-prefix", prefix) as (process, _):
        workers = children(process.pid)
        process.kill()
        until(lambda: not any(map(is_alive, workers)))


def test_servers_with_one_secrets_key_accept_the_same_token_and_etcd_has_no_key_as_plain_text(
    shared_cluster: EtcdCluster, tmp_path: Path, prefix: str
):
    options = ("--etcd-prefix", prefix, "--secrets-key", "shared.key")
    with serve(tmp_path, shared_cluster, *options, "--kubeconfig", "one.kubeconfig") as (_, one):
        other_options = ("--kubeconfig", "two.kubeconfig", "--server", one["url"])
        with serve(tmp_path, shared_cluster, *options, *other_options) as (process, _two):
            asyncio.run(write_and_read(tmp_path / "one.kubeconfig", ["a"]))
            tokens = [
                line.split()[1]
                for name in ("one", "two")
                for line in (tmp_path / f"{name}.kubeconfig").read_text().splitlines()
                if "token:" in line
            ]
            assert len(set(tokens)) == 1

            async def go_on() -> None:
                async with await Client.connect(tmp_path / "two.kubeconfig") as client:
                    await client.create(ConfigMap(metadata=ObjectMeta(name="b")))
                    process.terminate()
                    await asyncio.to_thread(process.wait, 30)
                    await client.create(ConfigMap(metadata=ObjectMeta(name="c")))  # by the other server

            asyncio.run(go_on())
    assert not list(tmp_path.glob("*.authority"))
    assert asyncio.run(plain_secrets(shared_cluster, prefix, tokens[0].strip("'"))) == []
    refused = subprocess.run(
        [*_LEVELSET, "serve", "--etcd", shared_cluster.endpoints, *options[:2], "--secrets-key", "another.key"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert refused.returncode == 2
    assert "give all servers the same key" in refused.stderr


async def plain_secrets(cluster: EtcdCluster, prefix: str, token: str) -> list[str]:
    async with EtcdStorage(cluster.endpoints, prefix=prefix) as storage:
        items = (await storage.list("/")).items
        assert any(item.key == "/levelset/secrets/authority" for item in items)
        return [item.key for item in items if b"PRIVATE KEY" in item.value or token.encode() in item.value]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--workers", "2"], "pass --etcd"),
        (["--secrets-key", "k"], "pass --etcd"),
        (["--etcd", "http://127.0.0.1:1", "--workers", "2", "--audit-log", "-"], "name a file with --audit-log"),
    ],
)
def test_options_that_do_not_fit_are_refused(tmp_path: Path, options: list[str], message: str):
    command = [*_LEVELSET, "serve", *options]
    refused = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert refused.returncode == 2
    assert message in refused.stderr
