"""Changes become requests: which objects are enqueued because of a change, and why."""

import logging
from collections.abc import Collection
from typing import Any

import pytest

from levelset.client.object_types import Item, OnlyMetadata, view_of
from levelset.errors import ConfigError
from levelset.objects import GroupVersionKind, Ref, codec, encode
from levelset.objects.cached_object import decode_cached
from levelset.runtime.cache import Change, store
from levelset.runtime.controller import Reason, owns, references, watches
from levelset.runtime.controller.event_handlers import (
    SELF_CHANGES,
    Target,
    mapped_listener,
    owner_listener,
    reference_index,
    reference_listener,
    self_listener,
)
from levelset.runtime.controller.relations import Owns
from levelset.runtime.queue import LOW, NORMAL
from levelset.runtime.watch import Init, InitApply, InitDone, by, not_
from levelset.testing.virtual_time import virtual
from tests.runtime.controller.controller_loop import ConfigMap, Namespace, Web, web

__all__: list[str] = []

WEBS = Target(view_of(Web), namespaced=True, namespace="default")
SPACES = Target(view_of(Namespace), namespaced=False, namespace="default")
OWNER = {"apiVersion": "example.dev/v1", "kind": "Website", "name": "blog", "uid": "1", "controller": True}


def cached(name: str = "x", *, namespace: str | None = "default", kind: str = "ConfigMap", **metadata: Any) -> Any:
    meta = {"name": name, "namespace": namespace, "uid": "u1", "resourceVersion": "1", **metadata}
    api = "v1" if kind == "ConfigMap" else "example.dev/v1"
    return decode_cached(codec.encode_tree({"apiVersion": api, "kind": kind, "metadata": meta}))


def change(before: Any, after: Any, of: Any = None, **flags: bool) -> Change[Any]:
    return Change("default/x", before, after, view_of(of or OnlyMetadata(ConfigMap)), **flags)


class RecordedEnqueue:
    """Records what is enqueued."""

    def __init__(self, target: Target = WEBS) -> None:
        self.all: list[tuple[str, str, int]] = []
        self._ref_of = target.view.ref_at

    def __call__(self, keys: Collection[str], reason: Reason, priority: int, /) -> None:
        self.all.extend((str(self._ref_of(key)), str(reason), priority) for key in keys)

    @property
    def refs(self) -> list[str]:
        return [ref for ref, _, _ in self.all]


def owned(*changes: Change[Any], relation: Owns | None = None, target: Target = WEBS) -> list[str]:
    enqueued = RecordedEnqueue(target)
    owner_listener(target, relation or owns(ConfigMap), enqueued)(changes)
    return enqueued.refs


def test_the_controlling_owner_is_enqueued_whatever_its_version() -> None:
    other_version = {**OWNER, "apiVersion": "example.dev/v1alpha1"}
    assert owned(change(None, cached(ownerReferences=[other_version]))) == ["Website/default/blog"]


def test_owners_of_another_group_or_kind_or_with_an_invalid_api_version_are_ignored() -> None:
    strangers = [
        {**OWNER, "apiVersion": "other.dev/v1"},
        {**OWNER, "kind": "Webshop"},
        {**OWNER, "apiVersion": "a/b/c"},
        {**OWNER, "apiVersion": ""},
        {**OWNER, "name": ""},
    ]
    assert owned(change(None, cached(ownerReferences=strangers))) == []


def test_only_the_controlling_owner_is_enqueued_unless_every_owner_is_set() -> None:
    others = [{**OWNER, "name": "a", "controller": False}, OWNER, {**OWNER, "name": "b", "controller": None}]
    changed = change(None, cached(ownerReferences=others))
    assert owned(changed) == ["Website/default/blog"]
    every = owned(changed, relation=owns(ConfigMap, every_owner=True))
    assert every == ["Website/default/a", "Website/default/blog", "Website/default/b"]


def test_the_owners_before_and_after_a_change_are_enqueued_once_each() -> None:
    old, new = cached(ownerReferences=[OWNER]), cached(ownerReferences=[{**OWNER, "name": "shop"}])
    assert owned(change(old, new)) == ["Website/default/blog", "Website/default/shop"]
    assert owned(change(old, old)) == ["Website/default/blog"]
    assert owned(change(old, None)) == ["Website/default/blog"]


