"""An endless, self-healing stream of changes to the objects of a kind."""

from levelset.watching.events import Apply, Delete, Event, Init, InitApply, InitDone
from levelset.watching.objectstreams import ObjectStream
from levelset.watching.predicates import Predicate, all_of, any_of, by, not_
from levelset.watching.streams import EventStream, watch
from levelset.watching.transforms import transforming, without_fields
from levelset.watching.troubles import Trouble
from levelset.watching.watcher import Watcher

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
