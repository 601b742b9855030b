"""Changes as values."""

from typing import Any

from levelset.client.object_types import View, view_of
from levelset.objects import GroupVersionKind, Ref, Unstructured
from levelset.runtime.cache.change import Change
from tests.runtime.cache.sites import VIEW, Site, cached_site

OLD, NEW = cached_site("a", 1), cached_site("a", 2, image="caddy")


def test_a_change_has_the_old_and_the_new_object_and_its_type() -> None:
    change = Change("default/a", OLD, NEW, VIEW)
    assert change.old is not None
    assert change.new is not None
    assert (change.old.object.spec.image, change.new.object.spec.image) == ("nginx", "caddy")
    assert (change.ref, change.item.cached, change.is_recreated) == (Ref(Site, "a", "default"), NEW, False)


def test_a_change_of_an_added_or_deleted_object_has_one_side() -> None:
    made, gone = Change("default/a", None, NEW, VIEW), Change("default/a", OLD, None, VIEW)
    assert (made.old, gone.new) == (None, None)
    assert (made.cached, gone.cached) == (NEW, OLD)


def test_a_change_can_be_seen_with_another_class() -> None:
    loose: View[Any] = view_of(GroupVersionKind("example.dev", "v1", "Site"))
    change = Change("default/a", None, NEW, VIEW, is_initial=True)
    other = change.seen_as(loose)
    assert change.seen_as(VIEW) is change
    assert isinstance(other.item.object, Unstructured)
    assert other.is_initial
