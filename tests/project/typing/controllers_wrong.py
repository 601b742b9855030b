"""Mistakes with controllers that a type checker must find."""

from levelset import Action, Context, Controller, Object, Ref, Resource, Spec, Status, watches


class WebsiteSpec(Spec):
    image: str = "nginx"


class WebsiteStatus(Status):
    ready: int = 0


class Website(Resource[WebsiteSpec, WebsiteStatus], api="example.dev/v1"):
    """A site."""


class ConfigMap(Object, api="v1"):
    data: dict[str, str] = {}


async def of_another_kind(_: ConfigMap, __: Context) -> None:
    pass


async def with_a_number(_: Website, __: Context) -> int:
    return 60


def not_async(_: Website, __: Context) -> Action | None:
    return None


def no_refs(_: ConfigMap) -> list[str]:
    return ["blog"]


Controller(Website, of_another_kind)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
Controller(Website, with_a_number)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
Controller(Website, not_async)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
watches(ConfigMap, to=no_refs)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]


async def reconcile(site: Website, ctx: Context) -> None:
    found = await ctx.find(Ref(ConfigMap, "c", "default"))
    print(found.data)  # type: ignore[union-attr]  # pyright: ignore[reportOptionalMemberAccess]
    await ctx.aply(site)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
