"""A controller is a frozen value, and invalid arguments raise when it is created."""

from collections.abc import AsyncIterator, Awaitable
from datetime import timedelta
from functools import partial, wraps
from typing import Any

import pytest

from levelset.client import OnlyMetadata
from levelset.errors import ConfigError, Retry
from levelset.objects import GroupVersionKind, Ref
from levelset.runtime.controller import Context, Controller, every, owns, references, remembers, source, watches
from levelset.runtime.state import StateMap
from tests.runtime.controller.controller_loop import ConfigMap, Web

__all__: list[str] = []

WEBSITE = GroupVersionKind("example.dev", "v1", "Website")


async def reconcile(_: Any, __: Context) -> None:
    return


def test_a_controller_is_named_after_its_kind_by_default() -> None:
    assert Controller(Web, reconcile).name == "websites"
    assert Controller(WEBSITE, reconcile).name == "website"
    assert Controller(OnlyMetadata(Web), reconcile, name="webs").name == "webs"
    assert repr(Controller(Web, reconcile)) == "<Controller 'websites' of example.dev/v1 Website>"


def test_a_controller_is_immutable_and_with_options_makes_a_copy() -> None:
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
        ({"cleanup": 5}, "cleanup=5 is not a function"),
        ({"on_error": "retry"}, "on_error='retry' is not a function"),
        ({"retries": 5}, "unknown option retries; the options are backoff, cleanup, concurrency, "),
        ({"timeout": "5m"}, "timeout='5m', but it must be a number of seconds"),
        ({"timeout": True}, "timeout=True, but it must be a number of seconds"),
        ({"debounce": "1s"}, "debounce='1s', but it must be a number of seconds"),
        ({"backoff": "5s"}, "backoff='5s', but it must be a Backoff, or a function to seconds"),
        ({"when": str.isdigit}, r"when=str.isdigit is not a predicate; write where\(function\)"),
        ({"event_filter": str.isdigit}, "websites: event_filter=str.isdigit is not a predicate"),
    ],
)
def test_invalid_options_raise_a_config_error_with_their_name(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Controller(Web, reconcile, **options)


def test_a_list_of_relations_is_refused_with_the_way_to_pass_it() -> None:
    anything: Any = [owns(ConfigMap)]
    with pytest.raises(ConfigError, match=r"pass its items: Controller\(kind, reconcile, \*relations\)"):
        Controller(Web, reconcile, anything)


def test_a_relation_refuses_what_is_no_predicate_and_a_function_that_is_async() -> None:
    anything: Any = lambda one: True

    async def to_refs(_: ConfigMap) -> list[Ref[Web]]:
        return []

    wrong: Any = to_refs
    with pytest.raises(ConfigError, match=r"when=.*<lambda> is not a predicate; write where\(function\)"):
        owns(ConfigMap, when=anything)
    with pytest.raises(ConfigError, match=r"to=.*to_refs is async, but is called for each event: write def"):
        watches(ConfigMap, to=wrong)


@pytest.mark.parametrize("seconds", ["5m", True, timedelta(minutes=5)])
def test_a_retry_after_what_is_no_number_of_seconds_is_refused(seconds: Any) -> None:
    with pytest.raises(TypeError, match="write a number of seconds, such as seconds=300"):
        Retry("not yet", seconds=seconds)


def test_anything_but_a_kind_a_function_and_relations_raises_a_config_error() -> None:
    anything: Any = "Website"
    with pytest.raises(ConfigError):
        Controller(anything, reconcile)
    with pytest.raises(ConfigError, match="reconcile=None is not a function"):
        Controller(Web, None)  # type: ignore[call-overload]  # that is the point
    with pytest.raises(ConfigError, match=r"is not a relation; use owns"):
        Controller(Web, reconcile, ConfigMap)  # type: ignore[call-overload]  # that is the point


def plain(site: Web, ctx: Context) -> None:
    """Not async."""


def untyped(site, ctx):
    return None


async def generating(site: Web, ctx: Context) -> AsyncIterator[None]:
    yield None


async def alone(site: Web) -> None:
    """Takes no Context."""


async def keyed(site: Web, *, ctx: Context) -> None:
    """Takes the Context as a keyword."""


class Plain:
    def __call__(self, site: Web, ctx: Context) -> None:
        """Not async."""


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (plain, r"websites: reconcile=plain is not async; write async def reconcile\(object, ctx\)"),
        (untyped, "reconcile=untyped is not async"),
        (partial(plain), "is not async"),
        (Plain(), "is not async"),
        (Plain().__call__, "is not async"),
        (generating, "reconcile=generating is not async"),
        (alone, r"called with \(object, ctx\), but it takes \(site: .*: too many positional arguments; write"),
        (keyed, "too many positional arguments"),
        (lambda site: reconcile(site, site), "too many positional arguments"),
    ],
)
def test_a_reconciler_that_is_not_async_or_takes_other_arguments_is_refused(function: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Controller(Web, function)


def test_handlers_are_checked_as_the_reconciler_is() -> None:
    wrong: Any = reconcile
    with pytest.raises(ConfigError, match=r"gave_up=reconcile is called with \(object, error, ctx\)"):
        Controller(Web, reconcile, gave_up=wrong)
    wrong = plain
    with pytest.raises(ConfigError, match=r"write async def gone\(ref, ctx\)"):
        Controller(Web, reconcile, gone=wrong)


def test_functions_that_return_what_an_async_function_returned_are_reconcilers() -> None:
    def delegate(site: Web, ctx: Context) -> Awaitable[None]:
        return reconcile(site, ctx)

    @wraps(reconcile)
    def wrapped(*arguments: Any) -> Any:
        return reconcile(*arguments)

    some: list[Any] = [delegate, wrapped, lambda site, ctx: reconcile(site or ctx, ctx), partial(reconcile)]
    assert [Controller(Web, one).name for one in some] == ["websites"] * 4


def test_a_cleanup_of_a_kind_without_a_class_needs_a_finalizer() -> None:
    with pytest.raises(ConfigError, match="needs finalizer="):
        Controller(WEBSITE, reconcile, cleanup=reconcile)
    assert Controller(WEBSITE, reconcile, cleanup=reconcile, finalizer="a.dev/b").finalizer == "a.dev/b"


def test_relations_check_their_arguments() -> None:
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


def test_owned_and_referenced_kinds_are_watched_as_a_whole_or_on_request_as_metadata() -> None:
    def names(_: Web) -> list[Ref[ConfigMap]]:
        return []

    assert owns(ConfigMap).kind is ConfigMap
    assert owns(ConfigMap, metadata_only=True).kind == OnlyMetadata(ConfigMap)
    assert references(ConfigMap, names).kind is ConfigMap
    assert references(ConfigMap, names, metadata_only=True).kind == OnlyMetadata(ConfigMap)


def test_a_source_is_a_stream_or_a_function_that_makes_one() -> None:
    async def stream() -> AsyncIterator[Ref[Web]]:
        yield Ref(Web, "blog")

    assert source(stream).stream is stream
    assert every(5).ticks == 5
    assert every(stream).ticks is stream
