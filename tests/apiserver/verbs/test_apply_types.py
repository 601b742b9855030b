"""Applied configurations that are none of their kind, in the words of kube-apiserver 1.36.4, recorded from it."""

import copy
import json
from typing import Any

import pytest

from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import ServerState
from levelset.apiserver.schema import compile_schema
from levelset.apiserver.verbs import patch
from levelset.apiserver.verbs.create_and_update import WriteResult
from levelset.apiserver.wire.request_options import WriteOptions
from levelset.errors import ApiError, BadRequest, Conflict
from tests.apiserver.support.server_state import make_served, make_state, preload_kinds, widget

APPLY = "application/apply-patch+yaml"
DEPLOYMENT: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "a"},
    "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": {}}}]},
        },
    },
}
NO_TEXT = "expected string, got &value.valueUnstructured"
CONTAINERS = "spec.template.spec.containers"


@pytest.fixture(autouse=True, scope="module")
def kinds() -> None:
    preload_kinds()


async def apply(state: ServerState, served: ServedResource, config: Any, **options: Any) -> WriteResult:
    body = config if isinstance(config, bytes) else json.dumps(config).encode()
    return await patch.patch(
        state, served, "x", "a", media=APPLY, body=body, options=WriteOptions("m1", has_manager=True, **options)
    )


def deployments() -> tuple[ServerState, ServedResource]:
    state, _ = make_state()
    found = state.catalog.find("apps", "v1", "deployments")
    assert found is not None
    return state, found


def changed(path: str, value: Any) -> Any:
    tree: Any = copy.deepcopy(DEPLOYMENT)
    *parents, last = path.split(".")
    at: Any = tree
    for one in parents:
        at = at[int(one)] if one.isdigit() else at.setdefault(one, {})
    at[int(last) if last.isdigit() else last] = value
    return tree


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("spec.replicas", "x", ".spec.replicas: expected numeric (int or float), got string"),
        ("spec.replicas", [], ".spec.replicas: expected numeric (int or float), got []interface {}"),
        ("spec.replicas", {}, ".spec.replicas: expected numeric (int or float), got map[string]interface {}"),
        ("spec.paused", "x", ".spec.paused: expected boolean, got &{x}"),
        ("spec.paused", {"a": 1}, ".spec.paused: expected boolean, got &{map[a:1]}"),
        ("spec.strategy.type", 1, f".spec.strategy.type: {NO_TEXT}{{Value:1}}"),
        (
            "spec.strategy.type",
            {"a": [1]},
            f'.spec.strategy.type: {NO_TEXT}{{Value:map[string]interface {{}}{{"a":[]interface {{}}{{1}}}}}}',
        ),
        ("spec", [1], ".spec: expected map, got &{[1]}"),
        (CONTAINERS, "x", f".{CONTAINERS}: expected list, got &{{x}}"),
        (f"{CONTAINERS}.0", 1, f".{CONTAINERS}: element 0: associative list with keys may not have non-map elements"),
        (f"{CONTAINERS}.0", None, f".{CONTAINERS}: element 0: associative list with keys may not have a null element"),
        (f"{CONTAINERS}.0", {"a": 1}, f'.{CONTAINERS}[name=""].a: field not declared in schema'),
        (f"{CONTAINERS}.0.x", 1, f'.{CONTAINERS}[name="c"].x: field not declared in schema'),
        (
            f"{CONTAINERS}.0.args",
            [1],
            f'.{CONTAINERS}[name="c"].args[0]: {NO_TEXT}{{Value:1}}',
        ),
        (
            f"{CONTAINERS}.0.resources.limits.cpu",
            [1],
            f'.{CONTAINERS}[name="c"].resources.limits.cpu: expected any scalar, got &{{[1]}}',
        ),
        ("metadata.labels", "x", ".metadata.labels: expected map, got &{x}"),
        ("metadata.finalizers", [1], f".metadata.finalizers[=1]: {NO_TEXT}{{Value:1}}"),
        ("metadata.x", 1, ".metadata.x: field not declared in schema"),
    ],
)
async def test_an_apply_names_the_value_of_another_type_as_kube_apiserver(path: str, value: Any, problem: str) -> None:
    state, served = deployments()
    with pytest.raises(ApiError) as caught:
        await apply(state, served, changed(path, value))
    assert (caught.value.code, caught.value.reason) == (500, "")
    assert caught.value.message == f"failed to create typed patch object (/a; apps/v1, Kind=Deployment): {problem}"


