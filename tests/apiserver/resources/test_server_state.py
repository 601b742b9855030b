from datetime import UTC

from levelset.apiserver.resources.catalog import Catalog
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import Tree, World, utc_now
from levelset.storage import MemoryStorage, Storage

WIDGETS = ServedResource("example.com", "v1", "Widget", "widgets", "widget", "WidgetList", True, "v1", custom=True)


class Later:
    """A storage with nothing but what has to be awaited."""

    revision = compacted = 0
    get = list = count = put = delete = watch = compact = close = None


def test_listeners_are_told_of_a_write_in_the_order_they_came() -> None:
    world = World(MemoryStorage(), Catalog([WIDGETS]))
    told: list[tuple[str, ServedResource, Tree | None, Tree | None]] = []
    world.listeners.append(lambda served, before, after: told.append(("first", served, before, after)))
    world.listeners.append(lambda served, before, after: told.append(("second", served, before, after)))
    world.stored(WIDGETS, None, {"kind": "Widget"})
    assert told == [(name, WIDGETS, None, {"kind": "Widget"}) for name in ("first", "second")]


def test_followers_are_told_of_the_writes_to_their_resource_alone_and_first() -> None:
    world = World(MemoryStorage(), Catalog([WIDGETS]))
    told: list[str] = []
    world.listeners.append(lambda _served, _before, _after: told.append("listener"))
    world.follow(WIDGETS.prefix, lambda _served, _before, _after: told.append("follower"))
    world.follow("/registry/example.com/gadgets/", lambda _served, _before, _after: told.append("other"))
    world.stored(WIDGETS, None, {"kind": "Widget"})
    assert told == ["follower", "listener"]


def test_a_storage_that_answers_at_once_is_known_as_such() -> None:
    storage = MemoryStorage()
    assert World(storage, Catalog()).reader is storage


def test_a_storage_that_does_not_is_never_asked_to() -> None:
    later: Storage = Later()  # type: ignore[assignment]  # only its shape is looked at
    assert World(later, Catalog()).reader is None


def test_the_time_is_in_utc() -> None:
    assert utc_now().tzinfo is UTC
