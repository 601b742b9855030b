"""Mutations of shared cached objects are detected, with the object and the field."""

from collections.abc import Iterable
from typing import Any

import pytest

from levelset.objects import CachedObject, Model, Resource, Spec, Status, decode, decode_cached, encode_tree
from levelset.testing.mutation_guard import Mutated, MutationGuard, mutation_guard

__all__: list[str] = []


class Port(Model):
    number: int


class GardenSpec(Spec):
    plants: list[str] = []
    ports: list[Port] = []
    notes: dict[str, Any] = {}


class Garden(Resource[GardenSpec, Status], api="example.dev/v1"):
    """A kind with mutable fields."""


class SharedStore:
    """Shares decoded objects as a store does."""

    def __init__(self, *trees: Any) -> None:
        self.cached = [decode_cached(encode_tree(tree)) for tree in trees]
        self.objects = [decode(Garden, cached.raw) for cached in self.cached]

    def decoded_objects(self) -> Iterable[tuple[CachedObject, Garden]]:
        return zip(self.cached, self.objects, strict=True)


def garden(name: str = "roses", **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "labels": {"app": "a"}, "x-unknown": 1}
    return {"apiVersion": "example.dev/v1", "kind": "Garden", "metadata": metadata, "spec": {"more": [1], **spec}}


def test_reads_are_not_reported() -> None:
    store = SharedStore(garden(plants=["rose"]), garden("tulips", notes={"a": None, "b": 1.0}))
    with mutation_guard(store) as guard:
        assert store.objects[0].spec.plants == ["rose"]
    assert guard.find() == []


def test_a_changed_copy_is_not_a_mutation() -> None:
    store = SharedStore(garden(plants=["rose"]))
    with mutation_guard(store):
        store.objects[0].with_spec(plants=["tulip"]).with_metadata(labels={})


def test_mutating_a_dict_is_reported_with_object_and_field() -> None:
    store = SharedStore(garden())
    with (
        pytest.raises(Mutated, match=r"Garden/default/roses at metadata\.labels\.app\b") as caught,
        mutation_guard(store),
    ):
        store.objects[0].metadata.labels["app"] = "b"
    assert [(one.name, tuple(one.fields)) for one in caught.value.mutations] == [
        ("Garden/default/roses", ("metadata.labels.app",))
    ]


def test_mutating_a_list_is_reported_with_object_and_field() -> None:
    store = SharedStore(garden(plants=["rose"], ports=[{"number": 1}]), garden("tulips"))
    with pytest.raises(Mutated, match=r"Garden/default/roses at spec\.plants\[1\]\."), mutation_guard(store):
        store.objects[0].spec.plants.append("tulip")


def test_all_mutated_fields_of_an_object_are_reported() -> None:
    store = SharedStore(garden(plants=["rose"], ports=[{"number": 1}]))
    store.objects[0].spec.plants.append("tulip")
    store.objects[0].spec.ports.clear()
    assert [set(one.fields) for one in MutationGuard(store).find()] == [{"spec.plants[1]", "spec.ports"}]


def test_a_value_that_cannot_be_encoded_is_reported() -> None:
    store = SharedStore(garden())
    with pytest.raises(Mutated, match="can no longer be encoded as JSON"), mutation_guard(store):
        store.objects[0].spec.notes["a"] = object()


def test_every_mutated_object_is_reported() -> None:
    store = SharedStore(garden("a"), garden("b"), garden("c"))
    store.objects[0].spec.plants.append("x")
    store.objects[2].spec.plants.append("x")
    names = [one.name for one in MutationGuard(store).find()]
    assert names == ["Garden/default/a", "Garden/default/c"]


def test_an_error_of_the_block_takes_precedence() -> None:
    store = SharedStore(garden())
    store.objects[0].spec.plants.append("x")
    with pytest.raises(KeyError), mutation_guard(store):
        raise KeyError
