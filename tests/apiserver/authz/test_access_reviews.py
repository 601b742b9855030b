from typing import Any

import pytest

from levelset.apiserver.authn.authenticator import ADMIN, Authenticator, User
from levelset.apiserver.authz.access_reviews import evaluate_review, is_review
from levelset.apiserver.registry.builtin.kind_table import builtin_kinds
from levelset.apiserver.resources.catalog import Catalog
from levelset.apiserver.resources.server_state import ServerState
from levelset.errors import BadRequest, Invalid
from levelset.storage import MemoryStorage

STRANGER = User("alice", ("system:authenticated",), "u-1")
CATALOG = Catalog(builtin_kinds())


def status(kind: str, spec: dict[str, Any], caller: User = ADMIN, group: str = "authorization.k8s.io") -> Any:
    state = ServerState(MemoryStorage(), CATALOG, authenticator=Authenticator({"secret": STRANGER}))
    served = CATALOG.by_gvk(group, "v1", kind)
    assert served is not None
    return evaluate_review(state, served, {"kind": kind, "metadata": {}, "spec": spec}, caller)["status"]


def test_reviews_are_evaluated_and_all_other_kinds_stored() -> None:
    reviews = [served.kind for served in CATALOG.all() if is_review(served)]
    assert len(reviews) == 6
    assert all(kind.endswith("Review") for kind in reviews)


@pytest.mark.parametrize(("caller", "allowed"), [(ADMIN, True), (STRANGER, False)])
def test_without_rbac_masters_may_do_everything_and_others_nothing(caller: User, allowed: bool) -> None:
    assert status("SelfSubjectAccessReview", {"resourceAttributes": {}}, caller)["allowed"] is allowed
    assert bool(status("SelfSubjectRulesReview", {"namespace": "x"}, caller)["resourceRules"]) is allowed


def test_access_of_another_user_can_be_reviewed() -> None:
    spec: dict[str, Any] = {"user": "x", "resourceAttributes": {"verb": "get", "resource": "pods"}}
    assert status("SubjectAccessReview", {**spec, "groups": ["system:masters"]})["allowed"]
    assert not status("SubjectAccessReview", spec)["allowed"]
    assert not status("LocalSubjectAccessReview", {**spec, "groups": ["other"]})["allowed"]


@pytest.mark.parametrize(
    ("kind", "spec", "field"),
    [
        ("SelfSubjectAccessReview", {}, "spec.resourceAttributes"),
        ("SelfSubjectAccessReview", {"resourceAttributes": {}, "nonResourceAttributes": {}}, "spec.nonResource"),
        ("SubjectAccessReview", {"resourceAttributes": {}}, "spec.user"),
        ("LocalSubjectAccessReview", {"user": "x", "nonResourceAttributes": {}}, "spec.nonResource"),
        ("LocalSubjectAccessReview", {"user": "x", "resourceAttributes": {"namespace": "b"}}, "attributes.namespace"),
    ],
)
def test_a_contradictory_review_is_invalid(kind: str, spec: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as caught:
        status(kind, spec)
    assert any(field.lower() in cause.field.lower() for cause in caught.value.causes)


@pytest.mark.parametrize(
    ("selector", "problem"),
    [
        ({"labelSelector": {"requirements": [{"key": "a", "operator": "Odd"}]}}, "labelSelector ignored"),
        (
            {"labelSelector": {"requirements": [{"key": "a", "operator": "Odd"}, {"key": "a", "operator": "Exists"}]}},
            "labelSelector partially ignored",
        ),
        ({"labelSelector": {"requirements": [{"key": "a", "operator": "In", "values": ["b"]}]}}, ""),
        ({"fieldSelector": {"requirements": [{"key": "a", "operator": "Exists"}]}}, "fieldSelector ignored"),
        (
            {"fieldSelector": {"requirements": [{"key": "a"}, {"key": "b", "operator": "In", "values": ["c"]}]}},
            "fieldSelector partially ignored",
        ),
    ],
)
def test_a_selector_that_cannot_be_parsed_is_ignored_with_a_remark(selector: Any, problem: str) -> None:
    found = status("SubjectAccessReview", {"user": "x", "resourceAttributes": {"verb": "get", **selector}})
    expected = f"spec.resourceAttributes.{problem} due to parse error" if problem else None
    assert found.get("evaluationError") == expected


def test_a_self_subject_review_returns_the_user() -> None:
    user = status("SelfSubjectReview", {}, STRANGER, "authentication.k8s.io")["userInfo"]
    assert user == {"username": "alice", "groups": ["system:authenticated"], "uid": "u-1"}


def test_a_token_review_returns_the_user_of_the_token() -> None:
    found = status("TokenReview", {"token": "secret"}, ADMIN, "authentication.k8s.io")
    assert (found["authenticated"], found["user"]["username"]) == (True, "alice")
    assert not status("TokenReview", {"token": "other"}, ADMIN, "authentication.k8s.io").get("authenticated")
    for token in ("", None):
        with pytest.raises(BadRequest, match="token is required"):
            status("TokenReview", {"token": token}, ADMIN, "authentication.k8s.io")


def test_a_static_token_is_valid_only_for_the_audience_of_the_server() -> None:
    found = status("TokenReview", {"token": "secret", "audiences": ["vault"]}, ADMIN, "authentication.k8s.io")
    assert found == {"user": {}, "error": "invalid bearer token"}
