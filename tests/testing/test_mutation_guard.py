"""Whoever writes into a shared object is caught, and told where."""

from collections.abc import Iterable
from typing import Any

import pytest

from levelset.objects import Kept, Model, Resource, Spec, Status, decode, encode_tree, keep
from levelset.testing.mutation_guard import Mutated, MutationGuard, mutation_guard

__all__: list[str] = []


class Port(Model):
    number: int


class GardenSpec(Spec):
    plants: list[str] = []
    ports: list[Port] = []
    notes: dict[str, Any] = {}


class Garden(Resource[GardenSpec, Status], api="example.dev/v1"):
    """A kind with insides that can be written into."""


class Shelf:
    """Shares objects as a store does."""

    def __init__(self, *trees: Any) -> None:
        self.kept = [keep(encode_tree(tree)) for tree in trees]
        self.objects = [decode(Garden, kept.raw) for kept in self.kept]

    def remembered(self) -> Iterable[tuple[Kept, Garden]]:
        return zip(self.kept, self.objects, strict=True)


def garden(name: str = "roses", **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "labels": {"app": "a"}, "x-unknown": 1}
    return {"apiVersion": "example.dev/v1", "kind": "Garden", "metadata": metadata, "spec": {"more": [1], **spec}}


def test_nobody_who_only_reads_is_caught() -> None:
    shelf = Shelf(garden(plants=["rose"]), garden("tulips", notes={"a": None, "b": 1.0}))
    with mutation_guard(shelf) as guard:
        assert shelf.objects[0].spec.plants == ["rose"]
    assert guard.find() == []


def test_a_changed_copy_is_no_mutation() -> None:
    shelf = Shelf(garden(plants=["rose"]))
    with mutation_guard(shelf):
        shelf.objects[0].with_spec(plants=["tulip"]).with_metadata(labels={})


def test_writing_into_a_dict_is_caught_with_the_object_and_the_field() -> None:
    shelf = Shelf(garden())
    with (
        pytest.raises(Mutated, match=r"Garden/default/roses at metadata\.labels\.app\b") as caught,
        mutation_guard(shelf),
    ):
        shelf.objects[0].metadata.labels["app"] = "b"
    assert [(one.name, tuple(one.fields)) for one in caught.value.mutations] == [
        ("Garden/default/roses", ("metadata.labels.app",))
    ]


def test_writing_into_a_list_is_caught_with_the_object_and_the_field() -> None:
    shelf = Shelf(garden(plants=["rose"], ports=[{"number": 1}]), garden("tulips"))
    with pytest.raises(Mutated, match=r"Garden/default/roses at spec\.plants\[1\]\."), mutation_guard(shelf):
        shelf.objects[0].spec.plants.append("tulip")


def test_all_the_fields_of_an_object_that_were_written_into_are_named() -> None:
    shelf = Shelf(garden(plants=["rose"], ports=[{"number": 1}]))
    shelf.objects[0].spec.plants.append("tulip")
    shelf.objects[0].spec.ports.clear()
    assert [set(one.fields) for one in MutationGuard(shelf).find()] == [{"spec.plants[1]", "spec.ports"}]


def test_what_can_no_longer_be_written_is_caught() -> None:
    shelf = Shelf(garden())
    with pytest.raises(Mutated, match="can no longer be written as JSON"), mutation_guard(shelf):
        shelf.objects[0].spec.notes["a"] = object()


def test_every_object_that_was_written_into_is_named() -> None:
    shelf = Shelf(garden("a"), garden("b"), garden("c"))
    shelf.objects[0].spec.plants.append("x")
    shelf.objects[2].spec.plants.append("x")
    names = [one.name for one in MutationGuard(shelf).find()]
    assert names == ["Garden/default/a", "Garden/default/c"]


def test_the_error_of_the_block_goes_first() -> None:
    shelf = Shelf(garden())
    shelf.objects[0].spec.plants.append("x")
    with pytest.raises(KeyError), mutation_guard(shelf):
        raise KeyError
