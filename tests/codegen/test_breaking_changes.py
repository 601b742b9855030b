"""Breaking changes between two versions of a CRD."""

import copy

import pytest

from levelset.codegen.breaking_changes import compare_definitions, compare_releases
from levelset.codegen.crd import crd_of
from levelset.errors import BadObject
from tests.codegen.sample_kinds import OldShop, Shop

RELEASED = crd_of(OldShop, Shop)


def changed(change):
    made = copy.deepcopy(RELEASED)
    change(made)
    return made


def schema(definition, version=0):
    return definition["spec"]["versions"][version]["schema"]["openAPIV3Schema"]


def spec(definition):
    return schema(definition)["properties"]["spec"]["properties"]


def compared(change):
    return [(one.level, one.version, one.path, one.problem) for one in compare_definitions(RELEASED, changed(change))]


def test_the_same_definition_has_no_findings():
    assert compare_definitions(RELEASED, copy.deepcopy(RELEASED)) == []


def _remove(name):
    return lambda it: spec(it).pop(name)


def _set(name, **keywords):
    return lambda it: spec(it)[name].update(keywords)


def _unset(name, keyword):
    return lambda it: spec(it)[name].pop(keyword)


@pytest.mark.parametrize(
    ("change", "path", "problem"),
    [
        (_remove("color"), ".spec.color", "it was removed"),
        (_set("replicas", type="string"), ".spec.replicas", "its type was integer and is string"),
        (lambda it: schema(it)["properties"]["spec"]["required"].append("site"), ".spec.site", "it is now required"),
        (_set("color", enum=["red"]), ".spec.color", "it may no longer be 'blue'"),
        (_set("image", enum=["a", "b"]), ".spec.image", "it must now be one of 'a', 'b'"),
        (_set("replicas", minimum=1), ".spec.replicas", "minimum was 0 and is 1"),
        (_set("replicas", maximum=9), ".spec.replicas", "maximum was not set and is 9"),
        (_set("replicas", exclusiveMinimum=True), ".spec.replicas", "the bound 0 itself is no longer allowed"),
        (_set("replicas", multipleOf=2), ".spec.replicas", "it must now be a multiple of 2"),
        (_set("ports", maxItems=7), ".spec.ports", "maxItems was 8 and is 7"),
        (_set("image", pattern="^x"), ".spec.image", "it has a pattern now: '^x'"),
        (_set("memory", pattern="^x"), ".spec.memory", None),
        (_set("site", format="ipv4"), ".spec.site", "its format was 'uri' and is 'ipv4'"),
        (_unset("shelves", "nullable"), ".spec.shelves", "it may no longer be null"),
        (
            _set("arguments", **{"x-kubernetes-list-type": "set"}),
            ".spec.arguments",
            "its list type was atomic and is set",
        ),
        (_set("ports", **{"x-kubernetes-list-map-keys": ["number"]}), ".spec.ports", None),
        (_unset("settings", "x-kubernetes-preserve-unknown-fields"), ".spec.settings", None),
        (_unset("labels", "additionalProperties"), ".spec.labels", None),
        (_set("settings", **{"x-kubernetes-embedded-resource": True}), ".spec.settings", None),
        (_set("hosts", **{"x-kubernetes-validations": [{"rule": "size(self) < 3"}]}), ".spec.hosts", None),
        (lambda it: spec(it)["ports"]["items"]["properties"].pop("target"), ".spec.ports[].target", "it was removed"),
        (lambda it: spec(it)["labels"]["additionalProperties"].update(maxLength=3), ".spec.labels.*", None),
    ],
)
def test_a_change_that_rejects_or_drops_stored_data_is_breaking(change, path, problem):
    found = [one for one in compare_definitions(RELEASED, changed(change)) if one.is_breaking]
    assert [one.path for one in found] == [path]
    assert problem in (None, found[0].problem)
    assert (found[0].definition, found[0].version) == ("shops.trade.example.dev", "v1")


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (_set("replicas", default=2), ".spec.replicas"),
        (_unset("replicas", "default"), ".spec.replicas"),
        (_set("ports", **{"x-kubernetes-list-type": "atomic", "x-kubernetes-list-map-keys": []}), ".spec.ports"),
        (_set("labels", **{"x-kubernetes-map-type": "granular"}), ".spec.labels"),
        (_set("hosts", **{"x-kubernetes-validations": [{"rule": "self == oldSelf"}]}), ".spec.hosts"),
        (lambda it: spec(it)["filling"]["properties"]["plan"]["oneOf"].pop(), ".spec.filling.plan"),
        (lambda it: it["spec"]["versions"][0]["subresources"].pop("scale"), ""),
        (lambda it: it["spec"]["versions"][1].update(served=False), ""),
        (lambda it: it["spec"]["versions"].pop(1), ""),
        (lambda it: it["spec"]["names"].pop("shortNames"), "spec.names.shortNames"),
    ],
)
def test_a_change_that_affects_clients_is_a_notice(change, path):
    assert [(level, where) for level, _, where, _ in compared(change)] == [("notice", path)]


