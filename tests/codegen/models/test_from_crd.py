"""Classes generated from a CRD."""

from copy import deepcopy
from functools import cache
from typing import Any

import pytest

from levelset.codegen.models.from_crd import file_name, models_from_crd
from levelset.errors import BadObject
from levelset.objects import Scale, declarations_of, decode, decode_tree, definition_of, encode, encode_tree
from tests.codegen.golden_files import check_text
from tests.codegen.public_crds import load
from tests.codegen.random_objects import ObjectGenerator, lost
from tests.codegen.sample_crd import crd

TEXT = {"type": "string"}


def schema_of(document: dict[str, Any], version: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = document["spec"]["versions"][version]["schema"]["openAPIV3Schema"]
    return found


def with_member(name: Any, schema: Any) -> dict[str, Any]:
    """The CRD with another field in its spec."""
    document = deepcopy(crd())
    schema_of(document)["properties"]["spec"]["properties"][name] = schema
    return document


@cache
def gadget() -> Any:
    return load("generated_gadgets", models_from_crd(crd())["gadgetry_v1.py"])


def test_the_modules_equal_the_golden_files():
    files = models_from_crd(crd(), versions=["v1", "v1alpha1"])
    for name, text in files.items():
        check_text(f"models/{name}.txt", text)
    bare = models_from_crd(crd(), versions=["v1"], descriptions=False)
    check_text("models/gadgetry_v1_bare.py.txt", bare["gadgetry_v1.py"])


def test_the_order_of_keys_in_a_crd_does_not_matter():
    def turned(tree: Any) -> Any:
        if isinstance(tree, dict):
            return {name: turned(tree[name]) for name in reversed(tree)}
        return tree if not isinstance(tree, list) else [turned(one) for one in tree]

    assert models_from_crd(turned(crd())) == models_from_crd(crd())


def test_there_is_a_module_for_each_served_or_requested_version():
    assert list(models_from_crd(crd())) == ["gadgetry_v1.py", "gadgetry_v1alpha1.py"]
    assert list(models_from_crd(crd(), versions=["v0"])) == ["gadgetry_v0.py"]
    assert file_name("cert-manager", "v1") == "cert_manager_v1.py"


def test_a_class_has_the_names_columns_and_scale_of_its_crd():
    found = definition_of(gadget().Gadget)
    assert (found.plural, found.scope, found.short_names, found.categories) == (
        "gadgetry",
        "Cluster",
        ("gd",),
        ("all",),
    )
    assert [(one.name, one.path, one.type, one.priority) for one in found.columns] == [
        ("Ready", ".status.readyReplicas", "integer", 1)
    ]
    assert found.scale == Scale(spec=".spec.size", selector=".status.x")
    assert (found.status, found.stored, found.selectable) == (True, True, (".spec.mode",))


@pytest.mark.parametrize("seed", range(30))
def test_every_object_round_trips(seed):
    data = encode_tree(ObjectGenerator(seed=seed).object(schema_of(crd()), "example.dev/v1", "Gadget"))
    assert encode(decode(gadget().Gadget, data)) == data


def test_a_class_has_every_member():
    module = gadget()
    tree = ObjectGenerator(full=True).object(schema_of(crd()), "example.dev/v1", "Gadget")
    found = decode(module.Gadget, encode_tree(tree))
    made = module.Gadget(metadata=found.metadata, spec=found.spec, status=found.status, name_=found.name_)
    assert lost(tree, decode_tree(encode_tree(made))) == []


def test_null_and_absence_differ_where_the_schema_says_so():
    data = b'{"apiVersion":"example.dev/v1","kind":"Gadget","metadata":{},"spec":{"maybe":null,"mode":"","size":1}}'
    found = decode(gadget().Gadget, data)
    assert (found.spec.maybe, found.spec.owners, found.spec.tags) == (None, None, ())
    assert decode_tree(encode_tree(found.spec)) == {"maybe": None, "mode": "", "size": 1}


@pytest.mark.parametrize("required", [[], ["spec"]])
def test_a_spec_may_be_null_where_the_schema_says_so(required):
    document = deepcopy(crd())
    schema = schema_of(document)
    schema["properties"]["spec"] = {"type": "object", "nullable": True, "properties": {"a": TEXT}}
    schema["required"] = required
    source = models_from_crd(document)["gadgetry_v1.py"]
    assert "class Gadget(\n    Resource[GadgetSpec | None, GadgetStatus]," in source
    data = b'{"apiVersion":"example.dev/v1","kind":"Gadget","metadata":{},"spec":null}'
    found = decode(load(f"generated_null_spec_{len(required)}", source).Gadget, data)
    assert (found.spec, encode(found)) == (None, data)


def test_lists_and_maps_have_merge_markers():
    markers = declarations_of(gadget().GadgetSpec)
    assert {name: repr(one[0]) for name, one in markers.items() if name in ("tags", "parts", "labels", "half")} == {
        "tags": "ListSet()",
        "parts": "ListMap('name', 'podIP')",
        "labels": "Atomic()",
        "half": "PreserveUnknown()",
    }


def test_an_optional_list_map_key_has_its_default_in_the_class():
    assert gadget().GadgetSpecPorts(port=80).protocol == "TCP"


def test_a_kind_without_a_spec_has_its_fields_beside_metadata():
    module = load("generated_old_gadgets", models_from_crd(crd())["gadgetry_v1alpha1.py"])
    made = module.Gadget.new("one", data={"a": "b"}, type="x")
    assert decode_tree(encode(made))["data"] == {"a": "b"}
    assert definition_of(module.Gadget).deprecation == 'use "v1"'


@pytest.mark.parametrize("kind", ["Resource", "Condition", "Any", "Literal"])
def test_a_kind_may_have_the_name_of_an_imported_name(kind):
    document = crd(names={"kind": kind, "plural": "things"})
    module = load(f"generated_{kind}", models_from_crd(document)["things_v1.py"])
    assert definition_of(getattr(module, f"{kind}Kind")).gvk.kind == kind


@pytest.mark.parametrize(("kind", "name"), [("postgresql", "Postgresql"), ("my-kind", "MyKind"), ("aB", "AB")])
def test_a_kind_that_is_not_in_camel_case_has_a_class_in_camel_case(kind, name):
    document = crd(names={"kind": kind, "plural": "things"})
    module = load(f"generated_{name}", models_from_crd(document)["things_v1.py"])
    assert definition_of(getattr(module, name)).gvk.kind == kind


def test_long_class_names_are_shortened_and_unique():
    inner: dict[str, Any] = TEXT
    for number in range(30):
        inner = {"type": "object", "properties": {"aRatherLongNameForAMember": inner, f"n{number}": TEXT}}
    module = load("generated_long", models_from_crd(with_member("deep", inner))["gadgetry_v1.py"])
    assert max(map(len, module.__all__)) <= 66
    assert len(module.__all__) > 30


@pytest.mark.parametrize(
    ("schema", "field", "words"),
    [
        ({"type": "strin"}, "spec.wrong", "`type` is 'strin'; write one of object, array"),
        ("text", "spec.wrong", "a schema must be a map, not 'text'"),
        ({"type": "array", "items": 7}, "spec.wrong[]", "a schema must be a map, not 7"),
        ({"type": "object", "properties": {"a": None}}, "spec.wrong.a", "a schema must be a map, not None"),
        ({"type": "object", "properties": ["a"]}, "spec.wrong", "`properties` must be a map"),
        ({"type": "object", "required": "a", "properties": {"a": TEXT}}, "spec.wrong", "`required` must be a list"),
        ({"type": "object", "properties": {1: TEXT}}, "spec.wrong.1", "must be a string, not 1; quote it"),
        ({"type": "object", "properties": {'a"""\nb': TEXT}}, 'spec.wrong.a"""\nb', "no class can have a field"),
        ({"$ref": "#/definitions/Other"}, "spec.wrong", "refers to Other, but a CustomResourceDefinition has no"),
    ],
)
def test_an_invalid_schema_is_refused_with_its_location(schema, field, words):
    with pytest.raises(BadObject) as caught:
        models_from_crd(with_member("wrong", schema))
    assert caught.value.field == field
    assert f"gadgetry.example.dev v1 at {field}: " in str(caught.value)
    assert words in str(caught.value)


def test_a_schema_that_is_too_deep_is_refused():
    schema: dict[str, Any] = TEXT
    for _ in range(2000):
        schema = {"type": "array", "items": schema}
    with pytest.raises(BadObject, match="nested more than 100 deep"):
        models_from_crd(with_member("deep", schema))


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (None, "this is a None, not a CustomResourceDefinition"),
        ({"kind": "Deployment"}, "this is a 'Deployment', not a CustomResourceDefinition"),
        ({**crd(), "apiVersion": "apiextensions.k8s.io/v1beta1"}, "write it as apiextensions.k8s.io/v1"),
        (crd(versions=[]), "spec.versions must list a version with its schema"),
        (crd(versions=[{"name": "V 1"}]), "spec.versions\\[0\\].name is 'V 1'"),
        (crd(versions=[{"name": "v1"}]), "gadgetry.example.dev v1: the version has no schema.openAPIV3Schema"),
        (crd(names={"kind": "no kind", "plural": "x"}), "spec.names.kind is 'no kind'"),
        (crd(names=7), "spec.names.kind is None"),
        (crd(group="-"), "spec.group is '-'"),
    ],
)
def test_a_document_that_is_not_a_crd_is_refused(document, words):
    with pytest.raises(BadObject, match=words):
        models_from_crd(document)


def test_an_unknown_version_is_refused_with_the_known_ones():
    with pytest.raises(BadObject, match="gadgetry.example.dev has no version 'v9'; it has v1, v1alpha1, v0"):
        models_from_crd(crd(), versions=["v9"])
