from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelset.apiserver.wire.json_path import parse_path
from levelset.errors import BadPointer

TREE = {
    "spec": {"replicas": 3, "a.b/c": "dotted", "ports": [{"name": "web", "port": 80}, {"name": "dns", "port": 53}]},
    "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Seen", "status": "False"}]},
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (".spec.replicas", [3]),
        ("{.spec.replicas}", [3]),
        ("$.spec.replicas", [3]),
        (r".spec['a\.b/c']", ["dotted"]),
        (".spec.ports[].name", ["web"]),
        (".spec.ports[0,1].port", [80, 53]),
        (".spec.ports[0:2:2].port", [80]),
        ("..ports...port", [80, 53]),
        (r".spec.a\.b/c", ["dotted"]),
        (".spec.ports[0].name", ["web"]),
        (".spec.ports[-1].name", ["dns"]),
        (".spec.ports[*].port", [80, 53]),
        (".spec.ports[0:1].name", ["web"]),
        (".spec.ports[1:].name", ["dns"]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type!='Ready')].status", ["False"]),
        (".spec.ports[?(@.port > 60)].name", ["web"]),
        (".spec.ports[?(@.port<=53)].name", ["dns"]),
        (".spec.ports[?(@.name)].port", [80, 53]),
        ("..port", [80, 53]),
        (".spec.nothing", []),
        (".spec.ports[7].name", []),
        (".spec.replicas.deeper", []),
    ],
)
def test_a_path_finds_its_values(path: str, expected: list[object]) -> None:
    assert parse_path(path).find(TREE) == expected
    assert parse_path(path).first(TREE) == (expected[0] if expected else None)


def test_a_plain_path_gives_its_names() -> None:
    assert parse_path(".spec.replicas").names == ("spec", "replicas")
    assert parse_path(".spec.ports[0]").names is None


@pytest.mark.parametrize(
    "path",
    [".", ".a b", ".a.", ".spec.ports[0:7]", ".spec.ports[?(@.port=!80)]", ".spec.ports[?(@.name>1)]", ".spec[0]"],
)
def test_an_accepted_path_that_fits_no_value_finds_nothing(path: str) -> None:
    assert parse_path(path).find(TREE) == []


@pytest.mark.parametrize(
    "path", [".a[", ".a[x]", ".a['b'", ".[", "a]", ".a....", ".a(b[", ".a[?(@.x==1)", ".a 'b", '.a["b"]', "(a)"]
)
def test_an_invalid_path_is_rejected_with_its_position(path: str) -> None:
    with pytest.raises(BadPointer) as caught:
        parse_path(path)
    assert caught.value.position is not None


@given(st.text(alphabet=".[]'\"?@()=!<>*:-0123ab\\{}$ ", max_size=30))
def test_any_text_is_a_path_or_is_rejected(text: str) -> None:
    with suppress(BadPointer):
        parse_path(text).find(TREE)
