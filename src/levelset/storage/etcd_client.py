"""The connection to an etcd cluster: calls with a deadline, failover between members, TLS and authentication.

grpcio does the protocol. It has no list of host names as one target, so there is a channel for each member, and the
calls go to one of them until it fails. Reads are repeated elsewhere; a write only if it certainly was not executed.
"""

import asyncio
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final, cast
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

__all__ = ["EtcdClient", "EtcdCredentials", "WatchStream", "parse_endpoints"]

_PATIENCE_PER_MEMBER: Final = 0.5  # seconds to connect, before another member is tried
_POLL: Final = 0.02
_CHANNEL_OPTIONS: Final = (
    ("grpc.enable_retries", 0),  # a write must never be sent twice
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),  # etcd has its own limit, and says so
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1000),  # how long one attempt to connect may take
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.keepalive_time_ms", 10_000),  # etcd refuses pings more often than every 5 s
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.use_local_subchannel_pool", 1),  # a connection is shared with no other storage of the process
    ("grpc.enable_http_proxy", 0),
)
_HAS_LEADER: Final = ("hasleader", "true")
"""Makes a member without a leader refuse calls and end watches, which would otherwise stall in silence."""


class EtcdCredentials(msgspec.Struct, frozen=True):
    """What a client shows and trusts: files in PEM, and a user of etcd."""

    cacert: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    user: str | None = None
    password: str | None = None


