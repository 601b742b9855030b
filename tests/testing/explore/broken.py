"""A controller that makes a child before it writes down that it has, and the exploration that shows what is wrong."""

from levelset import Context, Controller, Resource, Spec, Status, owns
from levelset.objects import Object, ObjectMeta
from levelset.testing import Cluster
from levelset.testing.explore import Exploration

__all__ = ["Job", "Page", "forgetful", "hopeless", "no_exploration", "two"]


class JobSpec(Spec):
    """What somebody wants."""

    text: str = ""


class JobStatus(Status):
    """What was made."""

    page: str = ""


class Job(Resource[JobSpec, JobStatus], api="broken.dev/v1"):
    """A job that needs a page."""


class Page(Object, api="v1", kind="ConfigMap"):
    """A page."""


async def reconcile(job: Job, ctx: Context) -> None:
    """Makes a page, and only then writes down its name."""
    if job.status is None or not job.status.page:
        made = await ctx.create(
            Page(metadata=ObjectMeta(generate_name=f"{job.name}-", namespace=job.namespace)), owner=job
        )
        await ctx.set_status(job, JobStatus(page=made.name))


async def scenario(people: Cluster) -> None:
    """Somebody wants a job."""
    await people.create(Job.new("one", JobSpec(), namespace=people.namespace))
    await people.settled()


async def failing(people: Cluster) -> None:
    """Somebody expects what nobody has promised."""
    raise AssertionError(f"nothing is well in {people.namespace}")


forgetful = Exploration(scenario, lambda: [Controller(Job, reconcile, owns(Page))], name="forgetful")
hopeless = Exploration(failing, lambda: [Controller(Job, reconcile, owns(Page))], name="hopeless")
two = [forgetful, hopeless]
no_exploration = "nothing"
