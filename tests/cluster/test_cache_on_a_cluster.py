"""Watch and cache against the cluster of a kubeconfig."""

from typing import Any

from levelset.client import Client, MergePatch, OnlyMetadata
from levelset.objects import ObjectMeta, replace
from levelset.runtime.cache import Cluster, Index
from levelset.runtime.watch import Apply, Delete, InitApply, InitDone, watch
from tests.cluster.kinds import ConfigMap, WidgetSpec

WITHIN = 30.0


def settings(name: str, namespace: str, **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace, labels={"app": "test"}), data=data)


def colors(one: ConfigMap) -> list[str]:
    return [one.data["color"]] if "color" in one.data else []


async def test_a_watch_lists_the_objects_and_then_their_changes(client: Client, namespace: str) -> None:
    await client.create(settings("a", namespace))
    seen: list[tuple[str, str]] = []
    async with watch(client, ConfigMap, namespace=namespace, labels="app=test") as events:
        async for event in events:
            match event:
                case InitApply(item):
                    seen.append(("init", item.object.name))
                case InitDone():
                    made = await client.create(settings("b", namespace))
                case Apply(item):
                    seen.append(("apply", item.object.name))
                    await client.delete(made.ref)
                case Delete(item):
                    seen.append(("delete", item.object.name))
                    break
                case _:
                    pass
    assert seen == [("init", "a"), ("apply", "b"), ("delete", "b")]


async def test_a_cached_read_sees_every_write_of_its_own_client(client: Client, namespace: str) -> None:
    by_color = Index(ConfigMap, colors)
    async with Cluster(client) as cluster, cluster.declare(ConfigMap, namespace=namespace, indexes=[by_color]):
        made = await client.create(settings("a", namespace, color="red"))
        assert await cluster.get(made.ref) == made.with_metadata(managed_fields=())
        for number in range(20):
            made = await client.update(replace(made, data={"color": f"c{number}"}))
            assert (await cluster.get(made.ref)).data == made.data
            found = await cluster.list(ConfigMap, namespace=namespace, index=(by_color, f"c{number}"))
            assert [one.name for one in found] == ["a"]
        await client.delete(made.ref)
        assert await cluster.find(made.ref) is None


async def test_metadata_of_a_custom_kind_are_cached_without_the_rest(
    client: Client,
    namespace: str,
    Widget: Any,
) -> None:
    made = await client.create(Widget.new("w", WidgetSpec(color="red"), namespace=namespace))
    async with Cluster(client) as cluster, cluster.declare(OnlyMetadata(Widget), namespace=namespace) as handle:  # type: ignore[var-annotated]  # Widget is Any
        await handle.wait_ready(within=WITHIN)
        await client.patch(made.ref, MergePatch({"metadata": {"labels": {"tier": "x"}}}))
        found = await cluster.get(OnlyMetadata(Widget), "w", namespace=namespace)
        assert found.metadata.labels == {"tier": "x"}
