"""Annotations that name profiles of seccomp and AppArmor: what they set in a new Pod, and what they are warned of."""

from typing import Any

import pytest

from levelset.apiserver.registry.builtin.object_warnings import object_warnings
from levelset.apiserver.registry.builtin.pods import (
    APP_ARMOR_CONTAINER,
    SECCOMP_CONTAINER,
    SECCOMP_POD,
    set_app_armor_profiles,
    warn_of_new_pod,
)

NOTE = f"{APP_ARMOR_CONTAINER}main"
DEPRECATED = 'deprecated since v1.30; use the "appArmorProfile" field instead'
IGNORED = 'non-functional in v1.27+; use the "seccompProfile" field instead'


def pod(note: str | None, **spec: Any) -> dict[str, Any]:
    notes = {} if note is None else {"annotations": {NOTE: note}}
    return {"metadata": {"name": "a", **notes}, "spec": {"containers": [{"name": "main"}], **spec}}


@pytest.mark.parametrize(
    ("note", "profile"),
    [
        ("unconfined", {"type": "Unconfined"}),
        ("runtime/default", {"type": "RuntimeDefault"}),
        ("localhost/a", {"type": "Localhost", "localhostProfile": "a"}),
    ],
)
def test_an_annotation_without_a_field_sets_it_and_is_warned_of(note: str, profile: dict[str, str]) -> None:
    made = pod(note)
    assert list(warn_of_new_pod(made)) == [f"metadata.annotations[{NOTE}]: {DEPRECATED}"]
    set_app_armor_profiles(made)
    assert made["spec"]["containers"] == [{"name": "main", "securityContext": {"appArmorProfile": profile}}]


@pytest.mark.parametrize("note", ["", "odd", "localhost/", "localhost/ a", f"localhost/{'a' * 4096}"])
def test_an_annotation_that_names_no_profile_is_warned_of_and_sets_nothing(note: str) -> None:
    made = pod(note)
    assert list(warn_of_new_pod(made)) == [f"metadata.annotations[{NOTE}]: {DEPRECATED}"]
    set_app_armor_profiles(made)
    assert made == pod(note)


def test_an_annotation_that_says_what_a_field_says_or_is_of_windows_is_not_warned_of() -> None:
    shared = {"securityContext": {"appArmorProfile": {"type": "Unconfined"}}}
    own = {"containers": [{"name": "main", **shared}]}
    for made in (pod("unconfined", **shared), pod("odd", **own), pod("odd", os={"name": "windows"}), pod(None)):
        assert list(warn_of_new_pod(made)) == []


def test_the_annotations_of_a_template_are_warned_of() -> None:
    warner = object_warnings("apps", "Deployment")
    assert warner is not None
    notes = {SECCOMP_POD: "unconfined", f"{SECCOMP_CONTAINER}main": "unconfined", NOTE: "unconfined"}
    template = {**pod(None), "metadata": {"annotations": notes}}
    place = "spec.template.metadata.annotations"
    assert list(warner({"metadata": {"name": "a"}, "spec": {"template": template}}, None)) == [
        f"{place}[{SECCOMP_POD}]: {IGNORED}",
        f"{place}[{SECCOMP_CONTAINER}main]: {IGNORED}",
        f"{place}[{NOTE}]: {DEPRECATED}",
    ]
    fields = {"seccompProfile": {"type": "Unconfined"}, "appArmorProfile": {"type": "Unconfined"}}
    template["spec"] = {"containers": [{"name": "main", "securityContext": fields}], "securityContext": fields}
    assert list(warner({"metadata": {"name": "a"}, "spec": {"template": template}}, None)) == []
