from datetime import UTC

import pytest

from levelset.apiserver.resources.catalog import Catalog
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import ServerState, Tree, utc_now
from levelset.errors import ConfigError
from levelset.storage import MemoryStorage, Storage

WIDGETS = ServedResource("example.com", "v1", "Widget", "widgets", "widget", "WidgetList", True, "v1", custom=True)


class Later:
    """A storage with asynchronous methods only."""

    revision = compacted = 0
    get = list = count = put = delete = watch = compact = close = None


def test_listeners_are_called_in_the_order_of_their_registration() -> None:
    state = ServerState(MemoryStorage(), Catalog([WIDGETS]))
    events: list[tuple[str, ServedResource, Tree | None, Tree | None]] = []
    state.listeners.append(lambda served, before, after: events.append(("first", served, before, after)))
    state.listeners.append(lambda served, before, after: events.append(("second", served, before, after)))
    state.notify_listeners(WIDGETS, None, {"kind": "Widget"})
    assert events == [(name, WIDGETS, None, {"kind": "Widget"}) for name in ("first", "second")]


def test_resource_listeners_are_called_first_and_for_their_resource_only() -> None:
    state = ServerState(MemoryStorage(), Catalog([WIDGETS]))
    events: list[str] = []
    state.listeners.append(lambda _served, _before, _after: events.append("listener"))
    state.add_resource_listener(WIDGETS.prefix, lambda _served, _before, _after: events.append("resource listener"))
    state.add_resource_listener(
        "/registry/example.com/gadgets/", lambda _served, _before, _after: events.append("other")
    )
    state.notify_listeners(WIDGETS, None, {"kind": "Widget"})
    assert events == ["resource listener", "listener"]


def test_a_storage_without_synchronous_reads_is_rejected() -> None:
    later: Storage = Later()  # type: ignore[assignment]  # only its methods matter
    with pytest.raises(ConfigError, match="MemoryStorage"):
        ServerState(later, Catalog())


def test_the_time_is_in_utc() -> None:
    assert utc_now().tzinfo is UTC
