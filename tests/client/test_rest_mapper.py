import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from levelset.apiserver import ApiServer
from levelset.client.rest_mapper import ApiResource, Mapper
from levelset.client.transport.in_process import InsideTransport
from levelset.client.transport.interface import Answer, Call
from levelset.errors import BadName, Forbidden, ServerFailed, UnknownKind, Unreachable
from levelset.objects.ref import GroupVersionKind, GroupVersionResource
from tests.aio.clock import run
from tests.apiserver.box import widgets
from tests.apiserver.clock import virtual

DEPLOYMENT = GroupVersionKind("apps", "v1", "Deployment")
POD = GroupVersionKind("", "v1", "Pod")
WIDGET = GroupVersionKind("example.com", "v1", "Widget")
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Way:
    """The way to a server: counts what is asked, and fails or answers by itself where a test says so."""

    def __init__(self, transport: InsideTransport) -> None:
        self.asked: list[str] = []
        self.answers: dict[str, Answer | Exception] = {}
        self.is_plain = False
        self._transport = transport

    async def send(self, call: Call) -> Answer:
        await asyncio.sleep(0)
        self.asked.append(call.path)
        said = self.answers.get(call.path)
        if isinstance(said, Exception):
            raise said
        if said is not None:
            return said
        headers = {"accept": "application/json"} if self.is_plain else call.headers
        return await self._transport.send(
            Call(method=call.method, path=call.path, headers=headers, body=call.body, words=call.words)
        )

    async def post(self, path: str, tree: Any) -> None:
        body = json.dumps(tree).encode()
        call = Call(method="POST", path=path, headers={"content-type": "application/json"}, body=body)
        answer = await self._transport.send(call)
        assert answer.status == 201, answer.body

    async def remove(self, path: str) -> None:
        answer = await self._transport.send(Call(method="DELETE", path=path))
        assert answer.status == 200, answer.body


@asynccontextmanager
async def opened() -> AsyncGenerator[Way, None]:
    server = ApiServer()
    await server.start(listen=False)
    transport = InsideTransport(server)
    try:
        yield Way(transport)
    finally:
        await transport.aclose()
        await server.stop()


def answer(status: int, tree: Any = None) -> Answer:
    return Answer(status=status, body=b"" if tree is None else json.dumps(tree).encode())


@virtual
async def test_a_kind_is_found_with_one_request_and_then_remembered() -> None:
    async with opened() as way:
        mapper = Mapper(way.send)
        found = await mapper.resource(DEPLOYMENT)
        assert found.gvr == GroupVersionResource("apps", "v1", "deployments")
        assert (found.gvk, found.namespaced, found.singular) == (DEPLOYMENT, True, "deployment")
        assert {"get", "list", "watch", "create"} <= set(found.verbs)
        assert {"scale", "status"} <= set(found.subresources)
        assert found.short_names == ("deploy",)
        assert "all" in found.categories
        assert await mapper.resource(DEPLOYMENT) is found
        await mapper.resource(DEPLOYMENT._replace(kind="StatefulSet"))
        assert way.asked == ["/apis/apps/v1"]


@virtual
async def test_the_core_group_and_cluster_scoped_kinds_are_found() -> None:
    async with opened() as way:
        mapper = Mapper(way.send)
        assert (await mapper.resource(POD)).namespaced
        assert not (await mapper.resource(POD._replace(kind="Node"))).namespaced
        assert way.asked == ["/api/v1"]


@virtual
async def test_lookups_at_the_same_time_share_one_request() -> None:
    async with opened() as way:
        mapper = Mapper(way.send)
        found = await asyncio.gather(*(mapper.resource(DEPLOYMENT) for _ in range(20)))
        assert len(set(map(id, found))) == 1
        assert len(way.asked) == 1


@virtual
async def test_a_kind_that_is_unknown_is_asked_for_again_but_not_all_the_time() -> None:
    async with opened() as way:
        mapper = Mapper(way.send)
        for _ in range(10):
            with pytest.raises(UnknownKind):
                await mapper.resource(WIDGET)
        assert Counter(way.asked) == {"/apis/example.com/v1": 1, "/apis/example.com": 1}
        await way.post(DEFINITIONS, widgets())
        with pytest.raises(UnknownKind):
            await mapper.resource(WIDGET)
        await asyncio.sleep(5)
        assert (await mapper.resource(WIDGET)).gvr.resource == "widgets"


