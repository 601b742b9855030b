import asyncio
import json
from typing import Any

import pytest

from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import World
from levelset.apiserver.verbs import create_and_update, patch
from levelset.apiserver.verbs.create_and_update import Written
from levelset.apiserver.wire.request_options import WriteOptions
from levelset.errors import ApplyConflict, BadRequest, Conflict, Invalid, NotFound
from tests.apiserver.writes import SlowStorage, make_world, widget

APPLY = "application/apply-patch+yaml"


async def apply(
    world: World, served: ServedResource, config: Any, manager: str = "m1", *, named: bool = True, **options: Any
) -> Written:
    body = config if isinstance(config, bytes) else json.dumps(config).encode()
    settings = WriteOptions(manager, named=named, **options)
    return await patch.patch(world, served, "x", "a", media=APPLY, body=body, options=settings)


def fields_of(written: Written) -> dict[str, Any]:
    return {one["manager"]: one["fieldsV1"] for one in written.tree["metadata"]["managedFields"]}


async def test_applying_creates_and_notes_who_owns_what_but_not_defaults() -> None:
    world, served = make_world()
    written = await apply(world, served, widget(spec={"color": "red"}))
    assert written.created
    assert written.tree["spec"] == {"color": "red", "replicas": 1}
    assert fields_of(written) == {"m1": {"f:spec": {"f:color": {}}}}


async def test_yaml_is_applied_too() -> None:
    world, served = make_world()
    body = b"apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\nspec:\n  color: red\n"
    assert (await apply(world, served, body)).tree["spec"]["color"] == "red"


async def test_what_is_no_longer_applied_goes() -> None:
    world, served = make_world()
    await apply(world, served, widget(spec={"color": "red", "free": {"a": 1}}))
    written = await apply(world, served, widget(spec={"color": "blue"}))
    assert (written.created, written.tree["spec"]) == (False, {"color": "blue", "replicas": 1})
    assert written.tree["metadata"]["generation"] == 2


async def test_a_field_of_another_manager_is_a_conflict_unless_forced() -> None:
    world, served = make_world()
    await apply(world, served, widget(spec={"color": "red"}))
    with pytest.raises(ApplyConflict) as caught:
        await apply(world, served, widget(spec={"color": "blue"}), "m2")
    assert [one.field for one in caught.value.causes] == [".spec.color"]
    written = await apply(world, served, widget(spec={"color": "blue"}), "m2", force=True)
    assert fields_of(written) == {"m2": {"f:spec": {"f:color": {}}}}


async def test_applying_the_same_again_changes_nothing() -> None:
    world, served = make_world()
    first = await apply(world, served, widget(spec={"color": "red"}))
    assert (await apply(world, served, widget(spec={"color": "red"}))).tree == first.tree


async def test_the_status_is_applied_through_its_own_endpoint() -> None:
    world, served = make_world()
    with pytest.raises(NotFound):
        await apply(world, served, widget(), subresource="status")
    await apply(world, served, {**widget(spec={"color": "red"}), "status": {"ok": False}})
    config = {**widget(spec={"color": "ignored"}), "status": {"ok": True}}
    written = await apply(world, served, config, "ctrl", subresource="status")
    assert (written.tree["spec"]["color"], written.tree["status"]) == ("red", {"ok": True})
    assert fields_of(written)["ctrl"] == {"f:status": {"f:ok": {}}}


async def test_the_scale_is_applied_through_its_own_endpoint() -> None:
    world, served = make_world()
    await create_and_update.create(world, served, "x", widget(spec={"replicas": 1}), WriteOptions("w"))
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": 4}}
    with pytest.raises(ApplyConflict):
        await apply(world, served, scale, subresource="scale")
    written = await apply(world, served, scale, subresource="scale", force=True)
    assert (written.tree["kind"], written.tree["spec"]) == ("Scale", {"replicas": 4})


async def test_an_apply_needs_a_manager() -> None:
    world, served = make_world()
    with pytest.raises(Invalid) as caught:
        await apply(world, served, widget(), named=False)
    assert [(one.field, one.reason) for one in caught.value.causes] == [("fieldManager", "FieldValueRequired")]


@pytest.mark.parametrize(
    "config",
    [
        {"metadata": {"name": "a"}},
        {**widget(), "apiVersion": "example.com/v2"},
        {**widget(), "kind": "Gizmo"},
        widget("b"),
        widget(namespace="y"),
        widget(managedFields=[{"manager": "x"}]),
        widget(spec={"bogus": 1}),
        widget(spec={"items": [{"v": "no key"}]}),
        [],
        b"a: b: c",
    ],
)
async def test_what_cannot_be_applied_here_is_a_bad_request(config: Any) -> None:
    world, served = make_world()
    with pytest.raises(BadRequest):
        await apply(world, served, config)


def unnamed(**parts: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Widget", **parts}


async def test_an_object_that_is_there_may_be_applied_without_saying_its_name_again() -> None:
    world, served = make_world()
    await apply(world, served, widget(spec={"color": "red"}))
    written = await apply(world, served, unnamed(status={"ready": True}), "m2", subresource="status")
    assert (written.tree["metadata"]["name"], written.tree["status"]) == ("a", {"ready": True})
    written = await apply(world, served, unnamed(metadata={"labels": {"x": "y"}}), "m3")
    assert (written.tree["metadata"]["name"], written.tree["spec"]["color"]) == ("a", "red")


async def test_an_object_is_not_made_by_an_apply_that_does_not_say_its_name() -> None:
    world, served = make_world()
    with pytest.raises(BadRequest, match=r"^the name of the object \(a based on URL\) was undeterminable: name must"):
        await apply(world, served, unnamed(spec={"color": "red"}))


async def test_a_null_that_the_schema_does_not_allow_is_invalid() -> None:
    world, served = make_world()
    with pytest.raises(Invalid) as caught:
        await apply(world, served, widget(spec={"color": None, "replicas": None}))
    assert [(one.field, one.reason) for one in caught.value.causes] == [("spec.color", "FieldValueTypeInvalid")]


async def test_an_apply_that_means_a_certain_object_does_not_create_one() -> None:
    world, served = make_world()
    with pytest.raises(Conflict, match="uid"):
        await apply(world, served, widget(uid="u"))


async def test_an_apply_may_name_the_version_it_is_meant_for() -> None:
    world, served = make_world()
    first = await apply(world, served, widget(spec={"color": "red"}))
    version = first.tree["metadata"]["resourceVersion"]
    await apply(world, served, widget(spec={"color": "blue"}, resourceVersion=version))
    with pytest.raises(Conflict):
        await apply(world, served, widget(spec={"color": "red"}, resourceVersion=version))


async def test_concurrent_applies_create_once_and_lose_nothing() -> None:
    world, served = make_world(storage=SlowStorage())
    configs = [widget(spec={"items": [{"name": f"n{number}"}]}) for number in range(4)]
    made = await asyncio.gather(*[apply(world, served, one, f"m{number}") for number, one in enumerate(configs)])
    assert [one.created for one in made].count(True) == 1
    final = await apply(world, served, configs[0], "m0")
    assert sorted(one["name"] for one in final.tree["spec"]["items"]) == ["n0", "n1", "n2", "n3"]
    owned = fields_of(final)
    assert sorted(owned) == ["m0", "m1", "m2", "m3"]
    assert not any("f:replicas" in one["f:spec"] for one in owned.values())  # a default, whoever lost the race


async def test_a_dry_apply_stores_nothing() -> None:
    world, served = make_world()
    before = world.storage.revision
    assert (await apply(world, served, widget(), dry_run=True)).created
    assert world.storage.revision == before
