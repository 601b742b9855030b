"""Saving: status before the rest, only what is different, only onto what was read."""

from typing import Any

import pytest

from levelset.errors import BadObject, BadPatch, ConfigError, Conflict
from levelset.objects import Resource, Spec, Status, Unstructured, decode, replace, to_tree
from levelset.runtime.controller.status_writer import plan_save, plan_status, plan_typed, read_status
from tests.apiserver.clock import virtual
from tests.runtime.controller.desk import Site, SiteStatus, open_desk, site


def obj(**parts: Any) -> dict[str, Any]:
    return {"metadata": {"name": "blog", "resourceVersion": "7", "uid": "u"}, **parts}


def test_an_object_that_has_not_changed_needs_no_write() -> None:
    assert plan_save(obj(spec={"a": 1}), obj(spec={"a": 1}), has_status=True, version="7") is None


def test_what_only_the_server_writes_is_no_change() -> None:
    after = obj(spec={}) | {"metadata": {"name": "blog", "resourceVersion": "8", "generation": 3}}
    assert plan_save(obj(spec={}), after, has_status=True, version="7") is None


def test_a_changed_status_is_written_alone_and_the_rest_is_left_to_the_next_look() -> None:
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


def test_a_kind_whose_status_is_not_written_apart_is_written_at_once() -> None:
    plan = plan_save(obj(spec={"a": 1}), obj(spec={"a": 2}, status={"b": 1}), has_status=False, version="7")
    assert plan is not None
    assert plan.part is None
    assert plan.patch.tree == {"metadata": {"resourceVersion": "7"}, "spec": {"a": 2}, "status": {"b": 1}}


def test_a_write_names_the_version_that_was_read() -> None:
    plan = plan_status({"a": 1}, {"a": 2, "c": [1]}, has_status=True, version="9")
    assert plan is not None
    assert plan.patch.tree == {"metadata": {"resourceVersion": "9"}, "status": {"a": 2, "c": [1]}}


def test_a_status_that_is_taken_away_is_a_change() -> None:
    plan = plan_status({"a": 1}, None, has_status=True, version="9")
    assert plan is not None
    assert plan.patch.tree["status"] is None


def test_an_object_without_a_version_cannot_be_saved() -> None:
    with pytest.raises(BadPatch, match="apply it"):
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


def test_an_empty_status_is_another_than_none() -> None:
    plan = plan_typed(lamp(), read_status(lamp()), LampStatus())
    assert plan is not None
    assert plan.patch.body() == b'{"status":{},"metadata":{"resourceVersion":"7"}}'


@pytest.mark.parametrize("before", ["", ',"status":{"color":"red"}'])
def test_a_null_in_a_status_cannot_be_written(before: str) -> None:
    read = lamp(before)
    with pytest.raises(BadPatch, match=r"status\.lit to null"):
        plan_typed(read, read_status(read), LampStatus(lit=None))


def test_a_first_status_of_an_object_without_a_version_cannot_be_written() -> None:
    read = lamp(version="")
    with pytest.raises(BadPatch, match="apply it"):
        plan_typed(read, read_status(read), LampStatus(color="red"))


def test_a_first_status_that_is_no_json_is_refused() -> None:
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


def test_the_status_of_an_object_that_was_made_here_is_the_one_it_has() -> None:
    made = Lamp.new("a", Spec()).with_status(LampStatus(color="red")).with_metadata(resource_version="7")
    assert read_status(made) == LampStatus(color="red")
    plan = plan_typed(made, read_status(made), LampStatus(color="blue"))
    assert plan is not None
    assert plan.patch.tree["status"] == {"color": "blue"}


def test_a_status_that_is_taken_away_takes_what_its_class_does_not_know_along() -> None:
    read = lamp(',"status":{"color":"red","more":[1]}')
    plan = plan_typed(read, read_status(read), None)
    assert plan is not None
    assert plan.patch.tree == {"status": None, "metadata": {"resourceVersion": "7"}}


