import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from levelset.apiserver.resources.catalog import Catalog
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import ServerState
from levelset.apiserver.verbs.get_and_list import (
    ListQuery,
    ListResult,
    PageRequest,
    get_item,
    list_steps,
    parse_list_options,
    parse_revision,
    read_list,
    wait_revision,
)
from levelset.apiserver.wire.status_errors import ExpiredContinueToken
from levelset.errors import BadRequest, Expired, Invalid, NotFound
from levelset.storage import FutureRevision, Item, MemoryStorage, Page

T = TypeVar("T")
CONFIGMAPS = ServedResource("", "v1", "ConfigMap", "configmaps", "configmap", "ConfigMapList", True, "v1")


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop whose clock jumps to the next timer instead of waiting for it."""

    def __init__(self) -> None:
        self.now = 0.0
        super().__init__(Jumping(self))

    def time(self) -> float:
        return self.now


class Jumping(selectors.SelectSelector):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        self._loop.now += timeout or 0.0
        return super().select(0)


class SlowStorage(MemoryStorage):
    """A storage without synchronous reads."""

    get_nowait = None  # type: ignore[assignment]  # what is tested is that it is not used
    list_nowait = None  # type: ignore[assignment]


def run(work: Coroutine[Any, Any, T]) -> tuple[T, float]:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        result = runner.run(work)
        return result, runner.get_loop().time()


async def filled(storage: MemoryStorage, *names: str) -> ServerState:
    for name in names:
        value = f'{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}}}}'.encode()
        await storage.put(CONFIGMAPS.key("x", name), value, expected=0)
    state = ServerState(storage, Catalog([CONFIGMAPS]))
    if isinstance(storage, SlowStorage):
        state.reader = None
    return state


async def wait_list(state: ServerState, query: ListQuery) -> ListResult:
    found = read_list(state, CONFIGMAPS, "x", query)
    return found if isinstance(found, ListResult) else await found


def names(listing: ListResult) -> list[str]:
    return [one.key.rpartition("/")[2] for one in listing.items]


async def test_an_object_in_memory_is_read_without_waiting() -> None:
    state = await filled(MemoryStorage(), "a")
    found = get_item(state, CONFIGMAPS, "x", "a", resource_version="1")
    assert isinstance(found, Item)
    with pytest.raises(NotFound, match='configmaps "b" not found'):
        get_item(state, CONFIGMAPS, "x", "b")


async def test_a_list_in_memory_is_read_without_waiting() -> None:
    state = await filled(MemoryStorage(), "b", "a")
    found = read_list(state, CONFIGMAPS, "x", ListQuery())
    assert isinstance(found, ListResult)
    assert (names(found), found.revision) == (["a", "b"], 2)


async def test_an_asynchronous_storage_gives_the_same_results() -> None:
    state = await filled(SlowStorage(), "b", "a")
    found = get_item(state, CONFIGMAPS, "x", "a")
    assert not isinstance(found, Item)
    assert (await found).revision == 2
    listing = read_list(state, CONFIGMAPS, "x", ListQuery(limit=1))
    assert not isinstance(listing, ListResult)
    assert names(await listing) == ["a"]
    missing = get_item(state, CONFIGMAPS, "x", "c")
    assert not isinstance(missing, Item)
    with pytest.raises(NotFound):
        await missing


@pytest.mark.parametrize("kind", [MemoryStorage, SlowStorage])
async def test_a_compacted_page_is_expired_on_any_storage(kind: type[MemoryStorage]) -> None:
    state = await filled(kind(), "a", "b", "c")
    await state.storage.compact(2)
    query = ListQuery(exact=1, after="a", is_resumed=True)
    with pytest.raises(ExpiredContinueToken):
        await wait_list(state, query)


def test_a_read_waits_for_a_future_revision() -> None:
    async def work() -> Item:
        state = await filled(MemoryStorage(), "a")
        found = get_item(state, CONFIGMAPS, "x", "b", resource_version="2")
        assert not isinstance(found, Item)
        reading = asyncio.ensure_future(found)
        await asyncio.sleep(1)
        await filled_more(state)
        return await reading

    async def filled_more(state: ServerState) -> None:
        await state.storage.put(CONFIGMAPS.key("x", "b"), b'{"metadata":{}}', expected=0)

    item, seconds = run(work())
    assert item.revision == 2
    assert 1 <= seconds < 1.5


def test_a_revision_that_is_not_reached_in_three_seconds_is_too_large() -> None:
    async def work() -> None:
        state = await filled(MemoryStorage(), "a")
        with pytest.raises(FutureRevision):
            await wait_revision(state, 9)

    _, seconds = run(work())
    assert 3 <= seconds < 3.5


async def test_an_exact_future_revision_fails_at_once() -> None:
    state = await filled(MemoryStorage(), "a")
    with pytest.raises(FutureRevision):
        read_list(state, CONFIGMAPS, "x", ListQuery(exact=9))


def query(**parameters: str) -> ListQuery:
    return parse_list_options(CONFIGMAPS, {name: (value,) for name, value in parameters.items()})


def item(name: str, label: str = "") -> Item:
    labels = f',"labels":{{"l":"{label}"}}' if label else ""
    value = f'{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"{labels}}}}}'
    return Item(CONFIGMAPS.key("x", name), value.encode(), 5, 5, 1)


def one_page(list_query: ListQuery, *items: Item, remaining: int = 0) -> tuple[PageRequest, ListResult]:
    steps = list_steps(CONFIGMAPS, "x", list_query)
    request = next(steps)
    with pytest.raises(StopIteration) as end:
        steps.send(Page(items, 9, remaining > 0, remaining))
    return request, end.value.value


def test_no_parameters_mean_everything_at_the_current_revision() -> None:
    assert query() == ListQuery()


def test_resource_version_zero_ignores_the_limit() -> None:
    assert query(resourceVersion="0", limit="2") == ListQuery()


def test_a_resource_version_alone_means_not_older_than() -> None:
    assert query(resourceVersion="7") == ListQuery(not_older=7)
    assert query(resourceVersion="7", resourceVersionMatch="NotOlderThan", limit="2") == ListQuery(limit=2, not_older=7)


def test_a_resource_version_with_a_limit_or_match_exact_is_exact() -> None:
    assert query(resourceVersion="7", limit="2") == ListQuery(limit=2, exact=7)
    assert query(resourceVersion="7", resourceVersionMatch="Exact") == ListQuery(exact=7)


@pytest.mark.parametrize("text", ["0", "-1", ""])
def test_a_limit_that_is_not_positive_is_ignored(text: str) -> None:
    assert query(limit=text).limit is None


@pytest.mark.parametrize("text", ["x", "1.5", "9" * 30, "--1", "²"])
def test_a_limit_must_be_a_number(text: str) -> None:
    with pytest.raises(BadRequest):
        query(limit=text)


@pytest.mark.parametrize("text", ["abc", "-1", "1.0", "9" * 19, "9" * 40, "²"])
def test_a_resource_version_must_be_a_number(text: str) -> None:
    with pytest.raises(BadRequest):
        parse_revision(text)


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({"resourceVersionMatch": "Exact"}, "FieldValueForbidden"),
        ({"resourceVersionMatch": "Exact", "resourceVersion": "0"}, "FieldValueForbidden"),
        ({"resourceVersionMatch": "Other", "resourceVersion": "7"}, "FieldValueNotSupported"),
        ({"resourceVersionMatch": "Exact", "resourceVersion": "7", "continue": "x"}, "FieldValueForbidden"),
        ({"sendInitialEvents": "true"}, "FieldValueForbidden"),
    ],
)
def test_invalid_combinations_of_parameters_are_invalid(parameters: dict[str, str], reason: str) -> None:
    with pytest.raises(Invalid) as caught:
        query(**parameters)
    assert [one.reason for one in caught.value.causes] == [reason]
    assert caught.value.details == {"group": "meta.k8s.io", "kind": "ListOptions"}


@pytest.mark.parametrize("text", ["nonsense", "e30", "%%%", "é", "eyJ2IjoxLCJydiI6MCwiYWZ0ZXIiOiIifQ", "W10"])
def test_a_forged_continue_token_is_a_bad_request(text: str) -> None:
    with pytest.raises(BadRequest):
        query(**{"continue": text, "limit": "1"})


def test_a_partial_page_has_a_token_that_continues_at_its_revision() -> None:
    request, listing = one_page(query(limit="2"), item("a"), item("b"), remaining=3)
    assert (request.prefix, request.limit, listing.remaining) == (CONFIGMAPS.prefix_in("x"), 2, 3)
    resumed = query(**{"continue": listing.token})
    assert resumed == ListQuery(exact=9, after="b", is_resumed=True)
    request, listing = one_page(resumed, item("c"))
    assert (request.after, request.revision) == (CONFIGMAPS.key("x", "b"), 9)
    assert (listing.token, listing.remaining) == ("", None)


def test_a_continue_token_excludes_a_resource_version_except_zero() -> None:
    token = one_page(query(limit="1"), item("a"), remaining=1)[1].token
    assert query(**{"continue": token, "resourceVersion": "0"}).after == "a"
    with pytest.raises(BadRequest):
        query(**{"continue": token, "resourceVersion": "9"})


def test_an_expired_page_has_a_token_that_continues_at_the_current_revision() -> None:
    token = one_page(query(limit="1"), item("a"), remaining=1)[1].token
    steps = list_steps(CONFIGMAPS, "x", query(**{"continue": token, "limit": "1"}))
    next(steps)
    with pytest.raises(ExpiredContinueToken) as caught:
        steps.throw(Expired("too old"))
    assert query(**{"continue": caught.value.resume}) == ListQuery(after="a")


def test_an_expired_first_page_has_no_token() -> None:
    steps = list_steps(CONFIGMAPS, "x", query(resourceVersion="3", resourceVersionMatch="Exact"))
    next(steps)
    with pytest.raises(Expired) as caught:
        steps.throw(Expired("too old"))
    assert not isinstance(caught.value, ExpiredContinueToken)


def test_a_selector_reads_at_one_revision_until_the_page_is_full() -> None:
    steps = list_steps(CONFIGMAPS, "x", query(limit="1", labelSelector="l=1"))
    assert next(steps).revision is None
    request = steps.send(Page((item("a"), item("b")), 9, True, 2))
    assert (request.after, request.revision) == (CONFIGMAPS.key("x", "b"), 9)
    with pytest.raises(StopIteration) as end:
        steps.send(Page((item("c", "1"), item("d", "1")), 9, False, 0))
    listing: ListResult = end.value.value
    assert [one.key for one in listing.items] == [CONFIGMAPS.key("x", "c")]
    assert listing.token
    assert listing.remaining is None


def test_a_page_filled_by_the_very_last_item_has_no_token() -> None:
    _, listing = one_page(query(limit="1", labelSelector="l=1"), item("a"), item("b", "1"))
    assert listing.token == ""


def test_a_name_selector_narrows_the_storage_prefix() -> None:
    request, listing = one_page(query(fieldSelector="metadata.name=a"), item("a"), item("ab"))
    assert request.prefix == CONFIGMAPS.key("x", "a")
    assert [one.key for one in listing.items] == [CONFIGMAPS.key("x", "a")]
