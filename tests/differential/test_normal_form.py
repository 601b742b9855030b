"""The normal form of answers: what differs between two runs is gone, and everything else is compared."""

import json
from datetime import UTC, datetime
from typing import Any

from tests.differential import intended
from tests.differential.normal_form import Answer, Known, decoded, differences, normal_form, signature

UID = "0b0c1d2e-0000-4000-8000-1234567890ab"
NOW = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def normal(tree: Any, status: int = 200, headers: tuple[tuple[str, str], ...] = ()) -> Any:
    known = Known("x12345678")
    answer = Answer(status, (("content-type", "application/json"), *headers), json.dumps(tree).encode())
    body = decoded(answer)
    known.learn(1, body)
    return normal_form(answer, body, known)


def test_ids_times_revisions_and_generated_names_are_replaced():
    metadata = {"name": "a-x7k2p", "generateName": "a-", "uid": UID, "resourceVersion": "17", "creationTimestamp": NOW}
    found = normal({"metadata": {**metadata, "namespace": "ns-x12345678"}, "text": f"{UID} of a-x7k2p"})
    assert found["body"] == {
        "metadata": {
            "name": "a-<generated>",
            "generateName": "a-",
            "uid": "<uid>",
            "resourceVersion": "<rv>",
            "creationTimestamp": "<time>",
            "namespace": "ns-<id>",
        },
        "text": "<uid> of a-<generated>",
    }


def test_a_time_of_the_client_and_a_version_that_is_no_number_stay():
    found = normal({"metadata": {"resourceVersion": "odd"}, "spec": {"since": "2020-01-02T03:04:05Z"}})
    assert found["body"] == {"metadata": {"resourceVersion": "odd"}, "spec": {"since": "2020-01-02T03:04:05Z"}}


def test_warnings_are_compared_in_their_order_and_other_headers_are_not():
    found = normal({}, headers=(("warning", "one"), ("audit-id", UID), ("warning", "two")))
    assert found["warning"] == ["one", "two"]
    assert "audit-id" not in found


def test_causes_have_no_order_and_the_words_about_unreadable_bodies_are_left_out():
    causes = [{"field": name, "message": "Required value", "reason": "R"} for name in ("b", "a")]
    status = {"kind": "Status", "message": 'X "a" is invalid: many', "reason": "Invalid", "details": {"causes": causes}}
    found = normal(status, 422)["body"]
    assert [one["field"] for one in found["details"]["causes"]] == ["a", "b"]
    assert found["message"] == 'X "a"'
    assert "message" not in normal({"kind": "Status", "code": 400, "message": "json: cannot unmarshal"}, 400)["body"]


def test_placeholders_are_those_of_the_answers_before():
    known = Known("x1")
    known.learn(2, {"metadata": {"resourceVersion": "5", "uid": UID}})
    assert known.fill({"a": ["${rv2}", "${uid2}", "${rv9}", "${ns}", "${id}", "${x}"]}) == {
        "a": ["5", UID, "1", "ns-x1", "x1", "${x}"]
    }


def test_a_difference_names_its_place_and_tells_zero_from_false():
    found = list(differences({"a": [{"b": 1}], "c": 0}, {"a": [{"b": 2}], "c": False, "d": 1}))
    assert found == [("a[0].b", 1, 2), ("c", 0, False), ("d", "<absent>", 1)]


def test_differences_of_one_cause_have_one_signature():
    step = {"do": "POST /api/v1/namespaces/${ns}/pods"}
    ours = {"status": 201, "body": {"kind": "Pod"}}
    causes = [
        {"field": f"spec.containers[{number}].name", "message": f'Duplicate value: "{number}"'} for number in (1, 2)
    ]
    theirs = [{"status": 422, "body": {"kind": "Status", "details": {"causes": [one]}}} for one in causes]
    first, second = (signature(step, one, ours) for one in theirs)
    assert first == second == "pods POST 422 spec.containers[].name: Duplicate value: _ / 201 Pod"


def test_an_intended_difference_has_a_reason_and_another_one_has_none():
    step = {"do": "POST /apis/storage.k8s.io/v1/volumeattributesclasses"}
    theirs = {"status": 201, "body": {"metadata": {"finalizers": ["kubernetes.io/vac-protection"]}}}
    assert "finalizer" in intended.reason(step, theirs, {"status": 201, "body": {"metadata": {}}})
    assert intended.reason(step, theirs, {"status": 422, "body": {}}) == ""


def test_what_has_no_order_in_go_is_sorted():
    formats = [("warning", f'299 - "unrecognized format \\"{one}\\""') for one in "ba"]
    found = normal({}, headers=(("warning", "first"), *formats))["warning"]
    assert [one[:5] for one in found] == ["first", "299 -", "299 -"]
    assert found[1:] == sorted(found[1:])
    cause = {"field": "spec.template.spec.volumes[1].name", "message": "Required value", "reason": "R"}
    status = {
        "kind": "Status",
        "reason": "Invalid",
        "message": "",
        "details": {"kind": "StatefulSet", "causes": [cause]},
    }
    assert normal(status, 422)["body"]["details"]["causes"][0]["field"] == "spec.template.spec.volumes[].name"


def test_the_random_name_of_a_type_is_left_out():
    cause = {"field": "a", "message": "no overload for '(selfType731396660.spec, int)'", "reason": "R"}
    status = {"kind": "Status", "reason": "Invalid", "message": "", "details": {"causes": [cause]}}
    assert "(selfType.spec, int)" in normal(status, 422)["body"]["details"]["causes"][0]["message"]


def test_parameters_in_other_bytes_may_be_refused_as_a_change():
    step = {"do": "PATCH /apis/resource.k8s.io/v1/namespaces/${ns}/resourceclaims/a"}
    cause = {"field": "spec", "message": "Invalid value: <value>: field is immutable"}
    theirs = {"status": 422, "body": {"details": {"causes": [cause]}}}
    assert "bytes" in intended.reason(step, theirs, {"status": 200, "body": {"spec": {"parameters": {}}}})
    assert intended.reason(step, theirs, {"status": 200, "body": {"spec": {}}}) == ""
