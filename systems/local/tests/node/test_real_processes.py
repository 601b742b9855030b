"""Pods as real processes: a server per Pod on its own address, crashes, probes, files, logs and termination."""

import asyncio
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from levelset import Client, MergePatch, ObjectMeta, Ref
from levelset import Cluster as Caches
from levelset.apiserver import ApiServer, LogRequest
from levelset.kinds.core_v1 import ConfigMap, Pod
from levelset.objects import to_tree
from levelset.runtime.controller import running
from levelset.testing import Cluster
from levelset_local.node import Images, Node, RestartBackoff, node_controller, pod_logs, pods_controller
from levelset_machine import LogRotation, LogStore, Machine, SocketProber, claim_block, free_port
from systems.local.tests.node.fake_node import condition, container_states, pod, status

pytestmark = pytest.mark.real_time

WEB = Ref(Pod, "web")
SERVER = """
import os, signal, socket, sys, time
signal.signal(signal.SIGTERM, lambda *_: (print("bye", flush=True), sys.exit(0)))
server = socket.create_server((os.environ["POD_IP"], int(sys.argv[1])))
print("serving on", os.environ["POD_IP"], flush=True)
while True:
    connection, _ = server.accept()
    path = connection.recv(1000).split()[1].decode()
    if path == "/crash":
        os._exit(7)
    if path == "/hang":
        time.sleep(100)
    body = open(os.environ["FILE"]).read() if "FILE" in os.environ else "hello"
    connection.sendall(f"HTTP/1.0 200 OK\\r\\nContent-Length: {len(body)}\\r\\n\\r\\n{body}".encode())
    connection.close()
"""


@asynccontextmanager
async def machine_node(folder: Path, rotation: LogRotation | None = None) -> AsyncGenerator[Node, None]:
    """A node with real processes and a short restart back-off."""
    block = claim_block()
    try:
        async with Machine(grace=2.0) as machine:
            yield Node(
                machine,
                SocketProber(machine, redirects_succeed=True),
                await asyncio.to_thread(LogStore, folder / "logs", rotation=rotation),
                Images(installed=False),
                block.pods,
                folder,
                restart_backoff=RestartBackoff(initial=0.2, maximum=0.4),
            )
    finally:
        block.close()


@cache
def web_port() -> int:
    """The port of the servers, each on the address of its Pod: one that nothing uses on all addresses."""
    return free_port()


def served(script: str = SERVER, **more: Any) -> dict[str, Any]:
    probe = {"httpGet": {"port": web_port()}, "periodSeconds": 1, "initialDelaySeconds": 0}
    command = [sys.executable, "-c", script, str(web_port())]
    return {"name": "web", "image": "web:1", "command": command, "readinessProbe": probe, **more}


def is_ready(it: Pod) -> bool:
    return condition(it, "Ready") == "True"


def is_restarted(it: Pod) -> bool:
    return is_ready(it) and status(it).container_statuses[0].restart_count == 1


