"""The EndpointSlices and Endpoints of a Service follow its Pods at once, and are not written otherwise."""

from typing import Any

import pytest

from levelset import MergePatch, NotFound, Ref
from levelset.kinds.core_v1 import Endpoints, Pod, Service
from levelset.kinds.discovery_v1 import EndpointSlice
from levelset.objects import to_tree
from levelset.testing import Cluster
from levelset_local.endpoints import endpoint_slices_controller, endpoints_controller
from systems.local.tests.endpoints.endpoint_samples import pod, service

WEB = Ref(Service, "web")


def both() -> list[Any]:
    return [endpoint_slices_controller(), endpoints_controller()]


async def start(cluster: Cluster, name: str, ip: str, **options: Any) -> Pod:
    """Creates a Pod and writes its status, as a kubelet would."""
    whole = pod(name, ip, real=True, **options)
    made = await cluster.create(whole)
    return await write_status(cluster, made.ref, whole)


async def write_status(cluster: Cluster, ref: Ref[Pod], whole: Pod) -> Pod:
    return await cluster.patch(ref, MergePatch({"status": to_tree(whole)["status"]}), subresource="status")


async def slices(cluster: Cluster) -> list[EndpointSlice]:
    return list(await cluster.list(EndpointSlice, namespace=cluster.namespace))


async def ready(cluster: Cluster) -> tuple[list[str], list[str]]:
    """The addresses that are ready, by the slices and by the Endpoints."""
    await cluster.settled()
    new = [one.addresses[0] for it in await slices(cluster) for one in it.endpoints if one.conditions.ready]
    old = await cluster.get(Ref(Endpoints, "web"))
    return sorted(new), sorted(one.ip for it in old.subsets for one in it.addresses)


async def test_a_service_gets_the_addresses_of_its_ready_pods(cluster: Cluster) -> None:
    await start(cluster, "a", "127.1.1.1")
    await start(cluster, "b", "127.1.1.2", ready=False)
    await start(cluster, "c", "127.1.1.3", labels={"app": "other"})
    async with cluster.running(*both()):
        await cluster.create(service())
        assert await ready(cluster) == (["127.1.1.1"], ["127.1.1.1"])


async def test_a_pod_that_becomes_ready_is_added_at_once(cluster: Cluster) -> None:
    await cluster.create(service())
    async with cluster.running(*both()):
        made = await start(cluster, "a", "127.1.1.1", ready=False)
        assert await ready(cluster) == ([], [])
        before = cluster.now()
        await write_status(cluster, made.ref, pod("a", "127.1.1.1"))
        assert await ready(cluster) == (["127.1.1.1"], ["127.1.1.1"])
        assert cluster.now() == before


async def test_a_pod_whose_labels_change_leaves_and_rejoins_its_service(cluster: Cluster) -> None:
    await cluster.create(service())
    async with cluster.running(*both()):
        made = await start(cluster, "a", "127.1.1.1", labels={"app": "web", "tier": "x"})
        assert await ready(cluster) == (["127.1.1.1"], ["127.1.1.1"])
        await cluster.patch(made.ref, MergePatch({"metadata": {"labels": {"app": "other"}}}))
        assert await ready(cluster) == ([], [])
        await cluster.patch(made.ref, MergePatch({"metadata": {"labels": {"app": "web"}}}))
        assert await ready(cluster) == (["127.1.1.1"], ["127.1.1.1"])


async def test_a_pod_must_have_all_labels_of_the_selector(cluster: Cluster) -> None:
    await cluster.create(service(selector={"app": "web", "tier": "front"}))
    async with cluster.running(*both()):
        made = await start(cluster, "a", "127.1.1.1", labels={"app": "web"})
        assert await ready(cluster) == ([], [])
        await cluster.patch(made.ref, MergePatch({"metadata": {"labels": {"tier": "front"}}}))
        assert await ready(cluster) == (["127.1.1.1"], ["127.1.1.1"])


async def test_a_changed_selector_selects_other_pods(cluster: Cluster) -> None:
    await start(cluster, "a", "127.1.1.1")
    await start(cluster, "b", "127.1.1.2", labels={"app": "other"})
    await cluster.create(service())
    async with cluster.running(*both()):
        assert await ready(cluster) == (["127.1.1.1"], ["127.1.1.1"])
        await cluster.patch(WEB, MergePatch({"spec": {"selector": {"app": "other"}}}))
        assert await ready(cluster) == (["127.1.1.2"], ["127.1.1.2"])


