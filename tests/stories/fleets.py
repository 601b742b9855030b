"""The operator of the stories: each Fleet has a number of ships, which are ConfigMaps."""

from collections.abc import Sequence
from typing import Any

from levelset import Client, Context, Controller, Object, ObjectMeta, Resource, Spec, Status, owns

__all__ = ["Fleet", "FleetSpec", "FleetStatus", "Ship", "fleet", "named_ships", "numbered_ships", "ship", "ships_of"]


class FleetSpec(Spec):
    size: int = 1


class FleetStatus(Status):
    ships: int = 0


class Fleet(Resource[FleetSpec, FleetStatus], api="sea.example.dev/v1"):
    """A fleet, which needs a number of ships."""


class Ship(Object, api="v1", kind="ConfigMap"):
    """A ship of a fleet."""

    data: dict[str, str] = {}


def fleet(name: str, size: int = 2) -> Fleet:
    return Fleet.new(name, FleetSpec(size=size), namespace="default")


def ship(of: Fleet, **metadata: Any) -> Ship:
    labels = {"fleet": of.name}
    return Ship(metadata=ObjectMeta(namespace=of.namespace, labels=labels, **metadata), data={"of": of.name})


class Fleets:
    """Counts its reconciles."""

    def __init__(self) -> None:
        self.reconciles = 0

    async def with_named_ships(self, one: Fleet, ctx: Context) -> None:
        """Ships with deterministic names: missing ones are applied, surplus ones deleted."""
        self.reconciles += 1
        wanted = [f"{one.name}-{number}" for number in range(one.spec.size)]
        for name in wanted:
            await ctx.apply(ship(one, name=name), owner=one)
        for found in await ctx.list(Ship, namespace=one.namespace, labels=f"fleet={one.name}"):
            if found.name not in wanted:
                await ctx.delete(found.ref)
        await ctx.set_status(one, FleetStatus(ships=len(wanted)))

    async def with_numbered_ships(self, one: Fleet, ctx: Context) -> None:
        """Ships with generated names: they can only be counted."""
        self.reconciles += 1
        found = await ctx.children(Ship)
        for _ in range(one.spec.size - len(found)):
            await ctx.create(ship(one, generate_name=f"{one.name}-"), owner=one)
        for surplus in sorted(found, key=lambda each: each.name)[one.spec.size :]:
            await ctx.delete(surplus.ref)
        await ctx.set_status(one, FleetStatus(ships=one.spec.size))


def named_ships(**options: Any) -> tuple[Controller[Fleet], Fleets]:
    """A controller whose children have deterministic names, and its counter."""
    mine = Fleets()
    return Controller(Fleet, mine.with_named_ships, owns(Ship, metadata_only=False), name="named", **options), mine


def numbered_ships(**options: Any) -> tuple[Controller[Fleet], Fleets]:
    """A controller whose children are only counted, and its counter."""
    mine = Fleets()
    return Controller(
        Fleet, mine.with_numbered_ships, owns(Ship, metadata_only=False), name="numbered", **options
    ), mine


async def ships_of(client: Client) -> dict[str, Sequence[str]]:
    """The names of the existing ships, by fleet."""
    found: dict[str, list[str]] = {}
    for one in await client.list(Ship, namespace="default", labels="fleet"):
        found.setdefault(one.metadata.labels["fleet"], []).append(one.name)
    return {name: sorted(ships) for name, ships in found.items()}
