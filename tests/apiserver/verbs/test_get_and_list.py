import asyncio
import selectors
from collections.abc import Coroutine, Generator
from typing import Any, TypeVar

import pytest

from levelset.apiserver.eager_coroutines import run_eagerly
from levelset.apiserver.resources.catalog import Catalog
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import ServerState
from levelset.apiserver.verbs import get_and_list
from levelset.apiserver.verbs.get_and_list import (
    ListQuery,
    ListResult,
    get_item,
    list_items,
    parse_list_options,
    parse_revision,
    read_item,
    read_list,
    wait_revision,
)
from levelset.apiserver.wire.status_errors import ExpiredContinueToken
from levelset.errors import ApiError, BadRequest, Expired, Invalid, NotFound
from levelset.http import Deferred, Response
from levelset.storage import FutureRevision, MemoryStorage, Page

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


def run(work: Coroutine[Any, Any, T]) -> tuple[T, float]:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        result = runner.run(work)
        return result, runner.get_loop().time()


async def filled(storage: MemoryStorage, *names: str) -> ServerState:
    for name in names:
        value = f'{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}}}}'.encode()
        await storage.put(CONFIGMAPS.key("x", name), value, expected=0)
    return ServerState(storage, Catalog([CONFIGMAPS]))


def names(listing: ListResult) -> list[str]:
    return [one.key.rpartition("/")[2] for one in listing.items]


async def test_an_object_is_read_at_once() -> None:
    state = await filled(MemoryStorage(), "a")
    assert get_item(state, CONFIGMAPS, "x", "a").revision == 1
    with pytest.raises(NotFound, match='configmaps "b" not found'):
        get_item(state, CONFIGMAPS, "x", "b")


async def test_a_list_is_read_without_suspending() -> None:
    state = await filled(MemoryStorage(), "b", "a")
    with pytest.raises(StopIteration) as end:
        read_list(state, CONFIGMAPS, "x", ListQuery(not_older=2)).send(None)
    assert (names(end.value.value), end.value.value.revision) == (["a", "b"], 2)


def test_a_list_waits_for_a_future_revision() -> None:
    async def work() -> ListResult:
        state = await filled(MemoryStorage(), "a")
        reading = asyncio.ensure_future(read_list(state, CONFIGMAPS, "x", ListQuery(not_older=3)))
        for name in ("b", "c"):
            await asyncio.sleep(1)
            assert not reading.done()
            await state.storage.put(CONFIGMAPS.key("x", name), b'{"metadata":{}}', expected=0)
        return await reading

    listing, seconds = run(work())
    assert (names(listing), listing.revision) == (["a", "b", "c"], 3)
    assert 2 <= seconds < 2.5


def test_a_revision_that_is_not_reached_in_three_seconds_is_too_large() -> None:
    async def work() -> None:
        state = await filled(MemoryStorage(), "a")
        with pytest.raises(FutureRevision):
            await wait_revision(state, 9)
        await state.storage.put("/another/key", b"", expected=0)

    _, seconds = run(work())
    assert 3 <= seconds < 3.5


def test_a_revision_is_awaited_without_a_task() -> None:
    async def work() -> Response:
        state = await filled(MemoryStorage(), "a")

        async def wait() -> Response:
            await wait_revision(state, 2)
            return Response(204)

        waiting = run_eagerly(wait())
        assert isinstance(waiting, Deferred)
        write = state.storage.put("/b", b"", expected=0)
        asyncio.get_running_loop().call_later(1, asyncio.ensure_future, write)
        return await waiting

    response, seconds = run(work())
    assert response.status == 204
    assert 1 <= seconds < 1.5


async def test_an_object_is_read_after_its_revision_is_reached() -> None:
    state = await filled(MemoryStorage(), "a")
    reading = asyncio.ensure_future(read_item(state, CONFIGMAPS, "x", "b", resource_version="2"))
    await asyncio.sleep(0)
    assert not reading.done()
    made = await state.storage.put(CONFIGMAPS.key("x", "b"), b'{"metadata":{}}', expected=0)
    assert await reading is made
    with pytest.raises(ApiError, match='parsing "two": invalid syntax') as caught:
        await read_item(state, CONFIGMAPS, "x", "b", resource_version="two")
    assert caught.value.code == 500  # as upstream


async def test_an_exact_future_revision_fails_at_once() -> None:
    state = await filled(MemoryStorage(), "a")
    with pytest.raises(FutureRevision):
        await read_list(state, CONFIGMAPS, "x", ListQuery(exact=9))


def query(**parameters: str) -> ListQuery:
    return parse_list_options(CONFIGMAPS, {name: (value,) for name, value in parameters.items()})


class Recorded(MemoryStorage):
    """A storage that records its reads."""

    def __init__(self, *names: str, selected: str = "") -> None:
        super().__init__(after=8)
        self.reads: list[tuple[str, int | None, str | None, int | None]] = []
        for name in names:
            label = ',"labels":{"l":"1"}' if name in selected else ""
            value = f'{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"{label}}}}}'
            self.put_nowait(CONFIGMAPS.key("x", name), value.encode(), expected=0)

    def list_nowait(
        self, prefix: str, *, limit: int | None = None, after: str | None = None, revision: int | None = None
    ) -> Page:
        self.reads.append((prefix, limit, after, revision))
        return super().list_nowait(prefix, limit=limit, after=after, revision=revision)

    def page(self, list_query: ListQuery) -> ListResult:
        return list_items(self, CONFIGMAPS, "x", list_query)