def test_a_cluster_scoped_owner_has_no_namespace_and_a_namespaced_owner_owns_nothing_cluster_scoped() -> None:
    space = {"apiVersion": "v1", "kind": "Namespace", "name": "prod", "uid": "1", "controller": True}
    assert owned(change(None, cached(ownerReferences=[space])), target=SPACES) == ["Namespace/prod"]
    assert owned(change(None, cached(namespace=None, ownerReferences=[OWNER]))) == []


def test_owners_that_cannot_be_decoded_are_logged_and_affect_no_other_change(caplog: pytest.LogCaptureFixture) -> None:
    broken = change(None, cached(ownerReferences="nonsense"))
    with caplog.at_level(logging.ERROR):
        assert owned(broken, change(None, cached(ownerReferences=[OWNER]))) == ["Website/default/blog"]
    assert "the change of x enqueues nothing" in caplog.text


@pytest.mark.parametrize("returned", ["blog", ["blog"], Ref(Web, "blog", "default")], ids=["text", "texts", "ref"])
def test_a_mapper_that_returns_no_refs_is_reported_with_what_it_should_return(
    returned: Any, caplog: pytest.LogCaptureFixture
) -> None:
    enqueued = RecordedEnqueue()
    listen = mapped_listener(WEBS, watches(ConfigMap, to=lambda _: returned), enqueued)
    listen([change(None, cached(), ConfigMap)])
    assert enqueued.all == []
    assert "return a list of refs: [Ref(Website, name, namespace)]" in caplog.text


def test_related_changes_name_the_object_and_first_lists_and_resyncs_have_low_priority() -> None:
    enqueued, new = RecordedEnqueue(), cached(ownerReferences=[OWNER])
    listen = owner_listener(WEBS, owns(ConfigMap), enqueued)
    listen([change(None, new), change(None, new, is_initial=True), change(new, new, is_resync=True)])
    reason = "ConfigMap/default/x has changed"
    assert enqueued.all == [("Website/default/blog", reason, rank) for rank in (NORMAL, LOW, LOW)]


def test_a_predicate_belongs_to_its_relation_and_a_recreated_object_passes_it() -> None:
    relation = owns(ConfigMap, when=by.labels)
    old, same = cached(ownerReferences=[OWNER]), cached(ownerReferences=[OWNER], resourceVersion="2")
    labelled = cached(ownerReferences=[OWNER], labels={"a": "b"})
    assert owned(change(old, same), relation=relation) == []
    assert owned(change(old, labelled), relation=relation) == ["Website/default/blog"]
    replaced = cached(ownerReferences=[OWNER], uid="u2")
    assert owned(change(old, replaced), relation=relation) == ["Website/default/blog"]


def mapped(to: Any, *changes: Change[Any]) -> list[str]:
    enqueued = RecordedEnqueue()
    mapped_listener(WEBS, watches(ConfigMap, to=to), enqueued)(changes)
    return enqueued.refs


def test_the_mapping_function_is_called_for_the_old_and_the_new_object_and_each_ref_counts_once() -> None:
    def to(one: ConfigMap) -> list[Ref[Web]]:
        return [Ref(Web, one.metadata.labels["site"], "default"), Ref(Web, "all", "default")]

    old, new = cached(labels={"site": "a"}), cached(labels={"site": "b"})
    assert mapped(to, change(old, new, ConfigMap)) == [f"Website/default/{name}" for name in ("a", "all", "b")]


def test_refs_are_normalized() -> None:
    old_version = GroupVersionKind("example.dev", "v1alpha1", "Website")
    same: list[Ref[Web]] = [Ref(Web, "blog"), Ref(Web, "blog", "default"), Ref(old_version, "blog", "default")]

    def to(_: ConfigMap) -> list[Ref[Web]]:
        return same

    assert mapped(to, change(None, cached(), ConfigMap)) == ["Website/default/blog"]
    assert SPACES.ref(Ref(Namespace, "prod", "anything")) == Ref(Namespace, "prod")
    assert (SPACES.key(Ref(Namespace, "prod", "anything")), WEBS.key(Ref(Web, "a"))) == ("prod", "default/a")
    with pytest.raises(ConfigError, match="this controller reconciles example.dev/v1 Website"):
        WEBS.ref(Ref(ConfigMap, "x", "default"))


def test_a_function_that_fails_for_one_side_still_counts_for_the_other(caplog: pytest.LogCaptureFixture) -> None:
    def to(one: ConfigMap) -> list[Ref[Web]]:
        return [Ref(Web, one.metadata.labels["site"], "default")]

    with caplog.at_level(logging.ERROR):
        assert mapped(to, change(cached(), cached(labels={"site": "b"}), ConfigMap)) == ["Website/default/b"]
    assert "KeyError" in caplog.text


