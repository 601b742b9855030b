"""Saves: status first, only the differences, and only onto the version that was read."""

from typing import Any

import pytest

from levelset.errors import BadObject, BadPatch, ConfigError, Conflict
from levelset.objects import Resource, Spec, Status, Unstructured, decode, replace, to_tree
from levelset.runtime.controller.save_plan import plan_save, plan_status, plan_typed, read_status
from levelset.testing.virtual_time import virtual
from tests.runtime.controller.context_environment import Site, SiteStatus, open_environment, site


def obj(**parts: Any) -> dict[str, Any]:
    return {"metadata": {"name": "blog", "resourceVersion": "7", "uid": "u"}, **parts}


def test_an_object_that_has_not_changed_needs_no_write() -> None:
    assert plan_save(obj(spec={"a": 1}), obj(spec={"a": 1}), has_status=True, version="7") is None


def test_server_set_fields_are_not_a_change() -> None:
    after = obj(spec={}) | {"metadata": {"name": "blog", "resourceVersion": "8", "generation": 3}}
    assert plan_save(obj(spec={}), after, has_status=True, version="7") is None


def test_a_changed_status_is_written_alone_and_the_rest_is_left_to_the_next_reconcile() -> None:
    plan = plan_save(obj(spec={"a": 1}), obj(spec={"a": 2}, status={"b": 1}), has_status=True, version="7")
    assert plan is not None
    assert plan.part == "status"
    assert plan.is_more
    assert plan.patch.tree == {"metadata": {"resourceVersion": "7"}, "status": {"b": 1}}


def test_without_a_change_of_the_status_the_rest_is_written() -> None:
    plan = plan_save(obj(spec={"a": 1}, status={"b": 1}), obj(spec={}, status={"b": 1}), has_status=True, version="7")
    assert plan is not None
    assert plan.part is None
    assert plan.patch.tree == {"metadata": {"resourceVersion": "7"}, "spec": {"a": None}}


def test_a_kind_without_a_status_subresource_is_written_in_one_go() -> None:
    plan = plan_save(obj(spec={"a": 1}), obj(spec={"a": 2}, status={"b": 1}), has_status=False, version="7")
    assert plan is not None
    assert plan.part is None
    assert plan.patch.tree == {"metadata": {"resourceVersion": "7"}, "spec": {"a": 2}, "status": {"b": 1}}


def test_a_write_carries_the_resource_version_that_was_read() -> None:
    plan = plan_status({"a": 1}, {"a": 2, "c": [1]}, has_status=True, version="9")
    assert plan is not None
    assert plan.patch.tree == {"metadata": {"resourceVersion": "9"}, "status": {"a": 2, "c": [1]}}


def test_a_removed_status_is_a_change() -> None:
    plan = plan_status({"a": 1}, None, has_status=True, version="9")
    assert plan is not None
    assert plan.patch.tree["status"] is None


def test_an_object_without_a_resource_version_cannot_be_saved() -> None:
    with pytest.raises(BadPatch, match="use ctx.apply"):
        plan_status(None, {"a": 1}, has_status=True, version="")


class LampStatus(Status):
    lit: bool | None = False
    color: str = ""


class Lamp(Resource[Spec, LampStatus], api="example.dev/v1"):
    pass


def lamp(status: str = "", version: str = "7") -> Lamp:
    head = f'"apiVersion":"example.dev/v1","kind":"Lamp","metadata":{{"name":"a","resourceVersion":"{version}"}}'
    return decode(Lamp, f'{{{head},"spec":{{}}{status}}}')


@pytest.mark.parametrize("before", ["", ',"status":null'])
@pytest.mark.parametrize("color", ["red", "null and void"])
def test_a_first_status_is_sent_as_it_is_written(before: str, color: str) -> None:
    read = lamp(before)
    plan = plan_typed(read, read_status(read), LampStatus(color=color))
    assert plan is not None
    assert plan.part == "status"
    assert plan.patch.body() == b'{"status":{"color":"%b"},"metadata":{"resourceVersion":"7"}}' % color.encode()


def test_an_empty_status_differs_from_none() -> None:
    plan = plan_typed(lamp(), read_status(lamp()), LampStatus())
    assert plan is not None
    assert plan.patch.body() == b'{"status":{},"metadata":{"resourceVersion":"7"}}'


@pytest.mark.parametrize("before", ["", ',"status":{"color":"red"}'])
def test_a_null_in_a_status_cannot_be_written(before: str) -> None:
    read = lamp(before)
    with pytest.raises(BadPatch, match=r"status\.lit to null"):
        plan_typed(read, read_status(read), LampStatus(lit=None))


def test_a_first_status_of_an_object_without_a_resource_version_cannot_be_written() -> None:
    read = lamp(version="")
    with pytest.raises(BadPatch, match="use ctx.apply"):
        plan_typed(read, read_status(read), LampStatus(color="red"))


def test_a_first_status_that_cannot_be_encoded_raises() -> None:
    with pytest.raises(BadObject, match="JSON"):
        plan_typed(lamp(), None, {"color": object()})


