"""Commands beside real containers, their output, and their ports."""

import asyncio
import io
import tarfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from levelset import Ref
from levelset.apiserver import STDERR, STDOUT, RemoteStreams, StreamRequest, StreamSources
from levelset.errors import ApiError, BadRequest
from levelset.kinds.core_v1 import Pod
from levelset.objects import to_tree
from levelset.testing import Cluster
from levelset_local.node import PodReconciler, node_controller, pod_streams
from systems.local.tests.node.fake_node import pod, status
from systems.local.tests.node.test_real_processes import is_ready, machine_node, served, web_port

pytestmark = pytest.mark.real_time

WEB = Ref(Pod, "web")


class Collected:
    """The streams of a client that collects all output."""

    def __init__(self, **options: Any) -> None:
        self.output: dict[int, bytes] = {STDOUT: b"", STDERR: b""}
        wanted: dict[str, Any] = {"stdin": None, "stdout": True, "stderr": True, "tty": False, **options}
        self.streams = RemoteStreams(self._write, **wanted)

    async def _write(self, stream: int, data: bytes) -> None:
        self.output[stream] += data


def request(it: Pod, *command: str, **query: str) -> StreamRequest:
    given = {name: (value,) for name, value in query.items()}
    return StreamRequest(it.name, it.namespace, to_tree(it), {**given, "command": command})


async def run(sources: StreamSources, it: Pod, *command: str, **query: str) -> tuple[int, bytes, bytes]:
    assert sources.exec is not None
    client = Collected()
    code = await (await sources.exec(request(it, *command, **query)))(client.streams)
    return code, client.output[STDOUT], client.output[STDERR]


@asynccontextmanager
async def running_pod(
    cluster: Cluster, folder: Path, volume: dict[str, Any], *mounts: dict[str, str]
) -> AsyncGenerator[tuple[StreamSources, Pod], None]:
    """The Pod `web`, ready, with mounts of the volume `data`, and the streams of its node."""
    async with machine_node(folder) as node:
        reconciler = PodReconciler(node)
        async with cluster.running(reconciler.controller(), node_controller(node)):
            mounted = [{"name": "data", **one} for one in mounts]
            await cluster.create(pod("web", served(volumeMounts=mounted), volumes=[{"name": "data", **volume}]))
            yield pod_streams(node, reconciler.find_run), await cluster.until(WEB, is_ready)


async def test_commands_output_and_ports_of_a_pod(cluster: Cluster, tmp_path: Path) -> None:
    async with running_pod(cluster, tmp_path, {"emptyDir": {}}, {"mountPath": "/data"}) as (sources, web):
        # The environment of the container, its mount paths, and the exit code.
        code, out, err = await run(sources, web, "sh", "-c", "echo $POD_IP; echo $0 >&2; exit 7", "/data/file")
        assert (code, out) == (7, f"{status(web).pod_ip}\n".encode())
        assert err.endswith(b"/containers/web/data/file\n")
        with pytest.raises(ApiError, match="cannot start 'no-such-program'"):
            await run(sources, web, "no-such-program")
        with pytest.raises(BadRequest, match="container none is not valid"):
            await run(sources, web, "ls", container="none")
        assert sources.portforward is not None
        connect = await sources.portforward(request(web))
        connection = await connect(web_port())
        connection.writer.write(b"GET / HTTP/1.0\r\n\r\n")
        assert (await connection.reader.read()).endswith(b"hello")
        connection.writer.close()
        with pytest.raises(ConnectionRefusedError):
            await connect(9)
        # A command that hangs, and one that is attached, end with the container.
        assert sources.attach is not None
        attached = Collected()
        attaching = asyncio.create_task(_call(await sources.attach(request(web)), attached))
        hanging = asyncio.create_task(run(sources, web, "sleep", "600"))
        await asyncio.sleep(0.1)
        await cluster.delete(WEB)
        assert (await hanging)[0] == 137
        assert await attaching == 0
        assert b"bye\n" in attached.output[STDOUT]
        with pytest.raises(BadRequest, match="is not running"):
            await run(sources, web, "ls")


class Typed:
    """What a client types; an empty text is the end."""

    def __init__(self) -> None:
        self._texts = asyncio.Queue[bytes]()

    def put(self, text: bytes) -> None:
        self._texts.put_nowait(text)

    async def read(self) -> bytes:
        return await self._texts.get()


class Client(Collected):
    """A client that types, too."""

    def __init__(self, **options: Any) -> None:
        self.typed = Typed()
        self._changed = asyncio.Event()
        super().__init__(stdin=self.typed, **options)

    async def until(self, text: bytes) -> None:
        """Waits until the output has this text."""
        while text not in self.output[STDOUT]:
            await self._changed.wait()
            self._changed.clear()

    async def _write(self, stream: int, data: bytes) -> None:
        await super()._write(stream, data)
        self._changed.set()


