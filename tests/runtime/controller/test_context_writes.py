"""Statuses and conditions are written only if they differ; all writes are fenced and have the right field manager."""

from typing import Any

import pytest

from levelset.aio import timing
from levelset.client import MergePatch
from levelset.errors import ConfigError, Conflict, NotFound
from levelset.objects import Ref, Resource, Status, Unstructured, find_condition, parse_time
from levelset.objects.conditions import with_condition
from levelset.runtime.controller import finalizers
from levelset.runtime.controller.context import Context
from levelset.runtime.controller.request import Request
from levelset.testing.virtual_time import virtual
from tests.client.fixtures import WEBSITE, WebsiteStatus, fake_response, website
from tests.runtime.controller.context_environment import SiteSpec, SiteStatus, config, open_environment, site


class Fenced(Exception):
    pass


@virtual
async def test_an_unchanged_status_is_not_written_again() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        made = await env.context(blog).set_status(blog, SiteStatus(phase="Up"))
        assert made.status == SiteStatus(phase="Up")
        assert await env.context(made).set_status(made, SiteStatus(phase="Up")) is made
        assert [call.verb for call in env.writes] == ["patch"]


@virtual
async def test_a_status_is_replaced_as_a_whole() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        ctx = env.context(blog)
        made = await ctx.set_status(blog, SiteStatus(phase="Up", replicas=3))
        made = await ctx.set_status(made, SiteStatus(replicas=3))
        assert (await env.other.get(blog.ref)).status == SiteStatus(replicas=3)
        assert (await ctx.set_status(made, None)).status is None


@virtual
async def test_a_status_is_compared_with_the_one_that_was_read_even_if_the_object_was_changed() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        changed = blog.with_status(SiteStatus(phase="Up"))
        made = await env.context(blog).set_status(changed, SiteStatus(phase="Up"))
        assert (await env.other.get(blog.ref)).status == SiteStatus(phase="Up")
        back = await env.context(made).set_status(made.with_status(SiteStatus()), SiteStatus(phase="Up"))
        assert back.status == SiteStatus(phase="Up")
        assert len(env.writes) == 1


@virtual
async def test_status_fields_that_the_class_does_not_declare_stay() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        await env.other.patch(blog.ref, MergePatch({"status": {"extra": [1], "phase": "Up"}}), subresource="status")
        blog = await env.cluster.get(blog.ref, read="consistent")
        await env.context(blog).set_status(blog, SiteStatus(replicas=2))
        assert (await env.other.get(WEBSITE, "blog")).tree["status"] == {"extra": [1], "replicas": 2}


@virtual
async def test_setting_the_status_of_a_kind_without_one_raises_a_config_error() -> None:
    async with open_environment() as env:
        child = await env.start(config(namespace="default"))
        with pytest.raises(ConfigError, match="ConfigMap has no status"):
            await env.context(child).set_status(child, SiteStatus())


@virtual
async def test_the_status_of_an_unstructured_object_is_set_like_that_of_a_typed_one() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        tree = await env.other.get(WEBSITE, "blog")
        ctx = env.context(blog)
        made = await ctx.set_status(tree, {"phase": "Up"})
        assert made.tree["status"] == {"phase": "Up"}
        await ctx.set_status(tree, {"phase": "Up"})
        assert len(env.writes) == 1


@virtual
async def test_an_unstructured_object_that_was_changed_is_compared_with_what_was_read() -> None:
    async with open_environment() as env:
        await env.start(site())
        tree = await env.cluster.get(WEBSITE, "blog")
        tree.tree["status"] = {"phase": "Up"}
        await env.context(tree).set_status(tree, {"phase": "Up"})
        assert (await env.other.get(WEBSITE, "blog")).tree["status"] == {"phase": "Up"}


@virtual
async def test_a_kind_without_a_status_subresource_is_patched_as_a_whole() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        claim = await env.other.create(
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}}
        )
        await env.context(blog).set_status(claim, {"phase": "Up"})
        assert [call.path for call in env.writes] == ["/api/v1/namespaces/default/secrets/s"]


