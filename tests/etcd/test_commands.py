"""`levelset serve --etcd` and `levelset storage copy` with a real etcd."""

import asyncio
import http.client
import itertools
import json
import os
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner, Result

from levelset.cli.commands import levelset
from levelset.storage import EtcdStorage, SqliteStorage
from tests.etcd.etcd_cluster import EtcdCluster

pytestmark = pytest.mark.usefixtures("file_access")

_prefixes = itertools.count()


@pytest.fixture
def prefix() -> str:
    return f"/command-{next(_prefixes)}"


@contextmanager
def serve(folder: Path, *options: str) -> Iterator[dict[str, Any]]:
    """A running `levelset serve`; yields what it prints when it is ready."""
    command = [sys.executable, "-c", "from levelset.cli.main import main; main()", "serve", "-o", "json", *options]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())
        finally:
            process.terminate()
            assert process.wait(30) == 0


def call(url: str, token: str, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    host = urlsplit(url)
    context = ssl._create_unverified_context()
    connection = http.client.HTTPSConnection(host.hostname or "", host.port, context=context, timeout=30)
    try:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def test_serve_stores_objects_in_etcd_and_serves_them_after_a_restart(
    shared_cluster: EtcdCluster, prefix: str, tmp_path: Path
):
    options = ("--etcd", shared_cluster.endpoints, "--etcd-prefix", prefix)
    maps = "/api/v1/namespaces/default/configmaps"
    with serve(tmp_path, *options) as ready:
        token = (tmp_path / "levelset.token").read_text().split()[0].split(",")[0]
        made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
        assert call(ready["url"], token, "POST", maps, made)[0] == 201
    with serve(tmp_path, *options) as ready:
        status, found = call(ready["url"], token, "GET", f"{maps}/a")
    assert (status, found["metadata"]["name"]) == (200, "a")


def test_serve_names_an_etcd_that_cannot_be_reached(tmp_path: Path):
    kubeconfig = str(tmp_path / "levelset.kubeconfig")
    refused = CliRunner().invoke(levelset, ["serve", "--etcd", "http://127.0.0.1:1", "--kubeconfig", kubeconfig])
    assert refused.exit_code == 2
    assert "The storage in etcd at 127.0.0.1:1 cannot be opened" in refused.stderr


def test_a_file_and_etcd_together_are_refused():
    refused = CliRunner().invoke(levelset, ["serve", "--etcd", "http://127.0.0.1:1", "--data", "a.db"])
    assert (refused.exit_code, "pass --etcd or --data, not both" in refused.stderr) == (2, True)


def copy(*words: str | Path) -> Result:
    return CliRunner().invoke(levelset, ["storage", "copy", *map(str, words)])


async def fill(path: Path) -> None:
    async with await SqliteStorage.open(path) as storage:
        for number in range(50):
            await storage.put(f"/{number:02}", b"%d" % number, expected=0)
        for number in (7, 3, 5):
            await storage.put(f"/{number:02}", b"changed", expected=None)


def test_everything_is_copied_from_a_file_to_etcd_and_back_in_the_order_of_revisions(
    shared_cluster: EtcdCluster, prefix: str, tmp_path: Path
):
    asyncio.run(fill(tmp_path / "a.db"))
    url = shared_cluster.endpoints
    copied = copy(tmp_path / "a.db", url, "--etcd-prefix", prefix)
    assert copied.exit_code == 0, copied.output
    assert f"copied 50 objects (108 bytes) from {tmp_path / 'a.db'} to {url}, in the order" in copied.stdout
    again = copy(tmp_path / "a.db", url, "--etcd-prefix", prefix)
    assert (again.exit_code, f"has 50 keys under {prefix}" in again.stderr) == (2, True)
    back = copy(url, tmp_path / "b.db", "--etcd-prefix", prefix)
    assert back.exit_code == 0, back.output

    async def keys(path: Path) -> list[tuple[str, bytes]]:
        async with await SqliteStorage.open(path) as storage:
            items = sorted(storage.list_nowait("").items, key=lambda item: item.revision)
            return [(item.key, item.value) for item in items]

    assert asyncio.run(keys(tmp_path / "a.db")) == asyncio.run(keys(tmp_path / "b.db"))


async def test_a_storage_in_etcd_shows_its_prefix(shared_cluster: EtcdCluster, prefix: str):
    assert EtcdStorage(shared_cluster.endpoints, prefix=f"{prefix}/").prefix == prefix
