"""Mistakes with kinds that a type checker must find."""

from levelset import Quantity, Ref, Resource, Spec, Status, decode


class WebsiteSpec(Spec):
    image: str
    replicas: int = 1


class WebsiteStatus(Status):
    ready: int = 0


class Website(Resource[WebsiteSpec, WebsiteStatus], api="example.dev/v1"):
    """A site."""


class Secret(Resource[WebsiteSpec, None], api="example.dev/v1"):
    """Another kind."""


WebsiteSpec()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
WebsiteSpec("blog:1")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
WebsiteSpec(image=1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
WebsiteSpec(image="blog:1", replicsa=2)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
Website.new("blog", WebsiteStatus())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
broken = Quantity("1Gi") + 1  # type: ignore[operator]  # pyright: ignore[reportOperatorIssue, reportUnknownVariableType]


def change_the_spec_to_another_class(site: Website) -> Website:
    return site.with_spec(WebsiteStatus())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def change_the_spec_to_another_type(site: Website) -> Website:
    return site.with_spec(WebsiteSpec(image=2))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def write_in_place(site: Website) -> None:
    site.spec.replicas = 2  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]


def forget_that_there_may_be_no_status(site: Website) -> int:
    return site.status.ready  # type: ignore[union-attr]  # pyright: ignore[reportOptionalMemberAccess]


def misspell(site: Website) -> object:
    return site.spec.imgae  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]


def take_another_kind(ref: Ref[Website]) -> None: ...


take_another_kind(Ref(Secret, "blog-tls"))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
decode(Website, 5)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
