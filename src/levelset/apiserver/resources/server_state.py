"""The shared state of one API server: storage, catalog, admission chain, clock and write listeners.

A `ServerState` has no behaviour of its own beyond notifying listeners. The code that reads, writes, deletes and watches
consists of functions that take it as their first argument (`verbs/`), so a test builds a state in one line and calls
them without an HTTP server. `ApiServer` (`apiserver/server.py`) builds the one that is served.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from levelset.apiserver.resources.expensive_work import ExpensiveWork
from levelset.apiserver.resources.in_flight_creates import InFlightCreates
from levelset.errors import Cause, ConfigError
from levelset.objects import encode_tree
from levelset.storage import Mismatch, NowaitReader, SharedStorage, Storage, TransactionalStorage

if TYPE_CHECKING:
    from levelset.apiserver.admission.chain import AdmissionChain
    from levelset.apiserver.admission.policies.policy_index import PolicyIndex
    from levelset.apiserver.authn.authenticator import Authenticator
    from levelset.apiserver.authn.service_account_tokens import ServiceAccountTokens
    from levelset.apiserver.authz.rbac import RbacAuthorizer
    from levelset.apiserver.resources.catalog import Catalog
    from levelset.apiserver.resources.served_resource import ServedResource
    from levelset.apiserver.verbs.watch import Feeds

__all__ = [
    "Claimer",
    "Listener",
    "Reserver",
    "ServerState",
    "Tree",
    "Validator",
    "add_missing_claims",
    "new_claims",
    "utc_now",
]

Tree = dict[str, Any]
"""An object as plain JSON: dictionaries, lists, strings, numbers, booleans and null."""

Listener = Callable[["ServedResource", Tree | None, Tree | None], None]
"""Called after every committed write with the resource, the object before (None: created) and after (None: removed).

Both trees carry their `metadata.resourceVersion` and are shared: a listener must not modify them. It must not raise and
must not block, because the write path calls it before the client gets its response; it only records what there is to
do and leaves the work to a task of its own.
"""

Reserver = Callable[[Tree], Callable[[], None]]
"""Reserves the unique values (IPs, ports) of a validated object until its write ends; returns the release function."""

Claimer = Callable[[Tree], dict[str, bytes]]
"""Returns the claims of an object: a storage key for each of its unique values, and the owner that is stored there.

