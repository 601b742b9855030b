"""Tests of the WebOrder webhooks."""

import pytest
from levelset.errors import Forbidden
from levelset.testing import Cluster

from shop.web_order import WebOrder, WebOrderSpec, web_orders
from shop.web_order_webhooks import LONGEST, web_order_webhooks


async def test_an_empty_message_gets_the_default(cluster: Cluster) -> None:
    async with cluster.running(web_orders, webhooks=web_order_webhooks):
        made = await cluster.create(WebOrder.new("one", WebOrderSpec(message="")))
        assert made.spec.message == "hello"


async def test_a_message_that_is_too_long_is_denied(cluster: Cluster) -> None:
    async with cluster.running(web_orders, webhooks=web_order_webhooks):
        with pytest.raises(Forbidden, match="at most"):
            await cluster.create(WebOrder.new("one", WebOrderSpec(message="x" * (LONGEST + 1))))
