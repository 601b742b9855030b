import random

import pytest
from hypothesis import given
from hypothesis import strategies as some

from levelset.errors import BadObject
from levelset.objects.yaml_codec import read_yaml, write_yaml
from tests.objects.tree_strategies import trees


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a: 2026-01-31T12:00:00Z", {"a": "2026-01-31T12:00:00Z"}),
        ("a: 2026-01-31", {"a": "2026-01-31"}),
        ("a: 22:22", {"a": "22:22"}),
        ("a: 1e3", {"a": 1000.0}),
        ("a: 1.5", {"a": 1.5}),
        ("a: 0x10", {"a": 16}),
        ("a: 0o17", {"a": 15}),
        ("a: 0777", {"a": 511}),
        ("a: -3", {"a": -3}),
        ("a: yes", {"a": True}),
        ("a: off", {"a": False}),
        ("a: y", {"a": True}),
        ("a: ~", {"a": None}),
        ("a:", {"a": None}),
        ("a: '1'", {"a": "1"}),
        ("a: !!str 1", {"a": "1"}),
        ("1: a", {"1": "a"}),
        ("true: a", {"true": "a"}),
        ("b: &x {c: 1}\nd: {<<: *x, e: 2}", {"b": {"c": 1}, "d": {"c": 1, "e": 2}}),
        ('{"a": [1, "b", null]}', {"a": [1, "b", None]}),
        ("a: |\n  x\n  y\n", {"a": "x\ny\n"}),
    ],
)
def test_yaml_is_read_as_kubernetes_reads_it(text, tree):
    assert read_yaml(text) == [tree]


def test_every_document_is_read():
    assert read_yaml("a: 1\n---\nb: 2\n...\n---\nc: 3") == [{"a": 1}, {"b": 2}, {"c": 3}]
    assert read_yaml("") == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: 1\na: 2", "line 2, column 1: the key 'a' is given twice"),
        ("a: [1", "line 2, column 1: did not find"),
        ("a: .inf", "no place in JSON"),
        ("a: !!python/object:os.system x", "not known"),
        ("a: !!binary aGk=", "not known"),
        ("a: *nothing", "line 1, column 4"),
        ("? [a]\n: b", "key must be a plain value"),
        ("<<: 1", "merges maps only"),
        ("\x00", "no YAML"),
    ],
)
def test_a_wrong_text_is_refused_with_its_line(text, words):
    with pytest.raises(BadObject, match=words):
        read_yaml(text)


def test_a_small_text_whose_aliases_expand_into_a_huge_tree_is_rejected():
    bomb = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))
    with pytest.raises(BadObject, match="too large"):
        read_yaml(bomb)


def test_a_long_string_with_many_aliases_counts_once_per_alias():
    with pytest.raises(BadObject, match="too large"):
        read_yaml("a: &a " + "x" * 100_000 + "\nb: [" + "*a," * 1000 + "]")
    assert len(read_yaml("a: &a [1, 2]\nb: [" + "*a," * 100 + "]")[0]["b"]) == 100


def test_a_text_with_too_many_values_is_rejected_before_the_tree_is_built():
    with pytest.raises(BadObject, match="too large"):
        read_yaml("[" + "a," * 100 + "]", max_nodes=50)
    assert len(read_yaml("[" + "a," * 100 + "]", max_nodes=101)[0]) == 100


@pytest.mark.parametrize("text", ["[", "{a: ", "- ", "? ", "- ? "])
@pytest.mark.parametrize("depth", [300, 5_000, 200_000])
def test_deep_nesting_is_refused(text, depth):
    with pytest.raises(BadObject, match="nested too deeply"):
        read_yaml(text * depth)


def test_a_tree_of_the_maximum_depth_is_read():
    tree = read_yaml("[" * 200 + "]" * 200)
    depth = 0
    while tree:
        tree, depth = tree[0], depth + 1
    assert depth == 200


def test_a_text_of_several_lines_is_written_as_a_block():
    assert write_yaml([{"a": "x\ny\n"}]) == "a: |\n  x\n  y\n"


@given(some.lists(trees(), min_size=1, max_size=3).filter(lambda documents: None not in documents))
def test_written_yaml_reads_back_as_the_same_tree(documents):
    assert read_yaml(write_yaml(documents)) == documents


@given(some.text(max_size=60) | some.binary(max_size=60))
def test_no_text_raises_anything_but_a_bad_object(text):
    try:
        read_yaml(text)
    except BadObject as error:
        assert str(error)


@pytest.mark.slow
def test_a_quarter_million_fuzzed_bytes_raise_nothing_but_a_bad_object():
    rng = random.Random(11)
    base = b"a: &x [1, 'b', {c: ~}]\nb: *x\n---\n- 1e3\n- !!str 2\n- |\n  text\n"
    for _ in range(250_000 // len(base)):
        raw = bytearray(base)
        for _ in range(rng.randrange(1, 4)):
            raw[rng.randrange(len(raw))] = rng.randrange(256)
        try:
            read_yaml(bytes(raw))
        except BadObject:
            continue