A write creates and removes them in its own transaction, so that the storage decides which of two writers has a value.
"""

Validator = Callable[[Tree, Tree | None], list[Cause]]
"""Validates a create (old is None) or an update in process; any cause rejects the request with 422."""


_CLAIMS: Final = "/levelset/claims/"
"""Where claims are stored; no request can read them."""


def utc_now() -> datetime:
    """Returns the wall clock time in UTC."""
    return datetime.now(UTC)


@dataclass(slots=True, eq=False)
class ServerState:
    """The parts that all request handlers and controllers of one server share; used from one event loop."""

    storage: Storage
    catalog: "Catalog"
    authenticator: "Authenticator | None" = None
    """Authenticates requests; None admits every request (tests)."""
    rbac: "RbacAuthorizer | None" = None
    """Authorizes users outside of `system:masters`; None denies them everything."""
    service_account_tokens: "ServiceAccountTokens | None" = None
    """Issues and verifies service account tokens; None if there are none."""
    now: Callable[[], datetime] = utc_now
    random: Random = field(default_factory=Random)
    """The source of uids and generated names; pass a seeded one for reproducible names.

    They must be unique, not secret, so a pseudo-random generator is enough: it costs a tenth of reading the operating
    system's generator for every number.
    """
    validators: dict[tuple[str, str], list[Validator]] = field(default_factory=dict[tuple[str, str], list[Validator]])
    """In-process validators by (group, kind)."""
    admission: "AdmissionChain | None" = None
    """The admission chain of client writes; None if it is empty, so that a write pays one comparison."""
    policies: "PolicyIndex | None" = None
    """The admission policies and their bindings; None if they are not enforced (tests)."""
    listeners: list[Listener] = field(default_factory=list[Listener])
    removal_listeners: list[Listener] = field(default_factory=list[Listener])
    """Listeners that are called for removals only."""
    resource_listeners: dict[str, list[Listener]] = field(default_factory=dict[str, list[Listener]])
    """Listeners of one resource, by the storage prefix of its keys: writes to other resources do not pay for them."""
    reservers: dict[str, Reserver] = field(default_factory=dict[str, Reserver])
    """The reservers of resources whose objects hold unique values, by the storage prefix of their keys."""
    claimers: dict[str, Claimer] = field(default_factory=dict[str, Claimer])
    """The claimers of these resources."""
    follows_since: int | None = None
    """The revision since which the listeners follow the storage, because other servers write to it; None if none do."""
    subresource_handlers: dict[tuple[str, str, str], Callable[..., Any]] = field(
        default_factory=dict[tuple[str, str, str], Callable[..., Any]]
    )
    """Custom handlers by (group, resource, subresource): `handler(state, served, path, request)`."""
    stream_handlers: dict[tuple[str, str, str], Callable[..., Any]] = field(
        default_factory=dict[tuple[str, str, str], Callable[..., Any]]
    )
    """The handlers of subresources that stream to a node: `handler(state, served, namespace, name, request)`."""
    read_handlers: dict[tuple[str, str], Callable[..., Any]] = field(
        default_factory=dict[tuple[str, str], Callable[..., Any]]
    )
    """The handlers of GET by (group, resource), of resources that are computed and not stored."""
    expensive_work: ExpensiveWork = field(default_factory=ExpensiveWork)
    """Where writes that are expensive to validate are validated."""
    in_flight_creates: InFlightCreates = field(default_factory=InFlightCreates)
    """Creates that are checked but not committed, by namespace and by resource."""
    write_checks: dict[str, Callable[..., None]] = field(default_factory=dict[str, Callable[..., None]])
    """Checks of validated writes, by storage prefix: `check(served, new, old, options)` raises, or warns the client."""
    quotas: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    """The names of the ResourceQuotas by namespace; without any, a write pays one comparison."""
    recount_quotas: Callable[[str], None] | None = None
    """Counts the usage of a namespace again, after a write failed that its quotas were charged for."""
    feeds: "Feeds | None" = None
    """The open watches; created by the first watch."""
    reader: NowaitReader = field(init=False)
    """The same storage, whose reads return without awaiting."""
    shared: SharedStorage | None = field(init=False)
    """The same storage, if other servers write to it, too."""
    transactional: TransactionalStorage | None = field(init=False)
    """The same storage, if it decides about claims; without it, one server must be the only one."""

    def __post_init__(self) -> None:
        storage: Any = self.storage
        is_reader, is_shared, is_transactional = _abilities(storage)
        if not is_reader:
            raise ConfigError(
                "The server needs a storage with synchronous reads: use MemoryStorage, SqliteStorage or EtcdStorage."
            )
        self.reader = storage
        self.shared = storage if is_shared else None
        self.transactional = storage if is_transactional else None

    def add_resource_listener(self, prefix: str, listener: Listener) -> None:
        """Calls `listener` for every write below this storage prefix, before the general `listeners`."""
        self.resource_listeners.setdefault(prefix, []).append(listener)

    def notify_committed(
        self, served: "ServedResource", before: Tree | None, after: Tree | None, revision: int
    ) -> None:
        """Calls the listeners of a write of this server, unless they follow the storage and know it already."""
        if self.follows_since is None or revision <= self.follows_since:
            self.notify_listeners(served, before, after)

    def notify_listeners(self, served: "ServedResource", before: Tree | None, after: Tree | None) -> None:
        """Calls the listeners of a committed write, before the client gets its response."""
        resource_listeners = self.resource_listeners.get(served.prefix)
        if resource_listeners is not None:
            for listener in resource_listeners:
                listener(served, before, after)
        for listener in self.listeners:
            listener(served, before, after)
        if after is None:
            for listener in self.removal_listeners:
                listener(served, before, after)


_known_abilities: Final[WeakKeyDictionary[type[Storage], tuple[bool, bool, bool]]] = WeakKeyDictionary()


def _abilities(storage: Storage) -> tuple[bool, bool, bool]:
    """Whether a storage has synchronous reads, is shared, and has transactions; examined once for each class."""
    found = _known_abilities.get(type(storage))
    if found is None:
        found = (
            isinstance(storage, NowaitReader),
            isinstance(storage, SharedStorage),
            isinstance(storage, TransactionalStorage),
        )
        _known_abilities[type(storage)] = found
    return found


def new_claims(owner: str, values: Iterable[tuple[str, str]]) -> dict[str, bytes]:
    """The claims of an owner, such as `namespace/name`, on values, each with the space in which it is unique."""
    head = {"apiVersion": "levelset/v1", "kind": "Claim"}
    return {
        f"{_CLAIMS}{space}/{value}": encode_tree({**head, "metadata": {"name": value}, "owner": owner})
        for space, value in values
    }


async def add_missing_claims(state: ServerState, claims: dict[str, bytes]) -> None:
    """Stores the claims of an object that an earlier version has stored without them."""
    if state.transactional is None:
        return
    for key, owner in claims.items():
        if state.reader.get_nowait(key) is None:
            with suppress(Mismatch):  # another server has been faster
                await state.storage.put(key, owner, expected=0)
