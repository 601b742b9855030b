import json
from typing import Any

import pytest

from levelset.apiserver.admission.webhooks import (
    InvalidWebhookResponse,
    Webhook,
    encode_review,
    read_review_response,
    read_webhook,
)


def hook(*versions: str, mutates: bool = True) -> Webhook:
    one = {"name": "a.example.com", "admissionReviewVersions": list(versions)}
    return read_webhook(one, mutates=mutates)


def answer(response: Any, version: str = "v1") -> bytes:
    return json.dumps(
        {"apiVersion": f"admission.k8s.io/{version}", "kind": "AdmissionReview", "response": response}
    ).encode()


def test_a_review_is_sent_in_the_first_supported_version() -> None:
    review = json.loads(encode_review(hook("v7", "v1beta1", "v1"), {"uid": "1"}))
    assert review == {"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview", "request": {"uid": "1"}}


def test_a_response_is_returned_with_its_fields() -> None:
    read = read_review_response(hook("v1"), "1", answer({"uid": "1", "allowed": True, "warnings": ["a", 5]}))
    assert read == {"uid": "1", "allowed": True, "warnings": ["a"]}


def test_a_v1beta1_response_needs_neither_type_nor_uid() -> None:
    body = json.dumps({"response": {"allowed": True, "patch": "W10="}}).encode()
    read = read_review_response(hook("v1beta1"), "1", body)
    assert read == {"uid": "1", "allowed": True, "patch": "W10=", "patchType": "JSONPatch"}


def test_only_allowed_true_allows() -> None:
    others: list[Any] = ["yes", 1, None, {}]
    for given in others:
        assert read_review_response(hook("v1"), "1", answer({"uid": "1", "allowed": given}))["allowed"] is False


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
def test_invalid_responses_are_rejected(body: bytes) -> None:
    with pytest.raises(InvalidWebhookResponse):
        read_review_response(hook("v1"), "1", body)


def test_a_validating_webhook_cannot_return_a_patch() -> None:
    body = answer({"uid": "1", "allowed": True, "patch": "W10=", "patchType": "JSONPatch"})
    with pytest.raises(InvalidWebhookResponse, match="validating webhook may not return"):
        read_review_response(hook("v1", mutates=False), "1", body)
