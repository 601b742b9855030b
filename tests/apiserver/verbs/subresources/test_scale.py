from typing import Any

import pytest
from msgspec.structs import replace

from levelset.apiserver.registry.crd.scale_values import ScaleValues
from levelset.apiserver.resources.served_resource import ScalePaths, ServedResource
from levelset.apiserver.resources.server_state import ServerState
from levelset.apiserver.verbs import create_and_update
from levelset.apiserver.verbs.subresources import scale as scaling
from levelset.apiserver.wire.request_options import WriteOptions
from levelset.errors import BadRequest, Conflict, Invalid, NotFound
from tests.apiserver.support.server_state import make_served, make_state, widget


async def start() -> tuple[ServerState, ServedResource, Any]:
    state, served = make_state()
    assert served.scale is not None
    values = ScaleValues(served.scale)
    served = replace(served, rules=replace(served.rules, validate=values.validate, validate_part=values.validate_part))
    return state, served, (await create_and_update.create(state, served, "x", widget(spec={"replicas": 3}))).tree


def scale(replicas: Any, **metadata: Any) -> dict[str, Any]:
    named = {"name": "a", **metadata}
    return {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": named, "spec": {"replicas": replicas}}


def test_the_scale_shows_the_fields_of_the_object() -> None:
    tree = {**widget(uid="u", labels={"l": "1"}), "spec": {"replicas": 3}, "status": {"replicas": 2, "selector": "a=b"}}
    assert scaling.get_scale(make_served(), tree) == {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {"name": "a", "uid": "u"},
        "spec": {"replicas": 3},
        "status": {"replicas": 2, "selector": "a=b"},
    }


def test_a_label_selector_is_rendered_as_text() -> None:
    served = make_served(scale=ScalePaths(".spec.replicas", ".status.replicas", ".spec.selector"))
    tree = {**widget(), "spec": {"selector": {"matchLabels": {"app": "web"}}}}
    assert scaling.get_scale(served, tree)["status"] == {"replicas": 0, "selector": "app=web"}


async def test_a_scale_write_sets_the_replicas_and_owns_them() -> None:
    state, served, _ = await start()
    written = await scaling.update_scale(state, served, "x", "a", scale(5, name="a"))
    assert (written.tree["kind"], written.tree["spec"]) == ("Scale", {"replicas": 5})
    tree = await create_and_update.mutate(state, served, "x", "a", lambda tree: None)
    assert tree is not None
    assert (tree["spec"]["replicas"], tree["metadata"]["generation"]) == (5, 2)
    owner = tree["metadata"]["managedFields"][0]  # without a time, as upstream
    assert (owner["subresource"], owner["fieldsV1"], "time" in owner) == (
        "scale",
        {"f:spec": {"f:replicas": {}}},
        False,
    )


async def test_a_scale_can_be_patched() -> None:
    state, served, _ = await start()
    written = await scaling.patch_scale(state, served, "x", "a", lambda tree: {**tree, "spec": {"replicas": 4}})
    assert written.tree["spec"] == {"replicas": 4}


@pytest.mark.parametrize(
    ("replicas", "error"), [(11, Invalid), (-1, Invalid), ("x", BadRequest), (True, BadRequest), (2**31, BadRequest)]
)
async def test_replicas_out_of_range_are_invalid(replicas: Any, error: type[Exception]) -> None:
    state, served, _ = await start()
    with pytest.raises(error):
        await scaling.update_scale(state, served, "x", "a", scale(replicas))


async def test_a_scale_with_an_older_resource_version_is_a_conflict() -> None:
    state, served, made = await start()
    version = made["metadata"]["resourceVersion"]
    await scaling.update_scale(state, served, "x", "a", scale(5, resourceVersion=version))
    with pytest.raises(Conflict):
        await scaling.update_scale(state, served, "x", "a", scale(6, resourceVersion=version))


async def test_a_negative_number_of_a_custom_resource_is_named_after_the_resource_and_its_path() -> None:
    state, served, _ = await start()
    with pytest.raises(Invalid) as caught:
        await scaling.update_scale(state, served, "x", "a", scale(-1))
    assert caught.value.details["kind"] == served.kind
    assert [(one.field, one.message) for one in caught.value.causes] == [
        (".spec.replicas", "Invalid value: -1: should be a non-negative integer")
    ]
    with pytest.raises(Conflict):
        await scaling.update_scale(state, served, "x", "a", scale(-1, resourceVersion="999"))


async def test_an_unknown_field_of_a_scale_is_a_warning_or_an_error_as_the_request_says() -> None:
    state, served, _ = await start()
    options = WriteOptions()
    await scaling.update_scale(state, served, "x", "a", {**scale(1), "odd": 1}, options=options)
    assert options.warnings == ['unknown field "odd"']
    strict = WriteOptions(validation="Strict")
    with pytest.raises(BadRequest, match='strict decoding error: unknown field "odd"'):
        await scaling.update_scale(state, served, "x", "a", {**scale(1), "odd": 1}, options=strict)


@pytest.mark.parametrize(
    "tree", [{"kind": "Widget"}, scale(1, name="b"), scale(1, name=""), scale(1, namespace="y"), {"apiVersion": "v2"}]
)
async def test_a_body_that_is_not_a_scale_of_this_object_is_a_bad_request(tree: dict[str, Any]) -> None:
    state, served, _ = await start()
    with pytest.raises(BadRequest):
        await scaling.update_scale(state, served, "x", "a", tree)


async def test_the_scale_of_a_missing_object_is_not_found() -> None:
    state, served = make_state()
    with pytest.raises(NotFound):
        await scaling.update_scale(state, served, "x", "a", scale(1))
