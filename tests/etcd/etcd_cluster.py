"""Real etcd clusters on loopback: processes in a temporary folder, on free ports."""

import asyncio
import http.client
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp

__all__ = ["EtcdCluster", "EtcdMember", "free_ports", "run_cluster", "start_cluster"]

_PATIENCE = 30.0
# Becomes the program that its arguments name, and ends with this process, however that ends. Not a function between
# fork and exec: another thread may hold a lock there.
_DIES_WITH_PARENT = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
os.execv(sys.argv[1], sys.argv[1:])
"""


def free_ports(number: int) -> list[int]:
    """Ports of loopback that are free now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports: list[int] = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class EtcdMember:
    """One etcd process; it can be killed, stopped for a while, and started again on its data."""

    def __init__(
        self, binary: Path, name: str, folder: Path, client: int, peer: int, peers: str, options: Sequence[str]
    ) -> None:
        scheme = "https" if "--cert-file" in options else "http"
        self.port = client
        self.url = f"{scheme}://127.0.0.1:{client}"
        self._log = folder / f"{name}.log"
        self._command = [
            *(sys.executable, "-S", "-c", _DIES_WITH_PARENT),
            str(binary),
            *("--name", name, "--data-dir", str(folder / name)),
            *("--listen-client-urls", self.url, "--advertise-client-urls", self.url),
            *("--listen-peer-urls", f"http://127.0.0.1:{peer}"),
            *("--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}"),
            *("--initial-cluster", peers, "--logger", "zap", "--log-level", "warn"),
            *("--heartbeat-interval", "50", "--election-timeout", "500"),
            *options,
        ]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process, while it runs."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, process_group=0)

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
            self._process.wait(_PATIENCE)
            self._process = None

    def pause(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def log(self) -> str:
        return self._log.read_text()[-2000:] if self._log.exists() else ""


class EtcdCluster:
    """The members of a cluster."""

    def __init__(self, binary: Path, size: int, folder: Path, options: Sequence[str]) -> None:
        self.binary = binary
        ports = free_ports(2 * size)
        peers = ",".join(f"m{number}=http://127.0.0.1:{ports[size + number]}" for number in range(size))
        self.members = [
            EtcdMember(binary, f"m{number}", folder, ports[number], ports[size + number], peers, options)
            for number in range(size)
        ]

    @property
    def endpoints(self) -> str:
        return ",".join(member.url for member in self.members)

    def wait_ready(self) -> None:
        """Waits until every running member listens."""
        deadline = time.monotonic() + _PATIENCE
        for member in self.members:
            while not _listens(member.port):
                assert time.monotonic() < deadline, f"etcd does not start: {member.log()}"
                time.sleep(0.02)

    def leader(self) -> EtcdMember:
        """The member that leads, by its metrics."""
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            for member in self.members:
                connection = http.client.HTTPConnection("127.0.0.1", member.port, timeout=1)
                with suppress(OSError, http.client.HTTPException), closing(connection):
                    connection.request("GET", "/metrics")
                    if b"\netcd_server_is_leader 1\n" in connection.getresponse().read():
                        return member
            time.sleep(0.05)
        raise AssertionError("the cluster has no leader")


@contextmanager
def run_cluster(binary: Path, size: int = 1, options: Sequence[str] = ()) -> Iterator[EtcdCluster]:
    """A running cluster, whose processes and files are gone afterwards."""
    folder = Path(mkdtemp(prefix="levelset-etcd-"))
    cluster = EtcdCluster(binary, size, folder, options)
    try:
        for member in cluster.members:
            member.start()
        cluster.wait_ready()
        yield cluster
    finally:
        for member in cluster.members:
            member.kill()
        shutil.rmtree(folder, ignore_errors=True)


@asynccontextmanager
async def start_cluster(binary: Path, options: Sequence[str]) -> AsyncIterator[EtcdCluster]:
    """A running cluster of one member with these options, for a test with a running event loop."""
    running = run_cluster(binary, options=options)
    cluster = await asyncio.to_thread(running.__enter__)
    try:
        yield cluster
    finally:
        await asyncio.to_thread(running.__exit__, None, None, None)


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=0.5):
        return True
    return False
