"""Generated sequences: reproducible, about every kind, and only tried where an object would change later answers."""

import json
from collections import Counter

from levelset.apiserver.registry.builtin.kind_table import builtin_kinds
from tests.differential import corpus
from tests.differential.grammar import sequence

KNOWN = corpus.load()
SEQUENCES = [sequence(KNOWN, f"test-{number}") for number in range(400)]
STEPS = [step for steps in SEQUENCES for step in steps]


def test_the_same_seed_gives_the_same_sequence_and_another_seed_another_one():
    assert sequence(KNOWN, "a") == sequence(KNOWN, "a")
    assert sequence(KNOWN, "a") != sequence(KNOWN, "b")


def test_requests_are_made_for_every_built_in_kind_and_for_the_definitions():
    kinds = {(one.group, one.kind) for one in KNOWN.kinds}
    assert {(one.group, one.kind) for one in builtin_kinds()} - kinds == {("", "ComponentStatus")}
    assert {one.kind for one in KNOWN.kinds if one.custom} == {"Widget", "Gadget", "Parcel"}


def test_all_verbs_patch_types_and_subresources_occur():
    methods = Counter(step["do"].split()[0] for step in STEPS if "do" in step)
    assert methods.keys() >= {"GET", "POST", "PUT", "PATCH", "DELETE"}
    assert {step.get("type") for step in STEPS} >= {"json", "merge", "strategic", "apply", "yaml"}
    paths = [step["do"] for step in STEPS if "do" in step]
    assert any(path.endswith("/status") for path in paths)
    assert any(path.endswith("/scale") for path in paths)
    assert any("watch" in step for step in STEPS)


def test_objects_that_would_change_later_answers_are_only_tried():
    plurals = {one.plural for one in KNOWN.kinds if one.is_dry}
    for step in STEPS:
        method, _, path = step.get("do", "").partition(" ")
        if method == "POST" and path.rpartition("/")[2] in plurals:
            assert step["query"]["dryRun"] == "All", step


def test_every_sequence_is_json_and_stays_in_its_namespace_or_uses_its_id():
    for steps in SEQUENCES:
        json.dumps(steps)
        for step in steps:
            path = step.get("watch") or step["do"].partition(" ")[2]
            assert "/namespaces/builtin/" not in path


def test_lists_of_the_whole_cluster_select_what_is_of_their_sequence():
    plurals = {one.plural for one in KNOWN.kinds if not one.namespaced}
    lists = [step for step in STEPS if step.get("do", "").startswith("GET ")]
    for step in lists:
        parts = step["do"].rstrip("/").split("/")
        if parts[-1] in plurals and (step["do"].endswith("/") or "query" in step):
            assert step["query"]["fieldSelector"].startswith("metadata.name="), step
