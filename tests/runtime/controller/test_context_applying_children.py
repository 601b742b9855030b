"""Children are applied once, and again only when somebody changed them or wants them different."""

from typing import Any

import pytest

from levelset.client import MergePatch, OnlyMetadata
from levelset.errors import ApplyConflict
from levelset.kinds import Deployment
from levelset.objects import Ref, Unstructured, from_tree
from levelset.runtime.watch import without_fields
from tests.apiserver.clock import virtual
from tests.runtime.controller.desk import ConfigMap, Desk, config, open_desk, site


def deployment(replicas: int = 1) -> dict[str, Any]:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}


GVK = Unstructured(deployment()).gvk


def applies(desk: Desk) -> int:
    return sum(call.words.startswith("apply") for call in desk.calls)


@virtual
async def test_a_child_is_made_with_its_owner_and_returned() -> None:
    async with open_desk() as desk:
        blog = await desk.start(site())
        made = await desk.context(blog).apply(config(a="1"), owner=blog)
        assert made.data == {"a": "1"}
        assert made.metadata.owner_references[0].uid == blog.metadata.uid
        assert made.metadata.namespace == "default"


@virtual
async def test_the_same_child_is_not_applied_again_in_a_later_look() -> None:
    async with open_desk() as desk:
        blog = await desk.start(site())
        for _ in range(5):
            made = await desk.context(blog).apply(config(a="1"), owner=blog)
            assert made.data == {"a": "1"}
        assert applies(desk) == 1


@virtual
async def test_a_child_that_shall_be_different_is_applied_again() -> None:
    async with open_desk() as desk:
        blog = await desk.start(site())
        await desk.context(blog).apply(config(a="1", b="2"), owner=blog)
        made = await desk.context(blog).apply(config(a="1"), owner=blog)
        assert made.data == {"a": "1"}
        assert applies(desk) == 2


@virtual
async def test_a_child_that_somebody_changed_is_applied_again() -> None:
    async with open_desk() as desk:
        blog = await desk.start(site())
        child = await desk.context(blog).apply(config(a="1"), owner=blog)
        await desk.other.patch(child.ref, MergePatch({"data": {"a": "9"}}))
        await desk.cluster.get(child.ref, read="consistent")
        made = await desk.context(blog).apply(config(a="1"), owner=blog)
        assert made.data == {"a": "1"}
        assert applies(desk) == 2


@virtual
async def test_a_child_that_somebody_deleted_is_made_again() -> None:
    async with open_desk() as desk:
        blog = await desk.start(site())
        child = await desk.context(blog).apply(config(a="1"), owner=blog)
        await desk.cluster.get(child.ref)
        await desk.other.delete(child.ref)
        await desk.cluster.find(child.ref, read="consistent")
        made = await desk.context(blog).apply(config(a="1"), owner=blog)
        assert made.metadata.uid != child.metadata.uid


@virtual
async def test_a_status_that_changes_is_no_reason_to_apply_again_and_is_seen() -> None:
    async with open_desk(GVK) as desk:
        blog = await desk.start(site())
        child = await desk.context(blog).apply(deployment(), owner=blog)
        await desk.other.patch(child.ref, MergePatch({"status": {"replicas": 1}}), subresource="status")
        await desk.cluster.get(child.ref, read="consistent")
        made = await desk.context(blog).apply(deployment(), owner=blog)
        assert made.tree["status"]["replicas"] == 1
        assert applies(desk) == 1


@virtual
async def test_a_child_whose_metadata_alone_are_watched_is_remembered_or_read_but_not_written() -> None:
    async with open_desk(OnlyMetadata(ConfigMap)) as desk:
        blog = await desk.start(site())
        await desk.context(blog).apply(config(a="1"), owner=blog)
        made = await desk.context(blog).apply(config(a="1"), owner=blog)
        assert made.data == {"a": "1"}
        assert [call.words for call in desk.calls] == ["apply ConfigMap/default/settings"]


