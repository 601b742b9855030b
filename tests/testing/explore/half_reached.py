"""A controller with a call that no scenario here reaches."""

from levelset import Context, Controller, Object, ObjectMeta, Resource, Spec, Status, owns
from levelset.testing import Cluster
from levelset.testing.explore import Exploration

__all__ = ["exploration"]


class Page(Object, api="v1", kind="ConfigMap"):
    """A page."""


class Book(Resource[Spec, Status], api="half.dev/v1"):
    """A book with a page."""


async def reconcile(book: Book, ctx: Context) -> None:
    """Applies the page of a book; drafts have none."""
    page = Page(metadata=ObjectMeta(name=f"{book.name}-page", namespace=book.namespace))
    if not book.name.startswith("draft"):
        await ctx.apply(page, owner=book)
    else:
        await ctx.delete(page.ref)


async def scenario(user: Cluster) -> None:
    """Creates a book that is no draft."""
    await user.create(Book.new("novel", Spec()))
    await user.settled()


exploration = Exploration(scenario, lambda: [Controller(Book, reconcile, owns(Page))], name="half")
