"""SocketProber: checks over HTTP, TCP and by commands always return a result."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from levelset.http import CertificateAuthority
from levelset_machine.network import free_port
from levelset_machine.probes import ExecCheck, HttpCheck, ProbeResult, SocketProber, TcpCheck
from levelset_machine.process import Command, Machine

HOME = "127.0.0.1"
PROBER = SocketProber()


@asynccontextmanager
async def answering(*parts: bytes, hangs: bool = False, secure: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """A server that reads a request, sends `parts`, and closes the connection or hangs."""
    requests_received.clear()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            requests_received.append(await reader.readuntil(b"\r\n\r\n"))
            for part in parts:
                writer.write(part)
            await writer.drain()
            if hangs:
                await reader.read()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(serve, HOME, 0, ssl=secure)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await asyncio.sleep(0)


requests_received: list[bytes] = []


async def probe(port: int, path: str = "/", *, prober: SocketProber = PROBER, seconds: float = 5.0) -> ProbeResult:
    return await prober.probe(HttpCheck(f"http://{HOME}:{port}{path}"), timeout=seconds)


@pytest.mark.parametrize(
    ("status", "outcome", "for_kubelet"),
    [
        (200, "Success", "Success"),
        (204, "Success", "Success"),
        (299, "Success", "Success"),
        (301, "Unknown", "Success"),
        (399, "Unknown", "Success"),
        (400, "Failure", "Failure"),
        (503, "Failure", "Failure"),
        (101, "Failure", "Failure"),
    ],
)
async def test_the_status_decides_and_redirects_succeed_if_configured(
    status: int, outcome: str, for_kubelet: str
) -> None:
    async with answering(f"HTTP/1.1 {status} Said\r\nContent-Length: 0\r\n\r\n".encode()) as port:
        result = await probe(port)
        assert (result.outcome, str(status) in result.reason) == (outcome, True)
        assert (await probe(port, prober=SocketProber(redirects_succeed=True))).outcome == for_kubelet


@pytest.mark.parametrize(
    "body",
    [
        b"Content-Length: 5\r\n\r\nhello",
        b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        b"Content-Length: 999999999\r\n\r\n" + b"x" * 20_000,
        b"Transfer-Encoding: chunked\r\n\r\nfffff\r\n" + b"x" * 20_000,
        b"\r\n" + b"x" * 20_000,
        b"\r\nHTTP/1.1 200 OK\r\n\r\n" + b"x" * 20_000,
    ],
)
async def test_a_body_is_read_to_its_end_or_to_ten_kilobytes_and_no_further(body: bytes) -> None:
    async with answering(b"HTTP/1.1 200 OK\r\n", body, hangs=True) as port:
        assert (await probe(port)).outcome == "Success"


async def test_interim_responses_are_skipped() -> None:
    async with answering(b"HTTP/1.1 103 Hints\r\n\r\nHTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n") as port:
        assert "500" in (await probe(port)).reason


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-hello\r\n\r\n",
        b"HTTP/1.1 \xff\xff OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000,
    ],
)
async def test_an_invalid_response_is_a_failure(answer: bytes) -> None:
    async with answering(answer) as port:
        result = await probe(port)
        assert result.outcome == "Failure"
        assert str(port) in result.reason


@pytest.mark.parametrize("so_far", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort"])
async def test_the_timeout_covers_the_whole_request(so_far: bytes) -> None:
    async with answering(so_far, hangs=True) as port:
        result = await probe(port, seconds=0.05)
    assert result == ProbeResult("Failure", f"http://{HOME}:{port}/ did not answer within 0.05 s")


async def test_headers_are_sent_and_may_replace_the_defaults() -> None:
    check = HttpCheck("", headers=(("Host", "web.example"), ("X-Token", "t"), ("user-agent", "me")))
    async with answering(b"HTTP/1.0 200 OK\r\n\r\n") as port:
        await PROBER.probe(HttpCheck(f"http://{HOME}:{port}/a?b=c", check.headers, "HEAD"), timeout=60)
    lines = requests_received[0].decode().split("\r\n")
    assert lines[0] == "HEAD /a?b=c HTTP/1.1"
    assert sorted(lines[1:-2]) == [
        "Accept: */*",
        "Connection: close",
        "Host: web.example",
        "X-Token: t",
        "user-agent: me",
    ]


@pytest.mark.parametrize(
    "check",
    [
        HttpCheck("ftp://127.0.0.1/"),
        HttpCheck("http:///nowhere"),
        HttpCheck("http://127.0.0.1:99999/"),
        HttpCheck("http://[broken/"),
        HttpCheck("nonsense"),
        HttpCheck("http://127.0.0.1/a b"),
        HttpCheck("http://127.0.0.1/", headers=(("X", "a\r\nY: b"),)),
        HttpCheck("http://127.0.0.1/", method="GET / HTTP/1.1\r\n"),
    ],
)
async def test_an_invalid_request_is_a_failure(check: HttpCheck) -> None:
    assert (await PROBER.probe(check, timeout=60)).outcome == "Failure"


async def test_a_refused_connection_is_a_failure() -> None:
    port = free_port()
    assert (await probe(port)).outcome == "Failure"
    assert (await PROBER.probe(TcpCheck(HOME, port), timeout=60)).outcome == "Failure"
    assert (await PROBER.probe(TcpCheck(HOME, 99999), timeout=60)).outcome == "Failure"


async def test_a_connection_is_enough_for_a_tcp_check() -> None:
    async with answering() as port:
        assert (await PROBER.probe(TcpCheck(HOME, port), timeout=60)).outcome == "Success"


def untrusted_server() -> ssl.SSLContext:
    authority = CertificateAuthority.create("untrusted")
    return authority.server_context(authority.issue_server(("elsewhere.example",), ()))


async def test_an_untrusted_certificate_is_accepted() -> None:
    secure = await asyncio.to_thread(untrusted_server)
    async with answering(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", secure=secure) as port:
        assert (await PROBER.probe(HttpCheck(f"https://{HOME}:{port}/"), timeout=60)).outcome == "Success"


async def run_check(*argv: str, seconds: float = 10.0) -> ProbeResult:
    async with Machine() as machine:
        command = Command(argv=argv, env={"PATH": "/usr/bin:/bin"})
        return await SocketProber(machine).probe(ExecCheck(command), timeout=seconds)


async def test_the_exit_code_of_a_command_decides() -> None:
    assert (await run_check("true")).outcome == "Success"
    result = await run_check("sh", "-c", "echo the disk; echo is full >&2; exit 3")
    assert result.outcome == "Failure"
    assert "exit code 3: the disk is full" in result.reason


async def test_a_command_that_exceeds_the_timeout_is_a_failure_and_is_killed() -> None:
    assert await run_check("sleep", "60", seconds=0.1) == ProbeResult("Failure", "sleep did not end within 0.1 s")


async def test_a_missing_command_is_a_failure_and_without_a_runner_the_result_is_unknown() -> None:
    assert (await run_check("no-such-program")).outcome == "Failure"
    check = ExecCheck(Command(argv=("true",), env={}))
    assert (await SocketProber().probe(check, timeout=1)).outcome == "Unknown"
