"""`kubectl exec`, `cp`, `attach`, `port-forward` and `logs` with Pods of the local data plane."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from scripts.kube_binaries import CACHE, KUBERNETES_VERSION

from tests.etcd.etcd_cluster import free_ports

KUBECTL = CACHE / f"kubectl-{KUBERNETES_VERSION}"
LEVELSET = str(Path(sys.executable).with_name("levelset"))
SERVER = """
import os, socket
server = socket.create_server((os.environ["POD_IP"], 8080))
print("up", flush=True)
while True:
    connection, _ = server.accept()
    connection.recv(1000)
    connection.sendall(b"HTTP/1.0 200 OK\\r\\n\\r\\nhello")
    connection.close()
    print("served", flush=True)
"""


class Kubectl:
    """kubectl with the kubeconfig of a server; `is_old` is how one before 1.30 speaks: SPDY instead of WebSockets."""

    def __init__(self, kubeconfig: Path, *, is_old: bool) -> None:
        use = "false" if is_old else "true"
        spoken = {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": use, "KUBECTL_PORT_FORWARD_WEBSOCKETS": use}
        self._env = {**os.environ, "KUBECONFIG": str(kubeconfig), **spoken}

    async def start(self, *words: str) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            KUBECTL, *words, stdin=pipe, stdout=pipe, stderr=pipe, env=self._env
        )

    async def __call__(self, *words: str, typed: bytes = b"") -> tuple[int | None, bytes, bytes]:
        process = await self.start(*words)
        async with asyncio.timeout(120):
            out, err = await process.communicate(typed)
        return process.returncode, out, err


@pytest.fixture(params=["websocket", "spdy"])
async def kubectl(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Kubectl]:
    """kubectl with a running Pod `web`."""
    if not await asyncio.to_thread(KUBECTL.exists):
        pytest.skip(f"there is no {KUBECTL}: run scripts/kube_binaries.py kubectl")
    kubeconfig = tmp_path / "kubeconfig"
    server = await asyncio.create_subprocess_exec(
        LEVELSET,
        "up",
        "levelset_local:local_system",
        "--kubeconfig",
        str(kubeconfig),
        "--dashboard",
        "no",
        cwd=tmp_path,
    )
    made = Kubectl(kubeconfig, is_old=request.param == "spdy")
    try:
        for _ in range(300):
            if (await made("get", "serviceaccounts", "default"))[0] == 0:
                break
            await asyncio.sleep(0.2)
        words = (
            "run",
            "web",
            "--image=web:1",
            "--restart=Never",
            "--command",
            "--",
            sys.executable,
            "-u",
            "-c",
            SERVER,
        )
        assert (await made(*words))[0] == 0
        assert (await made("wait", "--for=condition=Ready", "pod/web", "--timeout=100s"))[0] == 0
        yield made
    finally:
        server.terminate()
        await server.wait()


async def test_kubectl_runs_commands_copies_files_and_forwards_ports(kubectl: Kubectl, tmp_path: Path) -> None:
    followed = await kubectl.start("logs", "--follow", "web")
    assert followed.stdout is not None
    async with asyncio.timeout(100):  # it is ready when it has started, and prints a little later
        assert await followed.stdout.readline() == b"up\n"
    followed.terminate()
    await followed.communicate()
    assert await kubectl("logs", "web") == (0, b"up\n", b"")
    code, out, err = await kubectl("exec", "web", "--", "sh", "-c", "echo out; echo err >&2; exit 3")
    assert (code, out) == (3, b"out\n")
    assert err == b"err\ncommand terminated with exit code 3\n"
    assert (await kubectl("exec", "-i", "web", "--", "cat", typed=b"typed"))[:2] == (0, b"typed")
    source, copied, back = tmp_path / "source", tmp_path / "copied", tmp_path / "back"
    content = os.urandom(3_000_000)
    await asyncio.to_thread(source.write_bytes, content)
    assert (await kubectl("cp", str(source), f"web:{copied}"))[0] == 0
    assert (await kubectl("cp", f"web:{copied}", str(back)))[0] == 0
    assert await asyncio.to_thread(back.read_bytes) == content
    code, out, _ = await kubectl("top", "pods", "--no-headers")
    assert (code, out.split()[0]) == (0, b"web")
    (port,) = free_ports(1)
    forwarding = await kubectl.start("port-forward", "pod/web", f"{port}:8080")
    attached = await kubectl.start("attach", "web")
    assert forwarding.stdout is not None
    assert attached.stdout is not None
    async with asyncio.timeout(100):
        await forwarding.stdout.readline()
        async with asyncio.TaskGroup() as group:
            line = group.create_task(attached.stdout.readline())
            while not line.done():
                assert await asyncio.to_thread(_get, port) == b"hello"
    assert line.result() == b"served\n"
    for process in (forwarding, attached):
        process.terminate()
        await process.communicate()


async def test_kubectl_types_into_a_container_that_it_runs(kubectl: Kubectl) -> None:
    words = (
        "--image=web:1",
        "--restart=Never",
        "--quiet",
        "--command",
        "--",
        "sh",
        "-c",
        "read one; echo got $one; exit 4",
    )
    code, out, err = await kubectl("run", "typed", "-i", "--rm", *words, typed=b"a line\n")
    assert (code, b"got a line" in out) == (4, True), (out, err)


def _get(port: int) -> bytes:
    with urlopen(f"http://127.0.0.1:{port}/", timeout=20) as response:
        return bytes(response.read())
