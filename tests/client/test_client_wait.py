import asyncio
import random
from typing import Any

import pytest

from levelset.client.patches import MergePatch
from levelset.client.transport.interface import Call, Response, Send
from levelset.errors import Deadline, Forbidden, Unreachable
from levelset.objects import Ref
from levelset.testing.virtual_time import virtual
from tests.client.fixtures import WEBSITE, Namespace, Website, failing, fake_response, open_client, recording, website

BLOG = Ref(Website, "blog", "default")
COMPACT = Call(method="POST", path="/levelset/compact", about="compact")


def is_big(site: Website) -> bool:
    return site.spec.replicas >= 3


@virtual
async def test_wait_returns_the_object_as_soon_as_the_condition_holds() -> None:
    async with open_client() as client:
        waiting = asyncio.create_task(client.wait(BLOG, is_big, within=60))
        await asyncio.sleep(1)
        await client.create(website("blog"))
        await client.create(website("other", replicas=9))
        await asyncio.sleep(1)
        await client.patch(BLOG, MergePatch({"spec": {"replicas": 3}}))
        site = await waiting
        assert (site.name, site.spec.replicas) == ("blog", 3)
        assert asyncio.get_running_loop().time() < 3


async def test_wait_needs_no_watch_if_the_condition_holds_already() -> None:
    calls: list[Call] = []
    async with open_client(hooks=[recording(calls)]) as client:
        await client.create(website("blog", replicas=5))
        assert (await client.wait(BLOG, is_big)) == await client.get(BLOG)
        ref: Ref[Any] = Ref(WEBSITE, "blog", "default")
        assert (await client.wait(ref, lambda site: site.tree["spec"]["replicas"] == 5)).name == "blog"
        assert "watch" not in [call.verb for call in calls]


@virtual
async def test_a_deadline_names_the_condition_and_the_last_state() -> None:
    async with open_client() as client:
        with pytest.raises(
            Deadline, match=r"Website/default/blog: is_big did not happen within 5 seconds; it does not exist"
        ):
            await client.wait(BLOG, is_big, within=5)
        await client.create(website("blog"))
        with pytest.raises(Deadline, match="it is at resource version"):
            await client.wait(BLOG, is_big, within=5)


@virtual
async def test_wait_gone_returns_when_the_object_is_deleted() -> None:
    async with open_client() as client:
        site = await client.create(website("blog").with_metadata(finalizers=("example.dev/a",)))
        await client.delete(site.ref)
        waiting = asyncio.create_task(client.wait_gone(site.ref, within=60))
        await asyncio.sleep(1)
        assert not waiting.done()
        await client.patch(site.ref, MergePatch({"metadata": {"finalizers": None}}))
        await waiting
        await client.wait_gone(site.ref)


@virtual
async def test_an_object_is_gone_when_another_one_has_its_name() -> None:
    async with open_client() as client:
        old = await client.create(website("blog"))
        waiting = asyncio.create_task(client.wait_gone(BLOG, uid=old.metadata.uid, within=60))
        await asyncio.sleep(1)
        await client.delete(BLOG)
        await client.create(website("blog"))
        await waiting
        await client.wait_gone(BLOG, uid=old.metadata.uid)
        with pytest.raises(Deadline):
            await client.wait_gone(BLOG, within=1)


@virtual
async def test_wait_survives_broken_watches_busy_servers_and_expired_versions() -> None:
    failures: list[Any] = [
        Unreachable("reset"),
        fake_response(503),
        fake_response(410),
        None,
        Unreachable("reset", is_sent=False),
    ]
    async with open_client(wire_hooks=[failing(*failures, when=_is_read)]) as client:
        waiting = asyncio.create_task(client.wait(BLOG, is_big, within=600))
        await asyncio.sleep(30)
        await client.create(website("x"))
        await client.send(COMPACT)
        await client.create(website("blog", replicas=3))
        assert (await waiting).spec.replicas == 3


def _is_read(call: Call) -> bool:
    return call.verb in {"list", "watch"}


@virtual
async def test_a_server_that_ends_watches_at_once_is_not_flooded() -> None:
    calls: list[Call] = []
    random.seed(1)  # the delays have jitter: how many calls there are is not left to chance

    async def closing(call: Call, send: Send) -> Response:
        calls.append(call)
        return Response(status=200) if call.verb == "watch" else await send(call)

    async with open_client(hooks=[closing]) as client:
        with pytest.raises(Deadline):
            await client.wait(BLOG, is_big, within=300)
        assert len(calls) < 150


@virtual
async def test_wait_raises_permanent_errors_at_once() -> None:
    async with open_client(hooks=[failing(fake_response(403), when=_is_read)]) as client:
        with pytest.raises(Forbidden):
            await client.wait(BLOG, is_big, within=600)
        await client.create(website("blog"))
        with pytest.raises(ZeroDivisionError):
            await client.wait(BLOG, lambda site: 1 // 0 == 0)


async def test_a_cluster_scoped_object_can_be_waited_for() -> None:
    async with open_client() as client:
        assert (await client.wait(Ref(Namespace, "default"), lambda one: True)).name == "default"


@virtual
async def test_a_wait_without_a_deadline_ends_when_its_client_is_closed() -> None:
    async with open_client() as client:
        waiting = asyncio.create_task(client.wait(BLOG, is_big, within=None))
        await asyncio.sleep(1)
        await client.aclose()
        with pytest.raises(Unreachable, match="closed"):
            await waiting
        assert asyncio.get_running_loop().time() < 2
