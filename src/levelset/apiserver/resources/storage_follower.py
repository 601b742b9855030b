"""Makes the listeners of a server follow its storage, for the writes of other servers on the same one.

A server that is alone on its storage notifies its listeners itself, after each write. With several, each change is
handed to the listeners of all of them when their reads begin to see it, in the order of revisions: definitions, roles,
webhooks, policies, allocators and indexes are then the same on every server. A storage that other processes use (etcd)
is always followed; one in this process as soon as a second server uses it.
"""

import logging
from weakref import WeakKeyDictionary, WeakSet

from levelset.apiserver.resources.object_location import REGISTRY, prefix_of, stored_resources
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import ServerState, Tree
from levelset.objects import decode_tree
from levelset.storage import Change, Item, Storage

__all__ = ["StorageFollower"]

log = logging.getLogger(__name__)

_followers: "WeakKeyDictionary[Storage, WeakSet[StorageFollower]]" = WeakKeyDictionary()
"""The servers of this process by their storage."""


class StorageFollower:
    """The connection of one server's listeners to the changes of its storage, from `start` to `stop`."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._resources: dict[str, ServedResource] | None = None
        self._end = _nothing
        state.catalog.listen(self._on_catalog)

    def start(self) -> None:
        """Follows the storage if another server uses it; otherwise as soon as one does."""
        state = self._state
        if state.transactional is None:
            return  # a storage without transactions has one server only
        servers = _followers.setdefault(state.storage, WeakSet())
        servers.add(self)
        if state.shared is not None or len(servers) > 1:
            for one in servers:
                one.follow()

    def stop(self) -> None:
        """Ends it."""
        self._end()
        self._end = _nothing
        _followers.get(self._state.storage, WeakSet[StorageFollower]()).discard(self)

    def follow(self) -> None:
        """Hands all changes from now on to the listeners; calling it twice is allowed."""
        state = self._state
        if state.transactional is None or state.follows_since is not None:
            return
        # Writes of this server that are committed, but not notified yet, are not after this revision.
        state.follows_since = state.storage.revision
        self._end = state.transactional.listen(self._on_change)

    def _on_change(self, change: Change) -> None:
        served = self._resource(change.key)
        if served is None:
            return
        try:
            self._state.notify_listeners(served, _tree(change.before), _tree(change.after))
        except Exception:
            log.exception("a change of the storage was not understood", extra={"key": change.key})

    def _resource(self, key: str) -> ServedResource | None:
        """The resource that a key belongs to, preferably in its storage version; None if none is served."""
        if not key.startswith(REGISTRY):
            return None
        if self._resources is None:
            self._resources = {one.prefix: one for one in stored_resources(self._state.catalog)}
        return self._resources.get(prefix_of(key))

    def _on_catalog(self, _removed: object, _added: object) -> None:
        self._resources = None


def _tree(item: Item | None) -> Tree | None:
    if item is None:
        return None
    tree: Tree = decode_tree(item.value)
    tree["metadata"]["resourceVersion"] = str(item.revision)
    return tree


def _nothing() -> None:
    """Nothing is followed yet."""
