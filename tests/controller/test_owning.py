"""Owners of children: K24 for typed objects and trees, and where children are made."""

from typing import Any

import pytest

from levelset.controller.owning import as_object, is_child, owned
from levelset.errors import BadOwner
from levelset.objects import Object, OwnerReference, Unstructured, controller_of
from tests.client.world import Namespace
from tests.controller.desk import Site, config, site

BLOG = site().with_metadata(uid="u-1")


class Claim(Object, api="example.dev/v1", scope="Cluster"):
    pass


def tree(**metadata: Any) -> Unstructured:
    return Unstructured({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", **metadata}})


def test_a_child_is_controlled_by_its_owner_and_made_where_that_is() -> None:
    child = owned(config(), BLOG)
    found = controller_of(child)
    assert child.namespace == "default"
    assert found is not None
    assert (found.uid, found.controller, found.block_owner_deletion) == ("u-1", True, True)


def test_a_tree_is_controlled_by_its_owner_and_made_where_that_is() -> None:
    made = owned(tree(), BLOG)
    reference = {"apiVersion": "example.dev/v1", "kind": "Website", "name": "blog", "uid": "u-1"}
    assert made.namespace == "default"
    assert made.tree["metadata"]["ownerReferences"] == [reference | {"controller": True, "blockOwnerDeletion": True}]


def test_an_owner_that_does_not_control_is_one_of_several() -> None:
    assert controller_of(owned(config(), BLOG, controls=False)) is None
    made = owned(tree(), BLOG, controls=False)
    assert "controller" not in made.tree["metadata"]["ownerReferences"][0]


@pytest.mark.parametrize("child", [config(), tree()])
def test_a_child_has_one_controller_only(child: Any) -> None:
    taken = owned(child, site("shop").with_metadata(uid="u-2"))
    with pytest.raises(BadOwner, match="already"):
        owned(taken, BLOG)


@pytest.mark.parametrize("child", [config(), tree()])
def test_the_same_owner_twice_is_one_owner(child: Any) -> None:
    made = owned(owned(child, BLOG), BLOG)
    assert len(made.metadata.owner_references) == 1
    assert is_child(made.metadata.owner_references, BLOG)


@pytest.mark.parametrize("child", [config(namespace="other"), tree(namespace="other")])
def test_an_owner_owns_nothing_in_another_namespace(child: Any) -> None:
    with pytest.raises(BadOwner, match="another namespace"):
        owned(child, BLOG)


def test_a_namespaced_owner_owns_nothing_that_is_cluster_scoped() -> None:
    with pytest.raises(BadOwner, match="cluster-scoped"):
        owned(Namespace().with_metadata(name="n"), BLOG)


@pytest.mark.parametrize("child", [config(namespace="anywhere"), tree(namespace="anywhere")])
def test_a_cluster_scoped_owner_owns_what_is_anywhere(child: Any) -> None:
    made = owned(child, Claim().with_metadata(name="claim", uid="u-3"))
    assert made.namespace == "anywhere"
    assert made.metadata.owner_references[0].uid == "u-3"


@pytest.mark.parametrize("child", [config(), tree()])
def test_an_owner_that_no_server_has_seen_owns_nothing(child: Any) -> None:
    with pytest.raises(BadOwner, match="no uid"):
        owned(child, site())


def test_a_tree_may_own_a_typed_child() -> None:
    owner = Unstructured(
        {
            "apiVersion": "example.dev/v1",
            "kind": "Website",
            "metadata": {"name": "b", "namespace": "default", "uid": "u"},
        }
    )
    child = owned(config(a="1"), owner)
    assert child.data == {"a": "1"}
    assert child.metadata.owner_references == (
        OwnerReference(
            api_version="example.dev/v1", kind="Website", name="b", uid="u", controller=True, block_owner_deletion=True
        ),
    )


def test_a_child_whose_name_the_server_makes_up_can_be_owned() -> None:
    child = Unstructured({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "c-"}})
    assert owned(child, BLOG).tree["metadata"]["generateName"] == "c-"


def test_a_mapping_is_a_tree_and_an_object_is_itself() -> None:
    assert isinstance(as_object({"kind": "X"}), Unstructured)
    assert as_object(BLOG) is BLOG
    assert isinstance(BLOG, Site)
