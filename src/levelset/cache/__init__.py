"""The last seen state of a cluster, in memory: stores, indexes, shared informers, and reads that see your writes."""

from levelset.cache.changes import Change
from levelset.cache.cluster import Cluster
from levelset.cache.handle import Handle
from levelset.cache.index import Index, by_label, by_namespace, by_owner
from levelset.cache.informers import Informers
from levelset.cache.reader import Read
from levelset.cache.snapshot import Snapshot
from levelset.cache.stats import Stats
from levelset.cache.store import Store, Writer, store
from levelset.cache.subscription import Subscription

__all__ = [
    "Change",
    "Cluster",
    "Handle",
    "Index",
    "Informers",
    "Read",
    "Snapshot",
    "Stats",
    "Store",
    "Subscription",
    "Writer",
    "by_label",
    "by_namespace",
    "by_owner",
    "store",
]
