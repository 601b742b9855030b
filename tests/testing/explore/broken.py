"""A controller that creates a child before it records it, and explorations that show the bug."""

from levelset import Context, Controller, Resource, Spec, Status, owns
from levelset.objects import Object, ObjectMeta
from levelset.testing import Cluster
from levelset.testing.explore import Exploration

__all__ = ["Job", "Page", "forgetful", "hopeless", "no_exploration", "two"]


class JobSpec(Spec):
    """The desired state of a job."""

    text: str = ""


class JobStatus(Status):
    """The observed state of a job."""

    page: str = ""


class Job(Resource[JobSpec, JobStatus], api="broken.dev/v1"):
    """A job that needs a page."""


class Page(Object, api="v1", kind="ConfigMap"):
    """A page."""


async def reconcile(job: Job, ctx: Context) -> None:
    """Creates a page, and only then records its name."""
    if job.status is None or not job.status.page:
        made = await ctx.create(
            Page(metadata=ObjectMeta(generate_name=f"{job.name}-", namespace=job.namespace)), owner=job
        )
        await ctx.set_status(job, JobStatus(page=made.name))


async def scenario(user: Cluster) -> None:
    """Creates a job."""
    await user.create(Job.new("one", JobSpec(), namespace=user.namespace))
    await user.settled()


async def failing(user: Cluster) -> None:
    """Always fails."""
    raise AssertionError(f"the scenario fails in {user.namespace}")


forgetful = Exploration(
    scenario, lambda: [Controller(Job, reconcile, owns(Page))], name="forgetful", allowed=["not healed"]
)
hopeless = Exploration(failing, lambda: [Controller(Job, reconcile, owns(Page))], name="hopeless")
two = [forgetful, hopeless]
no_exploration = "nothing"
