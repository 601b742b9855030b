from levelset.apiserver.resources.catalog import Catalog
from levelset.apiserver.resources.served_resource import ServedResource


def served(group: str, version: str, plural: str) -> ServedResource:
    kind = plural.capitalize().rstrip("s")
    return ServedResource(group, version, kind, plural, kind.lower(), f"{kind}List", True, version)


def test_a_resource_is_found_by_its_path_and_by_its_kind() -> None:
    widgets = served("example.com", "v1", "widgets")
    catalog = Catalog([widgets])
    assert catalog.find("example.com", "v1", "widgets") is widgets
    assert catalog.by_gvk("example.com", "v1", "Widget") is widgets
    assert catalog.find("example.com", "v2", "widgets") is None


def test_a_kind_is_found_in_the_version_that_clients_prefer() -> None:
    older, newer = served("example.com", "v1beta1", "widgets"), served("example.com", "v1", "widgets")
    catalog = Catalog([older, newer])
    assert catalog.kinds("example.com", "Widget") is newer
    assert catalog.kinds("example.com", "Widget", "v1beta1") is older
    assert catalog.kinds("example.com", "Gadget") is None


def test_the_core_group_comes_first_and_custom_groups_last() -> None:
    groups = ["zoo.example.com", "apps", "", "art.example.com", "coordination.k8s.io"]
    catalog = Catalog(served(group, "v1", "things") for group in groups)
    assert catalog.groups() == ["", "apps", "coordination.k8s.io", "art.example.com", "zoo.example.com"]


def test_a_group_goes_with_its_last_resource() -> None:
    widgets, gadgets = served("example.com", "v1", "widgets"), served("example.com", "v2", "gadgets")
    catalog = Catalog([widgets, gadgets])
    catalog.remove(gadgets)
    assert catalog.versions("example.com") == ["v1"]
    catalog.remove(widgets)
    assert (catalog.groups(), catalog.all()) == ([], [])


def test_every_change_gets_a_new_number_and_is_told_once() -> None:
    catalog, told = Catalog(), list[tuple[tuple[ServedResource, ...], tuple[ServedResource, ...]]]()
    end = catalog.listen(lambda removed, added: told.append((removed, added)))
    former, present = served("example.com", "v1", "widgets"), served("example.com", "v1", "widgets")
    catalog.add(former)
    catalog.change(remove=[former], add=[present])
    assert told == [((), (former,)), ((former,), (present,))]
    assert catalog.generation == 2
    end()
    catalog.remove(present)
    assert len(told) == 2


def test_a_change_of_nothing_is_none() -> None:
    catalog = Catalog()
    catalog.change()
    assert catalog.generation == 0


def test_what_was_replaced_is_not_removed_with_its_predecessor() -> None:
    former, present = served("example.com", "v1", "widgets"), served("example.com", "v1", "widgets")
    catalog = Catalog([former])
    catalog.add(present)
    catalog.remove(former)
    assert catalog.find("example.com", "v1", "widgets") is present
    assert catalog.by_gvk("example.com", "v1", "Widget") is present
