"""kubectl, in any version: common commands and their output.

`python -m tests.clients.kubectl /path/to/kubectl`, with KUBECONFIG set.
"""

import json
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from tests.clients.verbs import GROUP, Plain, configmap, deployment, owned, skip, until, verb, widget

WITHIN = 30
GENERATED = Path(__file__).parents[1] / "codegen" / "golden"


class Kubectl:
    """One kubectl in one namespace."""

    def __init__(self, program: str) -> None:
        self.program = program
        self.version = self._find_version()
        self.namespace = f"kubectl-{self.version[0]}-{self.version[1]}"

    def __call__(self, *arguments: str, tree: Any = None, fails: bool = False) -> str:
        """Runs a command and returns its output; `tree` is its standard input."""
        command = [self.program, "-n", self.namespace, *arguments]
        given = None if tree is None else json.dumps(tree)
        done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=WITHIN, check=False)
        if (done.returncode != 0) is not fails:
            raise RuntimeError(f"{' '.join(arguments)}: exit code {done.returncode}: {done.stderr or done.stdout}")
        return done.stderr if fails else done.stdout

    def get(self, *arguments: str) -> Any:
        return json.loads(self("get", *arguments, "-o", "json"))

    def has(self, thing: str) -> bool:
        return self("get", thing, "--ignore-not-found", "-o", "name") != ""

    def wait_gone(self, thing: str) -> None:
        until(lambda: not self.has(thing))

    def watch(self, what: str, wanted: str) -> None:
        """Runs `get --watch` until a line contains `wanted`, which happens while it watches."""
        command = [self.program, "-n", self.namespace, "get", what, "--watch"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            killer = threading.Timer(WITHIN, process.kill)
            killer.start()
            assert process.stdout is not None
            try:
                next(process.stdout)  # the heading: the list is printed, the watch follows
                self("create", "-f", "-", tree=configmap(wanted))
                found = any(wanted in line for line in process.stdout)
            finally:
                killer.cancel()
                process.kill()
        check(found, f"no line with {wanted}")

    def _find_version(self) -> tuple[int, int]:
        text = subprocess.run(
            [self.program, "version", "--client", "-o", "json"],
            capture_output=True,
            text=True,
            timeout=WITHIN,
            check=True,
        ).stdout
        version = json.loads(text)["clientVersion"]
        return int(version["major"]), int(re.sub(r"\D", "", version["minor"]))


def check(holds: object, what: object) -> None:
    if not holds:
        raise AssertionError(f"not as expected: {what}")


def read(kubectl: Kubectl) -> None:
    with verb("create"):
        kubectl("create", "-f", "-", tree=configmap("one", k="1"))
        kubectl("create", "-f", "-", tree=deployment("web"))
        kubectl("create", "-f", "-", tree=widget("w", color="red"))
        check("AlreadyExists" in kubectl("create", "-f", "-", tree=configmap("one"), fails=True), "second create")
    with verb("get"):
        check(kubectl.get("configmap", "one")["data"] == {"k": "1"}, "the data of one")
        check("red" in kubectl("get", "wd", "w"), "the column Color")
        check("0/1" in kubectl("get", "deploy", "web"), "the column READY")
        check("NotFound" in kubectl("get", "cm", "none", fails=True), "NotFound")
    with verb("list"):
        found = kubectl.get("cm,deploy,widgets", "-l", "app=web")["items"]
        check([item["kind"] for item in found] == ["Deployment"], found)
        check(kubectl.get("cm", "--field-selector", "metadata.name=one", "-A")["items"], "by field")
        check("widgets" in kubectl("api-resources", "--api-group", GROUP), "api-resources")
    with verb("describe"):
        check("Replicas:" in kubectl("describe", "deployment", "web"), "describe deployment")
        check("Color:" in kubectl("describe", "widget", "w"), "describe widget")
    with verb("watch"):
        kubectl.watch("configmaps", "watched")


def change(kubectl: Kubectl) -> None:
    with verb("apply"):
        for tree, changed in ((configmap("a", k="1"), configmap("a", k="2")), (widget("a", color="red"), widget("a"))):
            outcomes = [kubectl("apply", "-f", "-", tree=each).split()[-1] for each in (tree, tree, changed)]
            check(outcomes == ["created", "unchanged", "configured"], outcomes)
        check("color" not in kubectl.get("widget", "a")["spec"], "a field that is not applied any more goes away")
        check(kubectl("diff", "-f", "-", tree=configmap("a", k="2")) == "", "diff")
    with verb("apply-ssa"):
        mine = ("apply", "--server-side", "-f", "-")
        check("serverside-applied" in kubectl(*mine, tree=configmap("s", k="1")), "applied")
        other = (*mine, "--field-manager", "other")
        check("conflict" in kubectl(*other, tree=configmap("s", k="2"), fails=True), "a conflict is reported")
        kubectl(*other, "--force-conflicts", tree=configmap("s", k="2"))
        check(kubectl.get("cm", "s")["data"] == {"k": "2"}, "force takes the field")
        kubectl(*mine, tree=widget("s", color="blue"))
    with verb("patch"):
        kubectl("patch", "cm", "one", "--type", "merge", "-p", '{"data":{"m":"1"}}')
        kubectl("patch", "cm", "one", "--type", "json", "-p", '[{"op":"add","path":"/data/j","value":"1"}]')
        main = '{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"example/side:1"}]}}}}'
        kubectl("patch", "deploy", "web", "--type", "strategic", "-p", main)
        containers = kubectl.get("deploy", "web")["spec"]["template"]["spec"]["containers"]
        check(sorted(item["name"] for item in containers) == ["main", "side"], containers)
        check(kubectl.get("cm", "one")["data"].keys() == {"k", "m", "j"}, "both patches")
        kubectl("label", "cm", "one", "color=red")
        kubectl("annotate", "cm", "one", "note=yes")
    with verb("scale"):
        kubectl("scale", "deployment", "web", "--replicas", "3")
        kubectl("scale", "widget", "w", "--replicas", "4")
        counts = [kubectl.get(kind, name)["spec"]["replicas"] for kind, name in (("deploy", "web"), ("widget", "w"))]
        check(counts == [3, 4], counts)


def make(kubectl: Kubectl) -> None:
    """Objects that `kubectl create` generates; from 1.32 on it may send them as protobuf."""
    with verb("make"):
        kubectl("create", "configmap", "made", "--from-literal", "k=v")
        check(kubectl.get("cm", "made")["data"] == {"k": "v"}, "create configmap")
        kubectl("create", "secret", "generic", "made", "--from-literal", "k=v")
        kubectl("create", "serviceaccount", "made")
        kubectl("create", "deployment", "made", "--image", "example/made:1")
        kubectl("create", "role", "made", "--verb", "get", "--resource", "pods")
        kubectl("create", "rolebinding", "made", "--role", "made", "--user", "alice")
        kubectl("create", "job", "made", "--image", "example/made:1")
        kubectl("run", "made", "--image", "example/made:1")
        kubectl("expose", "deployment", "made", "--port", "80")
        check(kubectl.get("service", "made")["spec"]["ports"][0]["port"] == 80, "expose")
        kubectl("set", "image", "deployment/made", "made=example/made:2")
        kubectl("autoscale", "deployment", "made", "--min", "1", "--max", "3")
        kubectl("delete", "deployment,service,job,hpa,role,rolebinding", "made")


def review_own_access(kubectl: Kubectl) -> None:
    with verb("auth"):
        check("yes" in kubectl("auth", "can-i", "create", "pods"), "auth can-i")
        check("*.*" in kubectl("auth", "can-i", "--list"), "auth can-i --list")
        if kubectl.version >= (1, 28):  # earlier versions use an API that Kubernetes has removed
            check("levelset-admin" in kubectl("auth", "whoami"), "auth whoami")
    with verb("absent"):
        check("runs no containers" in kubectl("logs", "made", fails=True), "logs says why there are none")
        check("Metrics API not available" in kubectl("top", "pods", fails=True), "top says what is missing")
        kubectl("delete", "pod", "made", "--grace-period=0", "--force")


def review_access(kubectl: Kubectl) -> None:
    with verb("explain"):
        check("What it looks like." in kubectl("explain", "widget.spec.color"), "explain widget")
        check("integer" in kubectl("explain", "deployment.spec.replicas"), "explain deployment")
    with verb("wait"):
        ready = kubectl.get("widget", "w") | {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
        path = f"/apis/{GROUP}/v1/namespaces/{kubectl.namespace}/widgets/w/status"
        kubectl("replace", "--raw", path, "-f", "-", tree=ready)
        kubectl("wait", "--for", "condition=Ready", "widget/w", "--timeout", "10s")
        kubectl("patch", "cm", "watched", "--type", "merge", "-p", '{"metadata":{"finalizers":["example.com/hold"]}}')
        kubectl("delete", "cm", "watched", "--wait=false")
        command = [
            kubectl.program,
            "-n",
            kubectl.namespace,
            "wait",
            "--for",
            "delete",
            "cm/watched",
            "--timeout",
            "10s",
        ]
        late = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        kubectl("get", "cm", "watched")  # time for the wait to begin
        kubectl("patch", "cm", "watched", "--type", "merge", "-p", '{"metadata":{"finalizers":null}}')
        check(late.wait(WITHIN) == 0, "wait --for delete")
    with verb("events"):
        involved = {"kind": "Widget", "namespace": kubectl.namespace, "name": "w", "apiVersion": f"{GROUP}/v1"}
        involved["uid"] = kubectl.get("widget", "w")["metadata"]["uid"]
        event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "type": "Normal", "reason": "Painted"}
        kubectl("create", "-f", "-", tree=event | {"involvedObject": involved, "message": "it is red now", "count": 1})
        check("Painted" in kubectl("get", "events"), "get events")
        check("it is red now" in kubectl("describe", "widget", "w"), "describe shows its events")
        if kubectl.version >= (1, 26):
            check("Painted" in kubectl("events", "--for", "widget/w"), "events --for")


def use_generated(kubectl: Kubectl) -> None:
    """Generated CRDs in kubectl: explain, apply, printer columns, and rejection of invalid objects."""
    if kubectl.version < (1, 21):
        skip("generated", "the kustomize in it does not know `replicas`, which our overlays have")
        return
    with verb("generated"):
        kubectl("apply", "-f", str(GENERATED / "shops.trade.example.dev.yaml"))
        kubectl("wait", "--for", "condition=Established", "crd/shops.trade.example.dev")
        check("Where it listens." in kubectl("explain", "shops.spec.ports.number"), "the words under an attribute")
        check("-required-" in kubectl("explain", "shops.spec"), "image is required")
        shop = {"apiVersion": "trade.example.dev/v1", "kind": "Shop", "metadata": {"name": "corner"}}
        kubectl("apply", "-f", "-", tree={**shop, "spec": {"image": "shop:1"}})
        check("REPLICAS" in kubectl("get", "sh"), "the columns")
        check("red" in kubectl("get", "sh", "-o", "wide"), "the default, in a column of the wide table")
        kubectl("scale", "shop/corner", "--replicas", "2")
        wrong = {**shop, "spec": {"image": "shop:1", "replicas": -1}}
        said = kubectl("apply", "--dry-run=server", "-f", "-", tree=wrong, fails=True)
        check("spec.replicas" in said, said)
        kubectl("-n", "sites-system", "apply", "-k", str(GENERATED / "kustomize/overlays/default"))
        check(kubectl("-n", "sites-system", "get", "deploy,svc,pdb,netpol", "-o", "name").count("/sites") == 4, "all")


def remove(kubectl: Kubectl) -> None:
    for policy in ("background", "foreground", "orphan"):
        with verb(f"delete-{policy}"):
            kubectl("create", "-f", "-", tree=configmap(f"{policy}-owner"))
            owner = kubectl.get("cm", f"{policy}-owner")
            kubectl("create", "-f", "-", tree=owned(configmap(f"{policy}-child"), owner))
            kubectl("delete", "cm", f"{policy}-owner", f"--cascade={policy}")
            if policy == "orphan":
                left = until(lambda: child_of(kubectl, "orphan-child"))
                check("ownerReferences" not in left["metadata"], left)
            else:
                kubectl.wait_gone(f"cm/{policy}-child")
    with verb("delete-all"):
        kubectl("delete", "cm,widgets,deploy", "--all")
        kubectl("delete", "namespace", kubectl.namespace)
        check(not kubectl.has(f"namespace/{kubectl.namespace}"), "the namespace is gone")


def child_of(kubectl: Kubectl, name: str) -> Any:
    child = kubectl.get("cm", name)
    return child if "ownerReferences" not in child["metadata"] else None


def main() -> None:
    kubectl = Kubectl(sys.argv[1])
    Plain().define()
    kubectl("create", "namespace", kubectl.namespace)
    for part in (read, change, make, review_access, review_own_access, use_generated, remove):
        part(kubectl)


if __name__ == "__main__":
    main()
