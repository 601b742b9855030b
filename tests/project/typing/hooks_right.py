"""Webhooks as users write them."""

from typing import assert_type

from levelset import GroupVersionKind, Resource, Spec, Unstructured
from levelset.apiserver import ApiServer
from levelset.runtime.webhook import (
    AdmissionHook,
    MatchCondition,
    Review,
    Webhook,
    Webhooks,
    converts,
    defaults,
    validates,
)


class WebsiteSpec(Spec):
    image: str
    replicas: int = 1


class Website(Resource[WebsiteSpec, None], api="example.dev/v1"):
    """A site."""


class OldWebsite(Resource[WebsiteSpec, None], api="example.dev/v1beta1", kind="Website"):
    """The same, a year ago."""


def change(site: Website) -> Website:
    return site.with_spec(replicas=2)


async def change_later(site: Website, review: Review[Website]) -> Website:
    review.warn(f"{review.user.name} waits")
    return site


def check(review: Review[Website]) -> None:
    assert_type(review.new, Website)
    assert_type(review.old, Website | None)


async def check_later(site: Website) -> None:
    pass


def check_exec(pod: Unstructured) -> None:
    pass


def upgrade(old: OldWebsite) -> Website:
    return Website(metadata=old.metadata, spec=old.spec)


def downgrade(site: Website) -> OldWebsite:
    return OldWebsite(metadata=site.metadata, spec=site.spec)


assert_type(defaults(Website, change, change_later, timeout=5), AdmissionHook)
running = MatchCondition[Website]("running", "object.spec.replicas > 0", lambda review: review.new.spec.replicas > 0)
hooks = [
    defaults(Website, change, on="create"),
    validates(Website, check, check_later, on=("create", "delete"), when=[running, lambda review: review.dry_run]),
    validates(GroupVersionKind("", "v1", "Pod"), check_exec, on="connect", subresources="exec"),
    converts(Website, OldWebsite, to_hub=upgrade, from_hub=downgrade),
]
assert_type(Webhooks(*hooks, [hooks]), Webhooks)
one: Webhook = hooks[0]
server = ApiServer(admission=[defaults(Website, change), validates(Website, check)])
