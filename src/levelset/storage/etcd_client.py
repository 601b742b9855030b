"""The connection to an etcd cluster: calls with a deadline, failover between members, TLS and authentication.

There is a channel for each member, and the calls go to one of them until it fails. Reads are repeated elsewhere; a
write only if it certainly was not executed.
"""

import asyncio
import ssl
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

from levelset.errors import ConfigError
from levelset.storage.etcd_failures import CallFailed, Verdict, judge
from levelset.storage.etcd_messages import (
    Call,
    EncodedConditions,
    Messages,
    StoredKey,
    WatchBatch,
    WriteOutcome,
    load_messages,
)
from levelset.storage.grpc.grpc_channel import GrpcChannel, GrpcStream, RpcFailed, format_address

__all__ = ["Endpoint", "EtcdClient", "EtcdCredentials", "WatchStream", "parse_endpoints"]

_PATIENCE_PER_MEMBER: Final = 0.5  # seconds to connect, before another member is tried
_PAUSE: Final = 0.02  # before the next attempt
_HAS_LEADER: Final = ("hasleader", "true")
"""Makes a member without a leader refuse calls and end watches, which would otherwise stall in silence."""

_Metadata = tuple[tuple[str, str], ...]


class EtcdCredentials(msgspec.Struct, frozen=True):
    """What a client shows and trusts: files in PEM, and a user of etcd."""

    cacert: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    user: str | None = None
    password: str | None = None


def parse_endpoints(endpoints: str | Sequence[str]) -> tuple["Endpoint", ...]:
    """The members, from URLs or one text of them with commas; raises ConfigError."""
    urls = endpoints.split(",") if isinstance(endpoints, str) else endpoints
    found = tuple(_endpoint(url.strip()) for url in urls if url.strip())
    if not found:
        raise ConfigError("etcd needs at least one URL, such as https://127.0.0.1:2379.")
    return found


class Endpoint(NamedTuple):
    """Where a member listens."""

    host: str
    port: int
    is_secure: bool

    @property
    def address(self) -> str:
        """Host and port, for messages."""
        return format_address(self.host, self.port)


