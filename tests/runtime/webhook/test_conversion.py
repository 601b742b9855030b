from typing import Any

import pytest

from levelset.errors import BadObject, BadRequest, ConfigError
from levelset.objects import codec
from levelset.runtime.webhook import Conversions, converts
from tests.runtime.webhook.site_kinds import OldestSite, OldSite, Settings, Site, from_old, site, to_old, versions


def test_any_version_becomes_any_other_through_the_hub() -> None:
    conversions = Conversions(versions())
    oldest = conversions.convert(site(image="x", replicas=3, paused=True), "example.dev/v1alpha1")
    assert oldest["spec"] == {"what": "x", "size": 3, "running": False}
    old = conversions.convert(oldest, "example.dev/v1")
    assert (old["apiVersion"], old["spec"]) == ("example.dev/v1", {"container": "x", "size": 3, "paused": True})
    assert conversions.convert(old, "example.dev/v2")["spec"] == {"image": "x", "replicas": 3, "paused": True}


def test_a_value_that_was_given_explicitly_stays_although_it_is_the_default() -> None:
    conversions = Conversions(versions())
    given = conversions.convert(site(image="x", replicas=1, paused=False), "example.dev/v1")
    assert given["spec"] == {"container": "x", "paused": False}, "the other field has another name there"
    left_out = site(image="x")
    left_out["spec"] = {"image": "x"}
    assert conversions.convert(left_out, "example.dev/v1")["spec"] == {"container": "x"}


def test_an_object_that_has_the_desired_version_is_unchanged() -> None:
    assert Conversions(versions()).convert(site(), "example.dev/v2") == site()


def test_of_the_metadata_only_labels_and_annotations_may_change() -> None:
    def careless(new: Site) -> OldSite:
        return OldSite.new("other", to_old(new).spec, labels={"new": "yes"})

    pair = converts(Site, OldSite, to_hub=from_old, from_hub=careless)
    sent = site()
    sent["metadata"] |= {"uid": "1", "finalizers": ["a/b"], "managedFields": [], "annotations": {"a": "b"}}
    made = Conversions([pair]).convert(sent, "example.dev/v1")
    assert made["metadata"] == {
        "name": "blog",
        "namespace": "default",
        "uid": "1",
        "finalizers": ["a/b"],
        "managedFields": [],
        "labels": {"new": "yes"},
    }


def test_the_input_of_a_conversion_is_not_modified() -> None:
    sent = site(image="x")
    Conversions(versions()).convert(sent, "example.dev/v1")
    assert sent == site(image="x")


@pytest.mark.parametrize(
    ("tree", "wanted", "message"),
    [
        (site(), "example.dev/v3", "Site has no version example.dev/v3; there are example.dev/v2, example.dev/v1,"),
        (site(), "other.dev/v1", "the groups differ"),
        ({**site(), "kind": "Page"}, "example.dev/v1", "there is no conversion for Page of example.dev"),
        (site(replicas="x"), "example.dev/v1", "this is no Site"),
    ],
)
def test_impossible_conversions_raise_with_an_explanation(tree: Any, wanted: str, message: str) -> None:
    with pytest.raises(BadObject) as caught:
        Conversions(versions()).convert(tree, wanted)
    assert message in str(caught.value)


def test_a_failing_conversion_function_is_named() -> None:
    def fails(new: Site) -> OldSite:
        raise KeyError(new.name)

    def wrong(new: Site) -> Any:
        return new

    def rejects(_: Site) -> OldSite:
        raise BadRequest("not that one")

    for function, message in (
        (fails, "fails failed with KeyError"),
        (wrong, "wrong returned a Site"),
        (rejects, "not"),
    ):
        pair = converts(Site, OldSite, to_hub=from_old, from_hub=function)
        with pytest.raises((BadObject, BadRequest), match=message):
            Conversions([pair]).convert(site(), "example.dev/v1")


def test_invalid_conversions_raise_a_config_error() -> None:
    async def later(new: Site) -> OldSite:
        return to_old(new)

    wrong: Any = later
    with pytest.raises(ConfigError, match="from_hub must not be a coroutine function"):
        converts(Site, OldSite, to_hub=from_old, from_hub=wrong)
    anything: Any = from_old
    with pytest.raises(ConfigError, match="are two kinds"):
        converts(Site, Settings, to_hub=anything, from_hub=anything)
    with pytest.raises(ConfigError, match="are the same version"):
        converts(Site, Site, to_hub=anything, from_hub=anything)


def test_a_kind_has_one_hub_and_each_version_one_pair() -> None:
    first, second = versions()
    with pytest.raises(ConfigError, match="has two conversions"):
        Conversions([first, first])
    other: Any = converts(OldestSite, OldSite, to_hub=second.to_hub, from_hub=second.from_hub)
    with pytest.raises(ConfigError, match="has two hubs"):
        Conversions([first, other])


def test_the_versions_of_a_kind_are_known_the_hub_first() -> None:
    assert Conversions(versions()).kinds == {("example.dev", "Site"): (Site, OldSite, OldestSite)}
    assert repr(versions()[0]) == "converts(example.dev/v2 Site, v1)"


def test_a_converted_object_can_be_read_by_its_class() -> None:
    made = Conversions(versions()).convert(site(), "example.dev/v1")
    assert codec.from_tree(OldSite, made).spec.container == "nginx"
