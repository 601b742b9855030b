"""The WebOrder kind and its controller."""

from levelset import Column, Context, Controller, Resource, Spec, Status, owns
from levelset.kinds.core_v1 import ConfigMap


class WebOrderSpec(Spec):
    """The desired state of one web order."""

    message: str


class WebOrderStatus(Status):
    """The observed state of one web order."""

    ready: bool = False


class WebOrder(
    Resource[WebOrderSpec, WebOrderStatus],
    api="shop.example.dev/v1",
    columns=[Column("Ready", ".status.ready", "boolean")],
):
    """One web order; describe here what it is, for `kubectl explain`."""


def config_map(wanted: WebOrder) -> ConfigMap:
    """The desired ConfigMap of one web order; replace it with the children of your kind."""
    return ConfigMap.new(wanted.name, namespace=wanted.namespace, data={"message": wanted.spec.message})


async def reconcile(wanted: WebOrder, ctx: Context) -> None:
    """Reconciles one web order: applies the desired state. It is called often, so it must be idempotent."""
    await ctx.apply(config_map(wanted), owner=wanted)
    await ctx.set_status(wanted, WebOrderStatus(ready=True))


web_orders = Controller(WebOrder, reconcile, owns(ConfigMap))
