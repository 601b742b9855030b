from typing import Any

import pytest

from tests.apiserver.kinds_world import CRDS, KindsWorld, definition, load_data

SCHEMA = {"openAPIV3Schema": {"type": "object"}}


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    load_data()


async def refused(tree: dict[str, Any]) -> dict[str, str]:
    kinds = await KindsWorld.make()
    return await kinds.refused(CRDS, tree, name=tree["metadata"]["name"])


async def test_the_name_is_made_of_plural_and_group() -> None:
    tree = definition(metadata={"name": "other.example.com"})
    assert await refused(tree) == {"metadata.name": "FieldValueInvalid"}


@pytest.mark.parametrize("group", ["nodot", "A.com", "a..b"])
async def test_the_group_is_a_domain_with_a_dot(group: str) -> None:
    found = await refused(definition(group=group, metadata={"name": "widgets.x"}))
    assert found["spec.group"] == "FieldValueInvalid"


async def test_the_scope_is_one_of_two_words() -> None:
    assert await refused(definition(spec={"scope": "Galaxy"})) == {"spec.scope": "FieldValueNotSupported"}
    assert await refused(definition(spec={"scope": None})) == {"spec.scope": "FieldValueRequired"}


@pytest.mark.parametrize(
    ("names", "field"),
    [
        ({"singular": "Widget"}, "spec.names.singular"),
        ({"kind": "1Widget"}, "spec.names.kind"),
        ({"listKind": "Widget"}, "spec.names.listKind"),
        ({"shortNames": ["ok", "N!"]}, "spec.names.shortNames[1]"),
        ({"categories": ["a.b"]}, "spec.names.categories[0]"),
    ],
)
async def test_names_are_labels(names: dict[str, Any], field: str) -> None:
    assert (await refused(definition(names=names)))[field] == "FieldValueInvalid"


async def test_versions_are_told_apart_and_one_of_them_is_stored() -> None:
    again = {"name": "v1", "served": True, "storage": False, "schema": SCHEMA}
    assert await refused(definition(versions=[again])) == {"spec.versions": "FieldValueInvalid"}
    stored = {**again, "name": "v2", "storage": True}
    assert await refused(definition(versions=[stored])) == {"spec.versions": "FieldValueInvalid"}
    assert await refused(definition(version={"storage": False})) == {"spec.versions": "FieldValueInvalid"}


async def test_preserving_unknown_fields_everywhere_is_a_thing_of_the_past() -> None:
    tree = definition(spec={"preserveUnknownFields": True})
    assert await refused(tree) == {"spec.preserveUnknownFields": "FieldValueInvalid"}


@pytest.mark.parametrize(
    ("conversion", "field", "reason"),
    [
        ({"strategy": "Odd"}, "spec.conversion.strategy", "FieldValueNotSupported"),
        ({"strategy": "Webhook"}, "spec.conversion.webhook.clientConfig", "FieldValueRequired"),
        (
            {"strategy": "None", "webhook": {"conversionReviewVersions": ["v1"]}},
            "spec.conversion.webhook",
            "FieldValueForbidden",
        ),
    ],
)
async def test_a_conversion_is_none_or_a_complete_webhook(conversion: dict[str, Any], field: str, reason: str) -> None:
    assert (await refused(definition(spec={"conversion": conversion})))[field] == reason


@pytest.mark.parametrize("group", ["x.k8s.io", "kubernetes.io", "a.b.kubernetes.io"])
async def test_a_group_of_the_project_needs_an_approval(group: str) -> None:
    field = "metadata.annotations[api-approved.kubernetes.io]"
    assert await refused(definition(group=group)) == {field: "FieldValueRequired"}
    annotations = {"api-approved.kubernetes.io": "yes"}
    tree = definition(group=group, metadata={"annotations": annotations})
    kinds = await KindsWorld.make()
    with_odd = {"metadata": {**tree["metadata"]}, "spec": tree["spec"]}
    assert await kinds.refused(CRDS, with_odd) == {field: "FieldValueInvalid"}
    annotations["api-approved.kubernetes.io"] = "unapproved, an experiment"
    assert (await kinds.define(tree))["spec"]["group"] == group


async def test_what_names_stored_objects_never_changes() -> None:
    kinds = await KindsWorld.make()
    made = await kinds.define(definition())
    names = {**made["spec"]["names"], "kind": "Other"}
    for part, field in (
        ({"group": "other.com"}, "spec.group"),
        ({"scope": "Cluster"}, "spec.scope"),
        ({"names": names}, "spec.names.kind"),
        ({"names": {**names, "kind": "Widget", "plural": "others"}}, "spec.names.plural"),
    ):
        changed = {**made, "spec": {**made["spec"], **part}}
        assert await kinds.refused_update(CRDS, changed) == {field: "FieldValueInvalid"}


async def test_a_version_in_which_objects_are_stored_cannot_be_dropped() -> None:
    kinds = await KindsWorld.make()
    made = await kinds.define(definition())
    versions = [{"name": "v3", "served": True, "storage": True, "schema": SCHEMA}]
    changed = {**made, "spec": {**made["spec"], "versions": versions}}
    assert await kinds.refused_update(CRDS, changed) == {"status.storedVersions[0]": "FieldValueInvalid"}


async def test_a_definition_of_nothing_is_refused_and_not_stumbled_over() -> None:
    assert "spec.group" in await refused({"metadata": {"name": "a.b"}})
