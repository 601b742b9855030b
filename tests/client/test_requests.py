"""The requests of the verbs, and their selectors."""

from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelset.client import requests
from levelset.client.client import ClientSettings
from levelset.client.requests import Target, read_fields, read_labels
from levelset.errors import BadName, BadSelector
from levelset.objects import FieldSelector, LabelSelector, definition_of
from tests.client.fixtures import ConfigMap, Namespace, Website, open_client, website

SITE = definition_of(Website)
TARGET = Target(SITE, "default", "blog")


@pytest.mark.parametrize(
    ("target", "path", "words"),
    [
        (Target(SITE), "/apis/example.dev/v1/websites", "list Website in all namespaces"),
        (Target(SITE, "a"), "/apis/example.dev/v1/namespaces/a/websites", "list Website in a"),
        (TARGET, "/apis/example.dev/v1/namespaces/default/websites/blog", "list Website/default/blog"),
        (
            Target(SITE, "a", "b", "status"),
            "/apis/example.dev/v1/namespaces/a/websites/b/status",
            "list Website/a/b/status",
        ),
        (Target(definition_of(ConfigMap), "a", "b"), "/api/v1/namespaces/a/configmaps/b", "list ConfigMap/a/b"),
        (Target(definition_of(Namespace), None, "a"), "/api/v1/namespaces/a", "list Namespace/a"),
        (Target(definition_of(Namespace)), "/api/v1/namespaces", "list Namespace"),
        (Target(SITE, "a", "b", "proxy/x y"), "/apis/example.dev/v1/namespaces/a/websites/b/proxy/x%20y", None),
        (Target(SITE, "a", "system:b?#é"), "/apis/example.dev/v1/namespaces/a/websites/system:b%3F%23%C3%A9", None),
    ],
)
def test_the_path_and_the_description_of_a_call_agree(target: Target, path: str, words: str | None) -> None:
    assert target.path == path
    if words is not None:
        assert target.describe("list") == words


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "%2e%2e", "../../secrets/x"])
def test_a_name_that_would_change_the_path_is_refused(name: str) -> None:  # kube-rs 87
    for target in (Target(SITE, "a", name), Target(SITE, name, "a"), Target(SITE, "a", "b", f"{name}/..")):
        with pytest.raises(BadName):
            _ = target.path


def test_selectors_are_encoded_into_the_query() -> None:
    labels, fields = LabelSelector.parse("app in (a,b),!c"), FieldSelector.of({"metadata.name": "a,b=c&d"})
    call = requests.list_(Target(SITE), labels=labels, fields=fields, limit=5, timeout=1)
    assert call.query.split("&") == [
        "labelSelector=app%20in%20(a,b),!c",
        "fieldSelector=metadata.name%3Da%5C,b%5C%3Dc%26d",
        "limit=5",
    ]


def test_empty_selectors_are_not_sent() -> None:
    call = requests.list_(Target(SITE), labels="", fields={}, timeout=1)
    assert (call.query, call.verb, call.method) == ("", "list", "GET")


def test_a_watch_requests_bookmarks_and_is_streamed() -> None:
    call = requests.watch(Target(SITE), version="7", seconds=290.9, timeout=1)
    assert call.query == "watch=true&resourceVersion=7&timeoutSeconds=290&allowWatchBookmarks=true"
    assert (call.is_stream, call.words) == (True, "watch Website in all namespaces")
    assert "allowWatchBookmarks" not in requests.watch(Target(SITE), bookmarks=False, timeout=1).query


def test_writes_send_field_manager_field_validation_and_dry_run() -> None:
    call = requests.update(TARGET, b"{}", ClientSettings(manager="me & you", validation="Strict", dry_run=True))
    assert call.query == "fieldManager=me%20%26%20you&fieldValidation=Strict&dryRun=All"
    assert (call.method, call.body, call.headers["content-type"]) == ("PUT", b"{}", "application/json")


def test_an_apply_is_a_patch_that_is_described_as_an_apply() -> None:
    call = requests.patch(TARGET, b"{}", "application/apply-patch+yaml", ClientSettings(), force=False)
    assert (call.method, call.verb, call.words) == ("PATCH", "patch", "apply Website/default/blog")
    assert call.query == "fieldManager=levelset&force=false"


@pytest.mark.parametrize("name", [5, b"a", "\ud800", ["a"]], ids=ascii)
def test_a_name_that_is_not_a_string_is_refused(name: Any) -> None:
    with pytest.raises(BadName, match="is not a name of a Website: give a string"):
        assert Target(SITE, "a", name).path


@given(
    st.text(st.characters(codec="utf-8", exclude_characters="/%"), min_size=1).filter(lambda it: it not in {".", ".."})
)
def test_a_name_is_percent_encoded_in_a_path(name: str) -> None:
    path = Target(definition_of(Website), "default", name).path
    assert path == f"/apis/example.dev/v1/namespaces/default/websites/{quote(name, safe=':')}"


def test_forced_and_unforced_applies_have_their_own_query() -> None:
    target = Target(definition_of(Website), "default", "blog")
    said = [
        requests.patch(target, b"{}", "application/json", ClientSettings(manager="m"), force=force).query
        for force in (True, False, None, True)
    ]
    assert said == ["fieldManager=m&force=true", "fieldManager=m&force=false", "fieldManager=m", said[0]]


ODD: list[Any] = [5, True, ["a=b"], b"a=b", object()]


def test_a_selector_is_a_string_a_mapping_or_a_value() -> None:
    assert read_labels("a=b") == read_labels({"a": "b"}) == read_labels(LabelSelector.parse("a=b"))
    assert read_fields("a=b") == read_fields({"a": "b"}) == read_fields(FieldSelector.parse("a=b"))
    assert (read_labels(None), read_fields(None)) == (None, None)


@pytest.mark.parametrize("given", ODD, ids=repr)
def test_anything_else_is_refused_and_not_converted_to_a_string(given: Any) -> None:
    with pytest.raises(BadSelector, match="is not a label selector: give a string"):
        read_labels(given)
    with pytest.raises(BadSelector, match="is not a field selector: give a string"):
        read_fields(given)


async def test_a_delete_with_an_invalid_selector_deletes_nothing() -> None:
    async with open_client() as client:
        await client.create(website("blog", labels={"5": "a"}))
        number: Any = 5
        with pytest.raises(BadSelector):
            await client.delete_collection(Website, namespace="default", labels=number)
        assert len(await client.list(Website)) == 1
