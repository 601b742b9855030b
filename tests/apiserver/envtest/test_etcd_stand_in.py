"""The stand-in for etcd: what envtest asks of it."""

import os
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from levelset.apiserver.envtest import etcd_stand_in
from levelset.apiserver.envtest.etcd_stand_in import listen_address, respond


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize(
    ("given", "address"),
    [
        (["--listen-client-urls=http://127.0.0.1:4001", "--data-dir=/tmp/x"], ("127.0.0.1", 4001)),
        (["--listen-client-urls", "http://localhost:4001,http://10.0.0.1:1"], ("127.0.0.1", 4001)),
        (["--listen-client-urls=http://[::1]:4001/"], ("::1", 4001)),
        ([], ("127.0.0.1", 2379)),
    ],
)
def test_it_listens_where_the_flag_says(given: list[str], address: tuple[str, int]) -> None:
    assert listen_address(given) == address


def test_a_url_without_a_port_is_an_error() -> None:
    with pytest.raises(ValueError, match="give a URL with a port"):
        listen_address(["--listen-client-urls=http://localhost"])


def test_it_is_healthy_and_has_nothing_else() -> None:
    assert respond(b"GET /health HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 200 OK")
    assert respond(b"GET /v3/kv HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 404")
    assert respond(b"").startswith(b"HTTP/1.1 404")


def test_it_answers_the_health_check_until_a_signal_and_imports_no_package() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    program = Path(etcd_stand_in.__file__)
    command = [sys.executable, "-I", "-S", "-X", "importtime", str(program), f"--listen-client-urls={url}"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            imported = ""
            while "socket" not in imported.rsplit("|", maxsplit=1)[-1]:
                imported += process.stderr.readline()
            body = b""
            while not body and process.poll() is None:
                try:
                    with urllib.request.urlopen(f"{url}/health", timeout=5) as answer:
                        body = answer.read()
                except OSError:
                    os.sched_yield()
            assert body == b'{"health":"true","reason":""}'
            process.send_signal(signal.SIGTERM)
            assert process.wait(10) == 0
            imported += process.stderr.read()
        finally:
            process.kill()
    assert [name for name in ("levelset", "asyncio", "http", "typing", "re") if f"| {name}\n" in imported] == []
