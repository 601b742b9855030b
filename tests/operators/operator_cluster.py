"""An operator of another project in a cluster of ours: its own manifests, its own program, RBAC as it asks for it."""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeVar

import yaml
from scripts.kube_binaries import build as build_kube
from scripts.levelset_server import ROOT, run_levelset

__all__ = ["OperatorCluster", "Refused", "open_cluster", "render_chart", "render_kustomization"]

T = TypeVar("T")

Tree = dict[str, Any]
_PATIENCE: Final = 240.0
_CLUSTER_SCOPED: Final = ("ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "Namespace")
_LOGS: Final = ROOT / "build" / "operators"


class Refused(Exception):
    """kubectl ended with an error; the message is what it wrote."""


class OperatorCluster:
    """kubectl on a server with a data plane; as the owner, or as a service account."""

    def __init__(self, kubeconfig: Path, kubectl: Path) -> None:
        self._kubeconfig = kubeconfig
        self._kubectl = kubectl

    def kubectl(self, *arguments: str, given: str | None = None) -> str:
        """What kubectl writes; raises `Refused`."""
        command = [str(self._kubectl), f"--kubeconfig={self._kubeconfig}", *arguments]
        done = subprocess.run(command, input=given, capture_output=True, text=True, check=False, timeout=2 * _PATIENCE)
        if done.returncode:
            raise Refused(done.stderr.strip())
        return done.stdout

    def install(self, objects: Sequence[Tree]) -> None:
        """Applies manifests as they are: definitions first, then all others when those are served."""
        definitions = [one for one in objects if one["kind"] == "CustomResourceDefinition"]
        self.apply([one for one in objects if one["kind"] == "Namespace"])
        self.apply(definitions)
        for one in definitions:
            self.kubectl("wait", "--for=condition=Established", "--timeout=60s", f"crd/{one['metadata']['name']}")
        self.apply([one for one in objects if one["kind"] not in ("Namespace", "CustomResourceDefinition")])

    def apply(self, objects: Sequence[Tree]) -> None:
        """Server-side apply: the annotation of the client side has no room for large definitions."""
        if objects:
            arguments = ("apply", "--server-side", "--force-conflicts", "-f", "-")
            self.kubectl(*arguments, given=yaml.safe_dump_all(objects))

    def create(self, tree: Tree) -> Tree:
        """Creates an object; returns what the server has made of it."""
        made: Tree = json.loads(self.kubectl("create", "-o", "json", "-f", "-", given=json.dumps(tree)))
        return made

    def get(self, what: str, name: str, namespace: str = "default") -> Tree | None:
        """An object; None if there is none."""
        found = self.kubectl("get", what, name, "-n", namespace, "--ignore-not-found", "-o", "json")
        return json.loads(found) if found else None

    def status(self, what: str, name: str, namespace: str = "default") -> Tree:
        """The status of an object; empty if there is none yet."""
        found: Tree = (self.get(what, name, namespace) or {}).get("status") or {}
        return found

    def find_all(self, what: str, namespace: str = "default", selector: str = "") -> list[Tree]:
        """The objects of a namespace."""
        found = self.kubectl(
            "get", what, "-n", namespace, "-o", "json", *([f"--selector={selector}"] if selector else [])
        )
        items: list[Tree] = json.loads(found)["items"]
        return items

    def wait(self, what: Callable[[], T | None], within: float = _PATIENCE) -> T:
        """Waits until there is something; AssertionError if there is nothing in time."""
        limit = time.monotonic() + within
        while not (found := what()):
            assert time.monotonic() < limit, f"nothing within {within:g} s"
            time.sleep(0.5)
        return found

    def wait_available(self, deployment: str, namespace: str) -> None:
        """Waits until a Deployment is available: its program runs, and its readiness probe succeeds."""
        self.kubectl(
            "wait",
            "--for=condition=Available",
            f"--timeout={_PATIENCE:.0f}s",
            f"deployment/{deployment}",
            "-n",
            namespace,
        )

    def lease_holder(self, namespace: str) -> str:
        """Who holds the Lease of the operator in a namespace; waits until there is one."""

        def holder() -> str | None:
            found = [one["spec"].get("holderIdentity") for one in self.find_all("leases", namespace)]
            return next((one for one in found if one), None)

        return self.wait(holder)


@contextmanager
def open_cluster(name: str, images: Mapping[str, Sequence[str]]) -> Generator[OperatorCluster]:
    """Runs `levelset up --rbac` with Pods as processes, the given images as programs; its log is kept."""
    _LOGS.mkdir(parents=True, exist_ok=True)
    environment = {"LEVELSET_OPERATOR_IMAGES": json.dumps({image: list(words) for image, words in images.items()})}
    command = ["up", "tests.operators.data_plane", "--rbac", "--dashboard", "no"]
    program = shutil.which("kubectl")
    kubectl = Path(program) if program else build_kube(["kubectl"])["kubectl"]
    with TemporaryDirectory() as place:
        try:
            with run_levelset(command, Path(place), environment) as kubeconfig:
                cluster = OperatorCluster(kubeconfig, kubectl)
                try:
                    yield cluster
                finally:
                    _write_pod_logs(cluster, name)
        finally:
            shutil.copy(Path(place) / "server.log", _LOGS / f"{name}-server.log")


def _write_pod_logs(cluster: OperatorCluster, name: str) -> None:
    """Keeps the logs of all Pods: what an operator says is the first thing to read when its test fails."""
    with (_LOGS / f"{name}-pods.log").open("w", encoding="utf-8") as output:
        for pod in json.loads(cluster.kubectl("get", "pods", "-A", "-o", "json"))["items"]:
            meta = pod["metadata"]
            output.write(f"== {meta['namespace']}/{meta['name']}: {json.dumps(pod['status'])}\n")
            try:
                output.write(cluster.kubectl("logs", meta["name"], "-n", meta["namespace"], "--all-containers"))
            except Refused as error:
                output.write(f"{error}\n")
        output.write(cluster.kubectl("get", "events", "-A"))


def render_kustomization(folder: Path) -> list[Tree]:
    """The objects of a kustomization."""
    program = shutil.which("kubectl")
    kubectl = Path(program) if program else build_kube(["kubectl"])["kubectl"]
    done = subprocess.run([kubectl, "kustomize", str(folder)], capture_output=True, text=True, check=True)
    return [one for one in yaml.safe_load_all(done.stdout) if one]


def render_chart(helm: Path, chart: Path, release: str, namespace: str, *values: str) -> list[Tree]:
    """The objects of a chart, its definitions among them."""
    command = [str(helm), "template", release, str(chart), "--namespace", namespace, "--include-crds"]
    command += [word for one in values for word in ("--set", one)]
    environment = {**os.environ, "HELM_DATA_HOME": os.devnull}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Refused(done.stderr)
    space: Tree = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    objects = [one for one in yaml.safe_load_all(done.stdout) if one]
    for one in objects:
        if one["kind"] not in _CLUSTER_SCOPED:
            one["metadata"].setdefault("namespace", namespace)  # as helm does it when it installs
    return [space, *objects]
