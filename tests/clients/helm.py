"""helm: a release of the small chart beside this file is installed, upgraded, rolled back and uninstalled.

`python -m tests.clients.helm /path/to/helm`, with KUBECONFIG set. Helm stores its releases in Secrets.
"""

import base64
import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from levelset.objects.yaml_codec import read_yaml
from tests.clients.verbs import Plain, restart, verb
from tests.clients.workloads import playing_workloads

CHART = str(Path(__file__).parent / "chart")
PACKAGING = Path(__file__).parents[2] / "packaging"
NAMESPACE = "with-helm"
CORE = f"/api/v1/namespaces/{NAMESPACE}"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/shop"
GADGET = f"/apis/shop.example.com/v1/namespaces/{NAMESPACE}/gadgets/shop"
WITHIN = 60
WAIT = ("--wait", "--timeout", "30s")


class Helm:
    """One helm in one namespace."""

    def __init__(self, program: str) -> None:
        self._program = program

    def __call__(self, *arguments: str, fails: bool = False) -> str:
        """Runs a command and returns its output."""
        command = [self._program, "-n", NAMESPACE, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN, check=False)
        print(" ".join(arguments), done.stdout, done.stderr, sep="\n", file=sys.stderr)
        if (done.returncode != 0) is not fails:
            raise RuntimeError(f"{' '.join(arguments)}: exit code {done.returncode}: {done.stderr or done.stdout}")
        return done.stderr if fails else done.stdout

    def read(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "-o", "json"))

    def history(self) -> list[tuple[int, str]]:
        return [(row["revision"], row["status"]) for row in self.read("history", "shop")]


def containers(plain: Plain) -> dict[str, str]:
    found = plain.must("GET", DEPLOYMENT)["spec"]["template"]["spec"]["containers"]
    return {item["name"]: item["image"] for item in found}


def password(plain: Plain) -> str:
    word: str = plain.must("GET", f"{CORE}/secrets/shop")["data"]["password"]
    return word


def records(plain: Plain) -> dict[str, str]:
    """The release Secrets of helm: the version and the status of each release."""
    listed = plain.must("GET", f"{CORE}/secrets?labelSelector=owner%3Dhelm,name%3Dshop")["items"]
    assert all(item["type"] == "helm.sh/release.v1" for item in listed), listed
    return {item["metadata"]["labels"]["version"]: item["metadata"]["labels"]["status"] for item in listed}


