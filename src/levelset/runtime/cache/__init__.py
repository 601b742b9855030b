"""The last seen state of a cluster, in memory: stores, indexes, shared informers, and reads that see your writes."""

from typing import TYPE_CHECKING

from levelset.late_exports import late_exports

if TYPE_CHECKING:
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

__getattr__, __dir__ = late_exports(
    __name__,
    {
        "levelset.runtime.cache.change": "Change",
        "levelset.runtime.cache.cluster": "Cluster",
        "levelset.runtime.cache.index": "Index by_label by_namespace by_owner",
        "levelset.runtime.cache.informer": "Handle Stats",
        "levelset.runtime.cache.object_store": "Snapshot Store Writer store",
        "levelset.runtime.cache.reader": "Read",
        "levelset.runtime.cache.shared_informers": "Informers",
        "levelset.runtime.cache.subscribers": "Subscription",
    },
)
