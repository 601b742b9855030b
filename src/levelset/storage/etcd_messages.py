"""etcd's messages: requests built from values, and responses read into values.

The message classes come from etcd's own service definition (`data/etcd_messages.json`), in a descriptor pool of their
own, so that they do not collide with those of another etcd client in the process. protobuf is imported when the first
storage in etcd starts. Messages are `Any` here and nowhere else.
"""

import json
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple

from levelset.errors import ConfigError
from levelset.storage.interface import Conditions, Item

__all__ = [
    "Call",
    "EncodedConditions",
    "KeySpace",
    "Messages",
    "StoredKey",
    "WatchBatch",
    "WatchEvent",
    "WriteOutcome",
    "load_messages",
]

_DEFINITION: Final = Path(__file__).parent / "data" / "etcd_messages.json"
_MOD: Final = 2  # Compare.CompareTarget
_EQUAL, _GREATER = 0, 1  # Compare.CompareResult
_DELETE: Final = 1  # Event.EventType


class Call(NamedTuple):
    """A method of etcd's API: its path, and how its messages become bytes."""

    path: str
    serialize: Any
    parse: Any


class StoredKey(NamedTuple):
    """One key of etcd with its bytes and revisions."""

    key: bytes
    value: bytes
    revision: int
    created: int
    version: int


class WatchEvent(NamedTuple):
    """One event of a watch; `is_deletion` events have no value."""

    stored: StoredKey
    is_deletion: bool


class WatchBatch(NamedTuple):
    """One response of a watch."""

    events: Sequence[WatchEvent]
    revision: int
    """The revision of etcd when it was sent."""
    is_progress: bool
    """It has no events: all those up to `revision` were sent before, if `is_solicited` ones can be trusted."""
    is_solicited: bool
    is_partial: bool
    """More events of the same revision follow."""
    cancel_reason: str | None
    """Why etcd has ended the watch."""
    compacted: int
    """The compacted revision if the watch ended because its start was compacted; else 0."""


class WriteOutcome(NamedTuple):
    """The response to a conditional write."""

    is_done: bool
    revision: int
    """The revision of etcd; that of the write if it is done."""
    found: StoredKey | None
    """The key before the write, if it was requested; what is there instead if the write is not done."""
    others: Sequence[StoredKey | None] = ()
    """The keys of the conditions, in the order of guards and claims, if the write is not done."""


class EncodedConditions(NamedTuple):
    """The `Conditions` of a write, with keys of etcd."""

    guards: Sequence[tuple[bytes, int]]
    claims: Sequence[tuple[bytes, bytes]]
    releases: Sequence[bytes]


class KeySpace:
    """Where the keys of one storage are in etcd: key `/a` of prefix `/levelset` is `/levelset/a`.

    Keys of levelset itself begin with the prefix and a dot, which sorts just before the slash: one watch has both.
    """

    __slots__ = ("compaction", "data", "data_end", "prefix", "tick", "watch_start")

    def __init__(self, prefix: str) -> None:
        if prefix.endswith("/"):
            prefix = prefix.rstrip("/")
        if prefix and not prefix.startswith("/"):
            raise ConfigError(f"The etcd prefix {prefix!r} must begin with a slash, as in /levelset.")
        self.prefix = prefix.encode()
        self.data = self.prefix + b"/"
        self.data_end = self.prefix + b"0"
        self.watch_start = self.prefix + b"."
        self.compaction = self.prefix + b".compaction"
        """The key whose holder may compact: its value is the revision that was compacted last."""
        self.tick = self.prefix + b".tick"
        """A key that is written to learn that all events before have arrived, where progress requests are unsafe."""

    def encode(self, key: str) -> bytes:
        """The key in etcd."""
        return self.prefix + key.encode()

    def encode_conditions(self, conditions: Conditions) -> EncodedConditions:
        """The conditions of a write, with the keys in etcd."""
        encode = self.encode
        return EncodedConditions(
            [(encode(key), revision) for key, revision in conditions.guards.items()],
            [(encode(key), value) for key, value in conditions.claims.items()],
            [encode(key) for key in conditions.releases],
        )

    def item(self, stored: StoredKey) -> Item | None:
        """The item of a key; None if it is not a key of the storage."""
        if not stored.key.startswith(self.data):
            return None
        try:
            key = stored.key[len(self.prefix) :].decode()
        except UnicodeDecodeError:
            return None
        return Item(key, stored.value, stored.revision, stored.created, stored.version)


@cache
def load_messages() -> "Messages":
    """The messages, loaded once; raises ConfigError if the extra `levelset[etcd]` is not installed."""
    return Messages()