def test_a_later_status_is_compared_with_the_one_that_was_read() -> None:
    read = lamp(',"status":{"color":"red","more":[1],"lit":true}')
    was = read_status(replace(read, status=None))
    assert was == LampStatus(color="red", lit=True)
    plan = plan_typed(read, was, LampStatus(lit=True))
    assert plan is not None
    assert plan.patch.tree == {"status": {"color": None}, "metadata": {"resourceVersion": "7"}}
    assert plan_typed(read, was, LampStatus(color="red", lit=True)) is None


def test_the_status_of_an_object_that_was_never_read_is_its_current_one() -> None:
    made = Lamp.new("a", Spec()).with_status(LampStatus(color="red")).with_metadata(resource_version="7")
    assert read_status(made) == LampStatus(color="red")
    plan = plan_typed(made, read_status(made), LampStatus(color="blue"))
    assert plan is not None
    assert plan.patch.tree["status"] == {"color": "blue"}


def test_removing_a_status_removes_its_undeclared_fields_too() -> None:
    read = lamp(',"status":{"color":"red","more":[1]}')
    plan = plan_typed(read, read_status(read), None)
    assert plan is not None
    assert plan.patch.tree == {"status": None, "metadata": {"resourceVersion": "7"}}


@virtual
async def test_saving_writes_the_status_first_and_enqueues_the_object() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        wanted = replace(blog.with_spec(replicas=5), status=SiteStatus(phase="Up"))
        saved = await env.context(blog).save(wanted)
        assert (saved.spec.replicas, saved.status) == (1, SiteStatus(phase="Up"))
        assert [call.path for call in env.writes] == ["/apis/example.dev/v1/namespaces/default/websites/blog/status"]
        assert env.woken == [blog.ref]


@virtual
async def test_the_reconcile_after_a_saved_status_writes_the_rest() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        saved = await env.context(blog).save(replace(blog, status=SiteStatus(phase="Up")))
        assert env.woken == []
        again = await env.context(saved).save(saved.with_metadata(labels={"tier": "web"}))
        assert again.metadata.labels == {"tier": "web"}
        assert again.status == SiteStatus(phase="Up")
        assert len(env.writes) == 2


@virtual
async def test_saving_an_unchanged_object_writes_nothing() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        assert await env.context(blog).save(replace(blog)) == blog
        assert env.writes == []


@virtual
async def test_saving_keeps_fields_that_the_class_does_not_declare() -> None:
    async with open_environment() as env:
        await env.other.create(
            {
                "apiVersion": "example.dev/v1",
                "kind": "Website",
                "metadata": {"name": "odd"},
                "spec": {"extra": {"a": 1}},
            }
        )
        odd = await env.cluster.get(Site, "odd", read="consistent")
        await env.context(odd).save(odd.with_spec(replicas=3))
        found = await env.other.get(Unstructured({"apiVersion": "example.dev/v1", "kind": "Website"}).gvk, "odd")
        assert found.tree["spec"] == {"extra": {"a": 1}, "replicas": 3}


@virtual
async def test_an_unstructured_object_is_saved_against_before() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        read = await env.other.update(blog.with_spec(replicas=2))
        tree = Unstructured(to_tree(read))
        wanted = Unstructured({**tree.tree, "spec": {"replicas": 4}})
        ctx = env.context(blog)
        with pytest.raises(ConfigError, match="before="):
            await ctx.save(wanted)
        saved = await ctx.save(wanted, before=tree)
        assert saved.tree["spec"] == {"replicas": 4}


@virtual
async def test_an_unstructured_object_with_the_cached_version_is_saved_against_the_cache() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        tree = await env.cluster.get(Unstructured(to_tree(blog)).gvk, "blog")
        tree.tree["spec"] = {"replicas": 4}
        saved = await env.context(blog).save(tree)
        assert saved.tree["spec"] == {"replicas": 4}
        assert [call.body for call in env.writes] == [
            b'{"spec":{"replicas":4},"metadata":{"resourceVersion":"%s"}}' % blog.metadata.resource_version.encode()
        ]


@virtual
async def test_saving_an_object_that_is_gone_is_not_an_error() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        await env.other.delete(blog.ref)
        saved = await env.context(blog).save(replace(blog, status=SiteStatus(phase="Up")))
        assert saved.status == SiteStatus(phase="Up")


@virtual
async def test_an_object_that_was_recreated_is_not_overwritten() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        await env.other.delete(blog.ref)
        await env.other.create(site())
        with pytest.raises(Conflict):
            await env.context(blog).save(replace(blog, status=SiteStatus(phase="Up")))


@virtual
async def test_a_status_set_and_an_object_saved_in_one_reconcile_do_not_conflict() -> None:
    async with open_environment() as env:
        blog = await env.start(site())
        ctx = env.context(blog)
        await ctx.set_status(blog, SiteStatus(phase="Up"))
        saved = await ctx.save(blog.with_spec(replicas=2))
        assert (saved.spec.replicas, saved.status) == (2, SiteStatus(phase="Up"))
