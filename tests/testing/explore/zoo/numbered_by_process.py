"""Numbers its children by a counter in memory that starts from what exists, and two processes count at the same time.

Modelled on kubernetes/kubernetes#37488 (two allocators hand out the same port). In a rolling update the old process
still runs when the new one starts. The fix claims a number by creating an object with its name, which only one can do.
"""

from itertools import count
from typing import Any

from levelset import Context, Controller, Resource, Spec, Status
from levelset.errors import AlreadyExists
from levelset.testing import Cluster
from levelset.testing.explore import Exploration, State
from tests.testing.explore.zoo.common import ConfigMap, Expected, config_map

__all__ = ["Ticket", "broken", "expected", "fixed"]


class TicketStatus(Status):
    number: int = 0


class Ticket(Resource[Spec, TicketStatus], api="zoo.example.dev/v1"):
    """A ticket with a unique number."""


def counting() -> list[Controller[Any]]:
    numbers: list[Any] = []

    async def reconcile(ticket: Ticket, ctx: Context) -> None:
        if not numbers:
            taken = [one.status.number for one in await ctx.list(Ticket, read="live") if one.status]
            numbers.append(count(max(taken, default=0) + 1))
        if ticket.status is None:
            await ctx.set_status(ticket, TicketStatus(number=next(numbers[0])))

    return [Controller(Ticket, reconcile)]


async def claim(ticket: Ticket, ctx: Context) -> None:
    if ticket.status is not None:
        return
    for number in count(1):
        try:
            await ctx.create(config_map(ticket, f"ticket-{number}", holder=ticket.metadata.uid))
        except AlreadyExists:
            taken = await ctx.get(ConfigMap, f"ticket-{number}", namespace=ticket.namespace, read="live")
            if taken.data["holder"] != ticket.metadata.uid:
                continue
        await ctx.set_status(ticket, TicketStatus(number=number))
        return


def no_number_is_given_twice(state: State) -> None:
    numbers = [one.status.number for one in state.list(Ticket) if one.status]
    assert len(numbers) == len(set(numbers)), f"given twice: {sorted(numbers)}"


async def scenario(user: Cluster) -> None:
    for name in ("ann", "bob", "cleo"):
        made = await user.create(Ticket.new(name, Spec()))
        await user.until(made.ref, lambda one: one.status is not None)
        await user.advance(20)


broken = Exploration(scenario, counting, invariants=[no_number_is_given_twice])
fixed = Exploration(scenario, lambda: [Controller(Ticket, claim)], invariants=[no_number_is_given_twice])
expected = Expected("no_number_is_given_twice", "patch", "Ticket")
