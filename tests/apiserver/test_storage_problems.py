"""Damaged objects, a full and a failing disk, as the clients of a server see them; with real files."""

import asyncio
import inspect
import json
import os
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from levelset.apiserver import ApiServer
from levelset.http import Headers, Request, Response
from levelset.storage import SqliteStorage

MAPS = "/api/v1/namespaces/default/configmaps"


@asynccontextmanager
async def open_server(path: Path) -> AsyncGenerator[ApiServer, None]:
    async with await SqliteStorage.open(path) as storage:
        server = ApiServer(storage)
        await server.start(listen=False)
        try:
            yield server
        finally:
            await server.stop()


async def call(server: ApiServer, method: str, path: str, body: object = None, query: str = "") -> Response:
    content = b"" if body is None else json.dumps(body).encode()
    headers = Headers({"content-type": "application/json"} if content else {})
    made: Any = server.handle(Request(method, path, query, headers, content, ApiServer.owner))
    found: Response = await made if inspect.isawaitable(made) else made
    return found


def decode(response: Response) -> Any:
    assert isinstance(response.body, bytes)
    return json.loads(response.body)


def config_map(name: str, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, **metadata},
        "data": {"key": f"value-{name}"},
    }


async def make_damaged(path: Path) -> None:
    async with open_server(path) as server:
        for name in ("a", "b", "c"):
            assert (await call(server, "POST", MAPS, config_map(name))).status == 201
    content = bytearray(await asyncio.to_thread(path.read_bytes))
    place = content.index(b"value-b")
    content[place] = 0xFF
    await asyncio.to_thread(path.write_bytes, bytes(content))


async def test_a_damaged_object_is_left_out_with_a_warning_named_when_read_and_can_be_deleted(tmp_path: Path) -> None:
    path = tmp_path / "data.db"
    await make_damaged(path)
    async with open_server(path) as server:
        listed = await call(server, "GET", MAPS)
        names = {item["metadata"]["name"] for item in decode(listed)["items"]}
        assert names >= {"a", "c"}
        assert "b" not in names
        warnings = [value for name, value in listed.headers if name == "Warning"]
        assert warnings == ['299 - "configmaps b is damaged in the storage and left out: delete it"']
        for method, body in (("GET", None), ("PUT", config_map("b"))):
            response = await call(server, method, f"{MAPS}/b", body)
            assert response.status == 500
            assert decode(response)["message"].startswith('configmaps "b" is damaged in the storage: delete it and')
        assert (await call(server, "POST", MAPS, config_map("b"))).status == 500
        assert (await call(server, "DELETE", f"{MAPS}/b", query="dryRun=All")).status == 200
        deleted = await call(server, "DELETE", f"{MAPS}/b")
        assert (deleted.status, decode(deleted)["details"]) == (200, {"name": "b", "kind": "configmaps"})
        assert (await call(server, "GET", f"{MAPS}/b")).status == 404
        assert (await call(server, "POST", MAPS, config_map("b"))).status == 201
        assert not [value for name, value in (await call(server, "GET", MAPS)).headers if name == "Warning"]


async def test_other_resources_have_no_warning(tmp_path: Path) -> None:
    path = tmp_path / "data.db"
    await make_damaged(path)
    async with open_server(path) as server:
        listed = await call(server, "GET", "/api/v1/namespaces/default/secrets")
        assert not [value for name, value in listed.headers if name == "Warning"]


async def test_without_space_only_deletions_are_possible_and_the_server_is_not_ready(tmp_path: Path) -> None:
    async with open_server(tmp_path / "data.db") as server:
        await call(server, "POST", MAPS, config_map("a"))
        await call(server, "POST", MAPS, config_map("b", finalizers=["example.com/x"]))
        assert (await call(server, "GET", "/readyz")).status == 200
        storage: Any = server._storage  # pyright: ignore[reportPrivateUsage]
        storage.write_problem = "the disk of data.db is full"
        refused = await call(server, "POST", MAPS, config_map("c"))
        assert refused.status == 500
        expected = 'configmaps "c" was not written: the disk of data.db is full; deletions are possible'
        assert decode(refused)["message"].endswith(expected)
        assert (await call(server, "PUT", f"{MAPS}/a", config_map("a"))).status in (200, 500)
        assert (await call(server, "DELETE", f"{MAPS}/a")).status == 200
        marked = await call(server, "DELETE", f"{MAPS}/b")
        assert "deletionTimestamp" in decode(marked)["metadata"]
        freed: dict[str, Any] = {**config_map("b"), "metadata": decode(marked)["metadata"]}
        freed["metadata"]["finalizers"] = []
        assert (await call(server, "PUT", f"{MAPS}/b", freed)).status == 200
        assert (await call(server, "GET", f"{MAPS}/b")).status == 404
        ready = await call(server, "GET", "/readyz")
        assert (ready.status, (await call(server, "GET", "/livez")).status) == (500, 200)
        assert isinstance(ready.body, bytes)
        assert b"[-]storage failed" in ready.body


