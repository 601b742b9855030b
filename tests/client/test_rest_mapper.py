import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from levelset.apiserver import ApiServer
from levelset.client.rest_mapper import ApiResource, RestMapper
from levelset.client.transport.in_process import InProcessTransport
from levelset.client.transport.interface import Call, Response
from levelset.errors import BadName, Forbidden, ServerFailed, UnknownKind, Unreachable
from levelset.objects.ref import GroupVersionKind, GroupVersionResource
from levelset.testing.virtual_time import virtual
from tests.aio.virtual_time import run
from tests.apiserver.support.in_process_server import widgets

DEPLOYMENT = GroupVersionKind("apps", "v1", "Deployment")
POD = GroupVersionKind("", "v1", "Pod")
WIDGET = GroupVersionKind("example.com", "v1", "Widget")
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Way:
    """A transport that counts requests, and fails or responds in place of the server if a test says so."""

    def __init__(self, transport: InProcessTransport) -> None:
        self.requested: list[str] = []
        self.responses: dict[str, Response | Exception] = {}
        self.is_plain = False
        self._transport = transport

    async def send(self, call: Call) -> Response:
        await asyncio.sleep(0)
        self.requested.append(call.path)
        said = self.responses.get(call.path)
        if isinstance(said, Exception):
            raise said
        if said is not None:
            return said
        headers = {"accept": "application/json"} if self.is_plain else call.headers
        return await self._transport.send(
            Call(method=call.method, path=call.path, headers=headers, body=call.body, about=call.words)
        )

    async def post(self, path: str, tree: Any) -> None:
        body = json.dumps(tree).encode()
        call = Call(method="POST", path=path, headers={"content-type": "application/json"}, body=body)
        response = await self._transport.send(call)
        assert response.status == 201, response.body

    async def remove(self, path: str) -> None:
        response = await self._transport.send(Call(method="DELETE", path=path))
        assert response.status == 200, response.body


@asynccontextmanager
async def opened() -> AsyncGenerator[Way, None]:
    server = ApiServer()
    await server.start(listen=False)
    transport = InProcessTransport(server)
    try:
        yield Way(transport)
    finally:
        await transport.aclose()
        await server.stop()


def make_response(status: int, tree: Any = None) -> Response:
    return Response(status=status, body=b"" if tree is None else json.dumps(tree).encode())


@virtual
async def test_a_kind_is_found_with_one_request_and_then_cached() -> None:
    async with opened() as way:
        mapper = RestMapper(way.send)
        found = await mapper.resource(DEPLOYMENT)
        assert found.gvr == GroupVersionResource("apps", "v1", "deployments")
        assert (found.gvk, found.namespaced, found.singular) == (DEPLOYMENT, True, "deployment")
        assert {"get", "list", "watch", "create"} <= set(found.verbs)
        assert {"scale", "status"} <= set(found.subresources)
        assert found.short_names == ("deploy",)
        assert "all" in found.categories
        assert await mapper.resource(DEPLOYMENT) is found
        await mapper.resource(DEPLOYMENT._replace(kind="StatefulSet"))
        assert way.requested == ["/apis/apps/v1"]


@virtual
async def test_the_core_group_and_cluster_scoped_kinds_are_found() -> None:
    async with opened() as way:
        mapper = RestMapper(way.send)
        assert (await mapper.resource(POD)).namespaced
        assert not (await mapper.resource(POD._replace(kind="Node"))).namespaced
        assert way.requested == ["/api/v1"]


@virtual
async def test_concurrent_lookups_share_one_request() -> None:
    async with opened() as way:
        mapper = RestMapper(way.send)
        found = await asyncio.gather(*(mapper.resource(DEPLOYMENT) for _ in range(20)))
        assert len(set(map(id, found))) == 1
        assert len(way.requested) == 1


@virtual
async def test_an_unknown_kind_is_looked_up_again_but_not_all_the_time() -> None:
    async with opened() as way:
        mapper = RestMapper(way.send)
        for _ in range(10):
            with pytest.raises(UnknownKind):
                await mapper.resource(WIDGET)
        assert Counter(way.requested) == {"/apis/example.com/v1": 1, "/apis/example.com": 1}
        await way.post(DEFINITIONS, widgets())
        with pytest.raises(UnknownKind):
            await mapper.resource(WIDGET)
        await asyncio.sleep(5)
        assert (await mapper.resource(WIDGET)).gvr.resource == "widgets"


