"""Runs kube-apiserver on etcd, on loopback: the server whose answers are recorded.

Both are built by `kube_binaries.py` on first use. There is one user, of the group system:masters; no controllers run,
and the admission plugins are those of the conformance kit (the default ones without ServiceAccount).
"""

import http.client
import json
import secrets
import socket
import ssl
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from scripts.kube_binaries import build

__all__ = ["Reply", "Server", "serve"]

_PATIENCE: Final = 120.0
_STOP_SECONDS: Final = 10.0
_USERNAME: Final = "admin"


class Reply(NamedTuple):
    """The answer to a request: status code and decoded body."""

    code: int
    body: Any


class Server:
    """A client of the server: one connection, and the token of its administrator."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url
        self.token = token
        self._connection: http.client.HTTPSConnection | None = None

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> Reply:
        """Sends a request; an answer with an error is returned as any other."""
        if self._connection is None:
            self._connection = self.connect()
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": content_type, "Accept": accept}
        data = None if body is None else json.dumps(body).encode()
        try:
            self._connection.request(method, path, data, headers)
            answer = self._connection.getresponse()
            return Reply(answer.status, _decode(answer.read()))
        except (OSError, http.client.HTTPException):
            self._connection.close()
            self._connection = None
            raise

    def connect(self) -> http.client.HTTPSConnection:
        """A new connection, for requests that are sent in another way."""
        host, _, port = self.url.removeprefix("https://").partition(":")
        return http.client.HTTPSConnection(host, int(port), timeout=60, context=_unverified())


@contextmanager
def serve(folder: Path | None = None, service_ranges: str = "10.96.0.0/16") -> Generator[Server]:
    """Starts etcd and kube-apiserver with an empty store; both are stopped at the end."""
    programs = build()
    with TemporaryDirectory(dir=folder) as place:
        home = Path(place)
        client, peer, secure = _free_port(), _free_port(), _free_port()
        endpoint = f"http://127.0.0.1:{client}"
        server = Server(f"https://127.0.0.1:{secure}", secrets.token_hex(16))
        processes = [_start_etcd(programs["etcd"], home, endpoint, f"http://127.0.0.1:{peer}")]
        try:
            processes.append(_start_kube_apiserver(programs["kube-apiserver"], home, endpoint, server, service_ranges))
            _wait_ready(server, processes)
            yield server
        finally:
            for process in reversed(processes):
                _stop(process)


def _start_etcd(program: Path, home: Path, client: str, peer: str) -> subprocess.Popen[bytes]:
    flags = [f"--data-dir={home / 'etcd'}", f"--listen-client-urls={client}", f"--advertise-client-urls={client}"]
    flags += [f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}"]
    flags += [f"--initial-cluster=default={peer}", "--unsafe-no-fsync", "--log-level=error"]
    return _start(program, flags, home / "etcd.log")


def _start_kube_apiserver(
    program: Path, home: Path, etcd: str, server: Server, service_ranges: str
) -> subprocess.Popen[bytes]:
    tokens, key = home / "tokens.csv", home / "service-accounts.key"
    tokens.write_text(f"{server.token},{_USERNAME},{_USERNAME},system:masters\n")
    tokens.chmod(0o600)
    subprocess.run(["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True)
    flags = [
        f"--etcd-servers={etcd}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={server.url.rpartition(':')[2]}",
        f"--cert-dir={home / 'certificates'}",
        f"--token-auth-file={tokens}",
        "--authorization-mode=RBAC",
        "--allow-privileged=true",
        f"--service-cluster-ip-range={service_ranges}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={key}",
        f"--service-account-signing-key-file={key}",
        "--disable-admission-plugins=ServiceAccount",
        "--endpoint-reconciler-type=none",
    ]
    return _start(program, flags, home / "kube-apiserver.log")


def _start(program: Path, flags: list[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as output:
        return subprocess.Popen([str(program), *flags], stdout=output, stderr=subprocess.STDOUT)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Ends a process; nothing in its store is needed any more, so one that hangs is killed."""
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(_PATIENCE)


def _wait_ready(server: Server, processes: list[subprocess.Popen[bytes]]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        ended = [process.args for process in processes if process.poll() is not None]
        if ended:
            raise RuntimeError(f"{ended[0]!r} ended before it was ready")
        try:
            if server.request("GET", "/readyz").code == 200:
                return
        except (OSError, http.client.HTTPException):
            pass
        time.sleep(0.2)
    raise RuntimeError(f"kube-apiserver is not ready after {_PATIENCE:.0f} s")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _unverified() -> ssl.SSLContext:
    # The server makes a certificate for itself at its start, and listens on loopback only.
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _decode(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return body.decode(errors="replace")
