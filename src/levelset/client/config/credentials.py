"""Credentials of a client: bearer token, token file, basic auth, client certificate, or anonymous.

A transport calls `headers` before each request and `certificate` before each connection. Both are cheap: files are read
in a thread, and their content is cached. Secrets are not part of any repr.
"""

import asyncio
import base64
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

from levelset.aio import timing
from levelset.errors import ConfigError
from levelset.http.certificate_authority import Identity

__all__ = [
    "Anonymous",
    "Basic",
    "ClientCertificate",
    "CombinedCredentials",
    "Credentials",
    "Token",
    "TokenFile",
    "bearer",
    "check_token",
    "static_headers",
]

_log: Final = logging.getLogger("levelset.client")
_NO_HEADERS: Final[Mapping[str, str]] = {}


class Credentials(Protocol):
    """Authenticates requests; belongs to one event loop."""

    async def headers(self) -> Mapping[str, str]:
        """The header fields for one request, usually `Authorization`; ConfigError if they are not available."""
        ...

    async def certificate(self) -> Identity | None:
        """The client certificate and key for a new connection, None if there is none; ConfigError if unreadable.

        Two equal results mean that nothing has changed, so that the TLS context can be reused.
        """
        ...

    def reject(self, refused: Mapping[str, str] | None = None) -> bool:
        """Reports a 401: drops cached credentials, and returns whether a retry may get other ones.

        `refused` are the headers of that request. If they are no longer the current ones, another request has reported
        them already: nothing is dropped, and a retry makes sense.
        """
        ...


class _NoCredentials:
    """The default of each method: no headers, no certificate."""

    async def headers(self) -> Mapping[str, str]:
        """No header."""
        return _NO_HEADERS

    async def certificate(self) -> Identity | None:
        """No certificate."""
        return None

    def reject(self, refused: Mapping[str, str] | None = None) -> bool:  # noqa: ARG002  # the protocol's name
        """A retry never helps."""
        return False

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class Anonymous(_NoCredentials):
    """No credentials."""


class Token(_NoCredentials):
    """A bearer token that never changes."""

    def __init__(self, token: str) -> None:
        check_token(token, "The token")
        self._headers: Mapping[str, str] = bearer(token)

    async def headers(self) -> Mapping[str, str]:
        """The token as `Authorization`."""
        return self._headers


class Basic(_NoCredentials):
    """A user name and a password: no longer accepted by Kubernetes itself, but by proxies in front of it."""

    def __init__(self, username: str, password: str) -> None:
        if ":" in username:
            raise ConfigError(
                f"The user name {username!r} contains a colon, which basic authentication does not allow."
            )
        encoded = base64.b64encode(f"{username}:{password}".encode()).decode("ascii")
        self._headers: Mapping[str, str] = {"Authorization": f"Basic {encoded}"}
        self._username = username

    async def headers(self) -> Mapping[str, str]:
        """User name and password as `Authorization`."""
        return self._headers

    def __repr__(self) -> str:
        return f"Basic({self._username!r})"


def static_headers(credentials: Credentials) -> Mapping[str, str] | None:
    """The headers of credentials that never change; None for those that have to be called for each request."""
    class_ = type(credentials)
    if class_ is Anonymous or class_ is ClientCertificate:
        return _NO_HEADERS
    return credentials._headers if class_ is Token or class_ is Basic else None  # type: ignore[attr-defined]