@virtual
async def test_referring_objects_are_found_by_an_index() -> None:
    def settings(site: Web) -> list[Ref[ConfigMap]]:
        return [Ref(ConfigMap, site.spec.settings, site.namespace)] if site.spec.settings else []

    relation = references(ConfigMap, settings)
    index = reference_index(relation, Web, namespaced=True, namespace="default")
    assert index == reference_index(relation, Web, namespaced=True, namespace="default"), "so that it is shared"
    sites, writer = store(Web, index)
    sites_there = (web("a", settings="x"), web("b", settings="y"), web("c", settings="x"), web("d"))
    writer.apply(
        [Init(), *(InitApply(Item(decode_cached(encode(one)), sites.view)) for one in sites_there), InitDone("1")]
    )
    enqueued = RecordedEnqueue()
    reference_listener(WEBS, relation, index, [sites], enqueued)([change(None, cached("x"), ConfigMap)])
    assert enqueued.refs == ["Website/default/a", "Website/default/c"]


def own(*changes: Change[Any], when: Any = SELF_CHANGES) -> list[tuple[str, int]]:
    enqueued = RecordedEnqueue()
    self_listener(WEBS, when, enqueued)(changes)
    return [(reason, priority) for _, reason, priority in enqueued.all]


def site(**metadata: Any) -> Any:
    shown: dict[str, Any] = {"generation": 1, **metadata}
    return cached(kind="Website", **shown)


@pytest.mark.parametrize(
    ("after", "matters"),
    [
        ({"resourceVersion": "2"}, False),
        ({"generation": 2}, True),
        ({"labels": {"a": "b"}}, True),
        ({"annotations": {"a": "b"}}, True),
        ({"finalizers": ["a.dev/b"]}, True),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, True),
        ({"ownerReferences": [OWNER]}, False),
        ({"uid": "u2"}, True),
    ],
)
def test_by_default_all_changes_but_those_of_the_status_pass(after: dict[str, Any], matters: bool) -> None:
    assert bool(own(change(site(), site(**after), Web))) is matters


def test_every_change_of_a_kind_without_a_generation_passes() -> None:
    assert own(change(site(generation=None), site(generation=None, resourceVersion="2"), Web))
    assert not own(change(site(generation=None), site(generation=None), Web))


def test_created_changed_and_deleted_objects_are_enqueued_and_the_first_list_has_low_priority() -> None:
    assert own(change(None, site(), Web)) == [("it has changed", NORMAL)]
    assert own(change(site(), site(generation=2), Web)) == [("it has changed", NORMAL)]
    assert own(change(site(), None, Web)) == [("it has changed", NORMAL)]
    assert own(change(None, site(), Web, is_initial=True)) == [("it was there at the start", LOW)]
    assert own(change(site(), site(), Web, is_resync=True)) == [("it has changed", LOW)]


def test_a_deleted_object_is_enqueued_whatever_the_predicate_says() -> None:
    never = not_(by.generation)
    assert own(change(None, site(), Web), when=never) == []
    assert own(change(site(), None, Web), when=never) == [("it has changed", NORMAL)]
    assert repr(SELF_CHANGES) == "SELF_CHANGES"


@pytest.mark.parametrize("name", ["", "default/blog"])
def test_an_object_with_an_invalid_name_is_logged_and_not_mistaken_for_another(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    enqueued = RecordedEnqueue()
    strange = cached(name, namespace=None, kind="Website", generation=2)
    changes = [
        Change(name, cached(name, namespace=None, kind="Website", generation=1), strange, view_of(Web)),
        Change(name, None, strange, view_of(Web), is_initial=True),
        Change(name, strange, None, view_of(Web)),
        Change("default/x", None, site(), view_of(Web)),
    ]
    self_listener(WEBS, SELF_CHANGES, enqueued)(changes)
    assert enqueued.refs == ["Website/default/x"]
    assert caplog.text.count(f"the change of {name} enqueues nothing: {name!r} is not the name of a Website") == 3


def test_a_ref_is_made_of_a_key_on_demand() -> None:
    made = WEBS.view.ref_at("default/blog")
    assert (made, made.class_, made.key) == (Ref(Web, "blog", "default"), Web, "default/blog")
    assert SPACES.view.ref_at("prod") == Ref(Namespace, "prod")
    assert view_of(OnlyMetadata(Web)).ref_at("default/blog").class_ is None
