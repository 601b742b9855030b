"""Which informer may serve which read."""

import pytest

from levelset.objects import FieldSelector, GroupVersionKind, LabelSelector
from levelset.runtime.cache.scope import Scope, choose_source, not_cached

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
    ("held", "wanted"),
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
def test_a_wider_scope_serves_a_narrower_read(held: Scope, wanted: Scope) -> None:
    assert held.holds(wanted)


@pytest.mark.parametrize(
    ("held", "wanted"),
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
def test_a_narrower_scope_does_not_serve_a_wider_read(held: Scope, wanted: Scope) -> None:
    assert not held.holds(wanted)


def test_a_read_by_name_may_go_to_a_selector_but_not_to_another_namespace() -> None:
    assert choose_source(A, [One(RED)], by_name=True) is not None
    assert choose_source(A, [One(RED)]) is None
    assert choose_source(A, [One(Scope(SITE, "b"))], by_name=True) is None


def test_the_preferred_source_has_no_selector_then_no_transform_then_is_ready_then_is_narrower() -> None:
    changed, unready = One(Scope(SITE, is_changed=True)), One(ALL, is_ready=False)
    wide, narrow, red = One(ALL), One(A), One(RED)
    everyone = [red, changed, unready, wide, narrow]
    for best in (narrow, wide, unready, changed, red):
        assert choose_source(A, everyone, by_name=True) is best
        everyone.remove(best)


def test_a_metadata_read_prefers_a_metadata_informer() -> None:
    whole, metadata = One(ALL), One(META)
    assert choose_source(META, [whole, metadata]) is metadata
    assert choose_source(ALL, [whole, metadata]) is whole


def test_the_not_cached_error_names_the_declared_scopes_and_the_possible_fixes() -> None:
    text = str(not_cached(Scope(SITE, "b"), [A, RED, Scope(GroupVersionKind("", "v1", "Pod"))]))
    assert "example.dev/v1 Website in b is not in the cache" in text
    assert (
        "declared scopes of this kind: example.dev/v1 Website in a; example.dev/v1 Website with labels color=red."
        in text
    )
    assert "Pod" not in text
    assert "a wider namespace= or labels=" in text
    undeclared = str(not_cached(Scope(SITE, "b"), []))
    for way in ("owns(Website)", "cluster.declare", 'read="live"', 'undeclared="live"', 'undeclared="watch"'):
        assert way in undeclared
    as_metadata = str(not_cached(Scope(SITE, "b"), [Scope(SITE, is_metadata=True)]))
    for way in ("leave out metadata_only=True in owns(Website)", "read OnlyMetadata(Website)", 'read="live"'):
        assert way in as_metadata
    assert "this kind is not declared" in str(not_cached(A, []))
