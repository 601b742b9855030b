from levelset.apiserver.resources.catalog import Catalog, sort_versions
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


def test_a_kind_is_found_in_its_preferred_version() -> None:
    older, newer = served("example.com", "v1beta1", "widgets"), served("example.com", "v1", "widgets")
    catalog = Catalog([older, newer])
    assert catalog.kinds("example.com", "Widget") is newer
    assert catalog.kinds("example.com", "Widget", "v1beta1") is older
    assert catalog.kinds("example.com", "Gadget") is None


def test_the_core_group_comes_first_and_custom_groups_last() -> None:
    groups = ["zoo.example.com", "apps", "", "art.example.com", "coordination.k8s.io"]
    catalog = Catalog(served(group, "v1", "things") for group in groups)
    assert catalog.groups() == ["", "apps", "coordination.k8s.io", "art.example.com", "zoo.example.com"]


def test_a_group_is_removed_with_its_last_resource() -> None:
    widgets, gadgets = served("example.com", "v1", "widgets"), served("example.com", "v2", "gadgets")
    catalog = Catalog([widgets, gadgets])
    catalog.remove(gadgets)
    assert catalog.versions("example.com") == ["v1"]
    catalog.remove(widgets)
    assert (catalog.groups(), catalog.all()) == ([], [])


def test_every_change_increments_the_generation_and_notifies_once() -> None:
    catalog, events = Catalog(), list[tuple[tuple[ServedResource, ...], tuple[ServedResource, ...]]]()
    end = catalog.listen(lambda removed, added: events.append((removed, added)))
    previous, current = served("example.com", "v1", "widgets"), served("example.com", "v1", "widgets")
    catalog.add(previous)
    catalog.change(remove=[previous], add=[current])
    assert events == [((), (previous,)), ((previous,), (current,))]
    assert catalog.generation == 2
    end()
    catalog.remove(current)
    assert len(events) == 2


def test_an_empty_change_has_no_effect() -> None:
    catalog = Catalog()
    catalog.change()
    assert catalog.generation == 0


def test_removing_a_replaced_resource_retains_its_replacement() -> None:
    previous, current = served("example.com", "v1", "widgets"), served("example.com", "v1", "widgets")
    catalog = Catalog([previous])
    catalog.add(current)
    catalog.remove(previous)
    assert catalog.find("example.com", "v1", "widgets") is current
    assert catalog.by_gvk("example.com", "v1", "Widget") is current


def test_stable_versions_come_before_beta_and_alpha_and_the_highest_number_first() -> None:
    names = ["v1alpha1", "v2beta1", "v10", "v2", "v1", "foo1", "v11alpha2", "v1beta2", "v1beta1"]
    expected = ["v10", "v2", "v1", "v2beta1", "v1beta2", "v1beta1", "v11alpha2", "v1alpha1", "foo1"]
    assert sort_versions(names) == expected


def test_names_that_are_not_versions_come_last_by_name() -> None:
    assert sort_versions(["zebra", "v0", "apple", "v1"]) == ["v1", "apple", "v0", "zebra"]


def test_a_copy_has_the_replaced_resources_and_changes_alone() -> None:
    widgets, gadgets = served("example.com", "v1", "widgets"), served("example.com", "v1", "gadgets")
    catalog = Catalog([widgets, gadgets])
    replacement = served("example.com", "v1", "widgets")
    copy = catalog.copy(replaced=[replacement])
    copy.remove(gadgets)
    assert copy.all() == [replacement]
    assert copy.by_gvk("example.com", "v1", "Widget") is replacement
    assert catalog.all() == [gadgets, widgets]
    assert catalog.find("example.com", "v1", "widgets") is widgets
