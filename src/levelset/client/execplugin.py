"""Asks a program for credentials, and keeps what it said until it expires or the server refuses it."""

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from levelset.aio import timing
from levelset.client.execspec import ExecCredential, ExecSpec, exec_info, parse_credential
from levelset.client.sharing import Sharing
from levelset.errors import ConfigError
from levelset.web.identities import Identity

__all__ = ["ExecPlugin"]

_EARLY: Final = timedelta(seconds=60)
_YOUNG: Final = 5.0


class ExecPlugin:
    """Credentials that a program hands out.

    It runs when somebody needs them first, a minute before they expire (a short life: after three quarters of it), and
    after a 401, but then not for credentials of the last few seconds: the same again would not help. All who wait share
    one run. A run that takes longer than `timeout` seconds, or five times that if it may ask a person something, is
    killed. `now` tells the time of day, which expiry needs.
    """

    def __init__(
        self,
        spec: ExecSpec,
        *,
        timeout: float = 60.0,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        is_terminal: Callable[[], bool] | None = None,
    ) -> None:
        self._spec = spec
        self._timeout = timeout
        self._now = now
        self._is_terminal = is_terminal or _is_terminal
        self._kept: ExecCredential | None = None
        self._due: datetime | None = None
        self._since = 0.0
        self._sharing: Sharing[ExecCredential] = Sharing()

    async def headers(self) -> Mapping[str, str]:
        """The token as `Authorization`, if the program gave one; ConfigError if it fails."""
        return (await self._credential()).headers

    async def certificate(self) -> Identity | None:
        """The client certificate, if the program gave one; ConfigError if it fails."""
        return (await self._credential()).identity

    def reject(self, refused: Mapping[str, str] | None = None) -> bool:
        """Has the program run again, unless what it said last is only a few seconds old."""
        kept = self._kept
        if kept is None or (refused is not None and refused != kept.headers):
            return True
        if timing.now() < self._since + _YOUNG:
            return False
        self._kept = None
        return True

    async def _credential(self) -> ExecCredential:
        kept = self._kept
        if kept is not None and (self._due is None or self._now() < self._due):
            return kept
        return await self._sharing.run(self._spec.command, self._renew)

    async def _renew(self) -> ExecCredential:
        output = await self._run()
        # In a thread, for what is not JSON is YAML, and that has to be loaded.
        found = await asyncio.to_thread(parse_credential, output, self._spec)
        now = self._now()
        self._kept, self._since = found, timing.now()
        self._due = None if found.expires is None else found.expires - min(_EARLY, (found.expires - now) / 4)
        return found

    async def _run(self) -> bytes:
        """What the program prints."""
        spec = self._spec
        is_interactive = self._may_interact()
        environ = {**os.environ, **spec.env, "KUBERNETES_EXEC_INFO": exec_info(spec, is_interactive=is_interactive)}
        try:
            process = await asyncio.create_subprocess_exec(
                spec.command,
                *spec.args,
                env=environ,
                stdin=None if is_interactive else DEVNULL,
                stdout=PIPE,
                stderr=None if is_interactive else PIPE,
                # With a session of its own it can be killed with all its children; a terminal needs ours.
                start_new_session=not is_interactive,
            )
        except (OSError, ValueError) as error:
            raise self._failed(f"cannot be run: {_reason(error)}.") from error
        output, said = await self._wait(process, is_interactive=is_interactive)
        if process.returncode != 0:
            raise self._failed(f"failed with exit code {process.returncode}.{_last_words(said)}")
        return output

    async def _wait(self, process: Process, *, is_interactive: bool) -> tuple[bytes, bytes]:
        seconds = self._timeout * (5 if is_interactive else 1)
        try:
            async with timing.within(seconds):
                output, said = await process.communicate()
        except TimeoutError:
            raise self._failed(f"gave no answer within {seconds:g} seconds: run it by hand and look.") from None
        finally:
            if process.returncode is None:
                _kill(process, has_group=not is_interactive)
                await process.wait()
        return output, said or b""

    def _may_interact(self) -> bool:
        mode = self._spec.interactive
        if mode == "Never":
            return False
        if self._is_terminal():
            return True
        if mode == "Always":
            raise self._failed("has to ask a person something, and there is no terminal: log in by hand first.")
        return False

    def _failed(self, problem: str) -> ConfigError:
        hint = f" {self._spec.install_hint.strip()}" if self._spec.install_hint else ""
        return ConfigError(f"The plugin {self._spec.command!r} of {self._spec.owner} {problem}{hint}")

    def __repr__(self) -> str:
        return f"ExecPlugin({self._spec.command!r})"


def _kill(process: Process, *, has_group: bool) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if has_group:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def _reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "there is no such program"
    return str(getattr(error, "strerror", None) or type(error).__name__)


def _last_words(said: bytes) -> str:
    text = " ".join(said[-2000:].decode("utf-8", "replace").split())
    return f" It said: {text[-400:]}." if text else ""


def _is_terminal() -> bool:
    return sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()
