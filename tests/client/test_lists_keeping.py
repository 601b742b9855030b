import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelset.client.lists import Keeper
from levelset.errors import BadObject

FIELDS = '[{"manager":"m","fieldsV1":{"f:a":{"k:{\\"port\\":80}":{}}}}]'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"metadata":{"name":"a","managedFields":%s},"b":1}', {"metadata": {"name": "a"}, "b": 1}),
        ('{"metadata":{"managedFields":%s,"name":"a"},"b":1}', {"metadata": {"name": "a"}, "b": 1}),
        ('{"metadata":{"managedFields":%s}}', {"metadata": {}}),
        ('{"metadata": {"name":"a" , "managedFields" : %s }}', {"metadata": {"name": "a"}}),
        ('{"metadata":{"labels":{"{":"}}"},"managedFields":%s}}', {"metadata": {"labels": {"{": "}}"}}}),
        (
            '{"spec":{"x":1,"managedFields":%s},"metadata":{"name":"a","managedFields":%s}}',
            {"spec": {"x": 1, "managedFields": json.loads(FIELDS)}, "metadata": {"name": "a"}},
        ),
        (
            '{"metadata":{"name":"a"},"spec":{"x":1,"managedFields":%s}}',
            {"metadata": {"name": "a"}, "spec": {"x": 1, "managedFields": json.loads(FIELDS)}},
        ),
        ('{"metadata":{"name":"managedFields"}}', {"metadata": {"name": "managedFields"}}),
    ],
)
def test_only_the_managed_fields_of_the_object_itself_are_cut(text: str, expected: Any) -> None:
    raw = text.replace("%s", FIELDS).encode()
    assert json.loads(Keeper(managed_fields=False).keep(raw).raw) == expected
    assert Keeper().keep(raw).raw is raw


names: Any = st.sampled_from(["managedFields", "metadata", "name", "a{", "}b", '"', "c:"])
trees: Any = st.recursive(
    st.none() | st.integers(0, 9) | st.sampled_from(["x", "{", "}]}", '"managedFields":[]', "managedFields"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4),
    max_leaves=20,
)
members = st.dictionaries(names.filter(lambda name: name != "name"), trees, max_size=4)


@given(members, members, st.booleans(), st.booleans())
def test_the_cut_is_what_leaving_the_member_out_would_be(
    before: dict[str, Any], metadata: dict[str, Any], is_last: bool, has_blanks: bool
) -> None:
    before.pop("metadata", None)
    tree = {**before, "metadata": metadata} if is_last else {"metadata": metadata, **before}
    raw = json.dumps(tree, separators=None if has_blanks else (",", ":")).encode()
    expected = {**tree, "metadata": {name: one for name, one in metadata.items() if name != "managedFields"}}
    assert json.loads(Keeper(managed_fields=False).keep(raw).raw) == expected


@pytest.mark.parametrize("raw", [b'"managedFields":', b'{"managedFields":[]}', b'{"metadata":7,"managedFields":[]}'])
def test_what_has_no_metadata_is_a_bad_object(raw: bytes) -> None:
    with pytest.raises(BadObject):
        Keeper(managed_fields=False).keep(raw)


def test_a_transform_sees_what_is_left() -> None:
    seen: list[bytes] = []

    def remember(raw: bytes) -> bytes:
        seen.append(raw)
        return b'{"metadata":{"name":"b"}}'

    raw = b'{"metadata":{"name":"a","managedFields":[]}}'
    kept = Keeper(managed_fields=False, transform=remember).keep(raw)
    assert (seen, kept.head.name) == ([b'{"metadata":{"name":"a"}}'], "b")


USUAL = '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","managedFields":%s},"spec":{"x":[1]}}'
managed: Any = trees | st.just(json.loads(FIELDS)) | st.just(json.loads(FIELDS) * 2)


@given(members, members, managed, st.booleans(), st.booleans())
def test_what_is_cut_beforehand_is_kept_as_the_whole_would_be(
    before: dict[str, Any], metadata: dict[str, Any], fields: Any, has_fields: bool, is_last: bool
) -> None:
    before.pop("metadata", None)
    metadata = {"name": "a", **metadata, **({"managedFields": fields} if has_fields else {})}
    tree = {**before, "metadata": metadata} if is_last else {"metadata": metadata, **before}
    raw = json.dumps(tree, separators=(",", ":")).encode()
    keeper = Keeper(managed_fields=False)
    keeper.keep(raw)
    kept = keeper.keep(keeper.cut(b"{,%b]}" % raw, 2, 2 + len(raw)))
    assert kept.tree() == Keeper(managed_fields=False).keep(raw).tree()


def test_managed_fields_where_servers_write_them_are_cut_beforehand() -> None:
    keeper = Keeper(managed_fields=False)
    raws = [USUAL.replace("%s", text).encode() for text in (FIELDS, FIELDS, "[]")]
    assert keeper.keep_all(raws) is None
    keeper.keep(raws[0])
    cut = [keeper.cut(raw, 0, len(raw)) for raw in raws]
    assert keeper.is_cutting
    assert [json.loads(one)["metadata"] for one in cut] == [{"name": "a"}] * 3
    assert keeper.keep_all(cut) == [Keeper(managed_fields=False).keep(raw) for raw in raws]


@pytest.mark.parametrize(
    "text",
    [
        '{"metadata":{"name":"a"},"spec":{"x":1,"managedFields":%s}}',
        '{"a\\"metadata":{"x":1,"managedFields":%s},"metadata":{"name":"a"}}',
        '{"metadata":{"name":"a","x":{"y":1,"managedFields":%s}}}',
        '{"metadata":{"annotations":{"a":"}"},"b":{"c":1,"managedFields":%s}},"spec":{}}',
        '{"spec":{"metadata":{"x":1,"managedFields":%s}},"metadata":{"name":"a"}}',
    ],
)
def test_what_only_looks_like_managed_fields_is_not_cut_beforehand(text: str) -> None:
    raw = text.replace("%s", FIELDS).encode()
    keeper = Keeper(managed_fields=False)
    tree = json.loads(raw)
    tree["metadata"]["managedFields"] = []
    keeper.keep(json.dumps(tree, separators=(",", ":")).encode())  # an object that begins in the same way
    assert keeper.is_cutting
    assert keeper.cut(raw, 0, len(raw)) == raw
    assert not keeper.is_cutting
