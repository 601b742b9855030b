"""Exec credential plugins: runs the program that a kubeconfig names, and caches its credentials until they expire.

The plugin gets information about the cluster in the variable `KUBERNETES_EXEC_INFO`, and prints an `ExecCredential`
with a token, a client certificate, or both. See client-go credential plugins in the Kubernetes documentation.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

import msgspec

from levelset.aio import timing
from levelset.aio.single_flight import SingleFlight
from levelset.client.config.credentials import bearer, check_token
from levelset.errors import BadObject, BadTime, ConfigError
from levelset.http.certificate_authority import Identity
from levelset.objects.json_tree import is_map
from levelset.objects.timestamps import parse_time

__all__ = ["ExecCredential", "ExecPlugin", "ExecSpec", "Interactive", "exec_info", "parse_credential"]

Interactive = Literal["Never", "IfAvailable", "Always"]
"""Whether a plugin may prompt the user at the terminal (interactiveMode)."""

_decode: Final = msgspec.json.Decoder()


class ExecSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The program to run, and how; `owner` names the user entry of the kubeconfig in messages.

    `cluster` is the cluster info for the plugin, None if it gets none (provideClusterInfo).
    """

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    api_version: str = "client.authentication.k8s.io/v1"
    interactive: Interactive = "IfAvailable"
    install_hint: str = ""
    cluster: Mapping[str, Any] | None = None
    owner: str = "this user"

    def __repr__(self) -> str:
        # Without arguments and environment: they may contain secrets.
        return f"ExecSpec({self.command!r})"


class ExecCredential(msgspec.Struct, frozen=True, kw_only=True):
    """The credentials that a plugin printed; `expires` is None if it did not say."""

    headers: Mapping[str, str]
    identity: Identity | None
    expires: datetime | None

    def __repr__(self) -> str:
        return f"ExecCredential(expires={self.expires})"


def exec_info(spec: ExecSpec, *, is_interactive: bool) -> str:
    """The value of `KUBERNETES_EXEC_INFO`."""
    info: dict[str, Any] = {"interactive": is_interactive}
    if spec.cluster is not None:
        info["cluster"] = dict(spec.cluster)
    return json.dumps({"kind": "ExecCredential", "apiVersion": spec.api_version, "spec": info})


def parse_credential(output: bytes, spec: ExecSpec) -> ExecCredential:
    """Parses the output of a plugin, JSON or YAML; the ConfigError for invalid output never shows it."""
    tree = _tree(output)
    if not is_map(tree):
        raise _invalid_output(spec, "printed no ExecCredential: neither JSON nor YAML. Run it by hand to check")
    for name, wanted in (("kind", "ExecCredential"), ("apiVersion", spec.api_version)):
        if tree.get(name) != wanted:
            raise _invalid_output(spec, f"printed another {name} than {wanted}: set the apiVersion that it supports")
    status = tree.get("status")
    if not is_map(status):
        raise _invalid_output(spec, "printed an ExecCredential without status: are you logged in")
    token = _text(status, "token", spec)
    headers: Mapping[str, str] = {}
    if token is not None:
        check_token(token, f"The token that the plugin {spec.command!r} of {spec.owner} printed")
        headers = bearer(token)
    identity = _identity(status, spec)
    if identity is None and not headers:
        raise _invalid_output(spec, "printed neither a token nor a client certificate: are you logged in")
    return ExecCredential(headers=headers, identity=identity, expires=_expiry(status, spec))


def _tree(output: bytes) -> Any:
    try:
        return _decode.decode(output)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        pass
    # Imported late: yaml is slow to load, and nearly all plugins print JSON.
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
        raise _invalid_output(spec, "printed only one of clientCertificateData and clientKeyData: both are needed")
    return None if certificate is None or key is None else Identity(certificate.encode(), key.encode())


def _expiry(status: dict[str, Any], spec: ExecSpec) -> datetime | None:
    text = _text(status, "expirationTimestamp", spec)
    try:
        return None if text is None else parse_time(text)
    except BadTime as error:
        raise _invalid_output(spec, "printed an expirationTimestamp that is not an RFC 3339 time") from error


