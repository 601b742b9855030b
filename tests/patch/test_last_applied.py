from typing import Any

import msgspec
import pytest

from levelset.errors import ApplyConflict
from levelset.patch.field_paths import path
from levelset.patch.field_sets import EMPTY
from levelset.patch.last_applied import LAST_APPLIED, fields_last_applied, refresh_last_applied
from tests.patch.widgets import VERSION, WIDGET, WidgetStore, widget


def annotated(spec: Any, applied: Any) -> dict[str, Any]:
    text = applied if isinstance(applied, str) else msgspec.json.encode(applied).decode()
    return widget(spec, metadata={"annotations": {LAST_APPLIED: text}})


def client_side(spec: Any) -> WidgetStore:
    """A store in which kubectl applied `spec` client-side."""
    store = WidgetStore()
    store.write_object("kubectl-client-side-apply", annotated(spec, widget(spec)))
    return store


def annotation(store: WidgetStore) -> Any:
    assert store.live is not None
    return msgspec.json.decode(store.live["metadata"]["annotations"][LAST_APPLIED])


def test_applied_fields_that_are_live_are_covered() -> None:
    live = annotated({"color": "red", "size": 2}, widget({"color": "red", "size": 1}))
    covered = fields_last_applied(live, shape=WIDGET, api_version=VERSION)
    assert path("spec", "color") in covered
    assert path("spec", "size") not in covered


@pytest.mark.parametrize(
    "applied",
    [
        "",
        "{",
        "[]",
        "null",
        "\ud800",
        {**widget({"color": "red"}), "apiVersion": "v2"},
        widget({"items": [{"v": "1"}]}),
    ],
)
def test_an_annotation_that_cannot_be_used_covers_nothing(applied: Any) -> None:
    live = annotated({"color": "red"}, applied)
    assert fields_last_applied(live, shape=WIDGET, api_version=VERSION) == EMPTY


def test_without_an_annotation_nothing_is_covered() -> None:
    assert fields_last_applied(widget({}), shape=WIDGET, api_version=VERSION) == EMPTY
    assert fields_last_applied({"metadata": []}, shape=WIDGET, api_version=VERSION) == EMPTY


def test_kubectl_may_change_fields_that_it_applied_client_side() -> None:
    store = client_side({"color": "red", "size": 1})
    store.apply("kubectl", {"color": "blue", "size": 1})
    assert store.spec == {"color": "blue", "size": 1}
    assert store.owned()["kubectl"] == {"f:spec": {"f:color": {}, "f:size": {}}}
    assert "f:color" not in store.owned()["kubectl-client-side-apply!"]["f:spec"]


def test_the_annotation_follows_server_side_apply() -> None:
    store = client_side({"color": "red"})
    store.apply("kubectl", {"color": "blue"})
    assert annotation(store) == widget({"color": "blue"})
    store.apply("kubectl", {"color": "blue"})
    assert not store.changed


def test_a_field_that_another_manager_changed_is_still_a_conflict() -> None:
    store = client_side({"color": "red", "size": 1})
    live = store.live or {}
    store.write_object("edit", {**live, "spec": {"color": "green", "size": 1}})
    with pytest.raises(ApplyConflict) as caught:
        store.apply("kubectl", {"color": "blue", "size": 2})
    assert [(one.manager, one.field) for one in caught.value.conflicts] == [("edit", ".spec.color")]


def test_for_other_managers_every_conflict_counts() -> None:
    store = client_side({"color": "red"})
    with pytest.raises(ApplyConflict):
        store.apply("me", {"color": "blue"})
    store.apply("me", {"size": 1})
    assert annotation(store) == widget({"color": "red"})


def test_without_an_annotation_none_is_written() -> None:
    store = WidgetStore()
    store.apply("kubectl", {"color": "red"})
    store.apply("kubectl", {"color": "blue"})
    assert store.live is not None
    assert "annotations" not in store.live["metadata"]


def test_the_annotation_excludes_itself_and_ends_with_a_newline() -> None:
    old = annotated({}, "old")
    config = annotated({"size": 1, "color": "red"}, "mine")
    done = refresh_last_applied(old, config)
    text = done["metadata"]["annotations"][LAST_APPLIED]  # type: ignore[index, call-overload]  # a map, as above
    assert text == (
        f'{{"apiVersion":"{VERSION}","kind":"Widget","metadata":{{"annotations":{{}},"name":"a"}},'
        '"spec":{"color":"red","size":1}}\n'
    )


def test_an_annotation_that_would_be_too_large_is_dropped() -> None:
    done = refresh_last_applied(annotated({}, "old"), widget({"color": "x" * 300_000}))
    assert done["metadata"] == {"name": "a", "annotations": {}}