@virtual
async def test_two_statuses_set_in_one_reconcile_from_the_same_object_do_not_conflict() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        ctx = env.context(blog)
        await ctx.set_status(blog, SiteStatus(phase="Starting"))
        made = await ctx.set_status(blog, SiteStatus(phase="Up"))
        assert made.status == SiteStatus(phase="Up")
        assert await ctx.set_status(blog, SiteStatus(phase="Up")) is made


@virtual
async def test_a_status_set_after_another_writer_is_a_conflict_even_in_the_same_reconcile() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        ctx = env.context(blog)
        await ctx.set_status(blog, SiteStatus(phase="Starting"))
        await env.other.patch(blog.ref, MergePatch({"spec": {"replicas": 7}}))
        with pytest.raises(Conflict):
            await ctx.set_status(blog, SiteStatus(phase="Up"))


@virtual
async def test_setting_the_status_of_an_object_that_is_gone_is_not_an_error() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        await env.other.delete(blog.ref)
        assert (await env.context(blog).set_status(blog, SiteStatus(phase="Up"))).status == SiteStatus(phase="Up")


@virtual
async def test_the_status_of_another_object_is_written_to_that_object() -> None:
    async with open_environment() as env:
        blog, shop = await env.start(site()), await env.start(site("shop"))
        ctx = env.context(blog)
        assert (await ctx.set_status(shop, SiteStatus(phase="Up"))).name == "shop"
        assert (await ctx.set_status(blog, SiteStatus(phase="Down"))).name == "blog"
        assert (await env.other.get(shop.ref)).status == SiteStatus(phase="Up")


@virtual
async def test_a_reconcile_of_a_bare_kind_can_write_the_status_of_a_typed_object() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        request: Request[Any] = Request(Ref(blog.ref.gvk, "blog", "default"))
        made = await Context(blog, request, env.dependencies).set_status(blog, SiteStatus(phase="Up"))
        assert made.status == SiteStatus(phase="Up")


@virtual
async def test_a_status_subresource_that_the_server_does_not_serve_is_an_error() -> None:
    async with open_environment() as env:
        blog = await env.start(site())

        async def missing(*_: object) -> object:
            return fake_response(404, b"404 page not found")

        env.faults.append(missing)
        with pytest.raises(NotFound):
            await env.context(blog).set_status(blog, SiteStatus(phase="Up"))


@virtual
async def test_a_condition_is_written_when_it_changes_with_the_observed_generation() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        ctx = env.context(blog)
        made = await ctx.set_condition(blog, "Ready", True, reason="Up", message="all is well")
        found = find_condition(made.status.conditions, "Ready")
        assert found is not None
        assert (found.status, found.reason, found.observed_generation) == ("True", "Up", 1)
        await timing.sleep(60)
        again = await ctx.set_condition(made, "Ready", True, reason="Up", message="all is well")
        assert again is made
        assert len(env.writes) == 1


@virtual
async def test_conditions_keep_the_rest_of_a_status() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        ctx = env.context(blog)
        made = await ctx.set_status(blog, SiteStatus(phase="Up"))
        made = await ctx.set_condition(made, "Ready", False, reason="Down")
        made = await ctx.set_condition(made, "Synced", None, reason="Unknown")
        assert made.status.phase == "Up"
        assert [(one.type, one.status) for one in made.status.conditions] == [("Ready", "False"), ("Synced", "Unknown")]


@virtual
async def test_the_condition_of_an_unstructured_object_is_set_like_that_of_a_typed_one() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        tree = await env.other.get(WEBSITE, "blog")
        made = await env.context(blog).set_condition(tree, "Ready", True, reason="Up")
        assert made.tree["status"]["conditions"][0]["type"] == "Ready"
        assert with_condition(made, "Ready", True, now=env.dependencies.now(), reason="Up") == made