async def test_a_list_from_a_revision_ahead_of_the_store_gets_504(tmp_path: Path) -> None:
    async with open_server(tmp_path / "data.db") as server, asyncio.timeout(300):
        status = decode(await call(server, "GET", MAPS, query="resourceVersion=99999999999"))
        assert (status["code"], status["reason"]) == (504, "Timeout")


SMALL_DISK = """
import asyncio, json, sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from tests.apiserver.test_storage_problems import MAPS, call, config_map, decode, open_server

async def main():
    path = Path({folder!r}) / "data.db"
    async with open_server(path) as server:
        names = []
        for number in range(400):
            body = config_map(f"m{{number}}")
            body["data"]["fill"] = "x" * 100_000
            if (await call(server, "POST", MAPS, body)).status != 201:
                break
            names.append(f"m{{number}}")
        else:
            raise SystemExit("the disk did not fill up")
        assert (await call(server, "GET", "/readyz")).status == 500
        assert (await call(server, "POST", MAPS, config_map("small"))).status == 500
        for name in names:
            deleted = await call(server, "DELETE", f"{{MAPS}}/{{name}}")
            assert deleted.status == 200, (name, deleted.body)
        await server._storage.compact(server._storage.revision)
    async with open_server(path) as server:
        assert (await call(server, "GET", f"{{MAPS}}/m0")).status == 404
        left = [one["metadata"]["name"] for one in decode(await call(server, "GET", MAPS))["items"]]
        assert not set(left) & set(names), left
    print("deleted", len(names))

asyncio.run(main())
"""


@pytest.mark.slow
def test_on_a_disk_that_is_really_full_everything_can_be_deleted(tmp_path: Path) -> None:
    """A small file system of its own, in a mount namespace; skipped where the kernel does not allow one."""
    root = Path(__file__).parents[2]
    folder = tmp_path / "disk"
    folder.mkdir()
    (tmp_path / "program.py").write_text(SMALL_DISK.format(tests=str(root), folder=str(folder)))
    mount = f"mount -t tmpfs -o size=40m tmpfs {folder}"
    if subprocess.run(["unshare", "-Urm", "sh", "-c", mount], capture_output=True, check=False).returncode:
        pytest.skip("a file system cannot be mounted here: unshare -Urm is not allowed")
    run = f"{mount} && exec {sys.executable} {tmp_path / 'program.py'}"
    environment = {**os.environ, "PYTHONPATH": f"{root / 'src'}:{root}"}
    done = subprocess.run(
        ["unshare", "-Urm", "sh", "-c", run], capture_output=True, text=True, env=environment, timeout=100, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("deleted")


@pytest.mark.slow
def test_a_read_only_file_system_is_called_so(tmp_path: Path) -> None:
    mount = f"mount -t tmpfs tmpfs {tmp_path} && touch {tmp_path}/data.db && mount -o remount,ro {tmp_path}"
    if subprocess.run(["unshare", "-Urm", "sh", "-c", mount], capture_output=True, check=False).returncode:
        pytest.skip("a file system cannot be mounted here: unshare -Urm is not allowed")
    for name in ("data.db", "new.db"):
        code = f"from levelset.storage import SqliteStorage; SqliteStorage({str(tmp_path / name)!r})"
        done = subprocess.run(
            ["unshare", "-Urm", "sh", "-c", f"{mount} && exec {sys.executable} -c {code!r}"],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")},
            timeout=60,
            check=False,
        )
        assert "is on a read-only file system; remount it, or choose another path" in done.stderr, done.stderr


READ_ONLY = """
import asyncio, subprocess, sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from tests.apiserver.test_storage_problems import call, open_server

async def main():
    async with open_server(Path({folder!r}) / "data.db") as server:
        assert (await call(server, "GET", "/readyz")).status == 200
        subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", {folder!r}], check=True)
        while (ready := await call(server, "GET", "/readyz")).status == 200:
            await asyncio.sleep(0.01)
        assert b"[-]storage failed" in ready.body, ready.body
        assert (await call(server, "GET", "/livez")).status == 200
        found = server._storage.find_write_problem()
        assert found.endswith("data.db is on a read-only file system"), found
        subprocess.run(["umount", {folder!r}], check=True)
        while (await call(server, "GET", "/readyz")).status != 200:
            await asyncio.sleep(0.01)

asyncio.run(main())
"""


@pytest.mark.slow
def test_a_server_whose_file_system_becomes_read_only_is_not_ready(tmp_path: Path) -> None:
    """Before any write has failed: as the health check finds it."""
    root = Path(__file__).parents[2]
    folder = tmp_path / "disk"
    folder.mkdir()
    (tmp_path / "program.py").write_text(READ_ONLY.format(tests=str(root), folder=str(folder)))
    if subprocess.run(["unshare", "-Urm", "true"], capture_output=True, check=False).returncode:
        pytest.skip("a file system cannot be mounted here: unshare -Urm is not allowed")
    done = subprocess.run(
        ["unshare", "-Urm", sys.executable, str(tmp_path / "program.py")],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{root / 'src'}:{root}"},
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
