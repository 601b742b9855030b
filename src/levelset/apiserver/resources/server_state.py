"""What all parts of the API server share: where objects are, which kinds there are, what time it is, and who listens.

A `World` does nothing on its own. The code that reads, writes, deletes and watches lives in functions that take it as
their first argument; that way each of them is told in one file, and a test builds a world in one line.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING, Any

from levelset.apiserver.resources.in_flight_creates import Arrivals
from levelset.errors import Cause
from levelset.storage import LandingWriter, NowaitReader, NowaitWriter, Storage

if TYPE_CHECKING:
    from levelset.apiserver.admission.chain import Chain
    from levelset.apiserver.admission.policies.policy_index import Policies
    from levelset.apiserver.authn.authenticator import Access
    from levelset.apiserver.authn.service_account_tokens import Accounts
    from levelset.apiserver.authz.rbac import Rbac
    from levelset.apiserver.resources.catalog import Catalog
    from levelset.apiserver.resources.served_resource import ServedResource
    from levelset.apiserver.verbs.watch_feeds import Feeds

__all__ = ["Claimant", "Listener", "Tree", "Validator", "World", "utc_now"]

Tree = dict[str, Any]
"""An object as plain JSON: dictionaries, lists, texts, numbers, true, false and null."""

Listener = Callable[["ServedResource", Tree | None, Tree | None], None]
"""Told of every committed write: the kind, the object before (None: created) and after (None: removed).

Both trees carry their `metadata.resourceVersion` and belong to the world: look, do not touch. A listener must not
raise and must not wait; it notes what there is to do and leaves the doing to a task of its own.
"""

Claimant = Callable[[Tree], Callable[[], None]]
"""Told of an object whose write is on the way, right after it was found valid; gives what to call when that is over."""

Validator = Callable[[Tree, Tree | None], list[Cause]]
"""Judges a create (old is None) or an update in process; any cause refuses the request with 422."""


def utc_now() -> datetime:
    """The time by the wall clock, in UTC."""
    return datetime.now(UTC)


@dataclass(slots=True, eq=False)
class World:
    """The shared parts, put together once by `ApiServer`; used from one event loop."""

    storage: Storage
    catalog: "Catalog"
    access: "Access | None" = None
    """Who asks, and whether they may; None lets everybody in (tests)."""
    rbac: "Rbac | None" = None
    """The roles that decide what those may do who are not masters; None if they may do nothing."""
    accounts: "Accounts | None" = None
    """The tokens of service accounts; None if nobody signs any."""
    now: Callable[[], datetime] = utc_now
    random: Random = field(default_factory=Random)
    """Where uids and generated names come from: give a seeded one for a world that repeats itself.

    They must differ, not be secret. So a generator that the system seeds will do, at a tenth of what asking the system
    for every number would cost.
    """
    validators: dict[tuple[str, str], list[Validator]] = field(default_factory=dict[tuple[str, str], list[Validator]])
    """In-process validators by (group, kind)."""
    admission: "Chain | None" = None
    """Those who are asked before a client's write; None if there are none, and then it costs nothing."""
    policies: "Policies | None" = None
    """The admission policies and their bindings; None if nobody keeps any (tests)."""
    listeners: list[Listener] = field(default_factory=list[Listener])
    removal_listeners: list[Listener] = field(default_factory=list[Listener])
    """Listeners that are told only of objects that are removed."""
    followers: dict[str, list[Listener]] = field(default_factory=dict[str, list[Listener]])
    """Listeners that one resource matters to, by the prefix of its keys: others' writes need not wait for them."""
    claimants: dict[str, Claimant] = field(default_factory=dict[str, Claimant])
    """Who keeps what the objects of a resource must not share, by the prefix of its keys."""
    special: dict[tuple[str, str, str], Callable[..., Any]] = field(
        default_factory=dict[tuple[str, str, str], Callable[..., Any]]
    )
    """Handlers of their own, by group, resource and subresource: `handler(world, served, address, request)`."""
    arrivals: Arrivals = field(default_factory=Arrivals)
    """The objects that are on their way in, by the namespace and the kind they belong to."""
    feeds: "Feeds | None" = None
    """The open watches; made by the first one."""
    reader: NowaitReader | None = field(init=False)
    """The storage, if it answers reads at once; None if reads must be awaited."""
    writer: NowaitWriter | None = field(init=False)
    """The storage, if a write is finished when the call returns; None if writes must be awaited."""
    lander: LandingWriter | None = field(init=False)
    """The storage, if it accepts a write at once and tells later how it ended; None if it does not."""

    def __post_init__(self) -> None:
        self.reader = self.storage if isinstance(self.storage, NowaitReader) else None
        self.writer = self.storage if isinstance(self.storage, NowaitWriter) else None
        self.lander = self.storage if isinstance(self.storage, LandingWriter) else None

    def follow(self, prefix: str, listener: Listener) -> None:
        """Has `listener` told of the writes to the resource with this prefix of keys, before the `listeners` are."""
        self.followers.setdefault(prefix, []).append(listener)

    def claim(self, served: "ServedResource", tree: Tree) -> Callable[[], None]:
        """Keeps others from what the object is to have while its write is on the way; call the result after that."""
        claimant = self.claimants.get(served.prefix)
        return _nothing if claimant is None else claimant(tree)

    def stored(self, served: "ServedResource", before: Tree | None, after: Tree | None) -> None:
        """Tells the listeners of a committed write; the write path calls it before it answers its client."""
        followers = self.followers.get(served.prefix)
        if followers is not None:
            for follower in followers:
                follower(served, before, after)
        for listener in self.listeners:
            listener(served, before, after)
        if after is None:
            for listener in self.removal_listeners:
                listener(served, before, after)


def _nothing() -> None:
    """What is to be done where nothing was claimed."""
