"""Logs an error and returns normally: the object is not reconciled again until something changes.

Modelled on GoogleCloudPlatform/flink-on-k8s-operator#33 (a failed reconcile is not requeued). The fix lets the error
propagate, so that the reconcile is retried with backoff.
"""

from levelset import Context, Controller, LevelsetError, Resource, Spec, Status, owns
from levelset.testing import Cluster
from levelset.testing.explore import Exploration
from tests.testing.explore.zoo.common import ConfigMap, Expected, config_map

__all__ = ["Topic", "broken", "expected", "fixed"]


class TopicStatus(Status):
    phase: str = ""


class Topic(Resource[Spec, TopicStatus], api="zoo.example.dev/v1"):
    """A topic with a partition."""


async def log_and_continue(topic: Topic, ctx: Context) -> None:
    try:
        await ctx.apply(config_map(topic, f"{topic.name}-partition"), owner=topic)
        phase = "Ready"
    except LevelsetError as error:
        ctx.log.warning("no partition", error=str(error))
        phase = "Failed"
    await ctx.set_status(topic, TopicStatus(phase=phase))


async def propagate(topic: Topic, ctx: Context) -> None:
    await ctx.apply(config_map(topic, f"{topic.name}-partition"), owner=topic)
    await ctx.set_status(topic, TopicStatus(phase="Ready"))


async def scenario(user: Cluster) -> None:
    await user.create(Topic.new("news", Spec()))
    await user.settled()


broken = Exploration(scenario, lambda: [Controller(Topic, log_and_continue)])
fixed = Exploration(scenario, lambda: [Controller(Topic, propagate, owns(ConfigMap))])
expected = Expected("end state", "apply", "ConfigMap")
