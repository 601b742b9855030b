"""The client against the cluster of a kubeconfig."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from levelset.client import Client, Impersonation, JsonPatch, MergePatch, OnlyMetadata, StrategicPatch, load_config
from levelset.errors import AlreadyExists, ApplyConflict, Conflict, Forbidden, Invalid, NotFound, UnknownKind
from levelset.objects import GroupVersionKind, ObjectMeta, PartialObjectMetadata, Ref, Unstructured, replace
from tests.cluster.kinds import ConfigMap, WidgetSpec, WidgetStatus

CONFIG_MAPS = GroupVersionKind("", "v1", "ConfigMap")


def settings(name: str, namespace: str, **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace, labels={"app": "test"}), data=data)


async def test_a_created_object_is_read_typed_unstructured_and_as_metadata(client: Client, namespace: str) -> None:
    made = await client.create(settings("a", namespace, color="red"))
    assert made.metadata.uid
    assert await client.get(made.ref) == made
    tree = await client.get(CONFIG_MAPS, "a", namespace=namespace)
    assert isinstance(tree, Unstructured)
    assert tree.tree["data"] == {"color": "red"}
    part = await client.get(OnlyMetadata(ConfigMap), "a", namespace=namespace)
    assert isinstance(part, PartialObjectMetadata)
    assert part.metadata.uid == made.metadata.uid


async def test_a_taken_name_is_already_exists_and_a_missing_one_not_found(client: Client, namespace: str) -> None:
    made = await client.create(settings("a", namespace))
    with pytest.raises(AlreadyExists) as taken:
        await client.create(settings("a", namespace))
    assert (taken.value.code, taken.value.reason, taken.value.details["name"]) == (409, "AlreadyExists", "a")
    await client.delete(made.ref, uid=made.metadata.uid)
    with pytest.raises(NotFound):
        await client.get(made.ref)
    assert await client.find(ConfigMap, "a", namespace=namespace) is None


async def test_a_list_follows_its_pages_and_its_selector(client: Client, namespace: str) -> None:
    for number in range(7):
        await client.create(settings(f"m{number}", namespace))
    found = [one.name async for one in client.each(ConfigMap, namespace=namespace, labels="app=test", page_size=3)]
    assert found == [f"m{number}" for number in range(7)]
    page = await client.list(ConfigMap, namespace=namespace, labels="app=test", limit=2)
    assert (len(page), bool(page.continue_)) == (2, True)
    named = await client.list(ConfigMap, namespace=namespace, fields="metadata.name=m3")
    assert [one.name for one in named] == ["m3"]


async def test_an_update_with_an_old_version_is_a_conflict(client: Client, namespace: str) -> None:
    old = await client.create(settings("a", namespace))
    new = await client.update(replace(old, data={"color": "blue"}))
    assert new.data == {"color": "blue"}
    with pytest.raises(Conflict):
        await client.update(replace(old, data={"color": "green"}))


async def test_every_patch_type_is_applied(client: Client, namespace: str) -> None:
    made = await client.create(settings("a", namespace, color="red"))
    assert (await client.patch(made.ref, MergePatch({"data": {"size": "1"}}))).data == {"color": "red", "size": "1"}
    removed: list[dict[str, Any]] = [{"op": "remove", "path": "/data/size"}]
    assert (await client.patch(made.ref, JsonPatch(removed))).data == {"color": "red"}
    found = await client.patch(made.ref, StrategicPatch({"metadata": {"labels": {"tier": "x"}}}))
    assert found.metadata.labels == {"app": "test", "tier": "x"}
    with pytest.raises(Conflict):
        await client.patch(made.ref, MergePatch.between(made, replace(made, data={}), lock=True))


async def test_a_field_of_another_manager_is_only_taken_with_force(client: Client, namespace: str) -> None:
    await client.apply(settings("a", namespace, color="red"), manager="one")
    with pytest.raises(ApplyConflict) as refused:
        await client.apply(settings("a", namespace, color="blue"), manager="two")
    assert refused.value.conflicts[0].manager == "one"
    found = await client.apply(settings("a", namespace, color="blue"), manager="two", force=True)
    assert found.data == {"color": "blue"}


async def test_a_dry_run_stores_nothing(client: Client, namespace: str) -> None:
    await client.create(settings("a", namespace), dry_run=True)
    assert await client.find(ConfigMap, "a", namespace=namespace) is None


async def test_status_and_spec_are_written_separately(client: Client, namespace: str, Widget: Any) -> None:
    made = await client.create(Widget.new("w", WidgetSpec(color="red"), namespace=namespace))
    updated = await client.update_status(made.with_status(WidgetStatus(replicas=1)).with_spec(color="blue"))
    assert (updated.spec.color, updated.status) == ("red", WidgetStatus(replicas=1))
    scale = await client.scale(made.ref, replicas=4)
    assert scale.spec.replicas == 4
    assert (await client.get(made.ref)).spec.replicas == 4


async def test_a_kind_without_a_class_is_found_by_discovery(client: Client, namespace: str, Widget: Any) -> None:
    made = await client.create(Widget.new("w", WidgetSpec(color="red"), namespace=namespace))
    found = await client.get(made.ref.gvk, "w", namespace=namespace)
    assert found.tree["spec"]["color"] == "red"
    with pytest.raises(UnknownKind):
        await client.get(GroupVersionKind(made.ref.gvk.group, "v1", "Nothing"), "w", namespace=namespace)


async def test_the_error_for_an_invalid_object_names_the_field(client: Client, namespace: str) -> None:
    with pytest.raises(Invalid) as refused:
        await client.create(settings("Not_A_Name", namespace))
    assert "metadata.name" in [cause.field for cause in refused.value.causes]
    assert f"ConfigMap/{namespace}/Not_A_Name" in str(refused.value)


async def test_waiting_ends_when_the_condition_is_met_or_the_object_is_deleted(client: Client, namespace: str) -> None:
    made = await client.create(settings("a", namespace))
    await client.patch(made.ref, MergePatch({"data": {"ready": "yes"}}))
    found = await client.wait(made.ref, lambda one: one is not None and one.data.get("ready") == "yes", within=30)
    assert found.data == {"ready": "yes"}
    await client.delete(made.ref)
    await client.wait_gone(made.ref, within=30, uid=made.metadata.uid)


async def test_an_impersonated_request_has_the_permissions_of_that_user(kubeconfig: Path, namespace: str) -> None:
    config = await asyncio.to_thread(load_config, kubeconfig)
    impersonating = replace(config, impersonate=Impersonation(user="nobody"))
    async with await Client.connect(impersonating) as unprivileged:
        try:
            await unprivileged.list(ConfigMap, namespace=namespace)
        except Forbidden as error:
            assert "nobody" in str(error)


async def test_a_ref_reads_the_object_that_it_names(client: Client, namespace: str) -> None:
    await client.create(settings("a", namespace))
    assert (await client.get(Ref(ConfigMap, "a", namespace))).name == "a"
