"""Operators written in Go and in Rust: two replicas of each reconcile their own kind against our server.

`python -m tests.clients.operators go /path/to/program`, with KUBECONFIG set. The sources are in `go-operator` and
`rust-operator`; nothing in them is specific to this server. The server has RBAC enabled, and the operator uses a
service account with the permissions of the `role.yaml` beside its sources.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.clients.verbs import Plain, restart, until, verb

HERE = Path(__file__).parent
MERGE = "application/merge-patch+json"
Tree = dict[str, Any]


@dataclass(frozen=True)
class Operator:
    """An operator, its kind, the field of the spec to change, and the field of the child that must follow it."""

    name: str
    kind: str
    plural: str
    field: str
    children: str
    said_by: Callable[[Tree], str]

    @property
    def group(self) -> str:
        return f"{self.name}.example.com"

    @property
    def namespace(self) -> str:
        return f"{self.name}-work"

    @property
    def registry(self) -> str:
        return f"{self.name}-registry"

    def path(self, name: str = "") -> str:
        return f"/apis/{self.group}/v1/namespaces/{self.namespace}/{self.plural}/{name}".rstrip("/")

    def child(self, name: str) -> str:
        return f"{self.children.format(self.namespace)}/{name}"

    def entry(self, name: str) -> str:
        return f"/api/v1/namespaces/{self.registry}/configmaps/{self.namespace}.{name}"

    def make(self, name: str, word: str) -> Tree:
        spec = {self.field: word}
        return {"apiVersion": f"{self.group}/v1", "kind": self.kind, "metadata": {"name": name}, "spec": spec}

    def define(self, program: str) -> Tree:
        """Its CRD: from a file, or printed by the program itself."""
        if self.name == "go":
            made: Tree = yaml.safe_load((HERE / "go-operator/crd.yaml").read_text())
        else:
            made = json.loads(subprocess.run([program, "crd"], capture_output=True, check=True, timeout=30).stdout)
        return made


def image_of(child: Tree) -> str:
    image: str = child["spec"]["template"]["spec"]["containers"][0]["image"]
    return image


OPERATORS = {
    "go": Operator("go", "Site", "sites", "image", "/apis/apps/v1/namespaces/{}/deployments", image_of),
    "rust": Operator(
        *("rust", "Note", "notes", "text", "/api/v1/namespaces/{}/configmaps"),
        said_by=lambda child: child["data"]["text"],
    ),
}


class Replicas:
    """The running processes of an operator."""

    def __init__(self, program: str, plain: Plain, operator: Operator, kubeconfig: Path) -> None:
        self._program = program
        self._environment = os.environ | {"KUBECONFIG": str(kubeconfig)}
        self._plain = plain
        self._leases = f"/apis/coordination.k8s.io/v1/namespaces/{operator.registry}/leases"
        self.running: list[subprocess.Popen[bytes]] = []

    def start(self) -> "subprocess.Popen[bytes]":
        process = subprocess.Popen([self._program], env=self._environment, stdout=sys.stderr, stdin=subprocess.DEVNULL)
        self.running.append(process)
        return process

    def holder(self) -> str:
        """The holder of the only Lease; empty if there is none."""
        leases = self._plain.must("GET", self._leases)["items"]
        assert len(leases) <= 1, leases
        return (leases[0]["spec"].get("holderIdentity") or "") if leases else ""

    def all_alive(self) -> bool:
        return all(each.poll() is None for each in self.running)

    def kill(self, replica: "subprocess.Popen[bytes]") -> None:
        """Kills one replica, as a lost node would: it does not release its Lease."""
        replica.send_signal(signal.SIGKILL)
        replica.wait()
        self.running.remove(replica)

    def end(self) -> list[int]:
        """Terminates the remaining replicas as a cluster does, and returns their exit codes."""
        for each in self.running:
            each.terminate()
        return [each.wait(30) for each in self.running]


def reconcile(plain: Plain, operator: Operator) -> None:
    def read(name: str) -> Any:
        return plain.must("GET", operator.path(name))

    def says(name: str, word: str) -> bool:
        return (read(name).get("status") or {}).get(operator.field) == word

    def events() -> list[tuple[str, str]]:
        listed = plain.must("GET", f"/api/v1/namespaces/{operator.namespace}/events")["items"]
        return [(item["reason"], item["message"]) for item in listed if item["involvedObject"]["name"] == "one"]

    with verb("create"):
        plain.must("POST", operator.path(), operator.make("one", "first"))
        until(lambda: plain.has(operator.child("one")))
        [owner] = plain.must("GET", operator.child("one"))["metadata"]["ownerReferences"]
        made = read("one")
        assert (owner["kind"], owner["uid"], owner["controller"]) == (operator.kind, made["metadata"]["uid"], True)
        assert plain.has(operator.entry("one")), "the registry has no entry"
    with verb("status"):
        until(lambda: says("one", "first"))
        made = read("one")
        assert made["status"]["observedGeneration"] == made["metadata"]["generation"] == 1, made
    with verb("events"):
        until(lambda: any(reason == "Deployed" and "first" in said for reason, said in events()))
    with verb("apply-ssa"):
        # A field of another manager in the child stays as it is when the operator applies its own fields again.
        plain.must("PATCH", operator.child("one"), {"metadata": {"annotations": {"note": "mine"}}}, MERGE)
        plain.must("PATCH", operator.path("one"), {"spec": {operator.field: "second"}}, MERGE)
        until(lambda: operator.said_by(plain.must("GET", operator.child("one"))) == "second")
        until(lambda: says("one", "second"))
        metadata = plain.must("GET", operator.child("one"))["metadata"]
        assert metadata["annotations"]["note"] == "mine", metadata
        applied = [entry["manager"] for entry in metadata["managedFields"] if entry["operation"] == "Apply"]
        assert applied == [f"{operator.name}-operator"], metadata["managedFields"]
    with verb("watch"):
        before = plain.must("GET", operator.child("one"))["metadata"]["uid"]
        plain.must("DELETE", operator.child("one"))
        until(lambda: plain.has(operator.child("one")))  # it watches its children, and recreates them
        assert plain.must("GET", operator.child("one"))["metadata"]["uid"] != before
    finish(plain, operator, events)


def finish(plain: Plain, operator: Operator, events: Callable[[], list[tuple[str, str]]]) -> None:
    with verb("finalizer"):
        finalizers = plain.must("GET", operator.path("one"))["metadata"]["finalizers"]
        assert finalizers == [f"{operator.group}/registered"], finalizers
        plain.must("DELETE", operator.path("one"))
        plain.wait_gone(operator.path("one"))
        assert not plain.has(operator.entry("one")), "it is gone, but not from the registry"
        until(lambda: "Unregistered" in [reason for reason, _ in events()])
    with verb("delete-background"):
        plain.wait_gone(operator.child("one"))


def lead(plain: Plain, operator: Operator, replicas: Replicas) -> None:
    """One of two replicas leads; when it is killed, the other one takes over and finishes the work."""
    with verb("leader"):
        first = replicas.running[0]
        holder = until(replicas.holder)
        second = replicas.start()
        plain.must("POST", operator.path(), operator.make("led", "first"))
        until(lambda: plain.has(operator.child("led")))
        assert replicas.holder() == holder
        assert second.poll() is None
        replicas.kill(first)
        plain.must("PATCH", operator.path("led"), {"spec": {operator.field: "second"}}, MERGE)
        until(lambda: replicas.holder() not in ("", holder), within=40)
        until(lambda: operator.said_by(plain.must("GET", operator.child("led"))) == "second")


def survive(plain: Plain, operator: Operator, replicas: Replicas) -> None:
    with verb("restart"):
        holder = replicas.holder()
        restart()
        plain.must("POST", operator.path(), operator.make("again", "first"))
        until(lambda: plain.has(operator.child("again")), within=40)
        assert replicas.all_alive(), "the operator ended when the server was started again"
        assert replicas.holder() == holder
        for name in ("led", "again"):
            plain.must("DELETE", operator.path(name))
            plain.wait_gone(operator.path(name))
            plain.wait_gone(operator.child(name))


@contextmanager
def running(program: str, plain: Plain, operator: Operator, kubeconfig: Path) -> Iterator[Replicas]:
    replicas = Replicas(program, plain, operator, kubeconfig)
    try:
        replicas.start()
        yield replicas
    finally:
        codes = replicas.end()
    with verb("end"):
        assert codes == [0], codes


def make_account(plain: Plain, operator: Operator) -> Path:
    """A service account with the role of the operator; a kubeconfig with a token of it."""
    name, roles = f"{operator.name}-operator", "/apis/rbac.authorization.k8s.io/v1"
    accounts = f"/api/v1/namespaces/{operator.registry}/serviceaccounts"
    plain.must("POST", accounts, {"metadata": {"name": name}})
    plain.must("POST", f"{roles}/clusterroles", yaml.safe_load((HERE / name / "role.yaml").read_text()))
    subject = {"kind": "ServiceAccount", "namespace": operator.registry, "name": name}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    binding = {"metadata": {"name": name}, "subjects": [subject], "roleRef": role}
    plain.must("POST", f"{roles}/clusterrolebindings", binding)
    token = plain.must("POST", f"{accounts}/{name}/token", {"spec": {"expirationSeconds": 3600}})["status"]["token"]
    owner = Path(os.environ["KUBECONFIG"])
    config = yaml.safe_load(owner.read_text())
    config["users"][0]["user"] = {"token": token}
    made = owner.with_name("operator.kubeconfig")
    made.write_text(yaml.safe_dump(config))
    return made


def check_bounds(kubeconfig: Path, operator: Operator) -> None:
    with verb("roles"):
        account = Plain(str(kubeconfig))
        assert account("GET", operator.path())[0] == 200
        assert account("GET", f"/api/v1/namespaces/{operator.registry}/secrets")[0] == 403
        assert account("DELETE", operator.path("one"))[0] == 403


def main(name: str, program: str) -> None:
    plain, operator = Plain(), OPERATORS[name]
    plain.must("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", operator.define(program))
    plain.make_namespace(operator.namespace)
    plain.make_namespace(operator.registry)
    kubeconfig = make_account(plain, operator)
    check_bounds(kubeconfig, operator)
    with running(program, plain, operator, kubeconfig) as replicas:
        reconcile(plain, operator)
        lead(plain, operator, replicas)
        survive(plain, operator, replicas)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
