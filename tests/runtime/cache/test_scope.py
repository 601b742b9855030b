"""Which informer may answer which read."""

import pytest

from levelset.objects import FieldSelector, GroupVersionKind, LabelSelector
from levelset.runtime.cache.scope import Scope, choose, refuse

__all__: list[str] = []

SITE = GroupVersionKind("example.dev", "v1", "Website")
ALL = Scope(SITE)
A = Scope(SITE, "a")
RED = Scope(SITE, labels=LabelSelector.parse("color=red"))
META = Scope(SITE, is_metadata=True)


class One:
    def __init__(self, scope: Scope, *, is_ready: bool = True) -> None:
        self.scope = scope
        self.is_ready = is_ready


@pytest.mark.parametrize(
    ("held", "asked"),
    [
        (ALL, ALL),
        (ALL, A),
        (A, A),
        (ALL, RED),
        (RED, RED),
        (RED, Scope(SITE, "a", LabelSelector.parse("color=red,tier=b"))),
        (ALL, META),
        (META, META),
        (ALL, Scope(SITE, fields=FieldSelector.parse("metadata.name=x"))),
    ],
)
def test_what_holds_more_serves_what_asks_for_less(held: Scope, asked: Scope) -> None:
    assert held.holds(asked)


@pytest.mark.parametrize(
    ("held", "asked"),
    [
        (A, ALL),
        (A, Scope(SITE, "b")),
        (RED, ALL),
        (RED, Scope(SITE, labels=LabelSelector.parse("color=blue"))),
        (META, ALL),
        (Scope(SITE, fields=FieldSelector.parse("metadata.name=x")), ALL),
        (ALL, Scope(GroupVersionKind("example.dev", "v2", "Website"))),
    ],
)
def test_what_holds_less_does_not_serve_what_asks_for_more(held: Scope, asked: Scope) -> None:
    assert not held.holds(asked)


def test_a_read_by_name_may_go_to_a_selector_but_not_to_another_namespace() -> None:
    assert choose(A, [One(RED)], by_name=True) is not None
    assert choose(A, [One(RED)]) is None
    assert choose(A, [One(Scope(SITE, "b"))], by_name=True) is None


def test_of_several_the_one_without_a_selector_is_asked_then_an_unchanged_then_a_ready_then_the_narrower_one() -> None:
    changed, unready = One(Scope(SITE, is_changed=True)), One(ALL, is_ready=False)
    wide, narrow, red = One(ALL), One(A), One(RED)
    everyone = [red, changed, unready, wide, narrow]
    for best in (narrow, wide, unready, changed, red):
        assert choose(A, everyone, by_name=True) is best
        everyone.remove(best)


def test_a_read_of_metadata_prefers_the_informer_that_has_nothing_else() -> None:
    whole, metadata = One(ALL), One(META)
    assert choose(META, [whole, metadata]) is metadata
    assert choose(ALL, [whole, metadata]) is whole


def test_the_refusal_names_what_is_declared_and_the_ways_on() -> None:
    text = str(refuse(Scope(SITE, "b"), [A, RED, Scope(GroupVersionKind("", "v1", "Pod"))]))
    assert "example.dev/v1 Website in b is not in the cache" in text
    assert "declared are: example.dev/v1 Website in a; example.dev/v1 Website with labels color=red." in text
    assert "Pod" not in text
    for way in ("cluster.declare", 'read="live"', 'undeclared="live"', 'undeclared="watch"'):
        assert way in text
    assert "nobody declared this kind" in str(refuse(A, []))