@virtual
async def test_an_unknown_kind_can_be_looked_up_at_once_with_force() -> None:
    async with opened() as way:
        mapper = RestMapper(way.send)
        with pytest.raises(UnknownKind):
            await mapper.resource(WIDGET)
        await way.post(DEFINITIONS, widgets())
        assert (await mapper.resource(WIDGET, force=True)).gvr.resource == "widgets"


@virtual
async def test_a_removed_kind_is_unknown_after_forget() -> None:
    async with opened() as way:
        await way.post(DEFINITIONS, widgets())
        mapper = RestMapper(way.send)
        await mapper.resource(WIDGET)
        await way.remove(f"{DEFINITIONS}/widgets.example.com")
        assert (await mapper.resource(WIDGET)).gvk == WIDGET  # cached
        mapper.forget(WIDGET)
        with pytest.raises(UnknownKind, match="nor anything else of its group: install the CRD"):
            await mapper.resource(WIDGET)
        assert WIDGET not in {served.gvk for served in await mapper.resources(force=True)}


@virtual
async def test_the_error_for_an_unknown_kind_suggests_kinds_and_versions() -> None:
    async with opened() as way:
        mapper = RestMapper(way.send)
        with pytest.raises(UnknownKind, match="not serve apps/v1 Deploymant: of apps/v1 it serves Deployment"):
            await mapper.resource(DEPLOYMENT._replace(kind="Deploymant"))
        with pytest.raises(UnknownKind, match="not serve apps/v2 Deployment: it serves apps/v1. Use one of these"):
            await mapper.resource(DEPLOYMENT._replace(version="v2"))
        with pytest.raises(UnknownKind, match="not serve v2 Pod: it serves v1"):
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
def test_names_that_users_type_are_found(text: str, gvr: str, is_plain: bool) -> None:
    async def scenario() -> None:
        async with opened() as way:
            way.is_plain = is_plain
            mapper = RestMapper(way.send)
            assert str((await mapper.find(text)).gvr) == gvr
            assert str((await mapper.find(text)).gvr) == gvr
            assert is_plain or sorted(way.requested) == ["/api", "/apis"]

    run(scenario())


@virtual
async def test_an_unknown_name_is_reported_with_similar_ones() -> None:
    async with opened() as way:
        mapper = RestMapper(way.send)
        with pytest.raises(UnknownKind, match="no resource 'deploymets': it serves deployments"):
            await mapper.find("deploymets")
        with pytest.raises(UnknownKind, match="no resource 'zzzz': it serves .* and [0-9]+ more"):
            await mapper.find("zzzz")
        assert sorted(way.requested) == ["/api", "/apis"]
        with pytest.raises(BadName):
            await mapper.find("")


@virtual
async def test_a_new_kind_is_found_by_name_after_a_few_seconds() -> None:
    async with opened() as way:
        mapper = RestMapper(way.send)
        await mapper.resources()
        await way.post(DEFINITIONS, widgets())
        with pytest.raises(UnknownKind):
            await mapper.find("widgets")
        await asyncio.sleep(5)
        assert (await mapper.find("widgets")).gvk == WIDGET


@virtual
async def test_aggregated_and_unaggregated_discovery_agree() -> None:
    async with opened() as way:
        await way.post(DEFINITIONS, widgets())
        aggregated = await RestMapper(way.send).resources()
        assert sorted(way.requested) == ["/api", "/apis"]
        way.is_plain = True
        plain = await RestMapper(way.send).resources()
        assert {str(one): comparable(one) for one in plain} == {str(one): comparable(one) for one in aggregated}


@virtual
async def test_cached_resources_need_no_more_requests() -> None:
    async with opened() as way:
        mapper = RestMapper(way.send)
        await asyncio.gather(*(mapper.resources() for _ in range(5)))
        await mapper.resource(DEPLOYMENT)
        await mapper.resource(POD)
        assert sorted(way.requested) == ["/api", "/apis"]