def test_unknown_fields_of_a_condition_stay_in_an_unstructured_object() -> None:
    now = parse_time("2026-01-31T12:00:00Z")
    old = {"type": "Ready", "status": "True", "message": "well", "lastHeartbeatTime": "x"}
    tree = Unstructured({"apiVersion": "v1", "kind": "X", "metadata": {"name": "x"}, "status": {"conditions": [old]}})
    (made,) = with_condition(tree, "Ready", False, now=now, reason="Down").tree["status"]["conditions"]
    assert made == {
        "type": "Ready",
        "status": "False",
        "reason": "Down",
        "message": "",
        "lastTransitionTime": "2026-01-31T12:00:00Z",
        "lastHeartbeatTime": "x",
    }


def test_a_status_without_conditions_or_without_an_empty_value_raises_with_a_hint() -> None:
    class Needy(Status):
        phase: str

    class Demanding(Resource[SiteSpec, Needy], api="example.dev/v1"):
        pass

    now = parse_time("2026-01-31T12:00:00Z")
    for plain in (website("blog"), website("blog").with_status(WebsiteStatus())):
        with pytest.raises(ConfigError, match="conditions"):
            with_condition(plain, "Ready", True, now=now)
    with pytest.raises(ConfigError, match="set_status first"):
        with_condition(Demanding.new("x", SiteSpec()), "Ready", True, now=now)


@virtual
async def test_nothing_is_written_once_the_fence_raises() -> None:
    def fence() -> None:
        raise Fenced

    async with open_environment(fence=fence) as env:
        blog = await env.start(site())
        ctx = env.context(blog)
        for write in (
            ctx.apply(config(), owner=blog),
            ctx.create(config(), owner=blog),
            ctx.update(blog),
            ctx.patch(blog.ref, MergePatch({"spec": {}})),
            ctx.delete(blog.ref),
            ctx.set_status(blog, SiteStatus(phase="Up")),
            ctx.save(blog.with_spec(replicas=2)),
            ctx.client.create(config()),
            finalizers.add(ctx.client, blog, "example.dev/ours"),
        ):
            with pytest.raises(Fenced):
                await write
        assert env.writes == []
        assert await ctx.live(blog.ref) == await ctx.client.get(blog.ref)


@virtual
async def test_all_writes_carry_the_controller_name_as_field_manager() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        ctx = env.context(blog)
        await ctx.apply(config(a="1"), owner=blog)
        await ctx.set_status(blog, SiteStatus(phase="Up"))
        assert ["fieldManager=sites" in call.query for call in env.writes] == [True, True]


@virtual
async def test_an_object_is_updated_patched_and_deleted_by_ref_or_as_an_object() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        ctx = env.context(blog)
        made = await ctx.update(blog.with_spec(replicas=2))
        made = await ctx.patch(made.ref, MergePatch({"spec": {"replicas": 3}}))
        assert made.spec.replicas == 3
        await ctx.delete(made)
        await ctx.delete(made)
        await ctx.delete(made.ref)
        assert await ctx.live(made.ref) is None


@virtual
async def test_deleting_an_object_leaves_one_that_was_recreated_with_its_name() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        await env.other.delete(blog.ref)
        other = await env.other.create(site())
        await env.context(blog).delete(blog)
        assert (await env.other.get(blog.ref)).metadata.uid == other.metadata.uid
        assert blog.ref not in env.dependencies.conflicts


@virtual
async def test_a_status_after_an_update_in_the_same_reconcile_builds_on_it() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        ctx = env.context(blog)
        await ctx.update(blog.with_spec(replicas=2))
        made = await ctx.set_status(blog, SiteStatus(phase="Up"))
        assert (made.spec.replicas, made.status) == (2, SiteStatus(phase="Up"))


@virtual
async def test_a_mapping_may_be_written_wherever_an_object_may() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        ctx = env.context(blog)
        tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}}
        made = await ctx.create(tree, owner=blog)
        assert isinstance(made, Unstructured)
        again = await ctx.update({**made.tree, "data": {"a": "2"}})
        assert again.tree["data"] == {"a": "2"}
