"""Decoded objects that are shared."""

from typing import Any

from levelset.cache.memo import Memo
from levelset.client.kinds import view_of
from levelset.objects import GroupVersionKind
from tests.cache.shelf import VIEW, kept_site


def test_no_more_than_the_limit_is_remembered_and_the_least_recently_read_goes_first() -> None:
    memo = Memo(VIEW, 2)
    kept = {name: kept_site(name) for name in "abc"}
    a, b = memo.read("a", kept["a"]), memo.read("b", kept["b"])
    assert memo.read("a", kept["a"]) is a
    memo.read("c", kept["c"])
    assert (len(memo), [one.name for _, one in memo.entries()]) == (2, ["a", "c"])
    assert memo.read("b", kept["b"]) is not b


def test_a_walk_uses_what_is_remembered_and_adds_nothing() -> None:
    memo = Memo(VIEW, 2)
    kept = kept_site("a")
    shared = memo.read("a", kept)
    assert memo.read("a", kept, remember=False) is shared
    memo.read("b", kept_site("b"), remember=False)
    assert len(memo) == 1


def test_another_version_is_another_object() -> None:
    memo = Memo(VIEW, 2)
    first = memo.read("a", kept_site("a", 1))
    second = memo.read("a", kept_site("a", 2))
    assert (first.metadata.resource_version, second.metadata.resource_version) == ("1", "2")
    assert len(memo) == 1


def test_what_a_caller_may_change_is_never_shared() -> None:
    memo: Memo[Any] = Memo(view_of(GroupVersionKind("example.dev", "v1", "Site")), 2)
    kept = kept_site("a")
    assert memo.read("a", kept) is not memo.read("a", kept)
    assert len(memo) == 0
