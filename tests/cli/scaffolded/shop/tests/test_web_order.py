"""Tests of the WebOrder controller on an in-process API server, in virtual time."""

from levelset import Ref
from levelset.kinds.core_v1 import ConfigMap
from levelset.testing import Cluster

from shop.web_order import WebOrder, WebOrderSpec, web_orders


async def test_each_web_order_gets_its_config_map(cluster: Cluster) -> None:
    async with cluster.running(web_orders):
        made = await cluster.create(WebOrder.new("one", WebOrderSpec(message="hello")))
        found = await cluster.until(Ref(ConfigMap, "one"))
        assert found.data == {"message": "hello"}
        await cluster.until(made.ref, lambda one: one.status is not None and one.status.ready)


async def test_a_deleted_config_map_is_recreated(cluster: Cluster) -> None:
    async with cluster.running(web_orders):
        await cluster.create(WebOrder.new("one", WebOrderSpec(message="hello")))
        await cluster.settled()
        await cluster.delete(Ref(ConfigMap, "one"))
        await cluster.settled()
        assert (await cluster.get(Ref(ConfigMap, "one"))).data == {"message": "hello"}
