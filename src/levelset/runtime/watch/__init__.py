"""Watches that never end: list, watch, relist and reconnect, as batches or streams of events."""

from typing import TYPE_CHECKING

from levelset.late_exports import late_exports

if TYPE_CHECKING:
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

__getattr__, __dir__ = late_exports(
    __name__,
    {
        "levelset.runtime.watch.events": "Apply Delete Event Init InitApply InitDone",
        "levelset.runtime.watch.predicates": "Predicate all_of any_of by not_ where",
        "levelset.runtime.watch.streams": "EventStream ObjectStream watch",
        "levelset.runtime.watch.transforms": "typed_transform without_fields",
        "levelset.runtime.watch.watcher": "Watcher WatchError",
    },
)
