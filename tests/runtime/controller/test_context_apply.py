"""Children are applied once, and again only if another writer changed them or their desired state differs."""

from typing import Any

import pytest

from levelset.client import MergePatch, OnlyMetadata
from levelset.client.internals import with_settings
from levelset.errors import ApplyConflict
from levelset.kinds import Deployment
from levelset.objects import Ref, Unstructured, from_tree
from levelset.runtime.watch import without_fields
from levelset.testing.virtual_time import virtual
from tests.runtime.controller.context_environment import ConfigMap, ContextEnvironment, config, open_environment, site


def deployment(replicas: int = 1) -> dict[str, Any]:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}


GVK = Unstructured(deployment()).gvk


def applies(env: ContextEnvironment) -> int:
    return sum(call.words.startswith("apply") for call in env.calls)


@virtual
async def test_a_child_is_created_with_its_owner_and_returned() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        made = await env.context(blog).apply(config(a="1"), owner=blog)
        assert made.data == {"a": "1"}
        assert made.metadata.owner_references[0].uid == blog.metadata.uid
        assert made.metadata.namespace == "default"


@virtual
async def test_the_same_child_is_not_applied_again_in_a_later_reconcile() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        for _ in range(5):
            made = await env.context(blog).apply(config(a="1"), owner=blog)
            assert made.data == {"a": "1"}
        assert applies(env) == 1


@virtual
async def test_a_child_whose_desired_state_changed_is_applied_again() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        await env.context(blog).apply(config(a="1", b="2"), owner=blog)
        made = await env.context(blog).apply(config(a="1"), owner=blog)
        assert made.data == {"a": "1"}
        assert applies(env) == 2


@virtual
async def test_a_child_that_another_writer_changed_is_applied_again() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        child = await env.context(blog).apply(config(a="1"), owner=blog)
        await env.other.patch(child.ref, MergePatch({"data": {"a": "9"}}))
        await env.cluster.get(child.ref, read="consistent")
        made = await env.context(blog).apply(config(a="1"), owner=blog)
        assert made.data == {"a": "1"}
        assert applies(env) == 2


@virtual
async def test_a_child_that_was_deleted_is_created_again() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        child = await env.context(blog).apply(config(a="1"), owner=blog)
        await env.cluster.get(child.ref)
        await env.other.delete(child.ref)
        await env.cluster.find(child.ref, read="consistent")
        made = await env.context(blog).apply(config(a="1"), owner=blog)
        assert made.metadata.uid != child.metadata.uid


@virtual
async def test_a_changed_status_of_a_child_does_not_cause_an_apply_and_is_returned() -> None:
    async with open_environment(GVK) as env:
        blog = await env.start(site())
        child = await env.context(blog).apply(deployment(), owner=blog)
        await env.other.patch(child.ref, MergePatch({"status": {"replicas": 1}}), subresource="status")
        await env.cluster.get(child.ref, read="consistent")
        made = await env.context(blog).apply(deployment(), owner=blog)
        assert made.tree["status"]["replicas"] == 1
        assert applies(env) == 1


@virtual
async def test_a_child_with_only_metadata_cached_is_returned_from_memory_or_read_but_not_written() -> None:
    async with open_environment(OnlyMetadata(ConfigMap)) as env:
        blog = await env.start(site())
        await env.context(blog).apply(config(a="1"), owner=blog)
        made = await env.context(blog).apply(config(a="1"), owner=blog)
        assert made.data == {"a": "1"}
        assert [call.words for call in env.calls] == ["apply ConfigMap/default/settings"]


@virtual
async def test_the_generation_shows_that_only_the_status_of_a_child_changed() -> None:
    async with open_environment(OnlyMetadata(GVK)) as env:
        blog = await env.start(site())
        child = await env.context(blog).apply(deployment(), owner=blog)
        ref: Ref[Any] = child.ref
        await env.other.patch(ref, MergePatch({"status": {"replicas": 1}}), subresource="status")
        await env.cluster.wait_ready()
        await env.cluster.get(OnlyMetadata(GVK), "d", namespace="default", read="consistent")
        made = await env.context(blog).apply(deployment(), owner=blog)
        assert made.tree["status"]["replicas"] == 1
        assert applies(env) == 1


@virtual
async def test_a_child_that_is_not_watched_is_applied_each_time() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        for _ in range(2):
            await env.context(blog).apply(deployment(), owner=blog)
        assert applies(env) == 2


@virtual
async def test_a_child_that_is_watched_only_later_is_not_applied_again_unless_it_has_another_version() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        child = await env.context(blog).apply(deployment(), owner=blog)
        env.cluster.declare(GVK)
        await env.cluster.wait_ready()
        await env.context(blog).apply(deployment(), owner=blog)
        assert applies(env) == 1
        await env.other.patch(child.ref, MergePatch({"spec": {"replicas": 9}}))
        await env.cluster.get(child.ref, read="consistent")
        made = await env.context(blog).apply(deployment(), owner=blog)
        assert (made.tree["spec"]["replicas"], applies(env)) == (1, 2)


@virtual
@pytest.mark.parametrize("kind", [GVK, OnlyMetadata(GVK), Deployment])
async def test_a_child_that_is_watched_only_later_is_not_applied_again_for_another_status(kind: Any) -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        child: Any = deployment() if kind is not Deployment else from_tree(Deployment, deployment())
        made = await env.context(blog).apply(child, owner=blog)
        env.cluster.declare(kind)
        await env.cluster.wait_ready()
        await env.other.patch(made.ref, MergePatch({"status": {"replicas": 9}}), subresource="status")
        await env.cluster.get(kind, "d", read="consistent")
        await env.context(blog).apply(child, owner=blog)
        assert applies(env) == 1


@virtual
async def test_a_child_with_only_metadata_cached_at_first_is_not_applied_again_later() -> None:
    async with open_environment(OnlyMetadata(ConfigMap)) as env:
        blog = await env.start(site())
        made = await env.context(blog).apply(config(a="1"), owner=blog)
        env.cluster.declare(ConfigMap)
        await env.cluster.wait_ready()
        await with_settings(env.other, manager="other").apply(config(a="1"))  # which co-owns the field now
        await env.cluster.get(made.ref, read="consistent")
        assert (await env.context(blog).apply(config(a="1"), owner=blog)).data == {"a": "1"}
        assert applies(env) == 1


@virtual
async def test_a_child_that_is_cached_in_part_is_returned_as_a_whole() -> None:
    async with open_environment(OnlyMetadata(GVK)) as env:
        env.cluster.declare(ConfigMap, transform=without_fields("data"))
        blog = await env.start(site())
        for _ in range(2):
            made = await env.context(blog).apply(config(a="1"), owner=blog)
            assert made.data == {"a": "1"}
        assert applies(env) == 1


@virtual
async def test_fields_of_other_managers_are_taken_over_unless_force_is_false() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        await env.other.apply(config(namespace="default", a="1"), manager="people")
        ctx = env.context(blog)
        with pytest.raises(ApplyConflict, match="people"):
            await ctx.apply(config(a="2"), owner=blog, force=False)
        assert (await ctx.apply(config(a="2"), owner=blog)).data == {"a": "2"}


@virtual
async def test_a_child_without_an_owner_is_applied_in_the_namespace_of_the_client() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        made = await env.context(blog).apply(config(a="1"))
        assert (made.namespace, made.metadata.owner_references) == ("default", ())
        await env.context(blog).apply(config(a="1"))
        assert applies(env) == 1
