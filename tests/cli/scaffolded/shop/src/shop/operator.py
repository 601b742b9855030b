"""Everything that this operator runs; `levelset create` adds a line for each new kind or webhook."""

from typing import Any

from levelset import Controller
from levelset.runtime.webhook import Webhook

from shop.web_order import web_orders
from shop.web_order_webhooks import web_order_webhooks

controllers: list[Controller[Any]] = [
    web_orders,
    # levelset: controllers
]

webhooks: list[Webhook] = [
    *web_order_webhooks,
    # levelset: webhooks
]