@asynccontextmanager
async def interactive(
    cluster: Cluster, folder: Path, command: list[str], **container: Any
) -> AsyncGenerator[tuple[StreamSources, Any], None]:
    """The running Pod `web` with a container of these options, and the streams and logs of its node."""
    async with machine_node(folder) as node:
        reconciler = PodReconciler(node)
        async with cluster.running(reconciler.controller(), node_controller(node)):
            given = {"name": "web", "image": "web", "command": command, **container}
            await cluster.create(pod("web", given, restartPolicy="Never"))
            yield pod_streams(node, reconciler.find_run), await cluster.until(WEB, is_ready)


async def test_a_client_types_into_a_container_whose_stdin_ends_with_the_first_that_is_attached(
    cluster: Cluster, tmp_path: Path
) -> None:
    async with interactive(cluster, tmp_path, ["cat"], stdin=True, stdinOnce=True) as (sources, web):
        assert sources.attach is not None
        client, other = Client(), Collected()
        attaching = asyncio.create_task(_call(await sources.attach(request(web)), client))
        seeing = asyncio.create_task(_call(await sources.attach(request(web)), other))
        await asyncio.sleep(0)
        client.typed.put(b"hello without the end of a line")
        await client.until(b"hello without the end of a line")
        client.typed.put(b"")
        assert [await attaching, await seeing] == [0, 0]
        assert other.output == client.output
        ended = await cluster.until(WEB, lambda it: status(it).phase == "Succeeded")
        assert status(ended).container_statuses[0].state is not None
        with pytest.raises(BadRequest, match="is not running"):
            await sources.attach(request(ended))


async def test_the_stdin_of_a_container_outlives_its_clients_unless_it_is_for_one(
    cluster: Cluster, tmp_path: Path
) -> None:
    async with interactive(cluster, tmp_path, ["cat"], stdin=True) as (sources, web):
        assert sources.attach is not None
        for text in (b"one\n", b"two\n"):
            client = Client()
            attaching = asyncio.create_task(_call(await sources.attach(request(web)), client))
            await asyncio.sleep(0)
            client.typed.put(text)
            client.typed.put(b"")
            await client.until(text)
            attaching.cancel()
        assert b"one" not in client.output[STDOUT]


async def test_a_container_with_a_terminal_has_its_size_its_echo_and_its_exit_code(
    cluster: Cluster, tmp_path: Path
) -> None:
    async with interactive(cluster, tmp_path, ["sh"], stdin=True, tty=True) as (sources, web):
        assert sources.attach is not None
        client = Client(tty=True)
        attaching = asyncio.create_task(_call(await sources.attach(request(web)), client))
        client.streams.resize(b'{"Width": 101, "Height": 33}')
        client.typed.put(b"stty size; echo $TERM\n")
        await client.until(b"33 101\r\nxterm\r\n")
        client.typed.put(b"exit 5\n")
        assert await attaching == 0
        ended = await cluster.until(WEB, lambda it: status(it).phase == "Failed")
        state = status(ended).container_statuses[0].state
        assert state is not None
        assert state.terminated is not None
        assert state.terminated.exit_code == 5


async def test_a_container_is_not_running_once_its_process_has_ended(cluster: Cluster, tmp_path: Path) -> None:
    async with machine_node(tmp_path) as node:
        reconciler = PodReconciler(node)
        async with cluster.running(reconciler.controller(), node_controller(node)):
            await cluster.create(pod("web", served()))
            web = await cluster.until(WEB, is_ready)
            found = reconciler.find_run(web.metadata.uid, "web")
            assert found is not None
            # The reconciler may not have seen the end yet.
            sources = pod_streams(node, lambda *_: found)
            await cluster.delete(WEB)
            await found.process.wait()
            with pytest.raises(BadRequest, match='container "web" in pod "web" is not running'):
                await run(sources, web, "ls")


async def test_what_kubectl_cp_copies_from_a_mount_path_has_the_names_of_that_path(
    cluster: Cluster, tmp_path: Path
) -> None:
    volume = {"hostPath": {"path": str(tmp_path / "volume")}}
    mounts = {"mountPath": "/srv/data"}, {"mountPath": "/etc/one", "subPath": "one"}
    await asyncio.to_thread((tmp_path / "volume").mkdir)
    await asyncio.to_thread((tmp_path / "volume" / "one").write_text, "1")
    async with running_pod(cluster, tmp_path, volume, *mounts) as (sources, web):
        found = {
            path: await asyncio.to_thread(_files, await run(sources, web, "tar", "cf", "-", path))
            for path in ("/srv/data/one", "/srv/data", "/etc/one")
        }
    assert found == {
        "/srv/data/one": {"srv/data/one": b"1"},
        "/srv/data": {"srv/data/./one": b"1"},
        "/etc/one": {"etc/one": b"1"},
    }


def _files(result: tuple[int, bytes, bytes]) -> dict[str, bytes]:
    """The files of the archive that a command has written, by name."""
    code, out, err = result
    assert (code, err) == (0, b"")
    with tarfile.open(fileobj=io.BytesIO(out)) as archive:
        opened = {one.name: archive.extractfile(one) for one in archive.getmembers() if one.isfile()}
        return {name: file.read() for name, file in opened.items() if file is not None}


async def _call(work: Any, client: Collected) -> int:
    return int(await work(client.streams))
