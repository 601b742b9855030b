"""Owner references and namespaces of children (behaviour K24), for typed objects and trees."""

from typing import Any

import pytest

from levelset.errors import BadOwner, ConfigError
from levelset.objects import Object, OwnerReference, Unstructured, controller_of, decode, set_controller, to_tree
from levelset.objects.owners import as_object, is_child, owned
from tests.client.fixtures import Namespace
from tests.runtime.controller.context_environment import ConfigMap, Site, config, site

BLOG = site().with_metadata(uid="u-1")


class Claim(Object, api="example.dev/v1", scope="Cluster"):
    pass


def tree(**metadata: Any) -> Unstructured:
    return Unstructured({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", **metadata}})


def test_a_child_gets_its_controller_and_the_namespace_of_its_owner() -> None:
    child = owned(config(), BLOG)
    found = controller_of(child)
    assert child.namespace == "default"
    assert found is not None
    assert (found.uid, found.controller, found.block_owner_deletion) == ("u-1", True, True)


def test_a_child_with_a_namespace_keeps_it_and_its_unknown_fields() -> None:
    read = decode(ConfigMap, b'{"metadata":{"name":"c","namespace":"default","labels":{"a":"b"}},"more":1}')
    made = owned(read, BLOG)
    assert made == set_controller(read, BLOG)
    assert to_tree(made)["more"] == 1
    assert read.metadata.owner_references == ()


def test_an_owner_without_a_namespace_can_own_a_child_without_one() -> None:
    owner = BLOG.with_metadata(namespace=None)
    assert owned(config(), owner) == set_controller(config(), owner)


def test_a_class_without_a_kind_can_be_neither_owner_nor_child() -> None:
    class Bare(Object):
        pass

    for child, owner in ((Bare(), BLOG), (config(), Bare().with_metadata(uid="u", namespace="default"))):
        with pytest.raises(ConfigError, match="does not declare a kind"):
            owned(child, owner)


def test_a_tree_gets_its_controller_and_the_namespace_of_its_owner() -> None:
    made = owned(tree(), BLOG)
    reference = {"apiVersion": "example.dev/v1", "kind": "Website", "name": "blog", "uid": "u-1"}
    assert made.namespace == "default"
    assert made.tree["metadata"]["ownerReferences"] == [reference | {"controller": True, "blockOwnerDeletion": True}]


def test_an_owner_that_is_not_the_controller_is_one_of_several() -> None:
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
def test_a_cluster_scoped_owner_can_own_objects_in_any_namespace(child: Any) -> None:
    made = owned(child, Claim().with_metadata(name="claim", uid="u-3"))
    assert made.namespace == "anywhere"
    assert made.metadata.owner_references[0].uid == "u-3"


@pytest.mark.parametrize("child", [config(), tree()])
def test_an_owner_without_a_uid_cannot_own_a_child(child: Any) -> None:
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


def test_a_child_with_a_generate_name_can_be_owned() -> None:
    child = Unstructured({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "c-"}})
    assert owned(child, BLOG).tree["metadata"]["generateName"] == "c-"


def test_a_mapping_is_a_tree_and_an_object_is_itself() -> None:
    assert isinstance(as_object({"kind": "X"}), Unstructured)
    assert as_object(BLOG) is BLOG
    assert isinstance(BLOG, Site)
