"""Counts in memory how often the configuration has changed, and writes the number: a restart rolls all members.

Modelled on arkmq-org/arkmq-org-broker-operator#121 (a restarted operator has lost its state, and restarts the brokers).
The fix derives the mark from the configuration.
"""

from typing import Any

from levelset import Context, Controller, MergePatch, Resource, Spec, Status, owns
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.common import ConfigMap, Expected, config_map

__all__ = ["Broker", "broken", "expected", "fixed"]


class BrokerSpec(Spec):
    address: str = ""


class Broker(Resource[BrokerSpec, Status], api="zoo.example.dev/v1"):
    """A message broker; its members restart when the mark changes."""


def counting() -> list[Controller[Any]]:
    seen: dict[str, str] = {}
    changes: dict[str, int] = {}

    async def reconcile(broker: Broker, ctx: Context) -> None:
        if seen.get(broker.name) != broker.spec.address:
            seen[broker.name] = broker.spec.address
            changes[broker.name] = changes.get(broker.name, 0) + 1
        await ctx.apply(config_map(broker, f"{broker.name}-members", mark=changes[broker.name]), owner=broker)

    return [Controller(Broker, reconcile, owns(ConfigMap))]


async def deriving(broker: Broker, ctx: Context) -> None:
    await ctx.apply(config_map(broker, f"{broker.name}-members", mark=broker.spec.address), owner=broker)


async def scenario(user: Cluster) -> None:
    broker = await user.create(Broker.new("orders", BrokerSpec(address="one")))
    await user.settled()
    await user.patch(broker.ref, MergePatch({"spec": {"address": "two"}}))
    await user.settled()


broken = Exploration(scenario, counting)
fixed = Exploration(scenario, lambda: [Controller(Broker, deriving, owns(ConfigMap))])
expected = Expected("end state", "apply", "ConfigMap")
