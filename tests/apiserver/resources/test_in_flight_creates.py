import asyncio

from levelset.apiserver.resources.in_flight_creates import InFlightCreates


async def test_waiting_returns_at_once_without_in_flight_creates() -> None:
    async with asyncio.timeout(0):
        await InFlightCreates().wait_until_none(prefix="a")
        await InFlightCreates().wait_until_none(namespace="a")


async def test_waiting_ends_with_the_last_in_flight_create_of_the_resource_or_namespace() -> None:
    creates = InFlightCreates()
    first, second, cluster_wide, sibling, elsewhere = trees = [object() for _ in range(5)]
    scopes = (("/a/", "x"), ("/a/", "x"), ("/a/", None), ("/b/", "x"), ("/b/", "y"))
    for tree, (prefix, namespace) in zip(trees, scopes, strict=True):
        creates.scopes[id(tree)] = (prefix, namespace)
    resource, again, space, other = [
        asyncio.ensure_future(waiting)
        for waiting in (
            creates.wait_until_none(prefix="/a/"),
            creates.wait_until_none(prefix="/a/"),
            creates.wait_until_none(namespace="x"),
            creates.wait_until_none(namespace="y"),
        )
    ]
    for tree in (first, second):
        await asyncio.sleep(0)
        creates.end(tree)
        await asyncio.sleep(0)
        assert not any(one.done() for one in (resource, again, space, other))
    creates.end(cluster_wide)
    await asyncio.gather(resource, again)
    assert not space.done()
    creates.end(sibling)
    await space
    assert not other.done()
    creates.end(elsewhere)
    await other


async def test_creates_elsewhere_do_not_block() -> None:
    creates = InFlightCreates()
    trees = [object(), object()]
    creates.scopes[id(trees[0])] = ("/b/", None)
    creates.scopes[id(trees[1])] = ("/b/", "y")
    async with asyncio.timeout(0):
        await creates.wait_until_none(prefix="/a/")
        await creates.wait_until_none(namespace="x")
