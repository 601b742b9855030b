"""WebOrder: what people ask for, and the controller that sees to it."""

from levelset import Column, Context, Controller, Resource, Spec, Status, owns
from levelset.kinds.core_v1 import ConfigMap


class WebOrderSpec(Spec):
    """What somebody wants of a web order."""

    message: str


class WebOrderStatus(Status):
    """How a web order is."""

    ready: bool = False


class WebOrder(
    Resource[WebOrderSpec, WebOrderStatus],
    api="shop.example.dev/v1",
    columns=[Column("Ready", ".status.ready", "boolean")],
):
    """A web order."""


def config_map(wanted: WebOrder) -> ConfigMap:
    """The ConfigMap that a web order should have; put here what yours is made of."""
    return ConfigMap.new(wanted.name, namespace=wanted.namespace, data={"message": wanted.spec.message})


async def reconcile(wanted: WebOrder, ctx: Context) -> None:
    """Looks at one web order, and takes the next step. Is called again and again, so it only says what should be."""
    await ctx.apply(config_map(wanted), owner=wanted)
    await ctx.set_status(wanted, WebOrderStatus(ready=True))


web_orders = Controller(WebOrder, reconcile, owns(ConfigMap))