def parse_endpoints(endpoints: str | Sequence[str]) -> tuple[tuple[str, bool], ...]:
    """The members as (host:port, whether with TLS); from URLs, or one text of them with commas. Raises ConfigError."""
    urls = endpoints.split(",") if isinstance(endpoints, str) else endpoints
    found = tuple(_endpoint(url.strip()) for url in urls if url.strip())
    if not found:
        raise ConfigError("etcd needs at least one URL, such as https://127.0.0.1:2379.")
    return found


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
        self._metadata: tuple[tuple[str, str], ...] = (_HAS_LEADER,)

    @property
    def addresses(self) -> str:
        """The addresses of the members, for messages."""
        return ",".join(address for address, _ in self._endpoints)

    @property
    def messages(self) -> Messages:
        """The messages of etcd's API."""
        return load_messages()

    async def start(self) -> None:
        """Loads the libraries, reads the certificates and logs in; raises ConfigError and CallFailed."""
        grpc, tls = await asyncio.to_thread(self._prepare)
        _keep_poller(grpc.aio)
        messages = self.messages
        self._members = [
            _Member(grpc, address, tls if secure else None, messages) for address, secure in self._endpoints
        ]
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
        return self.messages.page(await self._read("range", request))

    async def get(self, key: bytes) -> tuple[StoredKey | None, int]:
        """A key, and the current revision of etcd; a linearizable read."""
        found, revision, _ = self.messages.page(await self._read("range", self.messages.key_request(key)))
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
        return self.messages.outcome(await self._call("txn", request, is_repeatable=False))

    async def compact(self, revision: int) -> None:
        """Compacts; harmless if it is done already."""
        try:
            await self._read("compact", self.messages.compaction_request(revision))
        except CallFailed as failure:
            if failure.verdict is not Verdict.COMPACTED:
                raise

    async def version(self) -> tuple[int, ...]:
        """The version of the present member; empty if etcd does not tell."""
        try:
            status = await self._read("status", self.messages.status_request())
        except CallFailed as failure:
            if failure.verdict is Verdict.REFUSED:  # only administrators may ask
                return ()
            raise
        return tuple(int(part) for part in str(status.version).split("-")[0].split(".") if part.isdigit())

    async def open_watch(self) -> "WatchStream":
        """A stream for watches on the present member."""
        member = await self._connected(asyncio.get_running_loop().time() + self.timeout)
        return WatchStream(member.watch(metadata=self._metadata), self.messages)

    async def renew_login(self) -> None:
        """Logs in again, if there is a user: tokens end, and a watch does not say so in all versions."""
        if self._credentials.user is not None:
            await self._log_in()

    async def _read(self, name: str, request: Any) -> Any:
        return await self._call(name, request, is_repeatable=True)

    async def _call(self, name: str, request: Any, *, is_repeatable: bool) -> Any:
        """Calls until there is an answer or the time is over."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.timeout
        may_log_in = self._credentials.user is not None
        while True:
            member = await self._connected(deadline)
            try:
                return await member.call(name, request, deadline - loop.time(), self._metadata)
            except CallFailed as failure:
                if failure.verdict is Verdict.LOGIN and may_log_in:
                    may_log_in = False
                    await self._log_in()
                    continue
                self._leave(member, failure)
                again = failure.verdict is Verdict.UNSENT or (is_repeatable and failure.verdict is Verdict.UNKNOWN)
                if not again or loop.time() + _POLL >= deadline:
                    raise
            await asyncio.sleep(_POLL)

    def _leave(self, member: "_Member", failure: CallFailed) -> None:
        is_current = bool(self._members) and member is self._members[self._current]
        if is_current and failure.verdict in (Verdict.UNSENT, Verdict.UNKNOWN):
            self.rotate()

    async def _connected(self, deadline: float) -> "_Member":
        """A member with a connection; raises CallFailed (unsent) if there is none in time."""
        loop = asyncio.get_running_loop()
        if not self._members:
            raise CallFailed(Verdict.UNSENT, "the storage is closed")
        member = self._members[self._current]
        began = loop.time()
        while not member.is_connected():
            now = loop.time()
            if now >= deadline:
                raise CallFailed(Verdict.UNSENT, f"no connection to {self.addresses} within {self.timeout:g} s")
            if now - began >= _PATIENCE_PER_MEMBER or member.has_failed():
                self.rotate()
                began = now
            await asyncio.sleep(_POLL)
            if not self._members:
                raise CallFailed(Verdict.UNSENT, "the storage is closed")
            member = self._members[self._current]
        return member

    async def _log_in(self) -> None:
        user, password = self._credentials.user or "", self._credentials.password or ""
        deadline = asyncio.get_running_loop().time() + self.timeout
        member = await self._connected(deadline)
        request = self.messages.login_request(user, password)
        response = await member.call("authenticate", request, self.timeout, (_HAS_LEADER,))
        self._metadata = (_HAS_LEADER, ("token", str(response.token)))

    def _prepare(self) -> tuple[Any, Any]:
        """grpc.aio, and the TLS credentials; blocks, since it loads a library and reads files."""
        load_messages()
        try:
            grpc: Any = import_module("grpc")
        except ImportError as error:
            raise ConfigError("Storage in etcd needs grpcio: install levelset[etcd].") from error
        import_module("grpc.aio")
        given = self._credentials
        tls = grpc.ssl_channel_credentials(_content(given.cacert), _content(given.key), _content(given.cert))
        return grpc, tls


class _Member:
    """The channel to one member, and the calls on it."""

    def __init__(self, grpc: Any, address: str, tls: Any, messages: Messages) -> None:
        self._grpc = grpc
        aio = grpc.aio
        options = [*_CHANNEL_OPTIONS]
        self.channel: Any = (
            aio.insecure_channel(address, options) if tls is None else aio.secure_channel(address, tls, options)
        )
        self._calls: dict[str, Any] = {
            name: self._unary(getattr(messages, name)) for name in ("range", "txn", "compact", "status", "authenticate")
        }
        watch = messages.watch
        self.watch: Any = self.channel.stream_stream(
            watch.path, request_serializer=watch.serialize, response_deserializer=watch.parse
        )

    def is_connected(self) -> bool:
        """Whether there is a connection; starts to connect if not."""
        return bool(self.channel.get_state(try_to_connect=True) is self._grpc.ChannelConnectivity.READY)

    def has_failed(self) -> bool:
        """Whether the last attempt to connect has failed."""
        return bool(self.channel.get_state() is self._grpc.ChannelConnectivity.TRANSIENT_FAILURE)

    async def call(self, name: str, request: Any, within: float, metadata: Any) -> Any:
        """The response; raises CallFailed."""
        try:
            return await self._calls[name](request, timeout=within, metadata=metadata)
        except self._grpc.RpcError as error:
            code, reason = error.code().name, error.details() or ""
            raise CallFailed(judge(code, reason), reason or code) from error

    def _unary(self, call: Call) -> Any:
        return self.channel.unary_unary(call.path, request_serializer=call.serialize, response_deserializer=call.parse)


class WatchStream:
    """One stream of watch requests and responses; CallFailed when it ends."""

    def __init__(self, call: Any, messages: Messages) -> None:
        self._call = call
        self._messages = messages
        self._reason: str | None = None
        self._sending = asyncio.Lock()

    async def send(self, request: Any) -> None:
        """Sends a request."""
        async with self._sending:
            with _ending(self):
                await self._call.write(request)

    async def read(self) -> WatchBatch:
        """The next response; must not be cancelled, except to end the stream."""
        with _ending(self):
            response = await self._call.read()
        if not hasattr(response, "events"):  # grpc.aio.EOF
            raise CallFailed(Verdict.UNKNOWN, self._reason or "etcd has ended the stream")
        return self._messages.batch(response)

    def end(self, reason: str) -> None:
        """Ends the stream; its reader gets CallFailed with the reason."""
        self._reason = self._reason or reason
        self._call.cancel()

    @property
    def end_reason(self) -> str | None:
        """Why this side has ended the stream."""
        return self._reason


class _ending:  # noqa: N801 - reads as a function
    """Turns the errors of a stream that has ended into CallFailed."""

    __slots__ = ("_stream",)

    def __init__(self, stream: WatchStream) -> None:
        self._stream = stream

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            return
        reason = self._stream.end_reason
        # A stream that is cancelled raises CancelledError in its reader, whose task is not cancelled.
        if isinstance(error, asyncio.CancelledError):
            if reason is not None and not _is_cancelled():
                raise CallFailed(Verdict.UNKNOWN, reason) from None
            return
        details = getattr(error, "details", None)
        if details is not None or isinstance(error, asyncio.InvalidStateError):
            text = cast("str", details()) if details is not None else "the stream is over"
            code = cast("Any", error).code().name if details is not None else "UNAVAILABLE"
            raise CallFailed(judge(code, text or ""), text or code) from error


@cache
def _keep_poller(aio: Any) -> None:
    """Keeps grpc's thread until the process ends: the end of its last channel would join it on the event loop."""
    aio.init_grpc_aio()


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _endpoint(url: str) -> tuple[str, bool]:
    parts = urlsplit(url if "//" in url else f"//{url}", scheme="http")
    try:
        port = parts.port or 2379
    except ValueError as error:
        raise ConfigError(f"The etcd URL {url!r} has no valid port: write it as https://host:2379.") from error
    has_more = parts.path not in ("", "/") or parts.username is not None or bool(parts.query)
    if parts.scheme not in ("http", "https") or not parts.hostname or has_more:
        raise ConfigError(f"The etcd URL {url!r} is not valid: write it as https://host:2379.")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{host}:{port}", parts.scheme == "https"


def _content(path: Path | None) -> bytes | None:
    if path is None:
        return None
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"The file {path} for etcd cannot be read: {error.strerror or error}.") from error
