"""Small controllers with one mistake each: what each kind of disturbance is there to find."""

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
    """What somebody wants."""

    size: int = 1
    label: str = ""
    rush: bool = False


class OrderStatus(Status):
    """What was done."""

    parcel: str = ""
    number: int = 0


class Order(Resource[OrderSpec, OrderStatus], api="mistakes.example.dev/v1"):
    """Wants a parcel."""


class Parcel(Object, api="v1", kind="ConfigMap"):
    """Holds what was ordered."""

    data: dict[str, str] = {}


def parcel(of: Order, name: str = "", **data: str) -> Parcel:
    prefix = "" if name else f"{of.name}-"
    return Parcel(metadata=ObjectMeta(name=name, generate_name=prefix, namespace=of.namespace), data=data)


def ref_of(order: Order) -> Ref[Parcel]:
    return Ref(Parcel, order.name, order.namespace)


async def orders(people: Cluster) -> None:
    """Somebody orders something, changes their mind twice, and orders something else."""
    first = await people.create(Order.new("first", OrderSpec()))
    await people.settled()
    for size in (2, 1):
        await people.patch(first.ref, MergePatch({"spec": {"size": size}}))
        await people.settled()
    await people.create(Order.new("second", OrderSpec()))
    await people.settled()


async def make_then_record(order: Order, ctx: Context) -> None:
    if order.status is None or not order.status.parcel:
        made = await ctx.create(parcel(order))
        await ctx.set_status(order, OrderStatus(parcel=made.name))


async def trust_an_old_list(order: Order, ctx: Context) -> None:
    found = await ctx.list(Parcel, read="stale", namespace=order.namespace)
    if not any(one.name.startswith(f"{order.name}-") for one in found):
        await ctx.create(parcel(order))


async def pass_over_conflicts(order: Order, ctx: Context) -> None:
    found = await ctx.live(ref_of(order))
    if found is None:
        await ctx.create(parcel(order, order.name, size=str(order.spec.size)))
        return
    try:
        await ctx.update(replace(found, data={"size": str(order.spec.size)}))
    except Conflict:
        return


async def pass_over_errors(order: Order, ctx: Context) -> None:
    try:
        await ctx.apply(parcel(order, order.name, size=str(order.spec.size)))
    except ApiError:
        return


async def empty_what_is_too_big(order: Order, ctx: Context) -> None:
    """Makes a parcel anew when its order is seen to be of another size; what was put into it is gone then."""
    ref = ref_of(order)
    found = await ctx.live(ref)
    if found is None:
        await ctx.create(parcel(order, order.name))
    elif order.spec.size == 2 and found.data:
        await ctx.delete(ref)
        await ctx.create(parcel(order, order.name))


async def change_and_pack(people: Cluster) -> None:
    one = await people.create(Order.new("first", OrderSpec()))
    await people.settled()
    for size in (2, 1):
        await people.patch(one.ref, MergePatch({"spec": {"size": size}}))
        await people.settled()
    await people.patch(ref_of(one), MergePatch({"data": {"book": "red"}}))
    await people.create(Order.new("second", OrderSpec()))
    await people.settled()


async def wait_to_be_told(order: Order, ctx: Context) -> None:
    """Notes that there was a hurry, if it is looking at that moment."""
    if order.spec.rush:
        await ctx.apply(parcel(order, order.name, rush="yes"))


async def hurry(people: Cluster) -> None:
    one = await people.create(Order.new("first", OrderSpec()))
    await people.settled()
    for rush in (True, False):
        await people.patch(one.ref, MergePatch({"spec": {"rush": rush}}))
        await people.settled()


async def believe_in_an_order_of_events(order: Order, ctx: Context) -> None:
    """Takes it that the parcel is seen before the order that needs it."""
    if ctx.cached(ref_of(order)) is not None:
        await ctx.set_status(order, OrderStatus(parcel=order.name))


async def parcel_first(people: Cluster) -> None:
    await people.create(Parcel(metadata=ObjectMeta(name="first")))
    await people.create(Order.new("first", OrderSpec()))
    await people.settled()


async def read_and_count_on(order: Order, ctx: Context) -> None:
    """Takes the next number after all that are taken, and writes it down some time later."""
    if order.status is None or not order.status.number:
        there = await ctx.list(Order, read="live")
        taken = max((one.status.number for one in there if one.status), default=0)
        await ctx.set_status(order, OrderStatus(number=taken + 1))


