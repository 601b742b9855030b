import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from levelset.errors import BadObject
from levelset.patch import ANYTHING, OBJECT_META, Shape, builtin_shape, resource_shape, shape_of
from tests.patch.trees_strategy import deep, trees

PORTS: Any = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["port", "protocol"],
    "items": {
        "type": "object",
        "properties": {"port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}},
    },
}


def walk(shape: Any, *names: str) -> Any:
    for name in names:
        shape = shape.item() if name == "*" else shape.member(name)
    return shape


def described(shape: Any, seen: tuple[int, ...] = ()) -> Any:
    """A shape as a plain value, to compare two of them."""
    if id(shape) in seen:
        return "..."
    inner = (*seen, id(shape))
    members = {name: described(one, inner) for name, one in shape.fields.items()}
    return (
        {name: one for name, one in members.items() if one != described(ANYTHING)},
        None if shape.items is None else described(shape.items, inner),
        (shape.list_type, shape.keys, dict(shape.defaults), shape.atomic, shape.merge_key, shape.strategies),
    )


def test_a_list_map_has_its_keys_and_their_defaults():
    shape = shape_of(PORTS)
    assert (shape.list_type, shape.keys, shape.defaults) == ("map", ("port", "protocol"), {"protocol": "TCP"})


def test_sets_atomic_maps_and_plain_lists_are_distinguished():
    schema = {
        "properties": {
            "tags": {"type": "array", "x-kubernetes-list-type": "set"},
            "plain": {"type": "array", "items": {"type": "string"}},
            "whole": {"type": "object", "x-kubernetes-map-type": "atomic"},
            "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        }
    }
    shape = shape_of(schema)
    assert walk(shape, "tags").list_type == "set"
    assert walk(shape, "plain").list_type == "atomic"
    assert walk(shape, "whole").atomic
    assert walk(shape, "open") is walk(shape, "unheard of") is ANYTHING


def test_additional_properties_are_all_other_members():
    shape = shape_of({"properties": {"a": {"type": "string"}}, "additionalProperties": PORTS})
    assert walk(shape, "a") is ANYTHING
    assert walk(shape, "b").list_type == "map"


def test_strategies_are_separated_by_commas():
    shape = shape_of({"x-kubernetes-patch-strategy": "merge,retainKeys", "x-kubernetes-patch-merge-key": "name"})
    assert (shape.strategies, shape.merge_key) == (frozenset({"merge", "retainKeys"}), "name")


@pytest.mark.parametrize(
    "reference", [{"$ref": "#/components/schemas/P"}, {"allOf": [{"$ref": "#/d/P"}], "default": {}}]
)
def test_references_are_followed_and_their_sibling_keywords_apply(reference):
    definitions = {"P": {"properties": {"ports": PORTS}}, "Q": {"$ref": "#/x/P"}}
    shape = shape_of({**reference, "x-kubernetes-map-type": "atomic"}, definitions)
    assert shape.atomic
    assert walk(shape, "ports").keys == ("port", "protocol")
    assert not shape_of(reference, definitions).atomic
    assert walk(shape_of({"$ref": "#/x/Q"}, definitions), "ports").list_type == "map"


def test_keys_get_their_defaults_through_references():
    schema = {**PORTS, "items": {"allOf": [{"$ref": "#/d/Port"}], "default": {}}}
    assert shape_of(schema, {"Port": PORTS["items"]}).defaults == {"protocol": "TCP"}


def test_a_definition_may_contain_itself():
    definitions = {
        "Schema": {
            "properties": {
                "properties": {"additionalProperties": {"$ref": "#/d/Schema"}},
                "items": {"$ref": "#/d/Schema"},
                "required": {"type": "array", "x-kubernetes-list-type": "set"},
            }
        },
        "List": {"type": "array", "x-kubernetes-list-type": "set", "items": {"$ref": "#/d/List"}},
        "Loop": {"$ref": "#/d/Loop"},
    }
    shape = shape_of({"$ref": "#/d/Schema"}, definitions)
    assert walk(shape, "properties", "x", "items", "properties", "y", "required").list_type == "set"
    assert walk(shape, "items") is shape
    assert walk(shape_of({"$ref": "#/d/List"}, definitions), "*", "*").list_type == "set"
    assert shape_of({"$ref": "#/d/Loop"}, definitions) is ANYTHING
    assert "Shape(fields=" in repr(shape)


def test_a_custom_resource_has_the_metadata_of_every_kind():
    shape = resource_shape({"properties": {"spec": {"properties": {"ports": PORTS}}, "metadata": {"type": "object"}}})
    assert walk(shape, "metadata") is OBJECT_META
    assert walk(shape, "spec", "ports").list_type == "map"
    assert resource_shape(None).member("metadata") is OBJECT_META


def test_an_embedded_resource_has_metadata_too():
    schema = {"properties": {"template": {"type": "object", "x-kubernetes-embedded-resource": True}}}
    assert walk(shape_of(schema), "template", "metadata") is OBJECT_META


@given(schema=trees(), definition=trees())
def test_any_tree_gives_a_shape(schema, definition):
    assert isinstance(shape_of(schema, {"a": definition}), Shape)


def test_a_schema_too_deep_to_read_is_refused():
    schema: Any = {}
    for _ in range(100_000):
        schema = {"properties": {"a": schema}}
    with pytest.raises(BadObject, match="too deeply"):
        shape_of(schema)
    assert shape_of(deep(10)) is ANYTHING


def test_kinds_that_are_not_built_in_have_no_shape():
    assert builtin_shape("example.dev", "v1", "Website") is None
    assert builtin_shape("apps", "v9", "Deployment") is None


def test_the_same_kind_always_gives_the_same_shape():
    assert builtin_shape("", "v1", "Pod") is builtin_shape("", "v1", "Pod")


def test_built_in_kinds_and_custom_resources_have_the_same_metadata_shape():
    assert described(walk(builtin_shape("", "v1", "ConfigMap"), "metadata")) == described(OBJECT_META)


POD_SPEC = ("apps", "v1", "Deployment", "spec", "template", "spec")
MERGE_KEYS = [
    (("", "v1", "Pod", "metadata", "ownerReferences"), "uid"),
    (("apps", "v1", "Deployment", "status", "conditions"), "type"),
    ((*POD_SPEC, "containers"), "name"),
    ((*POD_SPEC, "initContainers"), "name"),
    ((*POD_SPEC, "volumes"), "name"),
    ((*POD_SPEC, "containers", "*", "env"), "name"),
    ((*POD_SPEC, "imagePullSecrets"), "name"),
    (("", "v1", "ServiceAccount", "secrets"), "name"),
    ((*POD_SPEC, "containers", "*", "volumeMounts"), "mountPath"),
    ((*POD_SPEC, "containers", "*", "volumeDevices"), "devicePath"),
    ((*POD_SPEC, "containers", "*", "ports"), "containerPort"),
    (("", "v1", "Service", "spec", "ports"), "port"),
    ((*POD_SPEC, "hostAliases"), "ip"),
]


@pytest.mark.parametrize(("place", "key"), MERGE_KEYS)
def test_merge_keys_of_built_in_lists(place, key):
    shape = walk(builtin_shape(*place[:3]), *place[3:])
    assert shape.merge_key == key
    assert "merge" in shape.strategies


@pytest.mark.parametrize(
    "place",
    [
        (*POD_SPEC, "tolerations"),
        (*POD_SPEC, "containers", "*", "args"),
        ("rbac.authorization.k8s.io", "v1", "RoleBinding", "subjects"),
        ("rbac.authorization.k8s.io", "v1", "Role", "rules"),
        ("", "v1", "ServiceAccount", "imagePullSecrets"),
        ("", "v1", "Pod", "metadata", "managedFields"),
    ],
)
def test_lists_that_are_replaced_whole(place):
    shape = walk(builtin_shape(*place[:3]), *place[3:])
    assert (shape.list_type, shape.merge_key, shape.strategies) == ("atomic", None, frozenset())


def test_other_facts_of_built_in_kinds():
    pod_spec = walk(builtin_shape("apps", "v1", "Deployment"), "spec", "template", "spec")
    assert walk(pod_spec, "volumes").strategies == {"merge", "retainKeys"}
    assert walk(pod_spec, "containers", "*", "ports").keys == ("containerPort", "protocol")
    assert walk(pod_spec, "containers", "*", "ports").defaults["protocol"] == "TCP"
    assert walk(pod_spec, "nodeSelector").atomic
    assert walk(builtin_shape("apps", "v1", "Deployment"), "spec", "strategy").strategies == {"retainKeys"}
    assert walk(builtin_shape("apps", "v1", "Deployment"), "spec", "selector").atomic
    finalizers = walk(builtin_shape("", "v1", "Pod"), "metadata", "finalizers")
    assert (finalizers.list_type, finalizers.merge_key, finalizers.strategies) == ("set", None, {"merge"})
    budget = builtin_shape("policy", "v1", "PodDisruptionBudget")
    assert walk(budget, "spec", "selector").strategies == {"replace"}


ROOT = Path(__file__).parents[2]
DATA = ROOT / "src" / "levelset" / "patch" / "builtin_shapes.json"


def test_the_merge_metadata_is_small_and_has_no_dangling_reference():
    text = DATA.read_text(encoding="utf-8")
    content = json.loads(text)
    assert len(text) < 150_000
    assert '"description"' not in text
    assert {*content["kinds"].values()} <= content["definitions"].keys()
    for kind in content["kinds"]:
        described(builtin_shape(*kind.split("/")))


def test_the_generator_writes_only_merge_metadata_and_is_deterministic(tmp_path):
    reference = {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}
    schemas: Any = {
        "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta": {
            "properties": {"finalizers": {"type": "array", "x-kubernetes-list-type": "set"}}
        },
        "io.k8s.api.x.v1.Silent": {"properties": {"n": {"type": "integer"}}},
        "io.k8s.api.x.v1.Port": {"properties": {"port": {"default": 80}, "name": {"default": ""}}},
        "io.k8s.api.x.v1.Thing": {
            "x-kubernetes-group-version-kind": [{"group": "x", "version": "v1", "kind": "Thing"}],
            "properties": {
                "metadata": {"allOf": [reference]},
                "silent": {"$ref": "#/components/schemas/io.k8s.api.x.v1.Silent"},
                "ports": {
                    "items": {"$ref": "#/components/schemas/io.k8s.api.x.v1.Port"},
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["port"],
                },
            },
        },
    }
    (tmp_path / "apis_x_v1.json").write_text(json.dumps({"components": {"schemas": schemas}}))
    written = []
    for name in ("one", "two"):
        command: list[Any] = [sys.executable, ROOT / "scripts" / "generate_shapes.py", tmp_path, tmp_path / name]
        subprocess.run(command, check=True, capture_output=True)
        written.append((tmp_path / name).read_bytes())
    assert written[0] == written[1]
    ports = {
        "items": {"$ref": "x.v1.Port"},
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["port"],
    }
    assert json.loads(written[0])["definitions"] == {
        "meta.v1.ObjectMeta": {"properties": {"finalizers": {"x-kubernetes-list-type": "set"}}},
        "x.v1.Port": {"properties": {"port": {"default": 80}}},
        "x.v1.Thing": {"properties": {"metadata": {"$ref": "meta.v1.ObjectMeta"}, "ports": ports, "silent": {}}},
    }
