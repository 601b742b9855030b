"""Logs an error and returns as if all were well: nobody looks again until something changes.

Modelled on GoogleCloudPlatform/flink-on-k8s-operator#33 (a failed reconcile is not put back into the queue) and on the
many like it; what a reconciler raises is what brings it back, later each time.
"""

from levelset import Context, Controller, LevelsetError, Resource, Spec, Status
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.habitat import Expected, config_map

__all__ = ["Topic", "broken", "expected", "fixed"]


class TopicStatus(Status):
    phase: str = ""


class Topic(Resource[Spec, TopicStatus], api="zoo.example.dev/v1"):
    """Wants a partition."""


async def log_and_go_on(topic: Topic, ctx: Context) -> None:
    try:
        await ctx.apply(config_map(topic, f"{topic.name}-partition"), owner=topic)
        phase = "Ready"
    except LevelsetError as error:
        ctx.log.warning("no partition", error=str(error))
        phase = "Failed"
    await ctx.set_status(topic, TopicStatus(phase=phase))


async def raise_it(topic: Topic, ctx: Context) -> None:
    await ctx.apply(config_map(topic, f"{topic.name}-partition"), owner=topic)
    await ctx.set_status(topic, TopicStatus(phase="Ready"))


async def scenario(people: Cluster) -> None:
    await people.create(Topic.new("news", Spec()))
    await people.settled()


broken = Exploration(scenario, lambda: [Controller(Topic, log_and_go_on)])
fixed = Exploration(scenario, lambda: [Controller(Topic, raise_it)])
expected = Expected("end state", "apply", "ConfigMap")
