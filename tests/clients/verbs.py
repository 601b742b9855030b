"""Shared by all client scripts: reports of verbs, test objects, and a plain HTTP client to check results.

It needs nothing but the standard library and PyYAML, because it runs in the environment of each client.
"""

import base64
import json
import os
import ssl
import sys
import tempfile
import time
import traceback
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

__all__ = [
    "CERTIFICATES",
    "GROUP",
    "OURS",
    "Plain",
    "configmap",
    "definition",
    "deployment",
    "owned",
    "restart",
    "skip",
    "until",
    "verb",
    "widget",
]

CERTIFICATES = "kube-root-ca.crt"
"""A ConfigMap that every namespace has, and that comes back when it is deleted."""
OURS = f"metadata.name!={CERTIFICATES}"
"""The field selector of all other ConfigMaps."""
GROUP = "clients.example.com"
_PATIENCE = 15.0
Tree = dict[str, Any]


@contextmanager
def verb(name: str) -> Iterator[None]:
    """Runs one verb and prints its result on one line; a failure does not end the script."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whatever a client raises is its verdict
        traceback.print_exc(file=sys.stderr)
        lines = f"{type(error).__name__}: {error}".strip().splitlines()
        print(f"VERB\t{name}\tFAILED\t{' '.join(lines)[:300]}", flush=True)
    else:
        print(f"VERB\t{name}\tok\t", flush=True)


def skip(name: str, reason: str) -> None:
    """Reports that a client does not support a verb, and why."""
    print(f"VERB\t{name}\t-\t{reason}", flush=True)


def restart() -> None:
    """Has the server stopped and started again on the same data; returns when it is ready."""
    print("RESTART", flush=True)
    if sys.stdin.readline().strip() != "ready":
        raise RuntimeError("the server did not come back")


def until(what: Callable[[], Any], *, within: float = _PATIENCE) -> Any:
    """Calls `what` until it returns a true value, and returns that."""
    deadline = time.monotonic() + within
    while not (found := what()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{getattr(what, '__name__', 'it')} did not happen within {within} s")
        time.sleep(0.02)
    return found


def configmap(name: str, **data: str) -> Tree:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def widget(name: str, **spec: Any) -> Tree:
    return {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec}


def owned(tree: Tree, owner: Tree) -> Tree:
    """The object with an owner that its deletion in the foreground waits for."""
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "blockOwnerDeletion": True}
    reference |= {"name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
    return tree | {"metadata": tree["metadata"] | {"ownerReferences": [reference]}}


def deployment(name: str) -> Tree:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "example/web:1"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "labels": labels}, "spec": spec}


def definition() -> Tree:
    """Widgets: a custom resource with status, scale, a printer column and documentation for `explain`."""
    fields = {
        "color": {"type": "string", "description": "What it looks like."},
        "replicas": {"type": "integer", "default": 1},
    }
    preserved = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}, "status": preserved}}
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}, "scale": scale},
        "additionalPrinterColumns": [{"name": "Color", "type": "string", "jsonPath": ".spec.color"}],
    }
    names = {
        "plural": "widgets",
        "singular": "widget",
        "kind": "Widget",
        "listKind": "WidgetList",
        "shortNames": ["wd"],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{GROUP}"},
        "spec": {"group": GROUP, "names": names, "scope": "Namespaced", "versions": [version]},
    }


class Plain:
    """A minimal client on urllib, which prepares objects for a client under test and checks the results."""

    def __init__(self, kubeconfig: str | None = None) -> None:
        config = yaml.safe_load(Path(kubeconfig or os.environ["KUBECONFIG"]).read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self.url: str = cluster["server"]
        authority = cluster.get("certificate-authority-data")
        self._tls = ssl.create_default_context(cadata=base64.b64decode(authority).decode() if authority else None)
        self._token: str | None = user.get("token")
        if self._token is None:
            self._show_certificate(user)

    def __call__(self, method: str, path: str, tree: Any = None, kind: str = "application/json") -> tuple[int, Any]:
        """Sends one request; returns the status code and the response."""
        request = urllib.request.Request(self.url + path, method=method)
        if self._token:
            request.add_header("Authorization", f"Bearer {self._token}")
        if tree is not None:
            request.data = json.dumps(tree).encode()
            request.add_header("Content-Type", kind)
        try:
            with urllib.request.urlopen(request, context=self._tls, timeout=_PATIENCE) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"null")

    def must(self, method: str, path: str, tree: Any = None, kind: str = "application/json") -> Any:
        """Sends one request that has to succeed."""
        status, answer = self(method, path, tree, kind)
        if status >= 300:
            raise RuntimeError(f"{method} {path} answered {status}: {answer}")
        return answer

    def make_namespace(self, name: str) -> str:
        """Creates a namespace; returns its path."""
        self.must("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        return f"/api/v1/namespaces/{name}"

    def has(self, path: str) -> bool:
        return self("GET", path)[0] == 200

    def wait_gone(self, path: str) -> None:
        """Waits until there is nothing at the path."""
        until(lambda: not self.has(path))

    def define(self) -> None:
        """Installs the CRD of widgets, unless it exists."""
        self("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition())

    def _show_certificate(self, user: Tree) -> None:
        with tempfile.TemporaryDirectory() as folder:
            parts = [Path(folder) / name for name in ("cert", "key")]
            for part, key in zip(parts, ("client-certificate-data", "client-key-data"), strict=True):
                part.touch(mode=0o600)
                part.write_bytes(base64.b64decode(user[key]))
            self._tls.load_cert_chain(parts[0], parts[1])