@virtual
async def test_saving_writes_the_status_first_and_asks_for_another_look() -> None:
    async with open_desk() as desk:
        blog = await desk.start(site())
        wanted = replace(blog.with_spec(replicas=5), status=SiteStatus(phase="Up"))
        saved = await desk.context(blog).save(wanted)
        assert (saved.spec.replicas, saved.status) == (1, SiteStatus(phase="Up"))
        assert [call.path for call in desk.writes] == ["/apis/example.dev/v1/namespaces/default/websites/blog/status"]
        assert desk.woken == [blog.ref]


@virtual
async def test_the_look_that_follows_a_saved_status_writes_the_rest() -> None:
    async with open_desk() as desk:
        blog = await desk.start(site())
        saved = await desk.context(blog).save(replace(blog, status=SiteStatus(phase="Up")))
        assert desk.woken == []
        again = await desk.context(saved).save(saved.with_metadata(labels={"tier": "web"}))
        assert again.metadata.labels == {"tier": "web"}
        assert again.status == SiteStatus(phase="Up")
        assert len(desk.writes) == 2


@virtual
async def test_saving_what_has_not_changed_writes_nothing() -> None:
    async with open_desk() as desk:
        blog = await desk.start(site())
        assert await desk.context(blog).save(replace(blog)) == blog
        assert desk.writes == []


@virtual
async def test_saving_keeps_the_fields_that_the_class_does_not_know() -> None:
    async with open_desk() as desk:
        await desk.other.create(
            {
                "apiVersion": "example.dev/v1",
                "kind": "Website",
                "metadata": {"name": "odd"},
                "spec": {"extra": {"a": 1}},
            }
        )
        odd = await desk.cluster.get(Site, "odd", read="consistent")
        await desk.context(odd).save(odd.with_spec(replicas=3))
        found = await desk.other.get(Unstructured({"apiVersion": "example.dev/v1", "kind": "Website"}).gvk, "odd")
        assert found.tree["spec"] == {"extra": {"a": 1}, "replicas": 3}


@virtual
async def test_a_tree_is_saved_against_what_it_was_before() -> None:
    async with open_desk() as desk:
        blog = await desk.start(site())
        read = await desk.other.update(blog.with_spec(replicas=2))
        tree = Unstructured(to_tree(read))
        wanted = Unstructured({**tree.tree, "spec": {"replicas": 4}})
        ctx = desk.context(blog)
        with pytest.raises(ConfigError, match="before="):
            await ctx.save(wanted)
        saved = await ctx.save(wanted, before=tree)
        assert saved.tree["spec"] == {"replicas": 4}


@virtual
async def test_a_tree_that_is_as_the_cache_shows_it_is_saved_against_that() -> None:
    async with open_desk() as desk:
        blog = await desk.start(site())
        tree = await desk.cluster.get(Unstructured(to_tree(blog)).gvk, "blog")
        tree.tree["spec"] = {"replicas": 4}
        saved = await desk.context(blog).save(tree)
        assert saved.tree["spec"] == {"replicas": 4}
        assert [call.body for call in desk.writes] == [
            b'{"spec":{"replicas":4},"metadata":{"resourceVersion":"%s"}}' % blog.metadata.resource_version.encode()
        ]


@virtual
async def test_an_object_that_is_gone_is_no_error_when_it_is_saved() -> None:
    async with open_desk() as desk:
        blog = await desk.start(site())
        await desk.other.delete(blog.ref)
        saved = await desk.context(blog).save(replace(blog, status=SiteStatus(phase="Up")))
        assert saved.status == SiteStatus(phase="Up")


@virtual
async def test_an_object_that_was_made_anew_under_its_name_is_not_overwritten() -> None:
    async with open_desk() as desk:
        blog = await desk.start(site())
        await desk.other.delete(blog.ref)
        await desk.other.create(site())
        with pytest.raises(Conflict):
            await desk.context(blog).save(replace(blog, status=SiteStatus(phase="Up")))


@virtual
async def test_a_status_set_and_an_object_saved_in_one_look_do_not_conflict_with_each_other() -> None:
    async with open_desk() as desk:
        blog = await desk.start(site())
        ctx = desk.context(blog)
        await ctx.set_status(blog, SiteStatus(phase="Up"))
        saved = await ctx.save(blog.with_spec(replicas=2))
        assert (saved.spec.replicas, saved.status) == (2, SiteStatus(phase="Up"))
