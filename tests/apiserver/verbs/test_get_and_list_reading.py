import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from levelset.apiserver.resources.catalog import Catalog
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import World
from levelset.apiserver.verbs.get_and_list import Listing, ListQuery, get_item, read_list, wait_revision
from levelset.apiserver.wire.status_errors import ExpiredToken
from levelset.errors import NotFound
from levelset.storage import FutureRevision, Item, MemoryStorage

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
    """A storage that does not answer at once."""

    get_nowait = None  # type: ignore[assignment]  # what is tested is that it is not used
    list_nowait = None  # type: ignore[assignment]


def run(work: Coroutine[Any, Any, T]) -> tuple[T, float]:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        result = runner.run(work)
        return result, runner.get_loop().time()


async def filled(storage: MemoryStorage, *names: str) -> World:
    for name in names:
        value = f'{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}}}}'.encode()
        await storage.put(CONFIGMAPS.key("x", name), value, expected=0)
    world = World(storage, Catalog([CONFIGMAPS]))
    if isinstance(storage, SlowStorage):
        world.reader = None
    return world


async def wait_list(world: World, query: ListQuery) -> Listing:
    found = read_list(world, CONFIGMAPS, "x", query)
    return found if isinstance(found, Listing) else await found


def names(listing: Listing) -> list[str]:
    return [one.key.rpartition("/")[2] for one in listing.items]


async def test_an_object_in_memory_is_read_at_once() -> None:
    world = await filled(MemoryStorage(), "a")
    found = get_item(world, CONFIGMAPS, "x", "a", resource_version="1")
    assert isinstance(found, Item)
    with pytest.raises(NotFound, match='configmaps "b" not found'):
        get_item(world, CONFIGMAPS, "x", "b")


async def test_a_list_in_memory_is_read_at_once() -> None:
    world = await filled(MemoryStorage(), "b", "a")
    found = read_list(world, CONFIGMAPS, "x", ListQuery())
    assert isinstance(found, Listing)
    assert (names(found), found.revision) == (["a", "b"], 2)


async def test_a_storage_that_must_be_waited_for_gives_the_same() -> None:
    world = await filled(SlowStorage(), "b", "a")
    found = get_item(world, CONFIGMAPS, "x", "a")
    assert not isinstance(found, Item)
    assert (await found).revision == 2
    listing = read_list(world, CONFIGMAPS, "x", ListQuery(limit=1))
    assert not isinstance(listing, Listing)
    assert names(await listing) == ["a"]
    missing = get_item(world, CONFIGMAPS, "x", "c")
    assert not isinstance(missing, Item)
    with pytest.raises(NotFound):
        await missing


@pytest.mark.parametrize("kind", [MemoryStorage, SlowStorage])
async def test_a_forgotten_page_is_expired_either_way(kind: type[MemoryStorage]) -> None:
    world = await filled(kind(), "a", "b", "c")
    await world.storage.compact(2)
    query = ListQuery(exact=1, after="a", is_resumed=True)
    with pytest.raises(ExpiredToken):
        await wait_list(world, query)


def test_a_revision_that_is_not_there_yet_is_waited_for() -> None:
    async def work() -> Item:
        world = await filled(MemoryStorage(), "a")
        found = get_item(world, CONFIGMAPS, "x", "b", resource_version="2")
        assert not isinstance(found, Item)
        reading = asyncio.ensure_future(found)
        await asyncio.sleep(1)
        await filled_more(world)
        return await reading

    async def filled_more(world: World) -> None:
        await world.storage.put(CONFIGMAPS.key("x", "b"), b'{"metadata":{}}', expected=0)

    item, seconds = run(work())
    assert item.revision == 2
    assert 1 <= seconds < 1.5


def test_a_revision_that_does_not_come_is_too_large_after_three_seconds() -> None:
    async def work() -> None:
        world = await filled(MemoryStorage(), "a")
        with pytest.raises(FutureRevision):
            await wait_revision(world, 9)

    _, seconds = run(work())
    assert 3 <= seconds < 3.5


async def test_an_exact_revision_of_the_future_fails_at_once() -> None:
    world = await filled(MemoryStorage(), "a")
    with pytest.raises(FutureRevision):
        read_list(world, CONFIGMAPS, "x", ListQuery(exact=9))
