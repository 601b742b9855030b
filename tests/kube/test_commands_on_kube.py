"""The command and the examples as programs of their own, on a real kube-apiserver."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from levelset import Client, GroupVersionKind, Ref, Unstructured
from levelset.cli.install import read_manifests
from tests.etcd.etcd_cluster import free_ports
from tests.kube.kube_cluster import PROGRAMS, KubeCluster, run_kube
from tests.project.files import ROOT

EXAMPLES = ROOT / "examples"
LEVELSET = str(Path(sys.executable).with_name("levelset"))


@pytest.fixture(scope="module")
def kube() -> Iterator[KubeCluster]:
    """A control plane of its own: examples install CRDs whose names other tests use, too."""
    if not all(path.exists() for path in PROGRAMS.values()):
        pytest.skip("kube-apiserver and etcd were not built: run make test-kube")
    with run_kube(PROGRAMS["kube-apiserver"], PROGRAMS["etcd"]) as cluster:
        yield cluster


def levelset(*words: str, kubeconfig: Path, folder: Path, exit_code: int = 0) -> str:
    """Runs the command to its end; returns its output."""
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    command = [LEVELSET, *words]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=110, check=False
    )
    assert done.returncode == exit_code, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


@contextlib.contextmanager
def program(words: Sequence[str], kubeconfig: Path, folder: Path, **environment: str) -> Iterator[None]:
    """Runs a program from its ready line until the end of the block; it must end in order on a signal."""
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    variables = {**os.environ, "KUBECONFIG": str(kubeconfig), **environment}
    with subprocess.Popen([sys.executable, "-u", *words], cwd=folder, env=variables, **pipes) as process:
        assert process.stdout is not None
        lines: list[str] = []
        try:
            while "ready" not in "".join(lines) and (line := process.stdout.readline()):
                lines.append(line)
            assert "ready" in "".join(lines), "".join(lines)
            yield
        finally:
            process.send_signal(signal.SIGINT)
            lines.append(process.stdout.read())
    assert (process.returncode, "Traceback" in "".join(lines)) == (0, False), "".join(lines)


async def wait_for(kubeconfig: Path, tree: dict[str, Any], condition: Any) -> Unstructured:
    """Creates an object and waits until the condition holds for it."""
    group, _, version = tree["apiVersion"].rpartition("/")
    metadata = tree["metadata"]
    ref: Any = Ref(GroupVersionKind(group, version, tree["kind"]), metadata["name"], metadata["namespace"])
    async with await Client.connect(kubeconfig) as client:
        await client.create(tree)
        found: Unstructured = await client.wait(ref, condition, within=60)
        await client.delete(ref)
        return found


def greeting(name: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "demo.example.dev/v1", "kind": "Greeting", "metadata": metadata, "spec": {"name": name}}


def test_an_operator_is_checked_installed_examined_and_run(kube: KubeCluster, tmp_path: Path) -> None:
    target = str(EXAMPLES / "02_hello.py")
    where: dict[str, Any] = {"kubeconfig": kube.kubeconfig, "folder": tmp_path}
    levelset("check", target, **where)
    assert "greetings.demo.example.dev" in levelset("install", target, **where)
    assert "fail" not in levelset("doctor", target, **where)
    with program([LEVELSET, "run", target], kube.kubeconfig, tmp_path):
        found = asyncio.run(wait_for(kube.kubeconfig, greeting("you"), lambda one: "status" in one.tree))
    assert found.tree["status"]["message"] == "Hello, you!"
    with program([target], kube.kubeconfig, tmp_path):
        asyncio.run(wait_for(kube.kubeconfig, greeting("them"), lambda one: "status" in one.tree))


def test_the_doctor_says_what_a_user_may_not_do(kube: KubeCluster, tmp_path: Path) -> None:
    target, folder = str(EXAMPLES / "02_hello.py"), tmp_path
    levelset("install", target, kubeconfig=kube.kubeconfig, folder=folder)
    anne = kube.kubeconfig_of("anne", tmp_path / "anne.kubeconfig")
    shown = levelset("doctor", target, kubeconfig=anne, folder=folder, exit_code=1)
    assert "greetings" in shown


def test_an_example_with_children_works(kube: KubeCluster, tmp_path: Path) -> None:
    target = str(EXAMPLES / "03_website.py")
    levelset("install", target, kubeconfig=kube.kubeconfig, folder=tmp_path)
    [secret, site] = sorted(read_manifests(EXAMPLES / "03_website.yaml"), key=lambda tree: str(tree["kind"]))
    for tree in (secret, site):
        tree["metadata"]["namespace"] = "default"

    async def deployed() -> Unstructured:
        async with await Client.connect(kube.kubeconfig) as client:
            await client.create(secret)
            await client.create(site)
            ref: Any = Ref(GroupVersionKind("apps", "v1", "Deployment"), site["metadata"]["name"], "default")
            found: Unstructured = await client.wait(ref, lambda one: bool(one.tree), within=60)
            return found

    with program([target], kube.kubeconfig, tmp_path):
        assert asyncio.run(deployed()).tree["spec"]["replicas"] == 2


def test_an_example_with_webhooks_listens_where_it_is_registered(kube: KubeCluster, tmp_path: Path) -> None:
    target = str(EXAMPLES / "05_hooks.py")
    (port,) = free_ports(1)
    levelset("install", target, kubeconfig=kube.kubeconfig, folder=tmp_path)
    url = {"LEVELSET_WEBHOOK_URL": f"https://127.0.0.1:{port}"}
    metadata = {"name": "hooked", "namespace": "default"}
    tree = {"apiVersion": "shop.example.dev/v1", "kind": "Website", "metadata": metadata, "spec": {"image": "nginx"}}
    with program([target], kube.kubeconfig, tmp_path, **url):
        found = asyncio.run(wait_for(kube.kubeconfig, tree, lambda one: "status" in one.tree))
    assert found.tree["spec"]["image"] in {"nginx:latest", "nginx"}


@pytest.mark.parametrize("name", ["01_kinds.py", "04_streams.py"])
def test_an_example_that_needs_no_cluster_runs_beside_one(name: str, kube: KubeCluster, tmp_path: Path) -> None:
    environment = {**os.environ, "KUBECONFIG": str(kube.kubeconfig)}
    command = [sys.executable, str(EXAMPLES / name)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, bool(done.stdout)) == (0, True), done.stderr


def test_an_exploration_runs_while_the_kubeconfig_names_a_real_cluster(kube: KubeCluster, tmp_path: Path) -> None:
    (tmp_path / "exploring.py").write_text(EXPLORATION, "utf-8")
    shown = levelset("explore", "exploring.py", "--budget", "20", kubeconfig=kube.kubeconfig, folder=tmp_path)
    assert "no failures" in shown or "0 failures" in shown


EXPLORATION = f"""
import importlib.util
import sys

spec = importlib.util.spec_from_file_location("hello", {str(EXAMPLES / "02_hello.py")!r})
hello = importlib.util.module_from_spec(spec)
sys.modules["hello"] = hello
spec.loader.exec_module(hello)

from levelset import Controller
from levelset.testing.explore import Exploration


async def scenario(cluster):
    await cluster.create(hello.Greeting.new("you", hello.GreetingSpec(name="you")))
    await cluster.settled()


def controllers():
    return [Controller(hello.Greeting, hello.greet)]


exploration = Exploration(scenario, controllers)
"""