async def two_at_once(people: Cluster) -> None:
    for name in ("first", "second"):
        await people.create(Order.new(name, OrderSpec()))
        await people.settled()


def no_number_is_taken_twice(state: State) -> None:
    numbers = [one.status.number for one in state.list(Order) if one.status and one.status.number]
    assert len(numbers) == len(set(numbers)), f"{numbers}"


class Shop:
    """Is outside of the API, and sells as often as it is asked."""

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
    """Numbers its orders, and remembers the last number."""
    last = 0

    async def number(order: Order, ctx: Context) -> None:
        nonlocal last
        if order.status is None or not order.status.number:
            last += 1
            await ctx.set_status(order, OrderStatus(number=last))

    return [Controller(Order, number)]


def remembering() -> list[Controller[Any]]:
    """Lets an order go only if it remembers to have made its parcel."""
    made: set[str] = set()

    async def make(order: Order, ctx: Context) -> None:
        if await ctx.live(ref_of(order)) is None:
            await ctx.create(parcel(order, order.name), owner=order)
            made.add(order.name)

    async def unmake(order: Order, ctx: Context) -> Action | None:
        return None if order.name in made else requeue(60)

    return [Controller(Order, make, cleanup=unmake)]


async def make_once(order: Order, ctx: Context) -> None:
    await ctx.apply(parcel(order, order.name))


async def withdraw(ref: Ref[Order], ctx: Context) -> None:
    """Relies on being told that an order is gone."""
    await ctx.delete(Ref(Parcel, ref.name, ref.namespace))


async def order_and_cancel(people: Cluster) -> None:
    one = await people.create(Order.new("first", OrderSpec()))
    await people.settled()
    await people.delete(one.ref)
    await people.settled()


def one(reconcile: Callable[[Order, Context], Awaitable[Any]], *relations: Any) -> Callable[[], list[Controller[Any]]]:
    return lambda: [Controller(Order, reconcile, *relations)]


seen = watches(Parcel, to=lambda _: [])

MISTAKES: dict[str, tuple[Exploration, str, str]] = {
    "crash after": (
        Exploration(orders, one(make_then_record)),
        "crash-after:create.ConfigMap/test/first-~#1",
        "created twice",
    ),
    "crash before": (
        Exploration(two_at_once, counting, invariants=[no_number_is_taken_twice]),
        "crash-before:patch.Order/test/second/status#1",
        "no_number_is_taken_twice",
    ),
    "lost answer": (
        Exploration(orders, one(make_then_record)),
        "lost-answer:create.ConfigMap/test/first-~#1",
        "created twice",
    ),
    "conflict": (
        Exploration(orders, one(pass_over_conflicts)),
        "conflict:update.ConfigMap/test/first#2",
        "end state",
    ),
    "refusal": (Exploration(orders, one(pass_over_errors)), "refusal:apply.ConfigMap/test/second#1:500", "end state"),
    "old list": (Exploration(orders, one(trust_an_old_list, seen)), "hold:ConfigMap:1:4", "created twice"),
    "older after restart": (
        Exploration(change_and_pack, one(empty_what_is_too_big)),
        "older:create.ConfigMap/test/second#1:4:4",
        "lost",
    ),
    "away": (
        Exploration(order_and_cancel, lambda: [Controller(Order, make_once, gone=withdraw)]),
        "away:apply.ConfigMap/test/first#1:20",
        "leaked",
    ),
    "states in between": (Exploration(hurry, one(wait_to_be_told)), "skip:Order:2:20", "end state"),
    "order of events": (
        Exploration(parcel_first, one(believe_in_an_order_of_events, seen)),
        "reorder:ConfigMap:1",
        "end state",
    ),
    "slow": (
        Exploration(two_at_once, one(read_and_count_on), invariants=[no_number_is_taken_twice]),
        "slow:patch.Order/test/first/status#1:5",
        "no_number_is_taken_twice",
    ),
    "inside an await": (
        Exploration(two_at_once, selling, invariants=[nothing_is_bought_twice], outside=Shop),
        "crash-during:look.orders/Order/test/first#1:1",
        "nothing_is_bought_twice",
    ),
    "leadership": (
        Exploration(two_at_once, counting, invariants=[no_number_is_taken_twice], leader=True),
        "takeover:patch.Order/test/second/status#1",
        "no_number_is_taken_twice",
    ),
    "memory": (Exploration(order_and_cancel, remembering), "crash-after:create.ConfigMap/test/first#1", "stuck"),
}
"""An exploration for each, a plan that shows the mistake, and the rule that is broken."""
