"""A real control plane on loopback: etcd and kube-apiserver in a temporary folder, on free ports.

`make test-kube` names the programs in LEVELSET_TEST_KUBE; without it they are those that were built before.
"""

import atexit
import csv
import json
import os
import shutil
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from scripts.kube_binaries import CACHE, ETCD_VERSION, KUBERNETES_VERSION

from levelset.apiserver import ConnectionInfo, write_kubeconfig
from levelset.http import CertificateAuthority
from levelset.http.private_files import write_private
from tests.etcd.etcd_cluster import free_ports, run_cluster

__all__ = ["PROGRAMS", "KubeCluster", "run_kube", "shared_kube"]

_GIVEN = dict(line.split("=", 1) for line in os.environ.get("LEVELSET_TEST_KUBE", "").split())
PROGRAMS = {
    "kube-apiserver": Path(_GIVEN.get("kube-apiserver", CACHE / f"kube-apiserver-{KUBERNETES_VERSION}")),
    "etcd": Path(_GIVEN.get("etcd", CACHE / f"etcd-{ETCD_VERSION}")),
}

_PATIENCE = 120.0
# Becomes the program that its arguments name, and ends with this process, however that ends.
_DIES_WITH_PARENT = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
os.execv(sys.argv[1], sys.argv[1:])
"""
_TOKENS = {"admin": ("system:masters",), "anne": ()}


@dataclass(frozen=True, slots=True)
class KubeCluster:
    """A running kube-apiserver: `kubeconfig` is that of an administrator; `tokens` are by user."""

    url: str
    ca: bytes
    kubeconfig: Path
    tokens: dict[str, str]
    version: str
    process: "subprocess.Popen[bytes]"

    def kubeconfig_of(self, user: str, path: Path) -> Path:
        """Writes the kubeconfig of another user: `anne` may do nothing that RBAC does not allow her."""
        write_kubeconfig(path, ConnectionInfo(self.url, self.tokens[user], self.ca))
        return path


@cache
def shared_kube() -> KubeCluster:
    """One control plane for all tests of this process, until it ends; skips the test if it was not built."""
    if missing := [str(path) for path in PROGRAMS.values() if not path.exists()]:
        pytest.skip(f"there is no {' and no '.join(missing)}: run make test-kube, which builds them")
    stack = ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(run_kube(PROGRAMS["kube-apiserver"], PROGRAMS["etcd"]))


@contextmanager
def run_kube(kube_apiserver: Path, etcd: Path) -> Iterator[KubeCluster]:
    """A ready control plane, whose processes and files are gone afterwards.

    RBAC authorizes; there is no controller manager, so the ServiceAccount plugin is off, owned objects are not garbage
    collected, and a namespace that is deleted stays in Terminating.
    """
    folder = Path(mkdtemp(prefix="levelset-kube-"))
    try:
        with run_cluster(etcd, options=["--unsafe-no-fsync"]) as cluster:
            yield from _run_apiserver(kube_apiserver, cluster.endpoints, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run_apiserver(binary: Path, etcd: str, folder: Path) -> Iterator[KubeCluster]:
    authority = CertificateAuthority.create("levelset tests")
    tokens = _write_files(authority, folder)
    (port,) = free_ports(1)
    log = folder / "kube-apiserver.log"
    with log.open("ab") as output:
        command = [sys.executable, "-S", "-c", _DIES_WITH_PARENT, str(binary), *_flags(etcd, port, folder)]
        process = subprocess.Popen(command, stdout=output, stderr=output, process_group=0)
    try:
        url = f"https://127.0.0.1:{port}"
        version = _wait_ready(url, tokens["admin"], authority, process, log)
        kubeconfig = folder / "admin.kubeconfig"
        write_kubeconfig(kubeconfig, ConnectionInfo(url, tokens["admin"], authority.certificate))
        yield KubeCluster(url, authority.certificate, kubeconfig, tokens, version, process)
    finally:
        process.kill()
        process.wait(30)


def _write_files(authority: CertificateAuthority, folder: Path) -> dict[str, str]:
    """Writes certificates, the keys of service accounts and the file of tokens; returns the tokens by user."""
    names = ["localhost", "kubernetes", "kubernetes.default.svc"]
    authority.issue_server(names, ["127.0.0.1"]).save(folder / "server.crt", folder / "server.key")
    write_private(folder / "ca.crt", authority.certificate)
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    write_private(folder / "accounts.key", private)
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    write_private(folder / "accounts.pub", public)
    tokens = {user: f"{user}-{folder.name}" for user in _TOKENS}
    write_private(folder / "tokens.csv", b"")
    with (folder / "tokens.csv").open("w", newline="") as file:
        for user, groups in _TOKENS.items():
            csv.writer(file).writerow([tokens[user], user, user, ",".join(groups)])
    return tokens


def _flags(etcd: str, port: int, folder: Path) -> Sequence[str]:
    options = {
        "etcd-servers": etcd,
        "bind-address": "127.0.0.1",
        "advertise-address": "127.0.0.1",
        "secure-port": port,
        "tls-cert-file": folder / "server.crt",
        "tls-private-key-file": folder / "server.key",
        "cert-dir": folder,
        "client-ca-file": folder / "ca.crt",
        "token-auth-file": folder / "tokens.csv",
        "authorization-mode": "RBAC",
        "service-account-issuer": "https://kubernetes.default.svc",
        "service-account-key-file": folder / "accounts.pub",
        "service-account-signing-key-file": folder / "accounts.key",
        "service-cluster-ip-range": "10.96.0.0/16",
        "disable-admission-plugins": "ServiceAccount",
        "endpoint-reconciler-type": "none",
    }
    return [f"--{name}={value}" for name, value in options.items()]


def _wait_ready(
    url: str, token: str, authority: CertificateAuthority, process: "subprocess.Popen[bytes]", log: Path
) -> str:
    """Waits until the server is ready and returns its version."""
    context = authority.client_context()
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            _get(f"{url}/readyz", token, context)
            version: dict[str, Any] = json.loads(_get(f"{url}/version", token, context))
            return str(version["gitVersion"])
        except OSError as error:
            code = process.poll()
            if code is not None or time.monotonic() > deadline:
                why = f"it ended with code {code}" if code is not None else f"{error} after {_PATIENCE:g} s"
                raise AssertionError(f"kube-apiserver is not ready: {why}\n{log.read_text()[-3000:]}") from error
        time.sleep(0.1)


def _get(url: str, token: str, context: ssl.SSLContext) -> bytes:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=10, context=context) as response:
        found: bytes = response.read()
    return found