def _text(status: dict[str, Any], name: str, spec: ExecSpec) -> str | None:
    value = status.get(name)
    if value is not None and not isinstance(value, str):
        raise _invalid_output(spec, f"printed a status.{name} that is not a string")
    return value or None


def _invalid_output(spec: ExecSpec, problem: str) -> ConfigError:
    return ConfigError(f"The plugin {spec.command!r} of {spec.owner} {problem}.")


_RENEW_BEFORE: Final = timedelta(seconds=60)
_MIN_AGE: Final = 5.0


class ExecPlugin:
    """Credentials from an exec plugin.

    The plugin runs on first use, a minute before the credentials expire (after three quarters of a shorter lifetime),
    and after a 401, unless the credentials are only a few seconds old: the same again would not help. Concurrent
    requests share one run. A run that takes longer than `timeout` seconds (five times that if it may prompt the user)
    is killed. `now` is the wall clock, which expiry needs.
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
        self._cached: ExecCredential | None = None
        self._due: datetime | None = None
        self._since = 0.0
        self._single_flight: SingleFlight[ExecCredential] = SingleFlight()

    async def headers(self) -> Mapping[str, str]:
        """The token as `Authorization`, if the plugin printed one; ConfigError if it fails."""
        return (await self._credential()).headers

    async def certificate(self) -> Identity | None:
        """The client certificate, if the plugin printed one; ConfigError if it fails."""
        return (await self._credential()).identity

    def reject(self, refused: Mapping[str, str] | None = None) -> bool:
        """Runs the plugin again, unless its last credentials are only a few seconds old."""
        current = self._cached
        if current is None or (refused is not None and refused != current.headers):
            return True
        if timing.now() < self._since + _MIN_AGE:
            return False
        self._cached = None
        return True

    async def _credential(self) -> ExecCredential:
        current = self._cached
        if current is not None and (self._due is None or self._now() < self._due):
            return current
        # By a clock that is ahead everything has expired: one run for each request would not help.
        if current is not None and timing.now() < self._since + _MIN_AGE:
            return current
        return await self._single_flight.run(self._spec.command, self._renew)

    async def _renew(self) -> ExecCredential:
        output = await self._run()
        # In a thread: for YAML the parser has to be imported.
        found = await asyncio.to_thread(parse_credential, output, self._spec)
        now = self._now()
        self._cached, self._since = found, timing.now()
        self._due = None if found.expires is None else found.expires - min(_RENEW_BEFORE, (found.expires - now) / 4)
        return found

    async def _run(self) -> bytes:
        """Runs the plugin and returns its output."""
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
                # In its own session it can be killed with all its children; prompts need ours.
                start_new_session=not is_interactive,
            )
        except (OSError, ValueError) as error:
            raise self._failed(f"cannot be run: {_reason(error)}.") from error
        output, errors = await self._wait(process, is_interactive=is_interactive)
        if process.returncode != 0:
            raise self._failed(f"failed with exit code {process.returncode}.{_stderr_excerpt(errors)}")
        return output

    async def _wait(self, process: Process, *, is_interactive: bool) -> tuple[bytes, bytes]:
        seconds = self._timeout * (5 if is_interactive else 1)
        try:
            async with timing.within(seconds):
                output, errors = await process.communicate()
        except TimeoutError:
            raise self._failed(f"did not finish within {seconds:g} seconds: run it by hand to see why.") from None
        finally:
            if process.returncode is None:
                _kill(process, has_group=not is_interactive)
                await process.wait()
        return output, errors or b""

    def _may_interact(self) -> bool:
        mode = self._spec.interactive
        if mode == "Never":
            return False
        if self._is_terminal():
            return True
        if mode == "Always":
            raise self._failed("needs to prompt the user, and there is no terminal: log in by hand first.")
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
        return "the program was not found"
    return str(getattr(error, "strerror", None) or type(error).__name__)


def _stderr_excerpt(errors: bytes) -> str:
    text = " ".join(errors[-2000:].decode("utf-8", "replace").split())
    return f" Its error output: {text[-400:]}." if text else ""


def _is_terminal() -> bool:
    return sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()