class Messages:
    """Builds requests and reads responses."""

    def __init__(self) -> None:
        try:
            pool_module, factory = _module("descriptor_pool"), _module("message_factory")
            descriptors, json_format = _module("descriptor_pb2"), _module("json_format")
        except ImportError as error:
            raise ConfigError(f"Storage in etcd needs {error.name}: install levelset[etcd].") from error
        pool: Any = pool_module.DescriptorPool()
        for file in json.loads(_DEFINITION.read_text("utf-8"))["file"]:
            pool.Add(json_format.ParseDict(file, descriptors.FileDescriptorProto()))

        def message(name: str) -> Any:
            return factory.GetMessageClass(pool.FindMessageTypeByName(f"etcdserverpb.{name}"))

        def call(service: str, name: str, request: Any, response: str) -> Call:
            return Call(f"/etcdserverpb.{service}/{name}", request.SerializeToString, message(response).FromString)

        self._range, self._txn = message("RangeRequest"), message("TxnRequest")
        self._compaction, self._watch = message("CompactionRequest"), message("WatchRequest")
        self._status, self._login = message("StatusRequest"), message("AuthenticateRequest")
        self.range = call("KV", "Range", self._range, "RangeResponse")
        self.txn = call("KV", "Txn", self._txn, "TxnResponse")
        self.compact = call("KV", "Compact", self._compaction, "CompactionResponse")
        self.watch = call("Watch", "Watch", self._watch, "WatchResponse")
        self.status = call("Maintenance", "Status", self._status, "StatusResponse")
        self.authenticate = call("Auth", "Authenticate", self._login, "AuthenticateResponse")

    def range_request(self, start: bytes, end: bytes, *, limit: int, revision: int) -> Any:
        """A page of keys from `start` up to but without `end`, at a revision (0: now)."""
        return self._range(key=start, range_end=end, limit=limit, revision=revision)

    def key_request(self, key: bytes) -> Any:
        """One key, now; also the cheapest way to learn the current revision."""
        return self._range(key=key)

    def write_request(
        self,
        key: bytes,
        value: bytes | None,
        *,
        expected: int | None,
        wants_previous: bool = False,
        conditions: EncodedConditions | None = None,
    ) -> Any:
        """A put, or a deletion (no value), if the key is at revision `expected` (0: absent).

        With None a put is done in any case, and a deletion if the key exists.
        """
        request = self._txn()
        if expected is not None:
            request.compare.add(result=_EQUAL, target=_MOD, key=key, mod_revision=expected)
        elif value is None:
            request.compare.add(result=_GREATER, target=_MOD, key=key, mod_revision=0)
        done = request.success.add()
        if value is None:
            done.request_delete_range.key = key
            done.request_delete_range.prev_kv = wants_previous
        else:
            done.request_put.key = key
            done.request_put.value = value
            done.request_put.prev_kv = wants_previous
        request.failure.add().request_range.key = key
        if conditions is not None:
            _add_conditions(request, conditions)
        return request

    def compaction_request(self, revision: int) -> Any:
        """Drops all states before the revision."""
        return self._compaction(revision=revision)

    def watch_request(self, start: bytes, end: bytes, *, revision: int) -> Any:
        """Starts a watch of a range from a revision on, in responses of bounded size."""
        request = self._watch()
        create = request.create_request
        create.key, create.range_end, create.start_revision = start, end, revision
        create.progress_notify = create.fragment = True
        return request

    def progress_request(self) -> Any:
        """Makes etcd send its revision when it has sent all events up to it."""
        request = self._watch()
        request.progress_request.SetInParent()
        return request

    def status_request(self) -> Any:
        """The version and health of one member."""
        return self._status()

    def login_request(self, user: str, password: str) -> Any:
        """The token of a user."""
        return self._login(name=user, password=password)

    def page(self, response: Any) -> tuple[list[StoredKey], int, bool]:
        """The keys of a range response, its revision, and whether there are more."""
        return [_stored(kv) for kv in response.kvs], response.header.revision, response.more

    def outcome(self, response: Any) -> WriteOutcome:
        """What a write has done."""
        revision = response.header.revision
        if not response.succeeded:
            first, *others = [_first(one.response_range.kvs) for one in response.responses]
            return WriteOutcome(is_done=False, revision=revision, found=first, others=others)
        found: Any = None
        for one in response.responses[:1]:  # those of claims and releases follow
            kind = one.WhichOneof("response")
            if kind == "response_put" and one.response_put.HasField("prev_kv"):
                found = one.response_put.prev_kv
            elif kind == "response_delete_range":
                found = next(iter(one.response_delete_range.prev_kvs), None)
        return WriteOutcome(response.succeeded, revision, None if found is None else _stored(found))

    def batch(self, response: Any) -> WatchBatch:
        """The events of a watch response."""
        events = [WatchEvent(_stored(event.kv), event.type == _DELETE) for event in response.events]
        return WatchBatch(
            events,
            response.header.revision,
            is_progress=not events and not response.created and not response.canceled,
            is_solicited=response.watch_id < 0,
            is_partial=response.fragment,
            cancel_reason=(response.cancel_reason or "no reason given") if response.canceled else None,
            compacted=response.compact_revision,
        )


def _add_conditions(request: Any, conditions: EncodedConditions) -> None:
    for key, revision in (*conditions.guards, *((key, 0) for key, _ in conditions.claims)):
        request.compare.add(result=_EQUAL, target=_MOD, key=key, mod_revision=revision)
        request.failure.add().request_range.key = key
    for key, value in conditions.claims:
        put = request.success.add().request_put
        put.key, put.value = key, value
    for key in conditions.releases:
        request.success.add().request_delete_range.key = key


def _first(kvs: Any) -> StoredKey | None:
    return next((_stored(kv) for kv in kvs), None)


def _module(name: str) -> Any:
    return import_module(f"google.protobuf.{name}")


def _stored(kv: Any) -> StoredKey:
    return StoredKey(kv.key, kv.value, kv.mod_revision, kv.create_revision, kv.version)
