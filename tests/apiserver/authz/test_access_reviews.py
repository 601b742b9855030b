from typing import Any

import pytest

from levelset.apiserver.authn.authenticator import OWNER, Access, Caller
from levelset.apiserver.authz.access_reviews import answer_review, is_review
from levelset.apiserver.registry.builtin.kind_table import builtin_kinds
from levelset.apiserver.resources.catalog import Catalog
from levelset.apiserver.resources.server_state import World
from levelset.errors import Invalid
from levelset.storage import MemoryStorage

STRANGER = Caller("somebody", ("system:authenticated",), "u-1")
CATALOG = Catalog(builtin_kinds())


def status(kind: str, spec: dict[str, Any], caller: Caller = OWNER, group: str = "authorization.k8s.io") -> Any:
    world = World(MemoryStorage(), CATALOG, access=Access({"secret": STRANGER}))
    served = CATALOG.by_gvk(group, "v1", kind)
    assert served is not None
    return answer_review(world, served, {"kind": kind, "metadata": {}, "spec": spec}, caller)["status"]


def test_reviews_are_answered_and_all_else_is_stored() -> None:
    reviews = [served.kind for served in CATALOG.all() if is_review(served)]
    assert len(reviews) == 6
    assert all(kind.endswith("Review") for kind in reviews)


@pytest.mark.parametrize(("caller", "allowed"), [(OWNER, True), (STRANGER, False)])
def test_without_roles_a_master_may_do_everything_and_nobody_else_anything(caller: Caller, allowed: bool) -> None:
    assert status("SelfSubjectAccessReview", {"resourceAttributes": {}}, caller)["allowed"] is allowed
    assert bool(status("SelfSubjectRulesReview", {}, caller)["resourceRules"]) is allowed


def test_it_can_be_asked_for_somebody_else() -> None:
    asked: dict[str, Any] = {"user": "x", "resourceAttributes": {"verb": "get", "resource": "pods"}}
    assert status("SubjectAccessReview", {**asked, "groups": ["system:masters"]})["allowed"]
    assert not status("SubjectAccessReview", asked)["allowed"]
    assert not status("LocalSubjectAccessReview", {**asked, "groups": ["other"]})["allowed"]


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
def test_a_question_that_makes_no_sense_is_refused(kind: str, spec: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as caught:
        status(kind, spec)
    assert any(field.lower() in cause.field.lower() for cause in caught.value.causes)


def test_a_caller_is_told_who_it_is() -> None:
    user = status("SelfSubjectReview", {}, STRANGER, "authentication.k8s.io")["userInfo"]
    assert user == {"username": "somebody", "groups": ["system:authenticated"], "uid": "u-1"}


def test_it_is_told_whose_a_token_is() -> None:
    found = status("TokenReview", {"token": "secret"}, OWNER, "authentication.k8s.io")
    assert (found["authenticated"], found["user"]["username"]) == (True, "somebody")
    for token in ("other", "", None):
        assert not status("TokenReview", {"token": token}, OWNER, "authentication.k8s.io")["authenticated"]


def test_a_token_of_a_person_is_for_this_server_alone() -> None:
    found = status("TokenReview", {"token": "secret", "audiences": ["vault"]}, OWNER, "authentication.k8s.io")
    assert found == {"authenticated": False, "error": "invalid bearer token"}
