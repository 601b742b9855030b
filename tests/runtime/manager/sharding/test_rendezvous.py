"""Which member owns a key: exactly one, evenly, and adding a member moves only its share."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelset.runtime.manager.sharding.rendezvous import ALGORITHM, View, key_hash, member_seed

KEYS = [f"sites/default/site-{number}" for number in range(2000)]
names = st.sets(st.text("abcdef0123456789", min_size=1, max_size=10), min_size=1, max_size=8)


def views(members: set[str]) -> dict[str, View]:
    return {one: View(one, {other: f"host_{other}" for other in members}) for one in members}


def owner_of(members: set[str], key: str) -> str:
    [owner] = [one for one, view in views(members).items() if view.owns(key)]
    return owner


@given(names, st.text(min_size=1, max_size=30))
def test_exactly_one_member_owns_a_key_and_all_agree_on_it(members: set[str], key: str) -> None:
    assert {view.owner(key) for view in views(members).values()} == {owner_of(members, key)}


@given(names, names, st.text(min_size=1, max_size=30))
def test_a_member_that_joins_takes_keys_only_for_itself(members: set[str], joining: set[str], key: str) -> None:
    before, after = owner_of(members, key), owner_of(members | joining, key)
    assert after == before or after in joining - members


@given(names, st.text(min_size=1, max_size=30))
def test_a_member_that_leaves_gives_only_its_own_keys_away(members: set[str], key: str) -> None:
    for gone in sorted(members)[1:]:
        before = owner_of(members, key)
        assert before == gone or owner_of(members - {gone}, key) == before


@given(names, st.text(min_size=1, max_size=30))
def test_of_two_members_that_know_each_other_at_most_one_owns_a_key_whatever_else_they_know(
    members: set[str], key: str
) -> None:
    one, other = View("x", {"x": "hx", "y": "hy"}), View("y", {"x": "hx", "y": "hy", **{it: it for it in members}})
    assert not (one.owns(key) and other.owns(key))


@pytest.mark.parametrize("size", [1, 2, 4, 9])
def test_adding_a_member_moves_about_its_share_of_the_keys(size: int) -> None:
    members = {f"m{number}" for number in range(size)}
    moved = sum(owner_of(members, key) != owner_of(members | {"new"}, key) for key in KEYS[:1000])
    assert moved == pytest.approx(1000 / (size + 1), rel=0.25)


def test_keys_are_divided_evenly() -> None:
    view = View("m0", {f"m{number}": f"host-{number}" for number in range(5)})
    counts = Counter(view.owner(key) for key in KEYS)
    assert len(counts) == 5
    assert all(count == pytest.approx(len(KEYS) / 5, rel=0.2) for count in counts.values())


def test_of_two_members_with_one_name_the_greater_id_comes_first() -> None:
    both = {"a": "shop-0", "b": "shop-0"}
    assert View("b", both).owns("sites/x")
    assert not View("a", both).owns("sites/x")
    assert View("a", both).owner("sites/x") == "b"


def test_the_scores_change_only_together_with_the_number_of_the_algorithm() -> None:
    # Replicas of two versions of levelset run side by side in a rolling update: other scores, and two may act.
    view = View("a", {"a": "host-a", "b": "host-b", "c": "host-c"})
    owners = "".join(view.owner(f"sites/default/site-{number}") for number in range(40))
    assert (ALGORITHM, owners) == ("1", "aaabbbcbbcaccbaabbcabcccbccaacaccbcbabac")
    assert (key_hash("sites/default/blog"), member_seed("host-a")) == (12455623917044957578, 14344446513282499322)
