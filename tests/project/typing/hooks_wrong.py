"""Mistakes with webhooks that a type checker must find."""

from levelset import GroupVersionKind, Resource, Spec, Unstructured
from levelset.runtime.webhook import converts, defaults, validates


class WebsiteSpec(Spec):
    image: str
    replicas: int = 1


class Website(Resource[WebsiteSpec, None], api="example.dev/v1"):
    """A site."""


class OldWebsite(Resource[WebsiteSpec, None], api="example.dev/v1beta1", kind="Website"):
    """The same, a year ago."""


def check(site: Website) -> None:
    pass


def change(site: Website) -> Website:
    return site


def other(site: OldWebsite) -> None:
    pass


def check_exec(pod: Unstructured) -> None:
    pass


defaults(Website, check)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
validates(Website, other)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
validates(Website, check_exec)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
validates(Website, check, on="creates")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
validates(Website, check, timout=3)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
converts(Website, OldWebsite, to_hub=change, from_hub=change)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
validates(GroupVersionKind("", "v1", "Pod"), check)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
