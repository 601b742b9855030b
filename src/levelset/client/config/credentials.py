"""Who a client says it is: a token, a password, a certificate, or nobody.

A transport asks for `headers` before each request and for `certificate` before each connection. Both are cheap: what
has to be read from a file is read off the event loop and kept for a while. What is secret stays out of every repr.
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
    "Credentials",
    "Together",
    "Token",
    "TokenFile",
    "bearer",
    "check_token",
    "lasting_headers",
]

_log: Final = logging.getLogger("levelset.client")
_NOTHING: Final[Mapping[str, str]] = {}


class Credentials(Protocol):
    """Tells a server who asks; belongs to one event loop."""

    async def headers(self) -> Mapping[str, str]:
        """The header fields for one request, usually `Authorization`; ConfigError if they cannot be had."""
        ...

    async def certificate(self) -> Identity | None:
        """The client certificate and its key for a new connection, None if there is none; ConfigError if unreadable.

        Two equal answers mean that nothing has changed since, so that a TLS context may be kept.
        """
        ...

    def reject(self, refused: Mapping[str, str] | None = None) -> bool:
        """Says that the server answered 401: what is kept is forgotten. Whether asking again may give something else.

        `refused` are the headers of that request. If they are not the ones in use any more, somebody else has been here
        before: nothing is forgotten, and the request is worth repeating.
        """
        ...


class _Silent:
    """What credentials do that have nothing to say."""

    async def headers(self) -> Mapping[str, str]:
        """No header."""
        return _NOTHING

    async def certificate(self) -> Identity | None:
        """No certificate."""
        return None

    def reject(self, refused: Mapping[str, str] | None = None) -> bool:  # noqa: ARG002  # the protocol's name
        """Never helps."""
        return False

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class Anonymous(_Silent):
    """Nobody in particular."""


class Token(_Silent):
    """A bearer token that never changes."""

    def __init__(self, token: str) -> None:
        check_token(token, "The token")
        self._headers: Mapping[str, str] = bearer(token)

    async def headers(self) -> Mapping[str, str]:
        """The token as `Authorization`."""
        return self._headers


class Basic(_Silent):
    """A user name and a password; Kubernetes itself stopped to accept them, proxies in front of it did not."""

    def __init__(self, username: str, password: str) -> None:
        if ":" in username:
            raise ConfigError(f"The user name {username!r} has a colon, which a server would take for its end.")
        encoded = base64.b64encode(f"{username}:{password}".encode()).decode("ascii")
        self._headers: Mapping[str, str] = {"Authorization": f"Basic {encoded}"}
        self._username = username

    async def headers(self) -> Mapping[str, str]:
        """User name and password as `Authorization`."""
        return self._headers

    def __repr__(self) -> str:
        return f"Basic({self._username!r})"


def lasting_headers(credentials: Credentials) -> Mapping[str, str] | None:
    """The headers of credentials that never have others; None for those that have to be asked each time."""
    class_ = type(credentials)
    if class_ is Anonymous or class_ is ClientCertificate:
        return _NOTHING
    return credentials._headers if class_ is Token or class_ is Basic else None  # type: ignore[attr-defined]


class TokenFile(_Silent):
    """A bearer token in a file that somebody else renews: read again every minute, and after a 401.

    Once there was a token, a file that is missing, empty or unreadable leaves the last one in use: better an old token
    than none, while the file is being replaced. `fallback` is the token for as long as there was none.
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
                if self.fresh_headers() is None:  # those who waited for the lock find it done
                    await self._read()
        assert self._headers is not None
        return self._headers

    def reject(self, refused: Mapping[str, str] | None = None) -> bool:
        """Has the file read again before the next request."""
        if refused is None or refused == self._headers:
            self._fresh_until = None
        return True

    def fresh_headers(self) -> Mapping[str, str] | None:
        """The same as `headers` gives, if nothing has to be read for it."""
        return None if self._fresh_until is None or timing.now() >= self._fresh_until else self._headers

    async def _read(self) -> None:
        try:
            text = await asyncio.to_thread(self._path.read_bytes)
            self._headers = bearer(_token_in(text, self._path))
        except (OSError, ConfigError) as error:
            if self._headers is None:
                raise _unreadable(self._path, error) from error
            _log.warning("token file not usable, the last token stays in use", extra={"path": str(self._path)})
        self._fresh_until = timing.now() + self._every

    def __repr__(self) -> str:
        return f"TokenFile({str(self._path)!r})"


class ClientCertificate(_Silent):
    """A client certificate and its key, each as PEM or as the path of a file that is read for every new connection.

    Files that vanish leave the last certificate in use.
    """

    def __init__(self, certificate: bytes | Path, key: bytes | Path) -> None:
        self._certificate = certificate
        self._key = key
        self._last: Identity | None = None

    async def certificate(self) -> Identity | None:
        """Certificate and key; ConfigError if a file cannot be read and never could."""
        if self._last is None or isinstance(self._certificate, Path) or isinstance(self._key, Path):
            try:
                self._last = await asyncio.to_thread(self._load)
            except OSError as error:
                if self._last is None:
                    raise _unreadable(error.filename, error) from error
                _log.warning("client certificate not readable, the last one stays in use", extra={"cause": str(error)})
        return self._last

    def _load(self) -> Identity:
        return Identity(_bytes(self._certificate), _bytes(self._key))

    def __repr__(self) -> str:
        shown = repr(str(self._certificate)) if isinstance(self._certificate, Path) else "PEM"
        return f"ClientCertificate({shown})"


class Together(_Silent):
    """Several credentials at once, such as a certificate and a token; the first that has a say wins."""

    def __init__(self, *parts: Credentials) -> None:
        self._parts = parts

    async def headers(self) -> Mapping[str, str]:
        """The headers of the first part that has any."""
        for part in self._parts:
            if found := await part.headers():
                return found
        return _NOTHING

    async def certificate(self) -> Identity | None:
        """The certificate of the first part that has one."""
        for part in self._parts:
            if found := await part.certificate():
                return found
        return None

    def reject(self, refused: Mapping[str, str] | None = None) -> bool:
        """Tells all parts."""
        helps = [part.reject(refused) for part in self._parts]
        return any(helps)

    def __repr__(self) -> str:
        return f"Together({', '.join(repr(part) for part in self._parts)})"


def check_token(token: str, what: str) -> None:
    """Makes sure that a token can stand in a header; the ConfigError names `what`, never the token."""
    if not token:
        raise ConfigError(f"{what} is empty: leave it out, or put a token there.")
    if not token.isascii() or not token.isprintable() or token != token.strip():
        raise ConfigError(f"{what} has characters (a space, a newline) that no token has: copy it again.")


def bearer(token: str) -> Mapping[str, str]:
    """The header that carries a token."""
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
    return ConfigError(f"The file {path} cannot be read: {reason}. Correct its path in the kubeconfig, or its rights.")
