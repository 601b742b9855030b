from typing import Any

import pytest

from tests.apiserver.support.kinds_harness import CRDS, KindsHarness, definition, load_data

SCHEMA = {"openAPIV3Schema": {"type": "object"}}


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    load_data()


async def refused(tree: dict[str, Any]) -> dict[str, str]:
    kinds = await KindsHarness.make()
    return await kinds.refused(CRDS, tree, name=tree["metadata"]["name"])


async def test_the_name_of_a_crd_is_plural_and_group() -> None:
    tree = definition(metadata={"name": "other.example.com"})
    assert await refused(tree) == {"metadata.name": "FieldValueInvalid"}


@pytest.mark.parametrize("group", ["nodot", "A.com", "a..b"])
async def test_the_group_is_a_domain_with_a_dot(group: str) -> None:
    found = await refused(definition(group=group, metadata={"name": "widgets.x"}))
    assert found["spec.group"] == "FieldValueInvalid"


async def test_the_scope_is_cluster_or_namespaced() -> None:
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
async def test_names_must_be_dns_labels(names: dict[str, Any], field: str) -> None:
    assert (await refused(definition(names=names)))[field] == "FieldValueInvalid"


async def test_versions_are_unique_and_exactly_one_is_the_storage_version() -> None:
    again = {"name": "v1", "served": True, "storage": False, "schema": SCHEMA}
    assert await refused(definition(versions=[again])) == {"spec.versions": "FieldValueInvalid"}
    wrong = {"spec.versions": "FieldValueInvalid", "status.storedVersions": "FieldValueInvalid"}
    stored = {**again, "name": "v2", "storage": True}
    assert await refused(definition(versions=[stored])) == wrong
    assert await refused(definition(version={"storage": False})) == wrong


async def test_preserve_unknown_fields_must_be_false() -> None:
    tree = definition(spec={"preserveUnknownFields": True})
    assert await refused(tree) == {"spec.preserveUnknownFields": "FieldValueInvalid"}


@pytest.mark.parametrize(
    ("conversion", "field", "reason"),
    [
        ({"strategy": "Odd"}, "spec.conversion.strategy", "FieldValueNotSupported"),
        ({"strategy": "Webhook"}, "spec.conversion.webhookClientConfig", "FieldValueRequired"),
        ({"strategy": "Webhook"}, "spec.conversion.conversionReviewVersions", "FieldValueRequired"),
        (
            {"strategy": "Webhook", "webhook": {"clientConfig": {"service": {}}, "conversionReviewVersions": ["v1"]}},
            "spec.conversion.webhookClientConfig.service.name",
            "FieldValueRequired",
        ),
        (
            {
                "strategy": "Webhook",
                "webhook": {"clientConfig": {"url": "https://a"}, "conversionReviewVersions": ["v9"]},
            },
            "spec.conversion.conversionReviewVersions",
            "FieldValueInvalid",
        ),
        (
            {"strategy": "None", "webhook": {"conversionReviewVersions": ["v1"]}},
            "spec.conversion.conversionReviewVersions",
            "FieldValueForbidden",
        ),
    ],
)
async def test_the_conversion_strategy_is_none_or_a_complete_webhook(
    conversion: dict[str, Any], field: str, reason: str
) -> None:
    assert (await refused(definition(spec={"conversion": conversion})))[field] == reason


@pytest.mark.parametrize("group", ["x.k8s.io", "kubernetes.io", "a.b.kubernetes.io"])
async def test_a_protected_group_needs_an_approval(group: str) -> None:
    field = "metadata.annotations[api-approved.kubernetes.io]"
    assert await refused(definition(group=group)) == {field: "FieldValueRequired"}
    annotations = {"api-approved.kubernetes.io": "yes"}
    tree = definition(group=group, metadata={"annotations": annotations})
    kinds = await KindsHarness.make()
    with_odd = {"metadata": {**tree["metadata"]}, "spec": tree["spec"]}
    assert await kinds.refused(CRDS, with_odd) == {field: "FieldValueInvalid"}
    annotations["api-approved.kubernetes.io"] = "unapproved, an experiment"
    assert (await kinds.define(tree))["spec"]["group"] == group


async def test_fields_of_the_storage_key_are_immutable() -> None:
    kinds = await KindsHarness.make()
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


async def test_a_stored_version_cannot_be_removed() -> None:
    kinds = await KindsHarness.make()
    made = await kinds.define(definition())
    versions = [{"name": "v3", "served": True, "storage": True, "schema": SCHEMA}]
    changed = {**made, "spec": {**made["spec"], "versions": versions}}
    assert await kinds.refused_update(CRDS, changed) == {"status.storedVersions[0]": "FieldValueInvalid"}


async def test_an_empty_crd_is_invalid_and_not_an_internal_error() -> None:
    assert "spec.group" in await refused({"metadata": {"name": "a.b"}})
