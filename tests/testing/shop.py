"""A small shop for tests: orders, parcels, and a controller that packs a parcel for each order."""

from levelset import Context, Controller, Object, Ref, Resource, Retry, Spec, Status, owns, requeue

__all__ = ["ConfigMap", "Order", "OrderSpec", "OrderStatus", "Parcel", "make_packing", "order"]


class OrderSpec(Spec):
    """The desired state of an order."""

    items: int = 1


class OrderStatus(Status):
    """The observed state of an order."""

    packed: int = 0


class Order(Resource[OrderSpec, OrderStatus], api="shop.example.dev/v1"):
    """An order."""


class Parcel(Resource[OrderSpec, OrderStatus], api="shop.example.dev/v1"):
    """A parcel, owned by its order."""


class ConfigMap(Object, api="v1"):
    """A ConfigMap."""

    data: dict[str, str] = {}


def order(name: str = "one", items: int = 1) -> Order:
    return Order.new(name, OrderSpec(items=items))


async def pack(found: Order, ctx: Context):
    """Packs a parcel, and requeues after an hour."""
    if found.spec.items > 10:
        raise Retry("there is not so much in stock", seconds=30)
    await ctx.apply(Parcel.new(found.name, OrderSpec(items=found.spec.items), namespace=found.namespace), owner=found)
    await ctx.set_status(found, OrderStatus(packed=found.spec.items))
    return requeue(hours=1)


def make_packing(**options) -> Controller[Order]:
    return Controller(Order, pack, owns(Parcel), name="packing", **options)


PARCEL: Ref[Parcel] = Ref(Parcel, "one")
