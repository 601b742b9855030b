"""The last seen state of a cluster, in memory: stores, indexes, shared informers, and reads that see your writes."""

from levelset.runtime.cache.change import Change
from levelset.runtime.cache.cluster import Cluster
from levelset.runtime.cache.index import Index, by_label, by_namespace, by_owner
from levelset.runtime.cache.informer import Handle, Stats
from levelset.runtime.cache.object_store import Snapshot, Store, Writer, store
from levelset.runtime.cache.reader import Read
from levelset.runtime.cache.shared_informers import Informers
from levelset.runtime.cache.subscribers import Subscription

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
