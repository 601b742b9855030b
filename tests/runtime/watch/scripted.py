"""Pages and watch events made by hand, for the tests of the machine."""

from typing import Any

from levelset.client.lists import KeptPage
from levelset.client.object_types import Item, view_of
from levelset.client.watch_request import EventType, WatchEvent
from levelset.errors import ApiError
from levelset.objects.cached_object import Kept, keep
from tests.runtime.watch.world import Settings, line

__all__ = ["VIEW", "bookmark", "error", "event", "item", "kept", "page"]

VIEW = view_of(Settings)


def kept(name: str, version: str = "1", **more: Any) -> Kept:
    """An object with this name and version."""
    whole = line("ADDED", name, version, **more)
    return keep(whole[len(b'{"type":"ADDED","object":') : -2])


def item(name: str, version: str = "1", **more: Any) -> Item[Settings]:
    return Item(kept(name, version, **more), VIEW)


def page(*names: str, version: str = "10", more: str | None = None) -> KeptPage:
    """A page of a list; `more` is the token of the next one."""
    return KeptPage([kept(name) for name in names], version, more)


def event(type_: EventType, name: str, version: str, **more: Any) -> WatchEvent:
    return WatchEvent(type_, kept(name, version, **more))


def bookmark(version: str, *, ends: bool = False) -> WatchEvent:
    return WatchEvent("BOOKMARK", kept("", version), None, ends)


def error(status: ApiError) -> WatchEvent:
    return WatchEvent("ERROR", None, status)