async def test_an_apply_names_all_that_is_of_another_type() -> None:
    state, served = deployments()
    config = changed("metadata.zz", 1)
    config["spec"] |= {"replicas": "x", "foo": 1}
    with pytest.raises(ApiError) as caught:
        await apply(state, served, config)
    assert caught.value.message.split("): ")[1].split("\n  ") == [
        "errors:",
        ".metadata.zz: field not declared in schema",
        ".spec.replicas: expected numeric (int or float), got string",
        ".spec.foo: field not declared in schema",
    ]


@pytest.mark.parametrize("name", [1, []])
async def test_a_name_that_is_no_text_is_not_the_name_of_the_object(name: Any) -> None:
    state, served = deployments()
    with pytest.raises(ApiError, match=r"\(/; apps/v1, Kind=Deployment\): \.metadata\.name: expected"):
        await apply(state, served, changed("metadata.name", name))


async def test_metadata_that_are_no_map_are_of_another_type() -> None:
    state, served = deployments()
    with pytest.raises(
        ApiError, match=r"\(/; apps/v1, Kind=Deployment\): \.metadata: expected map, got &{x}"
    ) as caught:
        await apply(state, served, changed("metadata", "x"))
    assert caught.value.code == 500


@pytest.mark.parametrize(
    ("config", "found"),
    [
        ({"apiVersion": "apps/v2", "kind": "Deployment"}, "apps/v2, Kind=Deployment"),
        ({"apiVersion": "v1", "kind": "ConfigMap"}, "/v1, Kind=ConfigMap"),
        ({"apiVersion": "apps/v1"}, "apps/v1, Kind="),
        ({"apiVersion": 1, "kind": "Deployment"}, "/, Kind=Deployment"),
        ({"apiVersion": "a/b/c", "kind": "Deployment"}, "/, Kind="),
    ],
)
async def test_an_apply_of_another_kind_names_what_it_found(config: Any, found: str) -> None:
    state, served = deployments()
    with pytest.raises(BadRequest) as caught:
        await apply(state, served, {**config, "metadata": {"name": "a"}})
    assert caught.value.message == f"invalid object type: {found}"


async def test_repeated_keys_are_reported_only_of_what_can_be_applied() -> None:
    state, served = make_state()
    head = b"apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\n"
    warnings: list[str] = []
    with pytest.raises(ApiError, match="expected string"):
        await apply(state, served, head + b"spec: {color: red, color: 1}\n", validation="Strict", warnings=warnings)
    with pytest.raises(BadRequest, match="strict decoding YAML"):
        await apply(state, served, head + b"spec: {color: red, color: blue}\n", validation="Strict")
    assert not warnings


@pytest.mark.parametrize("version", ["", "abc", "7"])
async def test_a_uid_that_matches_no_object_comes_before_the_resource_version(version: str) -> None:
    state, served = make_state()
    with pytest.raises(Conflict, match="uid mismatch"):
        await apply(state, served, widget(uid="u", resourceVersion=version))


async def test_a_null_in_an_ignored_status_is_no_error() -> None:
    status = {"type": "object", "properties": {"conditions": {"type": "array", "items": {"type": "string"}}}}
    schema = compile_schema({"type": "object", "properties": {"status": status}})
    state, served = make_state(make_served(schema=lambda: schema, scale=None))
    config = {**widget(), "status": {"conditions": None}}
    assert (await apply(state, served, config)).created
