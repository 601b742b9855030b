import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from levelset.apiserver.package_data import read_data
from levelset.apiserver.registry.builtin.kind_table import builtin_kinds
from levelset.apiserver.registry.selectors import selection_of
from levelset.apiserver.resources.catalog import Catalog
from levelset.apiserver.verbs import response_format
from levelset.apiserver.verbs.watch_feeds import Encoder, Topic, error_event
from levelset.errors import Expired
from levelset.storage import Change, Item

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KEY = "/registry/core/configmaps/n/a"

read_data()


def item(revision: int, label: str = "0", key: str = KEY) -> Item:
    metadata = {"name": key.rpartition("/")[2], "namespace": "n", "labels": {"l": label}}
    tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"k": "v"}}
    return Item(key, json.dumps(tree, separators=(",", ":")).encode(), revision, 1, 1)


def topic(form: response_format.Form | None = None, floor: int = 0, **parameters: str) -> Topic:
    served = Catalog(builtin_kinds()).find("", "v1", "configmaps")
    assert served is not None
    selection = selection_of(served, {name: (value,) for name, value in parameters.items()})
    return Topic(served, "n", selection, form, floor)


def told(event: bytes | None) -> Any:
    assert event is None or (event.endswith(b"\n") and event.count(b"\n") == 1)
    return None if event is None else json.loads(event)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, item(2), "ADDED"),
        (item(1), item(2), "MODIFIED"),
        (item(1), None, "DELETED"),
    ],
)
def test_a_change_is_an_event(before: Item | None, after: Item | None, expected: str) -> None:
    event = told(Encoder(topic(), lambda: NOW).change(Change(2, KEY, before, after)))
    assert (event["type"], event["object"]["metadata"]["resourceVersion"]) == (expected, "2")
    assert event["object"]["data"] == {"k": "v"}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, "1", "ADDED"),
        (None, "0", None),
        ("0", "1", "ADDED"),
        ("1", "1", "MODIFIED"),
        ("1", "0", "DELETED"),
        ("0", "0", None),
        ("1", None, "DELETED"),
        ("0", None, None),
    ],
)
def test_a_selector_sees_objects_enter_and_leave(before: str | None, after: str | None, expected: str | None) -> None:
    old = None if before is None else item(1, before)
    new = None if after is None else item(2, after)
    event = told(Encoder(topic(labelSelector="l=1"), lambda: NOW).change(Change(2, KEY, old, new)))
    assert (event and event["type"]) == expected
    if event:
        assert event["object"]["metadata"]["labels"] == {"l": "1"}
        assert event["object"]["metadata"]["resourceVersion"] == "2"


def test_what_a_watcher_knows_from_the_future_is_not_told_again() -> None:
    encoder = Encoder(topic(floor=5), lambda: NOW)
    assert encoder.change(Change(5, KEY, None, item(5))) is None
    assert encoder.change(Change(6, KEY, None, item(6))) is not None


def test_a_deleted_object_of_an_older_schema_is_brought_up_to_date() -> None:
    watched = topic()
    newer = replace(watched, served=replace(watched.served, since=2))
    event = told(Encoder(newer, lambda: NOW).change(Change(3, KEY, item(1), None)))
    assert (event["type"], event["object"]["metadata"]["resourceVersion"]) == ("DELETED", "3")


def test_a_name_narrows_what_is_looked_at() -> None:
    assert topic(fieldSelector="metadata.name=a").prefix == KEY
    assert topic(fieldSelector="metadata.name!=a").prefix == "/registry/core/configmaps/n/"
    everywhere = replace(topic(fieldSelector="metadata.name=a"), namespace=None)
    assert everywhere.prefix == "/registry/core/configmaps/"


def test_topics_that_ask_for_the_same_are_equal() -> None:
    one = topic(labelSelector="a=1,b=2")
    assert replace(one) == one
    assert hash(replace(one)) == hash(one)
    assert replace(one, form=response_format.form_of(response_format.TABLE)) != one


@pytest.mark.parametrize(
    "form", [None, response_format.form_of(response_format.METADATA), response_format.form_of(response_format.TABLE)]
)
def test_a_bookmark_has_a_version_and_no_name(form: response_format.Form | None) -> None:
    tree = told(Encoder(topic(form), lambda: NOW).bookmark(7, ends_initial=True, headed=True))["object"]
    if form is not None and form.kind == response_format.TABLE:
        assert tree["metadata"] == {"resourceVersion": "7"}
        tree = tree["rows"][0]["object"]
    assert tree["metadata"]["resourceVersion"] == "7"
    assert tree["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert "name" not in tree["metadata"]


def test_an_error_is_a_status() -> None:
    event = told(error_event(Expired("too old")))
    assert (event["type"], event["object"]["kind"], event["object"]["code"]) == ("ERROR", "Status", 410)