@virtual
async def test_a_kind_that_is_unknown_can_be_asked_for_at_once() -> None:
    async with opened() as way:
        mapper = Mapper(way.send)
        with pytest.raises(UnknownKind):
            await mapper.resource(WIDGET)
        await way.post(DEFINITIONS, widgets())
        assert (await mapper.resource(WIDGET, force=True)).gvr.resource == "widgets"


@virtual
async def test_a_kind_that_vanished_is_gone_once_the_server_is_asked_again() -> None:
    async with opened() as way:
        await way.post(DEFINITIONS, widgets())
        mapper = Mapper(way.send)
        await mapper.resource(WIDGET)
        await way.remove(f"{DEFINITIONS}/widgets.example.com")
        assert (await mapper.resource(WIDGET)).gvk == WIDGET  # nobody asked
        mapper.forget(WIDGET)
        with pytest.raises(UnknownKind, match="nor anything of its group: install the definition"):
            await mapper.resource(WIDGET)
        assert WIDGET not in {served.gvk for served in await mapper.resources(force=True)}


@virtual
async def test_an_unknown_kind_says_what_there_is() -> None:
    async with opened() as way:
        mapper = Mapper(way.send)
        with pytest.raises(UnknownKind, match="no apps/v1 Deploymant: of apps/v1 it serves Deployment"):
            await mapper.resource(DEPLOYMENT._replace(kind="Deploymant"))
        with pytest.raises(UnknownKind, match="no apps/v2 Deployment: it has apps/v1. Ask for one of these"):
            await mapper.resource(DEPLOYMENT._replace(version="v2"))
        with pytest.raises(UnknownKind, match="no v2 Pod: it has v1"):
            await mapper.resource(POD._replace(version="v2"))
        with pytest.raises(BadName):
            await mapper.resource(GroupVersionKind("../x", "v1", "Pod"))


@pytest.mark.parametrize(
    ("text", "gvr"),
    [
        ("deploy", "apps/v1 deployments"),
        ("deployments", "apps/v1 deployments"),
        ("deployment", "apps/v1 deployments"),
        ("Deployment", "apps/v1 deployments"),
        ("deployments.apps", "apps/v1 deployments"),
        ("deployments.v1.apps", "apps/v1 deployments"),
        ("Deployment.apps", "apps/v1 deployments"),
        ("po", "v1 pods"),
        ("pods.v1.", "v1 pods"),
        ("events", "v1 events"),
        ("events.events.k8s.io", "events.k8s.io/v1 events"),
        ("hpa", "autoscaling/v2 horizontalpodautoscalers"),
        ("hpa.v1.autoscaling", "autoscaling/v1 horizontalpodautoscalers"),
        ("crd", "apiextensions.k8s.io/v1 customresourcedefinitions"),
    ],
)
@pytest.mark.parametrize("is_plain", [False, True])
def test_what_people_type_is_found(text: str, gvr: str, is_plain: bool) -> None:
    async def scenario() -> None:
        async with opened() as way:
            way.is_plain = is_plain
            mapper = Mapper(way.send)
            assert str((await mapper.find(text)).gvr) == gvr
            assert str((await mapper.find(text)).gvr) == gvr
            assert is_plain or sorted(way.asked) == ["/api", "/apis"]

    run(scenario())


@virtual
async def test_a_word_for_nothing_names_what_is_alike() -> None:
    async with opened() as way:
        mapper = Mapper(way.send)
        with pytest.raises(UnknownKind, match="called 'deploymets': it serves deployments"):
            await mapper.find("deploymets")
        with pytest.raises(UnknownKind, match="called 'zzzz': it serves .* and [0-9]+ more"):
            await mapper.find("zzzz")
        assert sorted(way.asked) == ["/api", "/apis"]
        with pytest.raises(BadName):
            await mapper.find("")


