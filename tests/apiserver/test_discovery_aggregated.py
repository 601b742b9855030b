from levelset.apiserver.discovery import aggregated_groups
from levelset.apiserver.registry.builtin.kind_table import builtin_kinds
from levelset.apiserver.resources.catalog import Catalog

CATALOG = Catalog(builtin_kinds())


def test_the_core_group_has_no_name_and_is_alone() -> None:
    document = aggregated_groups(CATALOG, "v2", core=True)
    assert [one["metadata"].get("name") for one in document["items"]] == [None]
    assert [one["version"] for one in document["items"][0]["versions"]] == ["v1"]


def test_the_other_groups_come_in_the_order_of_the_catalog() -> None:
    document = aggregated_groups(CATALOG, "v2beta1", core=False)
    assert [one["metadata"]["name"] for one in document["items"]] == CATALOG.groups()[1:]
    assert document["apiVersion"] == "apidiscovery.k8s.io/v2beta1"
    assert {version["freshness"] for one in document["items"] for version in one["versions"]} == {"Current"}
