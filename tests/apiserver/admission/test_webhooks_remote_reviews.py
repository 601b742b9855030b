import json
from typing import Any

import pytest

from levelset.apiserver.admission.webhooks import BadAnswer, RemoteWebhook, read_answer, read_webhooks, write_review


def hook(*versions: str, mutates: bool = True) -> RemoteWebhook:
    one = {"name": "a.example.com", "admissionReviewVersions": list(versions)}
    (made,) = read_webhooks({"metadata": {"name": "c"}, "webhooks": [one]}, mutates=mutates)
    return made


def answer(response: Any, version: str = "v1") -> bytes:
    return json.dumps(
        {"apiVersion": f"admission.k8s.io/{version}", "kind": "AdmissionReview", "response": response}
    ).encode()


def test_a_review_is_written_in_the_first_version_that_both_know() -> None:
    review = json.loads(write_review(hook("v7", "v1beta1", "v1"), {"uid": "1"}))
    assert review == {"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview", "request": {"uid": "1"}}


def test_a_response_comes_with_what_it_says() -> None:
    read = read_answer(hook("v1"), "1", answer({"uid": "1", "allowed": True, "warnings": ["a", 5]}))
    assert read == {"uid": "1", "allowed": True, "warnings": ["a"]}


def test_an_old_response_needs_neither_type_nor_uid() -> None:
    body = json.dumps({"response": {"allowed": True, "patch": "W10="}}).encode()
    read = read_answer(hook("v1beta1"), "1", body)
    assert read == {"uid": "1", "allowed": True, "patch": "W10=", "patchType": "JSONPatch"}


def test_nothing_but_true_allows() -> None:
    others: list[Any] = ["yes", 1, None, {}]
    for given in others:
        assert read_answer(hook("v1"), "1", answer({"uid": "1", "allowed": given}))["allowed"] is False


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff",
        b"[" * 100_000,
        answer(None),
        answer([]),
        answer({"uid": "2"}),
        answer({"uid": "1"}, "v2"),
        answer({"uid": "1", "patch": 5, "patchType": "JSONPatch"}),
        answer({"uid": "1", "auditAnnotations": []}),
    ],
)
def test_what_is_no_answer_is_refused(body: bytes) -> None:
    with pytest.raises(BadAnswer):
        read_answer(hook("v1"), "1", body)


def test_a_webhook_that_validates_may_not_change() -> None:
    body = answer({"uid": "1", "allowed": True, "patch": "W10=", "patchType": "JSONPatch"})
    with pytest.raises(BadAnswer, match="validating webhook may not return"):
        read_answer(hook("v1", mutates=False), "1", body)
