"""A controller is a frozen value, and what cannot work is refused when it is made."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from levelset.client import OnlyMetadata
from levelset.errors import ConfigError
from levelset.objects import GroupVersionKind, Ref
from levelset.runtime.controller import Context, Controller, every, owns, references, remembers, source, watches
from levelset.runtime.state import StateMap
from tests.runtime.controller.loops import ConfigMap, Web

__all__: list[str] = []

WEBSITE = GroupVersionKind("example.dev", "v1", "Website")


async def reconcile(_: Any, __: Context) -> None:
    return


def test_a_controller_has_the_name_of_its_kind_unless_given_another() -> None:
    assert Controller(Web, reconcile).name == "websites"
    assert Controller(WEBSITE, reconcile).name == "website"
    assert Controller(OnlyMetadata(Web), reconcile, name="webs").name == "webs"
    assert repr(Controller(Web, reconcile)) == "<Controller 'websites' of example.dev/v1 Website>"


def test_a_controller_does_not_change_and_other_options_make_another_one() -> None:
    first = Controller(Web, reconcile, owns(ConfigMap), concurrency=8, cleanup=reconcile)
    with pytest.raises(AttributeError):
        first.concurrency = 1  # type: ignore[misc]  # that is the point
    second = first.with_options(name="others", timeout=30.0)
    assert (second.name, second.concurrency, second.timeout, second.relations) == ("others", 8, 30.0, first.relations)
    assert first.finalizer == "websites.example.dev/levelset-websites"
    assert second.finalizer == "websites.example.dev/levelset-others"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"name": "My Controller"}, "a name has at most 63"),
        ({"concurrency": 0}, "concurrency=0, but it must be 1 or more"),
        ({"timeout": 0}, "timeout=0, but it must be"),
        ({"debounce": -1}, "debounce=-1, but it must be"),
        ({"finalizer": "a.dev/b"}, "must be left out without a cleanup"),
        ({"finalizer": "nonsense", "cleanup": reconcile}, "finalizer 'nonsense'"),
        ({"cleanup": 5}, "cleanup=5 is no function"),
        ({"on_error": "retry"}, "on_error='retry' is no function"),
        ({"retries": 5}, "there is no option retries"),
    ],
)
def test_options_that_cannot_work_are_refused_with_their_name(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Controller(Web, reconcile, **options)


def test_what_is_no_kind_no_function_or_no_relation_is_refused() -> None:
    anything: Any = "Website"
    with pytest.raises(ConfigError):
        Controller(anything, reconcile)
    with pytest.raises(ConfigError, match="reconcile=None is no function"):
        Controller(Web, None)  # type: ignore[call-overload]  # that is the point
    with pytest.raises(ConfigError, match=r"is no relation; write owns"):
        Controller(Web, reconcile, ConfigMap)  # type: ignore[call-overload]  # that is the point


def test_a_cleanup_of_a_kind_without_a_class_needs_a_finalizer() -> None:
    with pytest.raises(ConfigError, match="needs finalizer="):
        Controller(WEBSITE, reconcile, cleanup=reconcile)
    assert Controller(WEBSITE, reconcile, cleanup=reconcile, finalizer="a.dev/b").finalizer == "a.dev/b"


def test_relations_are_values_that_refuse_what_cannot_work() -> None:
    nonsense: Any = 5
    assert owns(ConfigMap) == owns(ConfigMap) != owns(ConfigMap, every_owner=True)
    states: StateMap[Web, str, str] = StateMap()
    assert remembers(states) == remembers(states)
    for make in (
        lambda: owns(nonsense),
        lambda: watches(ConfigMap, to=nonsense),
        lambda: references(ConfigMap, nonsense),
        lambda: source(nonsense),
        lambda: every(0),
        lambda: every("day"),  # type: ignore[arg-type]  # that is the point
    ):
        with pytest.raises(ConfigError):
            make()


def test_children_are_watched_by_their_metadata_and_what_is_referenced_as_a_whole() -> None:
    def names(_: Web) -> list[Ref[ConfigMap]]:
        return []

    assert owns(ConfigMap).kind == OnlyMetadata(ConfigMap)
    assert owns(ConfigMap, metadata_only=False).kind is ConfigMap
    assert references(ConfigMap, names).kind is ConfigMap
    assert references(ConfigMap, names, metadata_only=True).kind == OnlyMetadata(ConfigMap)


def test_a_source_is_a_stream_or_a_function_that_makes_one() -> None:
    async def stream() -> AsyncIterator[Ref[Web]]:
        yield Ref(Web, "blog")

    assert source(stream).stream is stream
    assert every(5).ticks == 5
    assert every(stream).ticks is stream
