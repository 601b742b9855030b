"""Webhooks of a Website: defaults, validation, and conversion of its old version."""

from levelset import Context, Controller, Denied, Resource, Spec, Status, run
from levelset.runtime.webhook import Review, converts, defaults, validates


class WebsiteSpec(Spec):
    image: str
    replicas: int = 1


class WebsiteStatus(Status):
    phase: str = ""


class Website(Resource[WebsiteSpec, WebsiteStatus], api="shop.example.dev/v1"):
    """A site served from a container image."""


class OldWebsiteSpec(Spec):
    container: str
    size: int = 1


class OldWebsite(Resource[OldWebsiteSpec, WebsiteStatus], api="shop.example.dev/v1beta1", kind="Website"):
    """The old version of Website."""


def latest_image(site: Website) -> Website:
    """Defaults: returns the changed object."""
    if ":" in site.spec.image:
        return site
    return site.with_spec(image=f"{site.spec.image}:latest")


def sensible(site: Website, review: Review[Website]) -> None:
    """Validates: raises to reject."""
    if site.spec.replicas < 1:
        raise Denied("at least one replica is needed", field="spec.replicas")
    if review.old and review.old.spec.image != site.spec.image:
        review.warn("changing the image restarts the site")


def upgrade(old: OldWebsite) -> Website:
    spec = WebsiteSpec(image=old.spec.container, replicas=old.spec.size)
    return Website(metadata=old.metadata, spec=spec, status=old.status)


def downgrade(site: Website) -> OldWebsite:
    spec = OldWebsiteSpec(container=site.spec.image, size=site.spec.replicas)
    return OldWebsite(metadata=site.metadata, spec=spec, status=site.status)


hooks = [
    defaults(Website, latest_image),
    validates(Website, sensible),
    converts(Website, OldWebsite, to_hub=upgrade, from_hub=downgrade),
]


async def reconcile(site: Website, ctx: Context) -> None:
    await ctx.set_status(site, WebsiteStatus(phase="Running"))


websites = Controller(Website, reconcile)

if __name__ == "__main__":
    run(websites, webhooks=hooks)
