"""The state that invariants see: typed objects at one revision."""

import pytest

from levelset import Object, Ref
from levelset.errors import NotFound
from levelset.objects.ref import GroupVersionKind
from levelset.testing.explore import State


class Settings(Object, api="v1", kind="ConfigMap"):
    data: dict[str, str] = {}


CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")


def put(state: State, name: str, *, namespace: str = "test", version: str = "1", **data: str) -> None:
    metadata = {"name": name, "namespace": namespace, "resourceVersion": version, "labels": {"size": str(len(name))}}
    tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    state.put(("", "ConfigMap", namespace, name), tree)


def test_objects_are_listed_by_namespace_and_name() -> None:
    state = State()
    for name, namespace in (("b", "test"), ("a", "test"), ("c", "other")):
        put(state, name, namespace=namespace)
    assert [one.name for one in state.list(Settings)] == ["c", "a", "b"]
    assert [one.name for one in state.list(Settings, namespace="test")] == ["a", "b"]
    assert [one.name for one in state.list(CONFIG_MAP)] == ["c", "a", "b"]


def test_labels_select() -> None:
    state = State()
    put(state, "a")
    put(state, "bb")
    assert [one.name for one in state.list(Settings, labels="size=2")] == ["bb"]


def test_an_object_is_found_by_reference_in_its_current_version() -> None:
    state = State()
    put(state, "a", x="1")
    assert state.get(Ref(Settings, "a", "test")).data == {"x": "1"}
    put(state, "a", version="2", x="2")
    assert state.get(Ref(Settings, "a", "test")).data == {"x": "2"}
    assert state.get(Ref(Settings, "a")).data == {"x": "2"}
    state.put(("", "ConfigMap", "test", "a"), None)
    assert state.find(Ref(Settings, "a", "test")) is None
    with pytest.raises(NotFound, match="ConfigMap/test/a"):
        state.get(Ref(Settings, "a", "test"))


def test_the_outside_is_available() -> None:
    assert State({"a"}).outside == {"a"}