def test_no_parameters_mean_everything_at_the_current_revision() -> None:
    assert query() == ListQuery(is_newest=True)


def test_resource_version_zero_ignores_the_limit() -> None:
    assert query(resourceVersion="0", limit="2") == ListQuery()


def test_a_resource_version_alone_means_not_older_than() -> None:
    assert query(resourceVersion="7") == ListQuery(not_older=7)
    assert query(resourceVersion="7", resourceVersionMatch="NotOlderThan", limit="2") == ListQuery(limit=2, not_older=7)


def test_a_resource_version_with_a_limit_or_match_exact_is_exact() -> None:
    assert query(resourceVersion="7", limit="2") == ListQuery(limit=2, exact=7)
    assert query(resourceVersion="7", resourceVersionMatch="Exact") == ListQuery(exact=7)


@pytest.mark.parametrize("text", ["0", "-1"])
def test_a_limit_that_is_not_positive_is_ignored(text: str) -> None:
    assert query(limit=text).limit is None


@pytest.mark.parametrize("text", ["", "x", "1.5", "9" * 30, "--1", "²"])
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
    storage = Recorded(*"abcd")
    listing = storage.page(query(limit="2"))
    assert (names(listing), listing.revision, listing.remaining) == (["a", "b"], 12, 2)
    resumed = query(**{"continue": listing.token})
    assert resumed == ListQuery(exact=12, after="b", is_resumed=True)
    storage.delete_nowait(CONFIGMAPS.key("x", "d"), expected=None)
    listing = storage.page(resumed)
    assert (names(listing), listing.revision, listing.token, listing.remaining) == (["c", "d"], 12, "", None)


def test_a_continue_token_excludes_a_resource_version_except_zero() -> None:
    token = Recorded(*"ab").page(query(limit="1")).token
    assert query(**{"continue": token, "resourceVersion": "0"}).after == "a"
    with pytest.raises(BadRequest):
        query(**{"continue": token, "resourceVersion": "9"})


@pytest.mark.parametrize("selector", [{}, {"labelSelector": "l=1"}])
async def test_an_expired_page_has_a_token_that_continues_at_the_current_revision(selector: dict[str, str]) -> None:
    storage = Recorded(*"abc", selected="abc")
    token = storage.page(query(limit="1", **selector)).token
    storage.put_nowait("/another/key", b"", expected=0)
    await storage.compact(storage.revision)
    with pytest.raises(ExpiredContinueToken) as caught:
        storage.page(query(**{"continue": token, "limit": "1"}, **selector))
    resumed = query(**{"continue": caught.value.resume}, **selector)
    assert (resumed.after, resumed.exact, resumed.is_resumed) == ("a", None, False)
    assert names(storage.page(resumed)) == ["b", "c"]


async def test_an_expired_first_page_has_no_token() -> None:
    storage = Recorded(*"ab")
    await storage.compact(storage.revision)
    with pytest.raises(Expired) as caught:
        storage.page(query(resourceVersion="9", resourceVersionMatch="Exact"))
    assert not isinstance(caught.value, ExpiredContinueToken)


def test_a_selector_reads_at_one_revision_until_the_page_is_full() -> None:
    known = [f"{number:04}" for number in range(1002)]
    storage = Recorded(*known, selected="0001 0700 1001")
    listing = storage.page(query(limit="2", labelSelector="l=1"))
    start = CONFIGMAPS.prefix_in("x")
    assert storage.reads == [(start, 500, None, None), (start, 500, CONFIGMAPS.key("x", "0499"), storage.revision)]
    assert (names(listing), listing.remaining) == (["0001", "0700"], None)
    last = storage.page(query(**{"continue": listing.token, "limit": "2", "labelSelector": "l=1"}))
    assert (names(last), last.revision, last.token) == (["1001"], storage.revision, "")


def last_of(steps: Generator[None, None, ListResult]) -> ListResult:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: ListResult = end.value
            return found


@pytest.mark.parametrize("selector", [{}, {"labelSelector": "!l"}])
@pytest.mark.parametrize("is_compacted", [False, True])
async def test_a_long_list_is_read_in_slices_of_one_revision(
    selector: dict[str, str], is_compacted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(get_and_list, "_READ_AT_ONCE", 2)
    storage = Recorded(*"abcde")
    first = storage.revision
    steps = get_and_list.list_steps(storage, CONFIGMAPS, "x", query(**selector))
    next(steps)
    storage.delete_nowait(CONFIGMAPS.key("x", "d"), expected=None)
    if is_compacted:
        await storage.compact(storage.revision)
    listing = last_of(steps)
    # A revision that is gone is that of no list: it begins again.
    expected = (["a", "b", "c", "e"], storage.revision) if is_compacted else (list("abcde"), first)
    assert (names(listing), listing.revision) == expected


def test_a_page_filled_by_the_very_last_item_has_no_token() -> None:
    assert Recorded(*"ab", selected="b").page(query(limit="1", labelSelector="l=1")).token == ""
    assert Recorded(*"ba", selected="a").page(query(limit="1", labelSelector="l=1")).token != ""


def test_a_page_of_the_only_object_with_a_name_has_no_token() -> None:
    assert Recorded("a", "ab").page(query(limit="1", fieldSelector="metadata.name=a")).token == ""


def test_a_name_selector_narrows_the_storage_prefix() -> None:
    storage = Recorded("a", "ab")
    assert names(storage.page(query(fieldSelector="metadata.name=a"))) == ["a"]
    assert [prefix for prefix, *_ in storage.reads] == [CONFIGMAPS.key("x", "a")]