@virtual
async def test_a_generation_says_that_only_the_status_of_a_child_has_changed() -> None:
    async with open_desk(OnlyMetadata(GVK)) as desk:
        blog = await desk.start(site())
        child = await desk.context(blog).apply(deployment(), owner=blog)
        ref: Ref[Any] = child.ref
        await desk.other.patch(ref, MergePatch({"status": {"replicas": 1}}), subresource="status")
        await desk.cluster.wait_ready()
        await desk.cluster.get(OnlyMetadata(GVK), "d", namespace="default", read="consistent")
        made = await desk.context(blog).apply(deployment(), owner=blog)
        assert made.tree["status"]["replicas"] == 1
        assert applies(desk) == 1


@virtual
async def test_a_child_that_nobody_watches_is_applied_each_time() -> None:
    async with open_desk() as desk:
        blog = await desk.start(site())
        for _ in range(2):
            await desk.context(blog).apply(deployment(), owner=blog)
        assert applies(desk) == 2


@virtual
async def test_a_child_that_is_watched_only_later_is_not_applied_again_unless_it_has_another_version() -> None:
    async with open_desk() as desk:
        blog = await desk.start(site())
        child = await desk.context(blog).apply(deployment(), owner=blog)
        desk.cluster.declare(GVK)
        await desk.cluster.wait_ready()
        await desk.context(blog).apply(deployment(), owner=blog)
        assert applies(desk) == 1
        await desk.other.patch(child.ref, MergePatch({"spec": {"replicas": 9}}))
        await desk.cluster.get(child.ref, read="consistent")
        made = await desk.context(blog).apply(deployment(), owner=blog)
        assert (made.tree["spec"]["replicas"], applies(desk)) == (1, 2)


@virtual
@pytest.mark.parametrize("kind", [GVK, OnlyMetadata(GVK), Deployment])
async def test_a_child_that_is_watched_only_later_is_not_applied_again_for_another_status(kind: Any) -> None:
    async with open_desk() as desk:
        blog = await desk.start(site())
        child: Any = deployment() if kind is not Deployment else from_tree(Deployment, deployment())
        made = await desk.context(blog).apply(child, owner=blog)
        desk.cluster.declare(kind)
        await desk.cluster.wait_ready()
        await desk.other.patch(made.ref, MergePatch({"status": {"replicas": 9}}), subresource="status")
        await desk.cluster.get(kind, "d", read="consistent")
        await desk.context(blog).apply(child, owner=blog)
        assert applies(desk) == 1


@virtual
async def test_a_child_of_which_only_the_metadata_are_watched_at_first_is_not_applied_again_later() -> None:
    async with open_desk(OnlyMetadata(ConfigMap)) as desk:
        blog = await desk.start(site())
        made = await desk.context(blog).apply(config(a="1"), owner=blog)
        desk.cluster.declare(ConfigMap)
        await desk.cluster.wait_ready()
        await desk.other.using(manager="somebody").apply(config(a="1"))  # who owns it too, now
        await desk.cluster.get(made.ref, read="consistent")
        assert (await desk.context(blog).apply(config(a="1"), owner=blog)).data == {"a": "1"}
        assert applies(desk) == 1


@virtual
async def test_a_child_of_which_the_cache_keeps_a_part_is_returned_as_a_whole() -> None:
    async with open_desk(OnlyMetadata(GVK)) as desk:
        desk.cluster.declare(ConfigMap, transform=without_fields("data"))
        blog = await desk.start(site())
        for _ in range(2):
            made = await desk.context(blog).apply(config(a="1"), owner=blog)
            assert made.data == {"a": "1"}
        assert applies(desk) == 1


@virtual
async def test_fields_of_others_are_taken_over_unless_that_is_not_wanted() -> None:
    async with open_desk() as desk:
        blog = await desk.start(site())
        await desk.other.apply(config(namespace="default", a="1"), manager="people")
        ctx = desk.context(blog)
        with pytest.raises(ApplyConflict, match="people"):
            await ctx.apply(config(a="2"), owner=blog, force=False)
        assert (await ctx.apply(config(a="2"), owner=blog)).data == {"a": "2"}


@virtual
async def test_a_child_without_an_owner_is_applied_where_the_client_is() -> None:
    async with open_desk() as desk:
        blog = await desk.start(site())
        made = await desk.context(blog).apply(config(a="1"))
        assert (made.namespace, made.metadata.owner_references) == ("default", ())
        await desk.context(blog).apply(config(a="1"))
        assert applies(desk) == 1
