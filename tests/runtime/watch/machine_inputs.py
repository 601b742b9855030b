"""Pages and watch events, for the tests of the machine."""

from typing import Any

from levelset.client.lists import ObjectPage
from levelset.client.object_types import Item, view_of
from levelset.client.watch_events import EventType, WatchEvent
from levelset.errors import ApiError
from levelset.objects.cached_object import CachedObject, decode_cached
from tests.runtime.watch.watch_bench import Settings, line

__all__ = ["VIEW", "bookmark", "cached", "error", "event", "item", "page"]

VIEW = view_of(Settings)


def cached(name: str, version: str = "1", **more: Any) -> CachedObject:
    """An object with this name and version."""
    whole = line("ADDED", name, version, **more)
    return decode_cached(whole[len(b'{"type":"ADDED","object":') : -2])


def item(name: str, version: str = "1", **more: Any) -> Item[Settings]:
    return Item(cached(name, version, **more), VIEW)


def page(*names: str, version: str = "10", more: str | None = None) -> ObjectPage:
    """A page of a list; `more` is the token of the next one."""
    return ObjectPage([cached(name) for name in names], version, more)


def event(type_: EventType, name: str, version: str, **more: Any) -> WatchEvent:
    return WatchEvent(type_, cached(name, version, **more))


def bookmark(version: str, *, ends: bool = False) -> WatchEvent:
    return WatchEvent("BOOKMARK", cached("", version), None, ends)


def error(status: ApiError) -> WatchEvent:
    return WatchEvent("ERROR", None, status)
