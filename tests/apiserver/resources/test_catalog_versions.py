from levelset.apiserver.resources.catalog import sort_versions


def test_stable_versions_come_before_beta_and_alpha_and_the_highest_number_first() -> None:
    names = ["v1alpha1", "v2beta1", "v10", "v2", "v1", "foo1", "v11alpha2", "v1beta2", "v1beta1"]
    expected = ["v10", "v2", "v1", "v2beta1", "v1beta2", "v1beta1", "v11alpha2", "v1alpha1", "foo1"]
    assert sort_versions(names) == expected


def test_names_that_are_no_versions_come_last_in_their_own_order() -> None:
    assert sort_versions(["zebra", "v0", "apple", "v1"]) == ["v1", "apple", "v0", "zebra"]