@virtual
async def test_one_broken_group_does_not_break_the_others() -> None:
    async with opened() as way:
        way.is_plain = True
        way.responses["/apis/apps/v1"] = make_response(503, {"kind": "Status", "message": "no endpoints"})
        way.responses["/apis/batch/v1"] = Unreachable("cut")
        mapper = RestMapper(way.send)
        assert (await mapper.find("pods")).gvk == POD
        assert set(mapper.broken) == {"apps/v1", "batch/v1"}
        with pytest.raises(UnknownKind, match="Discovery failed for "):
            await mapper.find("deployments")
        with pytest.raises(ServerFailed, match="no endpoints"):
            await mapper.resource(DEPLOYMENT)
        way.responses.clear()
        assert (await mapper.resource(DEPLOYMENT)).gvk == DEPLOYMENT
        assert set(mapper.broken) == {"batch/v1"}


@virtual
async def test_known_resources_of_a_group_stay_while_it_is_broken() -> None:
    async with opened() as way:
        mapper = RestMapper(way.send)
        await mapper.resources()
        stale = {"version": "v1", "freshness": "Stale", "resources": []}
        groups = [{"metadata": {"name": "apps"}, "versions": [stale]}]
        way.responses["/apis"] = make_response(200, {"kind": "APIGroupDiscoveryList", "items": groups})
        way.responses["/apis/apps/v1"] = make_response(503)
        await mapper.resources(force=True)
        assert (await mapper.resource(DEPLOYMENT)).gvk == DEPLOYMENT
        assert set(mapper.broken) == {"apps/v1"}


@virtual
async def test_an_error_response_is_raised_and_not_cached() -> None:
    async with opened() as way:
        mapper = RestMapper(way.send)
        way.responses["/apis/apps/v1"] = make_response(403, {"kind": "Status", "message": "no", "reason": "Forbidden"})
        with pytest.raises(Forbidden, match="discover /apis/apps/v1: no"):
            await mapper.resource(DEPLOYMENT)
        way.responses["/apis"] = Unreachable("cut")
        with pytest.raises(Unreachable, match="cut"):
            await mapper.resources()
        way.responses["/apis"] = Response(status=200, body=b"<html>")
        with pytest.raises(ServerFailed, match="is this an API server"):
            await mapper.resources()
        way.responses.clear()
        assert (await mapper.resource(DEPLOYMENT)).gvk == DEPLOYMENT


@virtual
async def test_a_cancelled_lookup_is_continued_by_the_next_waiter() -> None:
    async with opened() as way:
        mapper = RestMapper(way.send)
        first, second = (asyncio.create_task(mapper.resource(DEPLOYMENT)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        assert (await second).gvk == DEPLOYMENT
        assert first.cancelled()


def comparable(served: ApiResource) -> tuple[Any, ...]:
    words = (sorted(served.verbs), sorted(served.subresources), served.short_names, served.categories, served.singular)
    return served.gvr, served.gvk, served.namespaced, *words


@virtual
async def test_a_kind_whose_definition_was_just_written_is_looked_up_until_discovery_has_it():
    async with opened() as way:
        mapper = RestMapper(way.send)
        with pytest.raises(UnknownKind):
            await mapper.resource(WIDGET)
        mapper.expect("example.com", "Widget")
        finding = asyncio.get_running_loop().create_task(mapper.resource(WIDGET))
        await asyncio.sleep(3)  # the discovery of a real API server lags
        assert not finding.done()
        await way.post(DEFINITIONS, widgets())
        assert (await finding).gvr.resource == "widgets"


@virtual
async def test_a_kind_that_never_appears_after_its_definition_was_written_is_unknown_in_the_end():
    async with opened() as way:
        mapper = RestMapper(way.send)
        mapper.expect("example.com", "Widget")
        began = asyncio.get_running_loop().time()
        with pytest.raises(UnknownKind):
            await mapper.resource(WIDGET)
        assert 9 < asyncio.get_running_loop().time() - began < 12
        with pytest.raises(UnknownKind):
            await mapper.resource(GroupVersionKind("example.com", "v1", "Gadget"))
        assert asyncio.get_running_loop().time() - began < 12
