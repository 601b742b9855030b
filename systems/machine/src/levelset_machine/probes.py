"""One question to a running program, are you well: over HTTP, by a connection, or by running a command."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from levelset.aio import timing
from levelset_machine.command import CannotStart, Command
from levelset_machine.logoptions import LogOptions
from levelset_machine.logs import LogStore
from levelset_machine.probes_http import BODY_LIMIT, NoAnswer, connect, fetch_status
from levelset_machine.runner import Run, Runner, StopFailed

__all__ = [
    "Check",
    "ExecCheck",
    "HttpCheck",
    "Outcome",
    "Prober",
    "SocketProber",
    "TcpCheck",
    "Verdict",
    "judge_code",
    "judge_status",
]

Outcome = Literal["Success", "Failure", "Unknown"]

_KEY: Final = "check"
_TOLD: Final = 200
"""How many characters of what a command printed are part of a reason."""


@dataclass(frozen=True, slots=True)
class HttpCheck:
    """Asks a URL; `http` or `https`, whose certificate is not verified, as it is not by a kubelet."""

    url: str
    headers: Sequence[tuple[str, str]] = ()
    method: str = "GET"


@dataclass(frozen=True, slots=True)
class TcpCheck:
    """Opens a connection, and closes it again."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class ExecCheck:
    """Runs a command, which says by its exit code how things are."""

    command: Command


Check = HttpCheck | TcpCheck | ExecCheck


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of one check; the reason is a sentence for people, also after a success."""

    outcome: Outcome
    reason: str


class Prober(Protocol):
    """Whoever can carry out checks: the machine, or somebody who pretends."""

    async def probe(self, check: Check, *, timeout: float) -> Verdict:  # noqa: ASYNC109 -- part of what is asked
        """The verdict, after `timeout` seconds at most; it raises nothing but a cancellation."""
        ...


class SocketProber(Prober):
    """Carries out checks for real.

    An answer of 200 to 299 is a success, of 400 and above a failure. One of 300 to 399 says that somebody else should
    be asked: it is unknown, or, with `redirects_succeed`, a success as for a kubelet; it is never followed. Commands
    are run by the `runner`; without one they cannot be.
    """

    def __init__(self, runner: Runner | None = None, *, redirects_succeed: bool = False) -> None:
        self._runner = runner
        self._redirects_succeed = redirects_succeed

    async def probe(self, check: Check, *, timeout: float) -> Verdict:  # noqa: ASYNC109 -- part of what is asked
        """The verdict, after `timeout` seconds at most, or as soon as a command that is too slow is gone."""
        match check:
            case ExecCheck(command):
                return await self._run(command, timeout)
            case HttpCheck() | TcpCheck():
                return await self._ask(check, timeout)

    async def _ask(self, check: HttpCheck | TcpCheck, seconds: float) -> Verdict:
        try:
            async with timing.within(seconds):
                if isinstance(check, TcpCheck):
                    await connect(check.host, check.port)
                    return Verdict("Success", f"{check.host}:{check.port} takes connections")
                status = await fetch_status(check.url, headers=check.headers, method=check.method)
                return judge_status(status, redirects_succeed=self._redirects_succeed)
        except TimeoutError:
            return Verdict("Failure", f"{_place(check)} did not answer within {seconds:g} s")
        except (NoAnswer, OSError, OverflowError, UnicodeError) as error:  # a port, a host that is none
            return Verdict("Failure", f"{_place(check)} cannot be reached: {error}")

    async def _run(self, command: Command, seconds: float) -> Verdict:
        if self._runner is None:
            return Verdict("Unknown", "a command cannot be run: the prober was made without a runner")
        logs = LogStore(None)
        sink = logs.open(_KEY)
        try:
            run = self._runner.start(command, out=sink)
        except CannotStart as error:
            sink.close()
            return Verdict("Failure", str(error))
        try:
            code = await _wait_code(run, seconds)
        finally:
            with contextlib.suppress(StopFailed):  # the verdict is known; what cannot be killed cannot be helped here
                await self._runner.stop(run, grace=0.0)
        return judge_code(command.argv[0], code, seconds=seconds, printed=await _printed(logs))


def judge_status(status: int, *, redirects_succeed: bool = False) -> Verdict:
    """What the status of an HTTP answer means."""
    if 200 <= status < 300 or (redirects_succeed and 300 <= status < 400):
        return Verdict("Success", f"answered with status {status}")
    if 300 <= status < 400:
        return Verdict("Unknown", f"answered with status {status}, and redirects are not followed")
    return Verdict("Failure", f"answered with status {status}")


def judge_code(name: str, code: int | None, *, seconds: float, printed: str = "") -> Verdict:
    """What the exit code of a command means; None if it did not end in time."""
    if code is None:
        return Verdict("Failure", f"{name} did not end within {seconds:g} s")
    if code == 0:
        return Verdict("Success", f"{name} ended with exit code 0")
    said = f": {printed}" if printed else ""
    return Verdict("Failure", f"{name} ended with exit code {code}{said}")


def _place(check: HttpCheck | TcpCheck) -> str:
    return check.url if isinstance(check, HttpCheck) else f"{check.host}:{check.port}"


async def _wait_code(run: Run, seconds: float) -> int | None:
    try:
        async with timing.within(seconds):
            return (await run.wait()).code
    except TimeoutError:
        return None


async def _printed(logs: LogStore) -> str:
    """The beginning of what a command printed, on one line."""
    found = b"".join([part async for part in logs.read(_KEY, LogOptions(limit_bytes=BODY_LIMIT))])
    return " ".join(found.decode(errors="replace").split())[:_TOLD]
