"""Marks its members with the resource version of their configuration: each write of it rolls them, whatever it changes.

Modelled on openshift/console-operator#1217 (pods are replaced when only metadata of a ConfigMap has changed). The fix
marks them with the content.
"""

from levelset import Context, Controller, ObjectMeta, Ref, Resource, Spec, Status, owns, references
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.common import ConfigMap, Expected, config_map

__all__ = ["Console", "broken", "expected", "fixed"]


class Console(Resource[Spec, Status], api="zoo.example.dev/v1"):
    """A console whose members restart when their mark changes: when the trusted certificates do."""


def certificates(console: Console) -> list[Ref[ConfigMap]]:
    return [Ref(ConfigMap, "certificates", console.namespace)]


async def by_version(console: Console, ctx: Context) -> None:
    trusted = await ctx.find(certificates(console)[0])
    if trusted is not None:
        members = config_map(console, f"{console.name}-members", mark=trusted.metadata.resource_version)
        await ctx.apply(members, owner=console)


async def by_content(console: Console, ctx: Context) -> None:
    trusted = await ctx.find(certificates(console)[0])
    if trusted is not None:
        await ctx.apply(config_map(console, f"{console.name}-members", mark=trusted.data["pem"]), owner=console)


async def scenario(user: Cluster) -> None:
    await user.create(ConfigMap(metadata=ObjectMeta(name="certificates"), data={"pem": "one"}))
    await user.create(Console.new("main", Spec()))
    await user.settled()


relations = (owns(ConfigMap), references(ConfigMap, certificates))
broken = Exploration(scenario, lambda: [Controller(Console, by_version, *relations)])
fixed = Exploration(scenario, lambda: [Controller(Console, by_content, *relations)])
expected = Expected("end state", "apply", "ConfigMap")