def install(helm: Helm, plain: Plain) -> None:
    with verb("install"):
        said = helm("install", "shop", CHART, *WAIT)
        assert "shop runs example/shop:1 on Kubernetes 1." in said, said
        assert containers(plain) == {"web": "example/shop:1", "side": "example/side:1"}
        assert plain.must("GET", GADGET)["spec"] == {"color": "red"}
        assert plain.has(f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/shop-migrate"), "the hook did not run"
        assert records(plain) == {"1": "deployed"}, records(plain)
        encoded = plain.must("GET", f"{CORE}/secrets/sh.helm.release.v1.shop.v1")["data"]["release"]
        release = json.loads(gzip.decompress(base64.b64decode(base64.b64decode(encoded))))
        assert (release["name"], release["version"]) == ("shop", 1), release["name"]
    with verb("list"):
        assert [row["name"] for row in helm.read("list")] == ["shop"]
        assert helm.read("status", "shop")["info"]["status"] == "deployed"
        assert "kind: Gadget" in helm("get", "manifest", "shop")
        assert "in use" in helm("install", "shop", CHART, fails=True)


def upgrade(helm: Helm, plain: Plain) -> None:
    merge = "application/merge-patch+json"
    with verb("upgrade"):
        before = password(plain)
        # Fields that the chart does not set stay; objects that it no longer contains are deleted.
        plain.must("PATCH", DEPLOYMENT, {"metadata": {"annotations": {"note": "mine"}}}, merge)
        new = ("--set", "image=example/shop:2,greeting=ciao,extra=false,gadget=blue")
        dry = helm("upgrade", "shop", CHART, *new, "--dry-run=server")
        assert "example/shop:2" in dry, dry
        assert containers(plain)["web"] == "example/shop:1"
        helm("upgrade", "shop", CHART, *new, *WAIT)
        assert containers(plain) == {"web": "example/shop:2"}, containers(plain)
        assert plain.must("GET", DEPLOYMENT)["metadata"]["annotations"]["note"] == "mine"
        assert plain.must("GET", f"{CORE}/configmaps/shop")["data"] == {"greeting": "ciao", "revision": "2"}
        assert not plain.has(f"{CORE}/configmaps/shop-extra"), "it is not in the chart any more"
        assert plain.must("GET", GADGET)["spec"] == {"color": "blue"}
        assert password(plain) == before, "the template looked for the Secret and did not find it"
        assert records(plain) == {"1": "superseded", "2": "deployed"}, records(plain)
    with verb("refused"):
        said = helm("upgrade", "shop", CHART, "--set", "gadget=green", fails=True)
        assert "Unsupported value" in said, said
        assert records(plain)["3"] == "failed"
    with verb("history"):
        assert helm.history() == [(1, "superseded"), (2, "deployed"), (3, "failed")], helm.history()


def roll_back(helm: Helm, plain: Plain) -> None:
    with verb("rollback"):
        helm("rollback", "shop", "1", *WAIT)
        assert containers(plain) == {"web": "example/shop:1", "side": "example/side:1"}, containers(plain)
        assert plain.has(f"{CORE}/configmaps/shop-extra")
        assert plain.must("GET", GADGET)["spec"] == {"color": "red"}
        assert [number for number, _ in helm.history()] == [1, 2, 3, 4]
        assert records(plain)["4"] == "deployed", records(plain)
    with verb("restart"):
        restart()
        assert [row["revision"] for row in helm.read("list")] == ["4"]
        helm("upgrade", "shop", CHART, "--reuse-values", "--set", "replicas=3", "--history-max", "2", *WAIT)
        assert plain.must("GET", DEPLOYMENT)["status"]["readyReplicas"] == 3
        assert sorted(records(plain)) == ["4", "5"], records(plain)


def uninstall(helm: Helm, plain: Plain) -> None:
    with verb("uninstall"):
        helm("uninstall", "shop", *WAIT)
        assert helm.read("list") == [], "a release is left"
        assert records(plain) == {}
        paths = (DEPLOYMENT, GADGET, *(f"{CORE}/{kind}/shop" for kind in ("configmaps", "secrets", "services")))
        assert not [path for path in paths if plain.has(path)]
        crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gadgets.shop.example.com"
        assert plain.has(crd), "definitions stay, as the objects of others could be lost with them"


def servers(helm: Helm, plain: Plain) -> None:
    """The chart of the API server itself: valid, and the plain manifests are what it makes."""
    with verb("own chart"):
        chart = str(PACKAGING / "chart")
        helm("lint", chart, "--strict")
        made = helm("template", "levelset", chart, "--namespace", "levelset")
        written = (PACKAGING / "kubernetes/levelset.yaml").read_text()
        assert _objects(made) == _objects(written), "packaging/kubernetes/levelset.yaml is not what the chart makes"
        options = "etcd.tlsSecret=,tokensSecret=tokens,rbac=false,podDisruptionBudget=false,certificateNames={a,b}"
        other = _objects(helm("template", "other", chart, "--set", options))
        (deployment,) = [tree for tree in other.values() if tree["kind"] == "Deployment"]
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        assert {"--tls-san=a", "--token-file=/etc/levelset/tokens/tokens"} <= set(container["args"])
        assert "--rbac" not in container["args"]
        helm("install", "apiserver", chart, *WAIT)
        assert plain.must("GET", f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/apiserver")["spec"]["replicas"] == 3
        helm("uninstall", "apiserver", *WAIT)


def _objects(text: str) -> dict[str, Any]:
    return {f"{tree['kind']}/{tree['metadata']['name']}": tree for tree in read_yaml(text.encode()) if tree}


def main(program: str) -> None:
    helm, plain = Helm(program), Plain()
    plain.make_namespace(NAMESPACE)
    with playing_workloads(NAMESPACE):
        for part in (install, upgrade, roll_back, uninstall, servers):
            part(helm, plain)


if __name__ == "__main__":
    main(sys.argv[1])
