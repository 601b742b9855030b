import pytest

from levelset.errors import BadOwner
from levelset.objects.owners import controller_of, is_owned_by, remove_owner, set_controller, set_owner
from levelset.objects.resource import Object
from tests.objects.samples import Region, Settings, Website, WebsiteSpec, blog


def owner(uid: str = "u1", **metadata) -> Website:
    return blog().with_metadata(uid=uid, **metadata)


def child(namespace: str | None = "default") -> Settings:
    return Settings().with_metadata(name="child", namespace=namespace)


def region(uid: str = "r1") -> Region:
    return Region.new("north", WebsiteSpec(image="x")).with_metadata(uid=uid)


def test_set_controller_sets_every_field_that_the_garbage_collector_needs():
    reference = controller_of(set_controller(child(), owner()))
    assert reference is not None
    assert (reference.api_version, reference.kind, reference.name, reference.uid) == (
        "example.dev/v1",
        "Website",
        "blog",
        "u1",
    )
    assert (reference.controller, reference.block_owner_deletion) == (True, True)


def test_setting_the_same_controller_again_changes_nothing():
    once = set_controller(child(), owner())
    assert set_controller(once, owner()) == once


def test_a_second_controller_is_refused():
    with pytest.raises(BadOwner, match="controlled by Website/blog already"):
        set_controller(set_controller(child(), owner()), owner("u2"))


def test_other_owners_can_be_added_beside_a_controller():
    both = set_owner(set_controller(child(), owner()), owner("u2"))
    assert is_owned_by(both, owner("u2"))
    controller = controller_of(both)
    assert controller is not None
    assert controller.uid == "u1"
    assert not is_owned_by(remove_owner(both, owner("u2")), owner("u2"))


def test_a_controller_that_is_set_as_an_owner_stays_the_controller():
    assert controller_of(set_owner(set_controller(child(), owner()), owner())) is not None


def test_an_owner_in_another_namespace_is_refused():
    with pytest.raises(BadOwner, match="another namespace"):
        set_controller(child("elsewhere"), owner())


def test_a_namespaced_owner_of_something_cluster_scoped_is_refused():
    with pytest.raises(BadOwner, match="cluster-scoped Region/north"):
        set_owner(region(), owner())


@pytest.mark.parametrize("obj", [child(), region("r2")])
def test_a_cluster_scoped_owner_may_own_anything(obj: Object):
    assert is_owned_by(set_owner(obj, region()), region())


def test_an_owner_without_a_uid_is_refused():
    with pytest.raises(BadOwner, match="no uid yet"):
        set_controller(child(), blog())