async def fetch(it: Pod, path: str = "/") -> str:
    """The response of a Pod's server; empty if it ends instead."""
    reader, writer = await asyncio.open_connection(status(it).pod_ip, web_port())
    try:
        writer.write(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        answer = await reader.read()
    except ConnectionError:
        return ""
    finally:
        writer.close()
    return answer.decode().rpartition("\r\n")[2]


async def read_log(node: Node, it: Pod, **query: str) -> AsyncIterator[bytes]:
    """The log of a Pod, as the API server would request it."""
    return await pod_logs(node)(LogRequest(it.name, it.namespace, to_tree(it), query))


async def test_a_pod_serves_on_its_own_address_and_terminates_gracefully(cluster: Cluster, tmp_path: Path) -> None:
    async with machine_node(tmp_path) as node, cluster.running(pods_controller(node), node_controller(node)):
        await cluster.create(pod("web", served()))
        await cluster.create(pod("twin", served()))
        web, twin = await cluster.until(WEB, is_ready), await cluster.until(Ref(Pod, "twin"), is_ready)
        assert status(web).pod_ip != status(twin).pod_ip
        assert (await fetch(web), await fetch(twin)) == ("hello", "hello")
        following = await read_log(node, web, follow="true")
        assert await anext(following) == f"serving on {status(web).pod_ip}\n".encode()
        await cluster.delete(WEB)
        assert b"".join([part async for part in following]) == b"bye\n"
        await cluster.until_gone(WEB)
        await cluster.expect(Ref(Pod, "twin"), is_ready)


FLOOD = """
for number in range(30_000):
    print(f"line {number:05d} {'x' * 80}")
print("end", flush=True)
import time; time.sleep(600)
"""


async def test_the_flood_of_a_container_is_followed_to_its_end_and_leaves_the_disk_bounded(
    cluster: Cluster, tmp_path: Path
) -> None:
    rotation, logs = LogRotation(size=100_000, files=3), tmp_path / "logs"
    async with machine_node(tmp_path, rotation) as node, cluster.running(pods_controller(node)):
        await cluster.create(pod("web", {**served(FLOOD), "readinessProbe": None}, terminationGracePeriodSeconds=1))
        web = await cluster.until(WEB, is_ready)
        last = b""
        async for part in await read_log(node, web, follow="true"):
            last = (last + part)[-1000:]
            if last.endswith(b"end\n"):
                break
        assert last.endswith(b"line 29999 %s\nend\n" % (b"x" * 80))
        used = await asyncio.to_thread(lambda: [one.stat().st_size for one in logs.iterdir()])
        assert (len(used), sum(used) <= rotation.total) == (3, True)
        await cluster.delete(WEB)
        await cluster.until_gone(WEB)
        await cluster.settled()
        # The clean-up goes on in the background.
        while await asyncio.to_thread(lambda: [*logs.iterdir()]):  # noqa: ASYNC110  (a folder has no event)
            await asyncio.sleep(0.01)


async def test_a_follower_that_is_slower_than_a_container_sees_where_lines_were_dropped(
    cluster: Cluster, tmp_path: Path
) -> None:
    rotation = LogRotation(size=100_000, files=3)
    async with machine_node(tmp_path, rotation) as node, cluster.running(pods_controller(node)):
        await cluster.create(pod("web", {**served(GATED_FLOOD), "readinessProbe": None}))
        web = await cluster.until(WEB, is_ready)
        following = await read_log(node, web, follow="true", timestamps="true")
        found = await anext(following)
        assert not await fetch(web)
        while await joined(await read_log(node, web, tailLines="1")) != b"end\n":  # noqa: ASYNC110  (another process)
            await asyncio.sleep(0.01)
        async for part in following:
            found += part
            if found.endswith(b"end\n"):
                break
    times, texts = zip(*(line.split(b" ", 1) for line in found.splitlines()), strict=True)
    assert list(times) == sorted(times)
    marks = [place for place, text in enumerate(texts) if b"were dropped" in text]
    assert marks
    for place in marks:
        dropped = int(texts[place].split()[2])
        assert number_in(texts[place + 1]) == (number_in(texts[place - 1]) if place > 1 else 0) + dropped + 1


GATED_FLOOD = """
import os, socket, sys, time
server = socket.create_server((os.environ["POD_IP"], int(sys.argv[1])))
print("line 00000", flush=True)
server.accept()[0].close()
for number in range(1, 30_000):
    print(f"line {number:05d} {'x' * 80}")
print("end", flush=True)
time.sleep(600)
"""


def number_in(line: bytes) -> int:
    return int(line.split()[1])


async def joined(parts: AsyncIterator[bytes]) -> bytes:
    return b"".join([part async for part in parts])


async def test_a_crashed_container_is_restarted_and_a_crash_loop_backs_off(cluster: Cluster, tmp_path: Path) -> None:
    async with machine_node(tmp_path) as node, cluster.running(pods_controller(node)):
        await cluster.create(pod("web", served()))
        assert not await fetch(await cluster.until(WEB, is_ready), "/crash")
        again = await cluster.until(WEB, is_restarted)
        last = status(again).container_statuses[0].last_state.terminated
        assert last is not None
        assert (last.exit_code, last.reason) == (7, "Error")
        assert b"serving" in b"".join([part async for part in await read_log(node, again, previous="true")])
        await cluster.create(pod("bad", served("raise SystemExit(3)")))
        bad = Ref(Pod, "bad")
        await cluster.until(bad, lambda it: container_states(it).get("web") == "CrashLoopBackOff")


async def test_a_hanging_server_is_restarted_by_its_liveness_probe(cluster: Cluster, tmp_path: Path) -> None:
    liveness = {"httpGet": {"port": web_port()}, "periodSeconds": 1, "failureThreshold": 2}
    async with machine_node(tmp_path) as node, cluster.running(pods_controller(node)):
        await cluster.create(pod("web", served(livenessProbe=liveness), terminationGracePeriodSeconds=1))
        found = await cluster.until(WEB, is_ready)
        hanging = asyncio.ensure_future(fetch(found, "/hang"))
        await cluster.until(WEB, is_restarted)
        assert not await hanging


async def test_a_running_program_sees_a_changed_config_map(cluster: Cluster, tmp_path: Path) -> None:
    mounted = served(
        volumeMounts=[{"name": "config", "mountPath": "/etc/app"}], env=[{"name": "FILE", "value": "/etc/app/text"}]
    )
    volume = {"name": "config", "configMap": {"name": "settings"}}
    async with machine_node(tmp_path) as node, cluster.running(pods_controller(node)):
        await cluster.create(ConfigMap(metadata=ObjectMeta(name="settings"), data={"text": "one"}))
        await cluster.create(pod("web", mounted, volumes=[volume]))
        found = await cluster.until(WEB, is_ready)
        assert await fetch(found) == "one"
        await cluster.patch(Ref(ConfigMap, "settings"), MergePatch({"data": {"text": "two"}}))
        await cluster.settled()
        assert await fetch(found) == "two"


async def test_the_termination_message_comes_from_the_file_or_from_the_log(cluster: Cluster, tmp_path: Path) -> None:
    writes = "import os; open(os.environ['LEVELSET_MOUNT_ROOT'] + '/dev/termination-log', 'w').write('done')"
    fails = "import sys; sys.exit('it broke')"
    async with machine_node(tmp_path) as node, cluster.running(pods_controller(node)):
        await cluster.create(pod("web", served(writes), restartPolicy="Never"))
        good = await cluster.until(WEB, lambda it: status(it).phase == "Succeeded")
        policy = {"terminationMessagePolicy": "FallbackToLogsOnError"}
        await cluster.create(pod("bad", served(fails, **policy), restartPolicy="Never"))
        bad = await cluster.until(Ref(Pod, "bad"), lambda it: status(it).phase == "Failed")
    ends = [status(it).container_statuses[0].state.terminated for it in (good, bad)]
    assert [one.message for one in ends if one is not None] == ["done", "it broke\n"]


async def test_the_next_manager_restarts_containers_that_ended_with_the_last_one(
    cluster: Cluster, tmp_path: Path
) -> None:
    await cluster.create(pod("web", served()))
    async with machine_node(tmp_path) as node, cluster.running(pods_controller(node)):
        await cluster.until(WEB, is_ready)
    async with machine_node(tmp_path) as node, cluster.running(pods_controller(node)):
        again = await cluster.until(WEB, is_restarted)
        assert await fetch(again) == "hello"
    last = status(again).container_statuses[0].last_state.terminated
    assert last is not None
    assert (last.exit_code, last.reason) == (137, "ContainerStatusUnknown")


async def test_logs_are_followed_through_the_server(tmp_path: Path) -> None:
    async with machine_node(tmp_path) as node, ApiServer() as server, await Client.connect(server) as client:
        server.serve_logs("", "Pod", pod_logs(node))
        async with Caches(client) as caches, running(pods_controller(node), caches) as controller:
            await controller.wait_ready()
            made = await client.create(pod("web", served()), namespace="default")
            await client.wait(made.ref, is_ready)
            seen = [line async for line in until_goodbye(client, made)]
    assert [line.partition(" ")[0] for line in seen] == ["serving", "bye"]


CALLER = """
import json, os, ssl, urllib.request
folder = os.environ["LEVELSET_MOUNT_ROOT"] + "/var/run/secrets/kubernetes.io/serviceaccount/"
context = ssl.create_default_context(cafile=folder + "ca.crt")
review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
headers = {"Authorization": "Bearer " + open(folder + "token").read(), "Content-Type": "application/json"}
url = os.environ["URL"] + "/apis/authentication.k8s.io/v1/selfsubjectreviews"
request = urllib.request.Request(url, json.dumps(review).encode(), headers)
with urllib.request.urlopen(request, context=context, timeout=120) as response:
    print(json.load(response)["status"]["userInfo"]["username"], open(folder + "namespace").read())
"""


async def test_a_pod_calls_the_server_with_its_account_token_and_certificates(tmp_path: Path) -> None:
    options: dict[str, Any] = {"cluster_defaults": True, "rbac": True}
    async with machine_node(tmp_path) as node, ApiServer(**options) as server, await Client.connect(server) as client:
        server.serve_logs("", "Pod", pod_logs(node))
        async with Caches(client) as caches, running(pods_controller(node), caches) as controller:
            await controller.wait_ready()
            variables = [{"name": "URL", "value": server.url}]
            command = {"name": "c", "image": "python", "command": [sys.executable, "-c", CALLER], "env": variables}
            made = await client.create(pod("caller", command, restartPolicy="Never"), namespace="default")
            await client.wait(made.ref, lambda it: status(it).phase in ("Succeeded", "Failed"))
            seen = [line async for line in client.logs(made.ref)]
    assert seen == ["system:serviceaccount:default:default default"]


async def until_goodbye(client: Client, it: Pod) -> AsyncIterator[str]:
    """The log lines of a Pod that is deleted after the first one."""
    async for line in client.logs(it.ref, follow=True):
        if line.startswith("serving"):
            await client.delete(it.ref)
        yield line