@pytest.mark.parametrize(
    "change",
    [
        lambda it: spec(it).update(extra={"type": "string"}),
        _set("replicas", type="number", format="double"),
        _unset("replicas", "minimum"),
        _set("ports", maxItems=9),
        _set("color", enum=["red", "blue", "green"]),
        _unset("color", "enum"),
        _set("replicas", nullable=True),
        _unset("image", "x-kubernetes-validations"),
        lambda it: schema(it)["properties"]["spec"]["required"].remove("image"),
        lambda it: schema(it)["properties"]["spec"]["required"].append("closed"),
        lambda it: it["spec"]["versions"].append({**it["spec"]["versions"][0], "name": "v2", "storage": False}),
    ],
)
def test_a_more_permissive_schema_has_no_findings(change):
    assert compared(change) == []


def test_a_field_may_be_removed_where_unknown_fields_are_preserved():
    def change(it):
        spec(it)["extension"]["properties"].pop("least")

    assert compared(change) == []


def test_a_stored_version_cannot_be_removed():
    found = compare_definitions(RELEASED, changed(lambda it: (it["spec"]["versions"].pop(0), _store(it, 0))))
    assert [(one.level, one.version, one.problem) for one in found][:2] == [
        ("breaking", "v1", "the version was removed"),
        ("notice", "v1 -> v1beta1", "the storage version changed"),
    ]
    status = {"storedVersions": ["v1beta1", "v1"]}
    found = compare_definitions({**RELEASED, "status": status}, changed(lambda it: it["spec"]["versions"].pop(1)))
    assert [(one.level, one.version) for one in found] == [("breaking", "v1beta1")]


def _store(definition, index):
    for number, one in enumerate(definition["spec"]["versions"]):
        one["storage"] = number == index


def test_another_storage_version_is_compared_unless_a_webhook_converts():
    moved = changed(lambda it: _store(it, 1))
    found = compare_definitions(RELEASED, moved)
    assert ("v1 -> v1beta1", ".spec.image") in [(one.version, one.path) for one in found if one.is_breaking]
    moved["spec"]["conversion"] = {"strategy": "Webhook"}
    assert compare_definitions(RELEASED, moved) == []


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (lambda it: it["spec"].update(scope="Cluster"), "spec.scope"),
        (lambda it: it["spec"].update(group="other.example.dev"), "spec.group"),
        (lambda it: it["spec"]["names"].update(kind="Store"), "spec.names.kind"),
    ],
)
def test_group_scope_and_kind_never_change(change, path):
    assert [(level, where) for level, _, where, _ in compared(change)] == [("breaking", path)]


def test_removing_a_crd_is_breaking():
    (found,) = compare_releases([RELEASED, {"kind": "Deployment"}], [{"kind": "Service"}])
    assert str(found) == (
        "breaking: shops.trade.example.dev: it was removed; deleting the CRD deletes all its objects. "
        "What to do: keep it until no such objects exist, or document in the release how to migrate them."
    )
    assert compare_releases([RELEASED], [crd_of(OldShop, Shop)]) == []


def test_a_finding_names_the_field_the_reason_and_the_advice():
    (found,) = compare_definitions(RELEASED, changed(_remove("color")))
    assert str(found) == (
        "breaking: shops.trade.example.dev v1 .spec.color: it was removed; the server drops it from stored objects as "
        "soon as they are read. What to do: keep the field as deprecated until no stored object has it."
    )


@pytest.mark.parametrize("tree", [{}, {"metadata": {"name": "x"}}, {**RELEASED, "spec": {"versions": []}}, {"spec": 3}])
def test_a_value_that_is_not_a_crd_is_refused(tree):
    with pytest.raises(BadObject, match="this is not a CustomResourceDefinition"):
        compare_definitions(RELEASED, tree)
