"""An endless, self-healing stream of changes to the objects of a kind."""

from levelset.runtime.watch.events import Apply, Delete, Event, Init, InitApply, InitDone
from levelset.runtime.watch.predicates import Predicate, all_of, any_of, by, not_
from levelset.runtime.watch.streams import EventStream, ObjectStream, watch
from levelset.runtime.watch.transforms import transforming, without_fields
from levelset.runtime.watch.watcher import Trouble, Watcher

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
    "Trouble",
    "Watcher",
    "all_of",
    "any_of",
    "by",
    "not_",
    "transforming",
    "watch",
    "without_fields",
]