async def test_a_pod_that_is_deleted_is_first_terminating_and_then_gone(cluster: Cluster) -> None:
    await cluster.create(service())
    async with cluster.running(*both()):
        made = await start(cluster, "a", "127.1.1.1")
        await cluster.settled()
        await cluster.delete(made.ref)  # with a grace period of half a minute
        assert await ready(cluster) == ([], [])
        (one,) = [endpoint for it in await slices(cluster) for endpoint in it.endpoints]
        assert (one.conditions.serving, one.conditions.terminating) == (True, True)
        await cluster.delete(made.ref, grace=0)
        await cluster.settled()
        assert [it.endpoints for it in await slices(cluster)] == [()]


async def test_unchanged_endpoints_are_not_written_again_also_after_a_restart(cluster: Cluster) -> None:
    await start(cluster, "a", "127.1.1.1")
    await cluster.create(service(labels={"team": "x"}))
    async with cluster.running(*both()):
        await cluster.settled()
    versions = await resource_versions(cluster)
    async with cluster.running(*both()):
        await cluster.settled()
        reconciles = len(cluster.reconciles(WEB))
        await cluster.patch(Ref(Pod, "a"), MergePatch({"metadata": {"annotations": {"note": "x"}}}))
        await cluster.advance(3600)
        assert await resource_versions(cluster) == versions
        assert len(cluster.reconciles(WEB)) == reconciles


async def resource_versions(cluster: Cluster) -> list[str]:
    old = await cluster.get(Ref(Endpoints, "web"))
    return [one.metadata.resource_version for one in (old, *await slices(cluster))]


async def test_labels_of_other_writers_stay_and_cause_no_writes(cluster: Cluster) -> None:
    await start(cluster, "a", "127.1.1.1")
    await cluster.create(service())
    async with cluster.running(*both()):
        await cluster.settled()
        for one in (Ref(Endpoints, "web"), (await slices(cluster))[0].ref):
            await cluster.patch(one, MergePatch({"metadata": {"labels": {"mine": "x"}}}))
        versions = await resource_versions(cluster)
        await cluster.advance(60)
        assert await resource_versions(cluster) == versions
        assert (await slices(cluster))[0].metadata.labels["mine"] == "x"


async def test_services_without_a_selector_and_external_names_are_ignored(cluster: Cluster) -> None:
    await cluster.create(service(selector={}))
    await cluster.create(service("outside", type="ExternalName", externalName="example.org"))
    own = Endpoints.new("web", subsets=())
    async with cluster.running(*both()):
        await cluster.settled()
        assert await slices(cluster) == []
        with pytest.raises(NotFound):
            await cluster.get(Ref(Endpoints, "web"))
        await cluster.create(own)
        await cluster.settled()
        assert (await cluster.get(Ref(Endpoints, "web"))).metadata.labels == {}


async def test_endpoints_are_deleted_with_the_service_and_created_for_a_new_one(cluster: Cluster) -> None:
    await start(cluster, "a", "127.1.1.1")
    async with cluster.running(*both()):
        for _ in range(2):
            made = await cluster.create(service())
            assert await ready(cluster) == (["127.1.1.1"], ["127.1.1.1"])
            assert [one.uid for one in (await slices(cluster))[0].metadata.owner_references] == [made.metadata.uid]
            await cluster.delete(WEB)
            await cluster.until_gone(Ref(Endpoints, "web"))
            await cluster.settled()
            assert await slices(cluster) == []


async def test_a_service_that_is_recreated_before_a_reconcile_gets_new_slices(cluster: Cluster) -> None:
    await start(cluster, "a", "127.1.1.1")
    async with cluster.running(*both()):
        await cluster.create(service())
        await cluster.settled()
        await cluster.delete(WEB)
        made = await cluster.create(service())
        assert await ready(cluster) == (["127.1.1.1"], ["127.1.1.1"])
        for one in (*await slices(cluster), await cluster.get(Ref(Endpoints, "web"))):
            assert [it.uid for it in one.metadata.owner_references] == [made.metadata.uid]


async def test_changed_or_deleted_slices_are_repaired_and_foreign_slices_stay(cluster: Cluster) -> None:
    await start(cluster, "a", "127.1.1.1")
    await cluster.create(service())
    foreign = EndpointSlice.new("mine", labels={"kubernetes.io/service-name": "web"}, address_type="IPv4")
    await cluster.create(foreign)
    async with cluster.running(*both()):
        await cluster.settled()
        name = next(one.name for one in await slices(cluster) if one.name != "mine")
        await cluster.patch(Ref(EndpointSlice, name), MergePatch({"endpoints": None}))
        await cluster.delete(Ref(Endpoints, "web"))
        assert await ready(cluster) == (["127.1.1.1"], ["127.1.1.1"])
        await cluster.delete(Ref(EndpointSlice, name))
        assert await ready(cluster) == (["127.1.1.1"], ["127.1.1.1"])
        await cluster.get(Ref(EndpointSlice, "mine"))