class TokenFile(_NoCredentials):
    """A bearer token in a file that is rotated: read again every `every` seconds, and after a 401.

    Once there was a token, it stays in use while the file is missing, empty or unreadable: it may be in the middle of a
    rotation. `fallback` is the token until the file has one.
    """

    def __init__(self, path: str | Path, *, fallback: str | None = None, every: float = 60.0) -> None:
        if fallback is not None:
            check_token(fallback, f"The token beside the token file {path}")
        self._path = Path(path)
        self._every = every
        self._headers: Mapping[str, str] | None = None if fallback is None else bearer(fallback)
        self._fresh_until: float | None = None
        self._reading = asyncio.Lock()

    async def headers(self) -> Mapping[str, str]:
        """The token as `Authorization`; ConfigError if there never was one."""
        if self.fresh_headers() is None:
            async with self._reading:
                if self.fresh_headers() is None:  # another task may have read it while we waited for the lock
                    await self._read()
        assert self._headers is not None
        return self._headers

    def reject(self, refused: Mapping[str, str] | None = None) -> bool:
        """Reads the file again before the next request."""
        if refused is None or refused == self._headers:
            self._fresh_until = None
        return True

    def fresh_headers(self) -> Mapping[str, str] | None:
        """The result of `headers` if the file need not be read for it, else None."""
        return None if self._fresh_until is None or timing.now() >= self._fresh_until else self._headers

    async def _read(self) -> None:
        try:
            text = await asyncio.to_thread(self._path.read_bytes)
            self._headers = bearer(_token_in(text, self._path))
        except (OSError, ConfigError) as error:
            if self._headers is None:
                raise _unreadable(self._path, error) from error
            _log.warning("token file not usable, keeping the last token", extra={"path": str(self._path)})
        self._fresh_until = timing.now() + self._every

    def __repr__(self) -> str:
        return f"TokenFile({str(self._path)!r})"


class ClientCertificate(_NoCredentials):
    """A client certificate and key, each as PEM or as the path of a file that is read for every new connection.

    While a file is missing, the last certificate stays in use.
    """

    def __init__(self, certificate: bytes | Path, key: bytes | Path) -> None:
        self._certificate = certificate
        self._key = key
        self._last: Identity | None = None

    async def certificate(self) -> Identity | None:
        """Certificate and key; ConfigError if a file is unreadable and there never was a certificate."""
        if self._last is None or isinstance(self._certificate, Path) or isinstance(self._key, Path):
            try:
                self._last = await asyncio.to_thread(self._load)
            except OSError as error:
                if self._last is None:
                    raise _unreadable(error.filename, error) from error
                _log.warning("client certificate not readable, keeping the last one", extra={"cause": str(error)})
        return self._last

    def _load(self) -> Identity:
        return Identity(_bytes(self._certificate), _bytes(self._key))

    def __repr__(self) -> str:
        shown = repr(str(self._certificate)) if isinstance(self._certificate, Path) else "PEM"
        return f"ClientCertificate({shown})"


class CombinedCredentials(_NoCredentials):
    """Several credentials, such as a certificate and a token; the first that has headers (a certificate) wins."""

    def __init__(self, *parts: Credentials) -> None:
        self._parts = parts

    async def headers(self) -> Mapping[str, str]:
        """The headers of the first part that has any."""
        for part in self._parts:
            if found := await part.headers():
                return found
        return _NO_HEADERS

    async def certificate(self) -> Identity | None:
        """The certificate of the first part that has one."""
        for part in self._parts:
            if found := await part.certificate():
                return found
        return None

    def reject(self, refused: Mapping[str, str] | None = None) -> bool:
        """Reports the 401 to all parts."""
        helps = [part.reject(refused) for part in self._parts]
        return any(helps)

    def __repr__(self) -> str:
        return f"CombinedCredentials({', '.join(repr(part) for part in self._parts)})"


def check_token(token: str, what: str) -> None:
    """Checks that a token is valid in a header; the ConfigError names `what`, never the token."""
    if not token:
        raise ConfigError(f"{what} is empty: leave it out, or set a token.")
    if not token.isascii() or not token.isprintable() or token != token.strip():
        raise ConfigError(f"{what} contains characters (a space, a newline) that tokens do not have: copy it again.")


def bearer(token: str) -> Mapping[str, str]:
    """The header with a bearer token."""
    return {"Authorization": f"Bearer {token}"}


def _token_in(text: bytes, path: Path) -> str:
    token = text.decode("utf-8", "replace").strip()
    check_token(token, f"The token file {path}")
    return token


def _bytes(source: bytes | Path) -> bytes:
    return source.read_bytes() if isinstance(source, Path) else source


def _unreadable(path: object, error: Exception) -> ConfigError:
    if isinstance(error, ConfigError):
        return error
    reason = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
    return ConfigError(
        f"The file {path} cannot be read: {reason}. Correct its path in the kubeconfig, or its permissions."
    )