class EtcdClient:
    """Calls to an etcd cluster, from one event loop; raises CallFailed."""

    def __init__(self, endpoints: str | Sequence[str], credentials: EtcdCredentials, *, timeout: float) -> None:
        self._endpoints = parse_endpoints(endpoints)
        if (credentials.cert is None) != (credentials.key is None):
            raise ConfigError("A client certificate for etcd needs both files: the certificate and its key.")
        self._credentials = credentials
        self.timeout = timeout
        self._members: list[_Member] = []
        self._current = 0
        self._metadata: _Metadata = (_HAS_LEADER,)

    @property
    def addresses(self) -> str:
        """The addresses of the members, for messages."""
        return ",".join(one.address for one in self._endpoints)

    @property
    def messages(self) -> Messages:
        """The messages of etcd's API."""
        return load_messages()

    async def start(self) -> None:
        """Loads the libraries, reads the certificates and logs in; raises ConfigError and CallFailed."""
        tls = await asyncio.to_thread(self._prepare)
        self._members = [_Member(one, tls, self._metadata) for one in self._endpoints]
        if self._credentials.user is not None:
            await self._log_in()

    async def close(self) -> None:
        """Closes the connections."""
        members, self._members = self._members, []
        for member in members:
            await member.channel.close()

    def rotate(self) -> None:
        """Goes on with another member; the present one has failed."""
        self._current = (self._current + 1) % len(self._endpoints)

    async def page(self, start: bytes, end: bytes, *, limit: int, revision: int) -> tuple[list[StoredKey], int, bool]:
        """A page of keys, the revision they are of, and whether there are more."""
        request = self.messages.range_request(start, end, limit=limit, revision=revision)
        return self.messages.page(await self._read(self.messages.range, request))

    async def get(self, key: bytes) -> tuple[StoredKey | None, int]:
        """A key, and the current revision of etcd; a linearizable read."""
        found, revision, _ = self.messages.page(await self._read(self.messages.range, self.messages.key_request(key)))
        return (found[0] if found else None), revision

    async def write(
        self,
        key: bytes,
        value: bytes | None,
        *,
        expected: int | None,
        wants_previous: bool = False,
        conditions: EncodedConditions | None = None,
    ) -> WriteOutcome:
        """A conditional put or deletion; see `Messages.write_request`."""
        request = self.messages.write_request(
            key, value, expected=expected, wants_previous=wants_previous, conditions=conditions
        )
        return self.messages.outcome(await self._call(self.messages.txn, request, is_repeatable=False))

    async def compact(self, revision: int) -> None:
        """Compacts; harmless if it is done already."""
        try:
            await self._read(self.messages.compact, self.messages.compaction_request(revision))
        except CallFailed as failure:
            if failure.verdict is not Verdict.COMPACTED:
                raise

    async def version(self) -> tuple[int, ...]:
        """The version of the present member; empty if etcd does not tell."""
        try:
            status = await self._read(self.messages.status, self.messages.status_request())
        except CallFailed as failure:
            if failure.verdict is Verdict.REFUSED:  # only administrators may ask
                return ()
            raise
        return tuple(int(part) for part in str(status.version).split("-")[0].split(".") if part.isdigit())

    async def open_watch(self) -> "WatchStream":
        """A stream for watches on the present member."""
        member = await self._connected(asyncio.get_running_loop().time() + self.timeout)
        return WatchStream(member.open(self.messages.watch), self.messages)

    async def renew_login(self) -> None:
        """Logs in again, if there is a user: tokens end, and a watch does not say so in all versions."""
        if self._credentials.user is not None:
            await self._log_in()

    async def _read(self, call: Call, request: Any) -> Any:
        return await self._call(call, request, is_repeatable=True)

    async def _call(self, call: Call, request: Any, *, is_repeatable: bool) -> Any:
        """Calls until there is an answer or the time is over."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.timeout
        may_log_in = self._credentials.user is not None
        message = call.serialize(request)
        while True:
            member = await self._connected(deadline)
            try:
                return call.parse(await member.call(call, message, deadline - loop.time()))
            except CallFailed as failure:
                if failure.verdict is Verdict.LOGIN and may_log_in:
                    may_log_in = False
                    await self._log_in()
                    continue
                if failure.verdict in (Verdict.UNSENT, Verdict.UNKNOWN):
                    self._leave(member)
                again = failure.verdict is Verdict.UNSENT or (is_repeatable and failure.verdict is Verdict.UNKNOWN)
                if not again or loop.time() + _PAUSE >= deadline:
                    raise
            await asyncio.sleep(_PAUSE)

    def _leave(self, member: "_Member") -> None:
        """Goes on with another member, unless that has happened already."""
        if self._members and member is self._members[self._current]:
            self.rotate()

    async def _connected(self, deadline: float) -> "_Member":
        """A member with a connection; raises CallFailed (unsent) if there is none in time."""
        now = asyncio.get_running_loop().time
        while self._members:
            member = self._members[self._current]
            if member.channel.is_ready():
                return member
            left = deadline - now()
            if left <= 0:
                text = f"no connection to {self.addresses} within {self.timeout:g} s"
                raise CallFailed(Verdict.UNSENT, f"{text} ({member.channel.problem or 'no answer'})")
            if not await member.channel.connect(within=min(left, _PATIENCE_PER_MEMBER)):
                self._leave(member)
                await asyncio.sleep(_PAUSE)
        raise CallFailed(Verdict.UNSENT, "the storage is closed")

    async def _log_in(self) -> None:
        user, password = self._credentials.user or "", self._credentials.password or ""
        deadline = asyncio.get_running_loop().time() + self.timeout
        member = await self._connected(deadline)
        call = self.messages.authenticate
        message = call.serialize(self.messages.login_request(user, password))
        response = call.parse(await member.call(call, message, self.timeout, has_token=False))
        self._metadata = (_HAS_LEADER, ("token", str(response.token)))
        for one in self._members:
            one.renew(self._metadata)

    def _prepare(self) -> ssl.SSLContext | None:
        """Loads the libraries and reads the certificates, which blocks; the TLS context, if a member needs one."""
        load_messages()
        try:
            import_module("hpack")
        except ImportError as error:
            raise ConfigError("Storage in etcd needs hpack: install levelset[etcd].") from error
        return _tls(self._credentials) if any(one.is_secure for one in self._endpoints) else None


class _Member:
    """The channel to one member, and the calls on it."""

    def __init__(self, endpoint: Endpoint, tls: ssl.SSLContext | None, metadata: _Metadata) -> None:
        self.channel = GrpcChannel(endpoint.host, endpoint.port, tls=tls if endpoint.is_secure else None)
        self._metadata = metadata
        self._heads: dict[str, bytes] = {}
        """What the calls of a method begin with."""

    def renew(self, metadata: _Metadata) -> None:
        """Sends other metadata from now on."""
        self._metadata = metadata
        self._heads.clear()

    async def call(self, call: Call, message: bytes, within: float, *, has_token: bool = True) -> bytes:
        """The response; raises CallFailed."""
        head = self._head(call) if has_token else self.channel.encode_head(call.path, (_HAS_LEADER,))
        try:
            return await self.channel.call(head, message, within=within)
        except RpcFailed as failure:
            raise _judged(failure) from failure

    def open(self, call: Call) -> GrpcStream:
        """A stream of messages; raises CallFailed."""
        try:
            return self.channel.open(self._head(call))
        except RpcFailed as failure:
            raise _judged(failure) from failure

    def _head(self, call: Call) -> bytes:
        head = self._heads.get(call.path)
        if head is None:
            head = self._heads[call.path] = self.channel.encode_head(call.path, self._metadata)
        return head


class WatchStream:
    """One stream of watch requests and responses; CallFailed when it ends."""

    def __init__(self, stream: GrpcStream, messages: Messages) -> None:
        self._stream = stream
        self._messages = messages

    def send(self, request: Any) -> None:
        """Sends a request."""
        try:
            self._stream.send(self._messages.watch.serialize(request))
        except RpcFailed as failure:
            raise _judged(failure) from failure

    async def read(self) -> WatchBatch:
        """The next response."""
        try:
            content = await self._stream.read()
        except RpcFailed as failure:
            raise _judged(failure) from failure
        return self._messages.batch(self._messages.watch.parse(content))

    def end(self, reason: str) -> None:
        """Ends the stream; its reader gets CallFailed with the reason."""
        self._stream.end(reason)


def _judged(failure: RpcFailed) -> CallFailed:
    reason = failure.reason or failure.code
    if failure.is_unprocessed:
        return CallFailed(Verdict.UNSENT, reason)
    return CallFailed(judge(failure.code, failure.reason), reason)


def _endpoint(url: str) -> Endpoint:
    parts = urlsplit(url if "//" in url else f"//{url}", scheme="http")
    try:
        port = parts.port or 2379
    except ValueError as error:
        raise ConfigError(f"The etcd URL {url!r} has no valid port: write it as https://host:2379.") from error
    has_more = parts.path not in ("", "/") or parts.username is not None or bool(parts.query)
    if parts.scheme not in ("http", "https") or not parts.hostname or has_more:
        raise ConfigError(f"The etcd URL {url!r} is not valid: write it as https://host:2379.")
    return Endpoint(parts.hostname, port, parts.scheme == "https")


def _tls(credentials: EtcdCredentials) -> ssl.SSLContext:
    """Checks the members' certificates and names, and shows the client's; raises ConfigError."""
    try:
        context = ssl.create_default_context(cafile=credentials.cacert)
    except OSError as error:
        raise _unusable(credentials.cacert, error) from error
    if credentials.cert is not None and credentials.key is not None:
        try:
            context.load_cert_chain(credentials.cert, credentials.key, password=_refuse_password)
        except OSError as error:
            raise _unusable(f"{credentials.cert} or {credentials.key}", error) from error
    return context


def _unusable(file: object, error: OSError) -> ConfigError:
    return ConfigError(f"The file {file} for etcd cannot be used: {error.strerror or error}.")


def _refuse_password() -> str:
    raise ConfigError("The key for etcd is encrypted: give a file with a key that is not.")  # OpenSSL would ask
