"""A small operator, for the commands to work with."""

from levelset import Context, Controller, Resource, Spec, owns
from levelset.objects import Object, ObjectMeta

__all__ = [
    "NewSite",
    "NewSiteSpec",
    "Page",
    "Site",
    "SiteSpec",
    "Stranger",
    "controllers",
    "other_controllers",
    "stranger",
]


class SiteSpec(Spec):
    """What somebody wants of a site."""

    image: str


class NewSiteSpec(Spec):
    """The same, a release later."""

    image: str
    replicas: int = 1


class Site(Resource[SiteSpec, None], api="doctor.dev/v1"):
    """A site."""


class NewSite(Resource[NewSiteSpec, None], api="doctor.dev/v1", kind="Site"):
    """A site, a release later."""


class Stranger(Resource[SiteSpec, None], api="doctor.dev/v1"):
    """A kind that nobody has installed."""


class Page(Object, api="v1", kind="ConfigMap"):
    """What a site is made into."""

    data: dict[str, str] = {}


async def reconcile(site: Site | NewSite | Stranger, ctx: Context) -> None:
    """Makes the child of a site."""
    await ctx.apply(
        Page(metadata=ObjectMeta(name=site.name, namespace=site.namespace), data={"image": site.spec.image}), owner=site
    )


controllers = [Controller(Site, reconcile, owns(Page))]
other_controllers = [Controller(NewSite, reconcile, owns(Page))]
stranger = Controller(Stranger, reconcile)
