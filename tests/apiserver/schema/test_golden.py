"""Recorded responses of kube-apiserver to CRDs and objects, compared with direct calls."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from levelset.apiserver.schema import check_structural, compile_schema

GOLDEN = json.loads(Path(__file__).with_name("golden.json").read_text())
ROOT = "spec.versions[0].schema.openAPIV3Schema"


def names(cases: list[dict[str, Any]]) -> list[str]:
    return [f"{number}-{case['name']}" for number, case in enumerate(cases)]


@pytest.mark.parametrize("case", GOLDEN["definitions"], ids=names(GOLDEN["definitions"]))
def test_a_definition_is_judged_as_by_a_real_server(case: dict[str, Any]) -> None:
    causes = check_structural(case["schema"], ROOT)
    assert sorted([one.field, one.reason] for one in causes) == case["causes"]


@pytest.mark.parametrize("case", GOLDEN["objects"], ids=names(GOLDEN["objects"]))
def test_an_object_is_judged_as_by_a_real_server(case: dict[str, Any]) -> None:
    tree = copy.deepcopy(case["object"])
    outcome = compile_schema(case["schema"]).admit(tree, case.get("old"))
    assert (not outcome.causes) == case["valid"]
    if "causes" in case:
        assert sorted([one.field, one.reason] for one in outcome.causes) == case["causes"]
    for member in ("spec", "status"):
        if member in case:
            assert tree[member] == case[member]


@pytest.mark.parametrize("case", GOLDEN["objects"], ids=names(GOLDEN["objects"]))
def test_the_schemas_of_the_golden_objects_are_structural(case: dict[str, Any]) -> None:
    assert check_structural(case["schema"], ROOT) == []
