import pytest

from levelset.apiserver.registry.selectors import Selectors, field_value, read_selectors
from levelset.apiserver.registry.storage_codec import encode_for_storage
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.errors import BadRequest
from levelset.storage import Item

WIDGETS = ServedResource(
    "example.com", "v1", "Widget", "widgets", "widget", "WidgetList", True, "v1", custom=True, selectable=("spec.size",)
)
TREE = {
    "apiVersion": "example.com/v1",
    "kind": "Widget",
    "metadata": {"name": "a", "namespace": "x", "labels": {"env": "prod"}},
    "spec": {"size": 2},
}
STORED = Item("/k", encode_for_storage(WIDGETS, TREE), 5, 5, 1)


def select(**parameters: str) -> Selectors | None:
    found = read_selectors({name: (value,) for name, value in parameters.items()})
    return None if found is None else found.resolve(WIDGETS)


@pytest.mark.parametrize(
    ("labels", "fields", "expected"),
    [
        ("env=prod", "", True),
        ("env!=prod", "", False),
        ("!env", "", False),
        ("env", "metadata.name=a,metadata.namespace=x", True),
        ("", "metadata.name!=a", False),
        ("", "metadata.namespace=y", False),
        ("env=prod", "spec.size=2", True),
        ("env=test", "spec.size=2", False),
        ("", "spec.size!=2", False),
    ],
)
def test_stored_and_decoded_objects_must_match_all_selectors(labels: str, fields: str, expected: bool) -> None:
    selection = select(labelSelector=labels, fieldSelector=fields)
    assert selection is not None
    assert selection.matches(WIDGETS, STORED) is expected
    assert selection.matches_tree(TREE) is expected


def test_empty_selectors_select_everything() -> None:
    assert select(labelSelector="", fieldSelector="") is None
    assert select() is None


@pytest.mark.parametrize("text", ["a in b", "=x", "a>x", "a===b", "a,,b", "x/y/z=1"])
def test_an_invalid_label_selector_is_a_bad_request(text: str) -> None:
    with pytest.raises(BadRequest):
        select(labelSelector=text)


@pytest.mark.parametrize("text", ["data.k=1", "metadata.labels=1", "metadata.name", "=a"])
def test_an_unsupported_field_selector_is_a_bad_request(text: str) -> None:
    with pytest.raises(BadRequest):
        select(fieldSelector=text)


def test_equal_selectors_compare_equal() -> None:
    assert select(labelSelector="a=1,b=2") == select(labelSelector="b=2,a=1")
    assert hash(select(labelSelector="a=1")) == hash(select(labelSelector="a=1"))


def test_a_required_name_is_known() -> None:
    selection = select(fieldSelector="metadata.name=a")
    assert selection is not None
    assert selection.name == "a"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        *(("s", "x"), ("b", "true"), ("n", "2"), ("none", ""), ("s.deep", ""), ("list", ""), ("source", "kubelet")),
        *(("spec.unschedulable", "false"), ("spec.hostNetwork", "false")),
    ],
)
def test_a_field_compares_as_string_and_a_missing_one_as_empty(path: str, text: str) -> None:
    tree = {"s": "x", "b": True, "n": 2, "list": [1], "spec": {}, "source": {"component": "kubelet"}}
    assert field_value(tree, path) == text
