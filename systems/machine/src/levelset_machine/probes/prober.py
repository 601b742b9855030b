"""One health check of a running program: an HTTP request, a TCP connection, or a command."""

import contextlib
from collections.abc import Sequence
from typing import Final, Literal, Protocol

from msgspec import Struct

from levelset.aio import timing
from levelset_machine.logs import LogOptions, LogStore
from levelset_machine.probes.http_client import BODY_LIMIT, NoAnswer, connect, fetch_status
from levelset_machine.process import CannotStart, Command, Run, Runner, StopFailed

__all__ = [
    "Check",
    "ExecCheck",
    "HttpCheck",
    "Outcome",
    "ProbeResult",
    "Prober",
    "SocketProber",
    "TcpCheck",
    "exit_code_result",
    "http_status_result",
]

Outcome = Literal["Success", "Failure", "Unknown"]

_KEY: Final = "check"
_MAX_OUTPUT: Final = 200
"""How many characters of a command's output are part of a reason."""


class HttpCheck(Struct, frozen=True):
    """Requests a URL, `http` or `https`; like a kubelet, it does not verify the certificate."""

    url: str
    headers: Sequence[tuple[str, str]] = ()
    method: str = "GET"


class TcpCheck(Struct, frozen=True):
    """Opens a connection, and closes it."""

    host: str
    port: int


class ExecCheck(Struct, frozen=True):
    """Runs a command; exit code 0 means success."""

    command: Command


Check = HttpCheck | TcpCheck | ExecCheck


class ProbeResult(Struct, frozen=True):
    """The result of one check; `reason` is a sentence for people, also after a success."""

    outcome: Outcome
    reason: str


class Prober(Protocol):
    """Carries out checks: a SocketProber, or a FakeMachine in tests."""

    async def probe(self, check: Check, *, timeout: float) -> ProbeResult:  # noqa: ASYNC109 -- part of the check
        """The result, after `timeout` seconds at most; raises nothing but a cancellation."""
        ...


class SocketProber(Prober):
    """Carries out checks with sockets and processes.

    A status of 200 to 299 is a success, of 400 and above a failure. A redirect is never followed: it is unknown, or,
    with `redirects_succeed`, a success as for a kubelet. Commands are run by the `runner`; without one, ExecChecks are
    unknown.
    """

    def __init__(self, runner: Runner | None = None, *, redirects_succeed: bool = False) -> None:
        self._runner = runner
        self._redirects_succeed = redirects_succeed

    async def probe(self, check: Check, *, timeout: float) -> ProbeResult:  # noqa: ASYNC109 -- part of the check
        """The result, after `timeout` seconds, or when a command that exceeded them has been killed."""
        match check:
            case ExecCheck(command):
                return await self._run(command, timeout)
            case HttpCheck() | TcpCheck():
                return await self._connect(check, timeout)

    async def _connect(self, check: HttpCheck | TcpCheck, seconds: float) -> ProbeResult:
        try:
            async with timing.within(seconds):
                if isinstance(check, TcpCheck):
                    await connect(check.host, check.port)
                    return ProbeResult("Success", f"{check.host}:{check.port} accepts connections")
                status = await fetch_status(check.url, headers=check.headers, method=check.method)
                return http_status_result(status, redirects_succeed=self._redirects_succeed)
        except TimeoutError:
            return ProbeResult("Failure", f"{_target(check)} did not answer within {seconds:g} s")
        except (NoAnswer, OSError, OverflowError, UnicodeError) as error:  # also an invalid port or host
            return ProbeResult("Failure", f"{_target(check)} cannot be reached: {error}")

    async def _run(self, command: Command, seconds: float) -> ProbeResult:
        if self._runner is None:
            return ProbeResult("Unknown", "a command cannot be run: the SocketProber was created without a runner")
        logs = LogStore(None)
        sink = logs.open(_KEY)
        try:
            run = self._runner.start(command, out=sink)
        except CannotStart as error:
            sink.close()
            return ProbeResult("Failure", str(error))
        try:
            code = await _wait_code(run, seconds)
        finally:
            with contextlib.suppress(StopFailed):  # the result is known; nothing more can be done here
                await self._runner.stop(run, grace=0.0)
        return exit_code_result(command.argv[0], code, seconds=seconds, printed=await _printed(logs))


def http_status_result(status: int, *, redirects_succeed: bool = False) -> ProbeResult:
    """The result for the status of an HTTP response."""
    if 200 <= status < 300 or (redirects_succeed and 300 <= status < 400):
        return ProbeResult("Success", f"answered with status {status}")
    if 300 <= status < 400:
        return ProbeResult("Unknown", f"answered with status {status}, and redirects are not followed")
    return ProbeResult("Failure", f"answered with status {status}")


def exit_code_result(name: str, code: int | None, *, seconds: float, printed: str = "") -> ProbeResult:
    """The result for the exit code of a command; None means that it did not end in time."""
    if code is None:
        return ProbeResult("Failure", f"{name} did not end within {seconds:g} s")
    if code == 0:
        return ProbeResult("Success", f"{name} ended with exit code 0")
    output = f": {printed}" if printed else ""
    return ProbeResult("Failure", f"{name} ended with exit code {code}{output}")


def _target(check: HttpCheck | TcpCheck) -> str:
    return check.url if isinstance(check, HttpCheck) else f"{check.host}:{check.port}"


async def _wait_code(run: Run, seconds: float) -> int | None:
    try:
        async with timing.within(seconds):
            return (await run.wait()).code
    except TimeoutError:
        return None


async def _printed(logs: LogStore) -> str:
    """The beginning of a command's output, on one line."""
    found = b"".join([part async for part in logs.read(_KEY, LogOptions(limit_bytes=BODY_LIMIT))])
    return " ".join(found.decode(errors="replace").split())[:_MAX_OUTPUT]
