"""Containers in namespaces of their own: volumes at their mount paths, and the Pod's name as the host name."""

import os
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from levelset import Ref
from levelset.errors import ConfigError
from levelset.kinds.core_v1 import ConfigMap, Pod
from levelset.testing import Cluster
from levelset_local.node import PodReconciler, check_namespaces, node_controller, pod_streams, pods_controller
from systems.local.tests.node.fake_node import pod, status
from systems.local.tests.node.test_pod_streams import run
from systems.local.tests.node.test_real_processes import is_ready, machine_node, read_log

pytestmark = pytest.mark.real_time

WEB = Ref(Pod, "web")
SCRIPT = """
cat /etc/levelset-app/greeting /var/run/secrets/levelset/greeting /levelset-data/sub/greeting
echo written > /levelset-data/note; cat "$DATA"/note
cat /proc/sys/kernel/hostname
test -e /usr && test -e /etc/hosts && echo "the machine is there"
echo $PWD
printf 'the end' > /dev/termination-log
exit 3
"""


@pytest.fixture
def namespaces() -> Iterator[None]:
    """Skips where a user may not have namespaces, as in some containers; looks that the machine has not changed."""
    try:
        check_namespaces()
    except ConfigError as error:
        pytest.skip(str(error))
    yield
    assert not Path("/levelset-data").exists()
    assert not Path("/etc/levelset-app").exists()


def container(script: str = SCRIPT, **more: Any) -> dict[str, Any]:
    return {"name": "web", "image": "busybox:1", "command": ["/bin/sh", "-c", script], **more}


@pytest.mark.usefixtures("namespaces")
async def test_volumes_are_at_their_mount_paths_and_the_host_is_the_pod(cluster: Cluster, tmp_path: Path) -> None:
    await cluster.create(ConfigMap.new("greeting", data={"greeting": "hello\n"}))
    config, data = {"name": "config", "configMap": {"name": "greeting"}}, {"name": "data", "emptyDir": {}}
    mounts = [
        {"name": "config", "mountPath": "/etc/levelset-app"},
        {"name": "config", "mountPath": "/var/run/secrets/levelset"},
        {"name": "config", "mountPath": "/levelset-data/sub"},
        {"name": "data", "mountPath": "/levelset-data"},
    ]
    env = [{"name": "DATA", "value": "/levelset-data"}]
    async with machine_node(tmp_path) as made:
        node = replace(made, namespaces=True)
        async with cluster.running(pods_controller(node), node_controller(node)):
            one = container(volumeMounts=mounts, env=env, workingDir="/tmp")
            await cluster.create(pod("web", one, volumes=[config, data], restartPolicy="Never"))
            ended = await cluster.until(WEB, lambda it: it.status is not None and it.status.phase == "Failed")
            lines = b"".join([part async for part in await read_log(node, ended)]).decode().splitlines()
    assert lines == ["hello", "hello", "hello", "written", "web", "the machine is there", "/tmp"]
    [state] = status(ended).container_statuses
    assert state.state is not None
    assert state.state.terminated is not None
    assert (state.state.terminated.exit_code, state.state.terminated.message) == (3, "the end")
    assert socket.gethostname() != "web"


@pytest.mark.usefixtures("namespaces")
async def test_signals_probes_and_commands_reach_the_container(cluster: Cluster, tmp_path: Path) -> None:
    script = "trap 'echo bye; exit 0' TERM; cat /proc/sys/kernel/hostname; "
    script += "echo 1 > /levelset-data/up; while :; do sleep 0.05; done"
    probe = {"exec": {"command": ["/bin/sh", "-c", "test -s /levelset-data/up"]}, "periodSeconds": 1}
    mounts = [{"name": "data", "mountPath": "/levelset-data"}]
    mounted = container(script, readinessProbe=probe, volumeMounts=mounts, workingDir="/tmp")
    async with machine_node(tmp_path) as made:
        node = replace(made, namespaces=True)
        reconciler = PodReconciler(node)
        async with cluster.running(reconciler.controller(), node_controller(node)):
            await cluster.create(pod("web", mounted, hostname="front", volumes=[{"name": "data", "emptyDir": {}}]))
            web = await cluster.until(WEB, is_ready)
            following = await read_log(node, web, follow="true")
            assert await anext(following) == b"front\n"
            sources = pod_streams(node, reconciler.find_run)
            words = ("sh", "-c", "cat /proc/sys/kernel/hostname; cat /levelset-data/up; pwd; exit 4")
            assert await run(sources, web, *words) == (4, b"front\n1\n/tmp\n", b"")
            await cluster.delete(WEB)
            assert b"".join([part async for part in following]) == b"bye\n"
            await cluster.until_gone(WEB)


def test_without_namespaces_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    refusing = tmp_path / "unshare"
    refusing.write_text("#!/bin/sh\necho 'unshare failed: Operation not permitted' >&2; exit 1\n")
    refusing.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(ConfigError, match=r"namespaces \(unshare failed: Operation not permitted\): allow them"):
        check_namespaces()
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    with pytest.raises(ConfigError, match="needs `unshare`"):
        check_namespaces()
