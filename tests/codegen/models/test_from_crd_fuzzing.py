"""Fuzzing: corrupted CRDs and OpenAPI documents give valid classes or BadObject."""

from collections.abc import Iterator
from copy import deepcopy
from random import Random
from typing import Any

import pytest

from levelset.codegen.models.from_crd import models_from_crd
from levelset.codegen.models.from_openapi import models_from_openapi
from levelset.errors import BadObject
from tests.codegen.public_crds import document, load
from tests.codegen.sample_crd import crd

JUNK: tuple[Any, ...] = (
    *(None, 7, -1.5, True, "", "text", "ü\"'''\\\n", 10**30, float("inf"), b"x", ("a",), "object", "array", "string"),
    *([], [None], ["a", 1], {}, {"a": 1}, {1: 2}, {"": {}}, {"$ref": 7}, {"$ref": "#/x"}, {"enum": [1, "a", None]}),
    *({"type": "object"}, {"type": ["a"]}, {"allOf": [7]}, {"properties": {"class": {"type": "string"}}}),
)
NAMES = ("x", "$ref", 3, None, "class", "ü", "enum", "properties")
GVK = {"group": "example.dev", "version": "v1", "kind": "Gadget"}
OPENAPI = {
    "paths": {"/apis/example.dev/v1/gadgets/{name}": {"get": {"x-kubernetes-group-version-kind": GVK}}},
    "components": {
        "schemas": {
            "a.Gadget": {
                "type": "object",
                "properties": {"spec": {"allOf": [{"$ref": "#/a.Tree"}], "default": {}}, "x": {"$ref": "#/a.Word"}},
                "x-kubernetes-group-version-kind": [GVK],
            },
            "a.Tree": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string"}, "parts": {"type": "array", "items": {"$ref": "#/a.Tree"}}},
            },
            "a.Word": {"type": "string"},
        }
    },
}


def positions(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Every container and key in a tree."""
    for name in tree if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ():
        yield tree, name
        yield from positions(tree[name])


def corrupted(tree: Any, random: Random) -> Any:
    made = deepcopy(tree)
    for _ in range(random.choice((1, 1, 2, 4))):
        container, name = random.choice(list(positions(made)))
        if isinstance(container, dict) and random.random() < 0.2:
            name = random.choice(NAMES)
        container[name] = deepcopy(random.choice(JUNK))
    return made


@pytest.mark.parametrize("seed", range(4))
def test_a_corrupted_crd_gives_classes_or_bad_object(seed):
    random = Random(seed)
    bases = [crd(), document("compositions.apiextensions.crossplane.io")]
    for _ in range(60):
        try:
            files = models_from_crd(corrupted(random.choice(bases), random))
        except BadObject as error:
            assert len(str(error)) > 20
            continue
        for text in files.values():
            load("generated_corrupted", text)


@pytest.mark.parametrize("seed", range(2))
def test_a_corrupted_document_gives_classes_or_bad_object(seed):
    random = Random(seed)
    for _ in range(150):
        resources = random.choice([(), [7], [{"name": random.choice(JUNK), "kind": "Gadget"}]])
        try:
            files = models_from_openapi(
                corrupted(OPENAPI, random), group="example.dev", version="v1", resources=resources
            )
        except BadObject as error:
            assert len(str(error)) > 20
            continue
        for text in files.values():
            load("generated_corrupted", text)
