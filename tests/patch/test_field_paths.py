import pytest
from hypothesis import given
from hypothesis import strategies as some

from levelset.errors import BadPatch
from levelset.patch import field_paths
from levelset.patch.merge_schema import ANYTHING, Shape
from tests.patch.trees_strategy import trees

KEYED = Shape(list_type="map", keys=("port", "proto"), defaults={"proto": "TCP"})
NAMED = Shape(list_type="map", keys=("name",))
SET = Shape(list_type="set")


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("f:spec", "f:spec"),
        ("f:", "f:"),
        ("f:k:{}", "f:k:{}"),
        ('k:{"name":"web"}', 'k:{"name":"web"}'),
        ('k:{ "protocol" : "TCP", "containerPort": 80.0 }', 'k:{"containerPort":80,"protocol":"TCP"}'),
        ("k:{}", "k:{}"),
        ('v:"a\\u0062c"', 'v:"abc"'),
        ("v: 1.50", "v:1.5"),
        ("v:0.00001", "v:0.00001"),
        ("v:1e16", "v:10000000000000000"),
        ("v:true", "v:true"),
        ("v:null", "v:null"),
        ('v:[1,{"b":1,"a":[]}]', 'v:[1,{"a":[],"b":1}]'),
        ("i:+07", "i:7"),
        ("i:-1", "i:-1"),
    ],
)
def test_an_element_has_one_spelling(text: str, spelled: str) -> None:
    assert field_paths.canonical(text) == spelled


def test_html_and_control_characters_are_escaped_as_kubernetes_does() -> None:
    assert field_paths.value('<a & "b">\n\x07\u2028é\ud800') == (
        'v:"\\u003ca \\u0026 \\"b\\"\\u003e\\n\\u0007\\u2028é\\ufffd"'
    )


@pytest.mark.parametrize(
    "text", ["", "f", "spec", "k:[]", "k:", 'k:{"a":1} x', "v:", "v:1 2", "i:1.5", "i:１", "v:NaN"]
)
def test_an_invalid_path_element_is_refused(text: str) -> None:
    with pytest.raises(BadPatch):
        field_paths.canonical(text)


def test_an_unknown_type_of_path_element_is_accepted() -> None:
    assert field_paths.canonical("x:anything") is None


@given(trees())
def test_a_value_reads_back_as_the_same_element(tree: object) -> None:
    spelled = field_paths.value(tree)  # type: ignore[arg-type]  # any JSON value
    assert field_paths.canonical(spelled) == spelled


@given(some.text() | some.text(alphabet='kvif:{}"0'))
def test_reading_an_element_raises_nothing_else(text: str) -> None:
    try:
        spelled = field_paths.canonical(text)
    except BadPatch:
        return
    assert spelled is None or field_paths.canonical(spelled) == spelled


def test_elements_are_sorted_as_kubernetes_sorts_them() -> None:
    mixed = ["i:2", "i:10", "v:true", 'v:"a"', "v:10", "v:9.5", 'k:{"p":443}', 'k:{"p":80}', "f:b", "f:a", "."]
    assert field_paths.ordered(mixed) == [
        *(".", "f:a", "f:b", 'k:{"p":80}', 'k:{"p":443}', "v:9.5", "v:10", 'v:"a"', "v:true", "i:2", "i:10")
    ]


def test_a_path_prints_as_in_a_conflict() -> None:
    path = field_paths.path("spec", "containers", {"name": "web"}, "ports", {"port": 80, "proto": "TCP"}, "name")
    assert field_paths.show(path) == '.spec.containers[name="web"].ports[port=80,proto="TCP"].name'
    assert field_paths.show((*field_paths.path("set"), field_paths.value("a<b"))) == '.set[="a<b"]'
    assert field_paths.show(field_paths.path("list", 3)) == ".list[3]"


@pytest.mark.parametrize(
    ("entry", "shape", "element"),
    [
        ({"port": 80, "name": "x"}, KEYED, 'k:{"port":80,"proto":"TCP"}'),
        ({"proto": "UDP", "port": 80}, KEYED, 'k:{"port":80,"proto":"UDP"}'),
        ({"name": "a"}, NAMED, 'k:{"name":"a"}'),
        ({"name": None}, NAMED, 'k:{"name":null}'),
        ("a", SET, 'v:"a"'),
        (True, SET, "v:true"),
        (1, SET, "v:1"),
    ],
)
def test_an_item_is_known_by_its_key_or_value(entry: object, shape: Shape, element: str) -> None:
    assert field_paths.item(entry, shape) == element  # type: ignore[arg-type]  # any JSON value


@pytest.mark.parametrize(("entry", "shape"), [({"v": 1}, NAMED), ("a", NAMED), (None, NAMED), (None, SET)])
def test_an_item_without_a_key_is_refused(entry: object, shape: Shape) -> None:
    with pytest.raises(BadPatch):
        field_paths.item(entry, shape)  # type: ignore[arg-type]  # any JSON value


def test_a_list_with_an_item_without_a_key_is_one_value() -> None:
    assert field_paths.list_elements([{"name": "a"}, {"v": 1}], NAMED) is None
    assert field_paths.list_elements([{"name": "a"}], NAMED) == ['k:{"name":"a"}']
    assert field_paths.list_elements([{"name": "a"}], ANYTHING) is None
