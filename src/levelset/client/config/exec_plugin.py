"""Asks a program for credentials, and keeps what it said until it expires or the server refuses it.

What an exec plugin is told and what it answers: the pure half of asking a program for credentials.

A plugin is a program that a kubeconfig names. It is told about the cluster in the variable `KUBERNETES_EXEC_INFO`, and
prints an `ExecCredential` with a token, a client certificate, or both.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

import msgspec

from levelset.aio import timing
from levelset.aio.single_flight import Sharing
from levelset.client.config.credentials import bearer, check_token
from levelset.errors import BadObject, BadTime, ConfigError
from levelset.http.certificate_authority import Identity
from levelset.objects.json_tree import is_map
from levelset.objects.timestamps import parse_time

__all__ = ["ExecCredential", "ExecPlugin", "ExecSpec", "Interactive", "exec_info", "parse_credential"]

Interactive = Literal["Never", "IfAvailable", "Always"]
"""Whether a plugin may ask the person at the terminal something."""

_decode: Final = msgspec.json.Decoder()


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ExecSpec:
    """Which program to run, how, and for whom: `owner` names the user of the kubeconfig in messages.

    `cluster` is what the plugin is told about the cluster, None if it is to be told nothing.
    """

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    api_version: str = "client.authentication.k8s.io/v1"
    interactive: Interactive = "IfAvailable"
    install_hint: str = ""
    cluster: Mapping[str, Any] | None = None
    owner: str = "this user"

    def __repr__(self) -> str:
        # Not the arguments and the environment: some people put secrets there.
        return f"ExecSpec({self.command!r})"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ExecCredential:
    """What a plugin answered: headers and certificate, and until when they hold, if it said."""

    headers: Mapping[str, str]
    identity: Identity | None
    expires: datetime | None

    def __repr__(self) -> str:
        return f"ExecCredential(expires={self.expires})"


def exec_info(spec: ExecSpec, *, is_interactive: bool) -> str:
    """The value of `KUBERNETES_EXEC_INFO`."""
    told: dict[str, Any] = {"interactive": is_interactive}
    if spec.cluster is not None:
        told["cluster"] = dict(spec.cluster)
    return json.dumps({"kind": "ExecCredential", "apiVersion": spec.api_version, "spec": told})


def parse_credential(output: bytes, spec: ExecSpec) -> ExecCredential:
    """What the plugin printed, as JSON or YAML; ConfigError, which never shows it, if that is no credential."""
    tree = _tree(output)
    if not is_map(tree):
        raise _refused(spec, "printed no ExecCredential: neither JSON nor YAML. Run it by hand and look")
    for name, wanted in (("kind", "ExecCredential"), ("apiVersion", spec.api_version)):
        if tree.get(name) != wanted:
            raise _refused(spec, f"printed something whose {name} is not {wanted}: set the one that it speaks")
    status = tree.get("status")
    if not is_map(status):
        raise _refused(spec, "printed an ExecCredential without status: is somebody logged in")
    token = _text(status, "token", spec)
    headers: Mapping[str, str] = {}
    if token is not None:
        check_token(token, f"The token that the plugin {spec.command!r} of {spec.owner} printed")
        headers = bearer(token)
    identity = _identity(status, spec)
    if identity is None and not headers:
        raise _refused(spec, "printed neither a token nor a client certificate: is somebody logged in")
    return ExecCredential(headers=headers, identity=identity, expires=_expiry(status, spec))


def _tree(output: bytes) -> Any:
    try:
        return _decode.decode(output)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        pass
    # yaml takes a while to load, and nearly all plugins print JSON.
    from levelset.objects.yaml_codec import read_yaml  # noqa: PLC0415

    try:
        documents = read_yaml(output)
    except BadObject:
        return None
    return documents[0] if len(documents) == 1 else None


def _identity(status: dict[str, Any], spec: ExecSpec) -> Identity | None:
    certificate = _text(status, "clientCertificateData", spec)
    key = _text(status, "clientKeyData", spec)
    if (certificate is None) != (key is None):
        raise _refused(spec, "printed one of clientCertificateData and clientKeyData: it takes both, or neither")
    return None if certificate is None or key is None else Identity(certificate.encode(), key.encode())


def _expiry(status: dict[str, Any], spec: ExecSpec) -> datetime | None:
    text = _text(status, "expirationTimestamp", spec)
    try:
        return None if text is None else parse_time(text)
    except BadTime as error:
        raise _refused(spec, "printed an expirationTimestamp that is no RFC 3339 time") from error


def _text(status: dict[str, Any], name: str, spec: ExecSpec) -> str | None:
    value = status.get(name)
    if value is not None and not isinstance(value, str):
        raise _refused(spec, f"printed a status.{name} that is no text")
    return value or None


def _refused(spec: ExecSpec, problem: str) -> ConfigError:
    return ConfigError(f"The plugin {spec.command!r} of {spec.owner} {problem}.")


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
