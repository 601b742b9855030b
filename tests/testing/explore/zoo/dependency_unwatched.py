"""Uses another object if it is there, and is not woken when it comes.

It works as long as what is needed is seen before what needs it, which nobody promises of two kinds. Modelled on
tigera/operator#624 (a secret that is not there at the first reconcile is never mounted) and shipwright-io/build#466.
Who names an object follows it; then it does not matter which of the two comes first.
"""

from collections.abc import Iterator

from levelset import Context, Controller, Ref, Resource, Spec, Status, references, watches
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.habitat import ConfigMap, Expected, config_map

__all__ = ["Portal", "broken", "expected", "fixed"]


class PortalSpec(Spec):
    settings: str


class PortalStatus(Status):
    theme: str = ""


class Portal(Resource[PortalSpec, PortalStatus], api="zoo.example.dev/v1"):
    """Looks as its settings say, or plain if there are none."""


async def reconcile(portal: Portal, ctx: Context) -> None:
    (ref,) = settings_of(portal)
    settings = ctx.cached(ref)
    theme = "plain" if settings is None else settings.data["theme"]
    await ctx.apply(config_map(portal, f"{portal.name}-page", theme=theme), owner=portal)
    await ctx.set_status(portal, PortalStatus(theme=theme))


def settings_of(portal: Portal) -> Iterator[Ref[ConfigMap]]:
    yield Ref(ConfigMap, portal.spec.settings, portal.namespace)


async def scenario(people: Cluster) -> None:
    portal = Portal.new("intranet", PortalSpec(settings="dark"))
    await people.create(config_map(portal, "dark", theme="dark"))
    await people.create(portal)
    await people.settled()


kept = watches(ConfigMap, to=lambda one: [])
broken = Exploration(scenario, lambda: [Controller(Portal, reconcile, kept)])
fixed = Exploration(scenario, lambda: [Controller(Portal, reconcile, references(ConfigMap, settings_of))])
expected = Expected("end state", "apply", "ConfigMap")