@virtual
async def test_a_new_kind_is_found_by_its_word_after_a_few_seconds() -> None:
    async with opened() as way:
        mapper = Mapper(way.send)
        await mapper.resources()
        await way.post(DEFINITIONS, widgets())
        with pytest.raises(UnknownKind):
            await mapper.find("widgets")
        await asyncio.sleep(5)
        assert (await mapper.find("widgets")).gvk == WIDGET


@virtual
async def test_both_forms_of_discovery_tell_the_same() -> None:
    async with opened() as way:
        await way.post(DEFINITIONS, widgets())
        aggregated = await Mapper(way.send).resources()
        assert sorted(way.asked) == ["/api", "/apis"]
        way.is_plain = True
        plain = await Mapper(way.send).resources()
        assert {str(one): comparable(one) for one in plain} == {str(one): comparable(one) for one in aggregated}


@virtual
async def test_everything_that_is_known_needs_no_more_requests() -> None:
    async with opened() as way:
        mapper = Mapper(way.send)
        await asyncio.gather(*(mapper.resources() for _ in range(5)))
        await mapper.resource(DEPLOYMENT)
        await mapper.resource(POD)
        assert sorted(way.asked) == ["/api", "/apis"]


@virtual
async def test_one_broken_group_does_not_break_the_others() -> None:
    async with opened() as way:
        way.is_plain = True
        way.answers["/apis/apps/v1"] = answer(503, {"kind": "Status", "message": "no endpoints"})
        way.answers["/apis/batch/v1"] = Unreachable("cut")
        mapper = Mapper(way.send)
        assert (await mapper.find("pods")).gvk == POD
        assert set(mapper.broken) == {"apps/v1", "batch/v1"}
        with pytest.raises(UnknownKind, match="These did not answer: "):
            await mapper.find("deployments")
        with pytest.raises(ServerFailed, match="no endpoints"):
            await mapper.resource(DEPLOYMENT)
        way.answers.clear()
        assert (await mapper.resource(DEPLOYMENT)).gvk == DEPLOYMENT
        assert set(mapper.broken) == {"batch/v1"}


@virtual
async def test_what_was_known_of_a_group_stays_while_it_is_broken() -> None:
    async with opened() as way:
        mapper = Mapper(way.send)
        await mapper.resources()
        stale = {"version": "v1", "freshness": "Stale", "resources": []}
        groups = [{"metadata": {"name": "apps"}, "versions": [stale]}]
        way.answers["/apis"] = answer(200, {"kind": "APIGroupDiscoveryList", "items": groups})
        way.answers["/apis/apps/v1"] = answer(503)
        await mapper.resources(force=True)
        assert (await mapper.resource(DEPLOYMENT)).gvk == DEPLOYMENT
        assert set(mapper.broken) == {"apps/v1"}


@virtual
async def test_what_the_server_refuses_is_raised_as_it_is_and_not_remembered() -> None:
    async with opened() as way:
        mapper = Mapper(way.send)
        way.answers["/apis/apps/v1"] = answer(403, {"kind": "Status", "message": "no", "reason": "Forbidden"})
        with pytest.raises(Forbidden, match="read what is served at /apis/apps/v1: no"):
            await mapper.resource(DEPLOYMENT)
        way.answers["/apis"] = Unreachable("cut")
        with pytest.raises(Unreachable, match="cut"):
            await mapper.resources()
        way.answers["/apis"] = Answer(status=200, body=b"<html>")
        with pytest.raises(ServerFailed, match="is this an API server"):
            await mapper.resources()
        way.answers.clear()
        assert (await mapper.resource(DEPLOYMENT)).gvk == DEPLOYMENT


@virtual
async def test_a_caller_who_gives_up_leaves_the_work_to_the_next() -> None:
    async with opened() as way:
        mapper = Mapper(way.send)
        first, second = (asyncio.create_task(mapper.resource(DEPLOYMENT)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        assert (await second).gvk == DEPLOYMENT
        assert first.cancelled()


def comparable(served: ApiResource) -> tuple[Any, ...]:
    words = (sorted(served.verbs), sorted(served.subresources), served.short_names, served.categories, served.singular)
    return served.gvr, served.gvk, served.namespaced, *words
