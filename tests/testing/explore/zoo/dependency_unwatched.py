"""Uses another object if it exists, but does not watch it.

Works only if the dependency is seen first, which is not guaranteed for two kinds. Modelled on tigera/operator#624 (a
secret that does not exist at the first reconcile is never mounted) and shipwright-io/build#466. The fix watches the
referenced object.
"""

from collections.abc import Iterator

from levelset import Context, Controller, Ref, Resource, Spec, Status, owns, references, watches
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.common import ConfigMap, Expected, config_map

__all__ = ["Portal", "broken", "expected", "fixed"]


class PortalSpec(Spec):
    settings: str


class PortalStatus(Status):
    theme: str = ""


class Portal(Resource[PortalSpec, PortalStatus], api="zoo.example.dev/v1"):
    """A portal with the theme of its settings, or plain without settings."""


async def reconcile(portal: Portal, ctx: Context) -> None:
    (ref,) = settings_of(portal)
    settings = ctx.cached(ref)
    theme = "plain" if settings is None else settings.data["theme"]
    await ctx.apply(config_map(portal, f"{portal.name}-page", theme=theme), owner=portal)
    await ctx.set_status(portal, PortalStatus(theme=theme))


def settings_of(portal: Portal) -> Iterator[Ref[ConfigMap]]:
    yield Ref(ConfigMap, portal.spec.settings, portal.namespace)


async def scenario(user: Cluster) -> None:
    portal = Portal.new("intranet", PortalSpec(settings="dark"))
    await user.create(config_map(portal, "dark", theme="dark"))
    await user.create(portal)
    await user.settled()


watched = watches(ConfigMap, to=lambda one: [])
broken = Exploration(scenario, lambda: [Controller(Portal, reconcile, watched)])
fixed = Exploration(
    scenario, lambda: [Controller(Portal, reconcile, references(ConfigMap, settings_of), owns(ConfigMap))]
)
expected = Expected("end state", "apply", "ConfigMap")
