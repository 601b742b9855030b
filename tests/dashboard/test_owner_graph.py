"""The owner graph: owners and descendants of an object, each once and bounded."""

import msgspec

from levelset.dashboard.owner_graph import MAX_DEPTH, MAX_MEMBERS, Member, children_of, owners_of
from levelset.objects import GroupVersionKind
from levelset.objects.cached_object import Head, decode_head

KIND = GroupVersionKind("example.dev", "v1", "Thing")


def thing(name: str, *owners: str) -> Head:
    refs = [{"apiVersion": "example.dev/v1", "kind": "Thing", "name": one, "uid": one} for one in owners]
    meta = {"name": name, "namespace": "a", "uid": name, "ownerReferences": refs}
    return decode_head(msgspec.json.encode({"metadata": meta}))


def members(*heads: Head) -> list[Member]:
    return [(KIND, one) for one in heads]


def test_owners_are_listed_from_the_root() -> None:
    site, deployment, pod = thing("site"), thing("deployment", "site"), thing("pod", "deployment")
    chain = owners_of(pod, members(site, deployment, pod))
    assert [(one["name"], one["exists"]) for one in chain] == [("site", True), ("deployment", True)]


def test_a_missing_owner_does_not_exist() -> None:
    assert [(one["name"], one["exists"]) for one in owners_of(thing("pod", "gone"), [])] == [("gone", False)]


def test_owned_objects_are_a_tree() -> None:
    all_ = members(thing("site"), thing("b", "site"), thing("a", "site"), thing("c", "b"), thing("stranger"))
    (first, second) = children_of(thing("site"), all_)
    assert (first["name"], first["children"]) == ("a", [])
    assert [one["name"] for one in second["children"]] == ["c"]


def test_ownership_cycles_end_the_tree() -> None:
    one, two = thing("one", "two", "one"), thing("two", "one")
    assert [child["name"] for child in children_of(one, members(one, two))] == ["two"]
    assert [owner["name"] for owner in owners_of(one, members(one, two))] == ["two"]


def test_the_tree_is_bounded_in_size_and_depth() -> None:
    wide = children_of(thing("site"), members(*(thing(f"child-{n}", "site") for n in range(2 * MAX_MEMBERS))))
    assert len(wide) == MAX_MEMBERS
    line = members(*(thing(str(n), str(n - 1)) for n in range(1, 100)))
    depth, level = 0, children_of(thing("0"), line)
    while level:
        depth, level = depth + 1, level[0]["children"]
    assert depth == MAX_DEPTH
    assert len(owners_of(thing("100", "99"), line)) == MAX_DEPTH
