"""The test cluster on a real cluster: the same test body in real time, and everything is deleted afterwards."""

from pathlib import Path
from typing import Any

import pytest

from levelset import Context, Controller, NotFound, Ref, Resource, owns, requeue
from levelset.client import Client
from levelset.objects import ObjectMeta
from levelset.testing import Cluster, RealTime, open_cluster
from tests.cluster.kinds import ConfigMap, Namespace, WidgetSpec, new_group, widget_class


def make_controller(widget: type[Resource[Any, Any]]) -> Controller[Any]:
    async def reconcile(found: Any, ctx: Context) -> Any:
        made = ConfigMap(metadata=ObjectMeta(name=found.name, namespace=found.namespace))
        await ctx.apply(made, owner=found)
        return requeue(minutes=5)

    return Controller(widget, reconcile, owns(ConfigMap), name="widgets")


async def play(cluster: Cluster, widget: type[Resource[Any, Any]]) -> None:
    """The body of a test."""
    made = await cluster.create(widget.new("one", WidgetSpec()))
    async with cluster.running(make_controller(widget)):
        await cluster.settled()
        child = await cluster.until(Ref(ConfigMap, "one"))
        assert child.metadata.namespace == cluster.namespace
        with pytest.raises(AssertionError, match="it still exists after 0.1 seconds"):
            await cluster.until_gone(made.ref, within=0.1)
        await cluster.delete(made.ref)
        await cluster.until_gone(made.ref)
        await cluster.settled()


async def test_a_test_body_also_runs_on_a_real_cluster(kubeconfig: Path, client: Client) -> None:
    widget = widget_class(new_group())
    async with open_cluster(kubeconfig=kubeconfig) as cluster:
        await play(cluster, widget)
        with pytest.raises(RealTime, match="on a real cluster"):
            await cluster.advance(60)
    with pytest.raises(NotFound):
        await client.get(widget, "one", namespace=cluster.namespace)
    found = await client.find(Namespace, cluster.namespace)
    assert found is None or found.metadata.deletion_timestamp is not None


async def test_controllers_see_the_namespace_of_the_test_only(kubeconfig: Path) -> None:
    seen: list[str] = []

    async def reconcile(found: Any, ctx: Context) -> None:
        seen.append(found.name)

    widget = widget_class(new_group())
    async with open_cluster(kubeconfig=kubeconfig) as cluster, open_cluster(kubeconfig=kubeconfig) as neighbour:
        await cluster.create(widget.new("mine", WidgetSpec()))
        await neighbour.create(widget.new("theirs", WidgetSpec()))
        async with cluster.running(Controller(widget, reconcile)):
            await cluster.settled()
            assert set(seen) == {"mine"}
        async with cluster.running(Controller(widget, reconcile, name="all"), everywhere=True):
            await cluster.settled()
            assert set(seen) == {"mine", "theirs"}
