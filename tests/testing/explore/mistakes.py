"""Small controllers with one bug each, and the disturbance that finds it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from levelset import (
    Action,
    Context,
    Controller,
    MergePatch,
    Object,
    ObjectMeta,
    Ref,
    Resource,
    Spec,
    Status,
    replace,
    requeue,
    watches,
)
from levelset.errors import ApiError, Conflict
from levelset.testing import Cluster
from levelset.testing.explore import Exploration, State

__all__ = ["MISTAKES", "Order", "Parcel", "orders"]


class OrderSpec(Spec):
    """The desired state of an order."""

    size: int = 1
    label: str = ""
    rush: bool = False


class OrderStatus(Status):
    """The observed state of an order."""

    parcel: str = ""
    number: int = 0


class Order(Resource[OrderSpec, OrderStatus], api="mistakes.example.dev/v1"):
    """An order, which needs a parcel."""


class Parcel(Object, api="v1", kind="ConfigMap"):
    """The parcel of an order."""

    data: dict[str, str] = {}


def parcel(of: Order, name: str = "", **data: str) -> Parcel:
    prefix = "" if name else f"{of.name}-"
    return Parcel(metadata=ObjectMeta(name=name, generate_name=prefix, namespace=of.namespace), data=data)


def ref_of(order: Order) -> Ref[Parcel]:
    return Ref(Parcel, order.name, order.namespace)


async def orders(user: Cluster) -> None:
    """Creates an order, changes it twice, and creates another one."""
    first = await user.create(Order.new("first", OrderSpec()))
    await user.settled()
    for size in (2, 1):
        await user.patch(first.ref, MergePatch({"spec": {"size": size}}))
        await user.settled()
    await user.create(Order.new("second", OrderSpec()))
    await user.settled()


async def create_then_record(order: Order, ctx: Context) -> None:
    if order.status is None or not order.status.parcel:
        made = await ctx.create(parcel(order))
        await ctx.set_status(order, OrderStatus(parcel=made.name))


async def trust_a_stale_list(order: Order, ctx: Context) -> None:
    found = await ctx.list(Parcel, read="stale", namespace=order.namespace)
    if not any(one.name.startswith(f"{order.name}-") for one in found):
        await ctx.create(parcel(order))


async def ignore_conflicts(order: Order, ctx: Context) -> None:
    found = await ctx.live(ref_of(order))
    if found is None:
        await ctx.create(parcel(order, order.name, size=str(order.spec.size)))
        return
    try:
        await ctx.update(replace(found, data={"size": str(order.spec.size)}))
    except Conflict:
        return


async def ignore_errors(order: Order, ctx: Context) -> None:
    try:
        await ctx.apply(parcel(order, order.name, size=str(order.spec.size)))
    except ApiError:
        return


async def recreate_on_size_change(order: Order, ctx: Context) -> None:
    """Recreates a parcel when its order has another size; the content of the parcel is lost then."""
    ref = ref_of(order)
    found = await ctx.live(ref)
    if found is None:
        await ctx.create(parcel(order, order.name))
    elif order.spec.size == 2 and found.data:
        await ctx.delete(ref)
        await ctx.create(parcel(order, order.name))


async def change_and_pack(user: Cluster) -> None:
    one = await user.create(Order.new("first", OrderSpec()))
    await user.settled()
    for size in (2, 1):
        await user.patch(one.ref, MergePatch({"spec": {"size": size}}))
        await user.settled()
    await user.patch(ref_of(one), MergePatch({"data": {"book": "red"}}))
    await user.create(Order.new("second", OrderSpec()))
    await user.settled()


async def record_rush_events(order: Order, ctx: Context) -> None:
    """Records a rush only if it reconciles while the order is marked."""
    if order.spec.rush:
        await ctx.apply(parcel(order, order.name, rush="yes"))


async def hurry(user: Cluster) -> None:
    one = await user.create(Order.new("first", OrderSpec()))
    await user.settled()
    for rush in (True, False):
        await user.patch(one.ref, MergePatch({"spec": {"rush": rush}}))
        await user.settled()


async def rely_on_event_order(order: Order, ctx: Context) -> None:
    """Assumes that the parcel is seen before its order."""
    if ctx.cached(ref_of(order)) is not None:
        await ctx.set_status(order, OrderStatus(parcel=order.name))


async def parcel_first(user: Cluster) -> None:
    await user.create(Parcel(metadata=ObjectMeta(name="first")))
    await user.create(Order.new("first", OrderSpec()))
    await user.settled()


async def read_then_increment(order: Order, ctx: Context) -> None:
    """Takes the next free number, and writes it later."""
    if order.status is None or not order.status.number:
        there = await ctx.list(Order, read="live")
        taken = max((one.status.number for one in there if one.status), default=0)
        await ctx.set_status(order, OrderStatus(number=taken + 1))


async def two_at_once(user: Cluster) -> None:
    for name in ("first", "second"):
        await user.create(Order.new(name, OrderSpec()))
        await user.settled()


def no_number_is_taken_twice(state: State) -> None:
    numbers = [one.status.number for one in state.list(Order) if one.status and one.status.number]
    assert len(numbers) == len(set(numbers)), f"{numbers}"


class Shop:
    """A shop outside of the API, which sells as often as it is called."""

    def __init__(self) -> None:
        self.sold: list[str] = []


def selling(shop: Shop) -> list[Controller[Any]]:
    async def buy(order: Order, ctx: Context) -> None:
        if order.status is None or not order.status.parcel:
            shop.sold.append(order.name)
            await asyncio.sleep(2)
            await ctx.set_status(order, OrderStatus(parcel="bought"))

    return [Controller(Order, buy)]


def nothing_is_bought_twice(state: State) -> None:
    assert len(state.outside.sold) == len(set(state.outside.sold)), f"bought: {state.outside.sold}"


def counting() -> list[Controller[Any]]:
    """Numbers orders with a counter in memory."""
    last = 0

    async def number(order: Order, ctx: Context) -> None:
        nonlocal last
        if order.status is None or not order.status.number:
            last += 1
            await ctx.set_status(order, OrderStatus(number=last))

    return [Controller(Order, number)]


def remembering() -> list[Controller[Any]]:
    """Releases an order only if its memory says that it created the parcel."""
    made: set[str] = set()

    async def make(order: Order, ctx: Context) -> None:
        if await ctx.live(ref_of(order)) is None:
            await ctx.create(parcel(order, order.name), owner=order)
            made.add(order.name)

    async def unmake(order: Order, ctx: Context) -> Action | None:
        return None if order.name in made else requeue(60)

    return [Controller(Order, make, cleanup=unmake)]


async def apply_parcel(order: Order, ctx: Context) -> None:
    await ctx.apply(parcel(order, order.name))


async def withdraw(ref: Ref[Order], ctx: Context) -> None:
    """Relies on the event of the deletion of an order."""
    await ctx.delete(Ref(Parcel, ref.name, ref.namespace))


async def order_and_cancel(user: Cluster) -> None:
    one = await user.create(Order.new("first", OrderSpec()))
    await user.settled()
    await user.delete(one.ref)
    await user.settled()


def one(reconcile: Callable[[Order, Context], Awaitable[Any]], *relations: Any) -> Callable[[], list[Controller[Any]]]:
    return lambda: [Controller(Order, reconcile, *relations)]


seen = watches(Parcel, to=lambda _: [])

MISTAKES: dict[str, tuple[Exploration, str, str]] = {
    "crash after": (
        Exploration(orders, one(create_then_record)),
        "crash-after:create.ConfigMap/test/first-~#1",
        "created twice",
    ),
    "crash before": (
        Exploration(two_at_once, counting, invariants=[no_number_is_taken_twice]),
        "crash-before:patch.Order/test/second/status#1",
        "no_number_is_taken_twice",
    ),
    "lost response": (
        Exploration(orders, one(create_then_record)),
        "lost-response:create.ConfigMap/test/first-~#1",
        "created twice",
    ),
    "conflict": (
        Exploration(orders, one(ignore_conflicts)),
        "conflict:update.ConfigMap/test/first#2",
        "end state",
    ),
    "error response": (
        Exploration(orders, one(ignore_errors)),
        "error-response:apply.ConfigMap/test/second#1:500",
        "end state",
    ),
    "stale list": (Exploration(orders, one(trust_a_stale_list, seen)), "hold:ConfigMap:1:4", "created twice"),
    "stale restart": (
        Exploration(change_and_pack, one(recreate_on_size_change)),
        "stale-restart:create.ConfigMap/test/second#1:4:4",
        "lost",
    ),
    "downtime": (
        Exploration(order_and_cancel, lambda: [Controller(Order, apply_parcel, gone=withdraw)]),
        "downtime:apply.ConfigMap/test/first#1:20",
        "leaked",
    ),
    "relist": (Exploration(hurry, one(record_rush_events)), "relist:Order:2:20", "end state"),
    "order of events": (
        Exploration(parcel_first, one(rely_on_event_order, seen)),
        "reorder:ConfigMap:1",
        "end state",
    ),
    "slow": (
        Exploration(two_at_once, one(read_then_increment), invariants=[no_number_is_taken_twice]),
        "slow:patch.Order/test/first/status#1:5",
        "no_number_is_taken_twice",
    ),
    "inside an await": (
        Exploration(two_at_once, selling, invariants=[nothing_is_bought_twice], outside=Shop),
        "crash-during:reconcile.orders/Order/test/first#1:1",
        "nothing_is_bought_twice",
    ),
    "leadership": (
        Exploration(two_at_once, counting, invariants=[no_number_is_taken_twice], leader=True),
        "takeover:patch.Order/test/second/status#1",
        "no_number_is_taken_twice",
    ),
    "memory": (Exploration(order_and_cancel, remembering), "crash-after:create.ConfigMap/test/first#1", "stuck"),
}
"""By name: the exploration, a plan that shows the bug, and the broken rule."""
