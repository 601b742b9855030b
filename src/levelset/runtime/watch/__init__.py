"""Watches that never end: list, watch, relist and reconnect, as batches or streams of events."""

from levelset.runtime.watch.events import Apply, Delete, Event, Init, InitApply, InitDone
from levelset.runtime.watch.predicates import Predicate, all_of, any_of, by, not_, where
from levelset.runtime.watch.streams import EventStream, ObjectStream, watch
from levelset.runtime.watch.transforms import typed_transform, without_fields
from levelset.runtime.watch.watcher import Watcher, WatchError

__all__ = [
    "Apply",
    "Delete",
    "Event",
    "EventStream",
    "Init",
    "InitApply",
    "InitDone",
    "ObjectStream",
    "Predicate",
    "WatchError",
    "Watcher",
    "all_of",
    "any_of",
    "by",
    "not_",
    "typed_transform",
    "watch",
    "where",
    "without_fields",
]
