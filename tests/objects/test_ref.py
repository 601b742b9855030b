import copy
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as some

from levelset.errors import BadName, ConfigError
from levelset.objects.ref import GroupVersionKind, GroupVersionResource, Ref, parse_api_version, ref_at, ref_to
from tests.objects.samples import Region, Website


def test_an_api_version_has_a_group_and_a_version():
    assert parse_api_version("example.dev/v1") == ("example.dev", "v1")
    assert parse_api_version("v1") == ("", "v1")


@pytest.mark.parametrize("text", ["", "/", "a/b/c", "/v1", "apps/", "Apps/v1", "apps/V1", "apps v1", None, 1])
def test_anything_else_is_a_bad_name_that_points_at_the_field(text):
    with pytest.raises(BadName) as caught:
        parse_api_version(text)
    assert caught.value.field == "apiVersion"


@given(some.text(max_size=300))
def test_no_text_raises_anything_but_a_bad_name(text):
    try:
        group, version = parse_api_version(text)
    except BadName:
        return
    assert GroupVersionKind(group, version, "X").api_version == text


def test_kinds_and_resources_print_with_their_api_version():
    assert str(GroupVersionKind.of("apps/v1", "Deployment")) == "apps/v1 Deployment"
    assert str(GroupVersionResource("", "v1", "pods")) == "v1 pods"


@pytest.mark.parametrize("kind", ["", None])
def test_a_kind_needs_a_name(kind):
    with pytest.raises(BadName):
        GroupVersionKind.of("v1", kind)


def test_a_ref_prints_kind_namespace_and_name():
    assert str(Ref(Website, "blog", "default")) == "Website/default/blog"
    assert str(Ref(Region, "north")) == "Region/north"


def test_refs_to_the_same_object_are_equal_however_they_were_made():
    by_class = Ref(Website, "blog", "default")
    by_kind = Ref(GroupVersionKind("example.dev", "v1", "Website"), "blog", "default")
    assert by_class == by_kind
    assert hash(by_class) == hash(by_kind)
    assert by_class != Ref(Website, "blog", "other")
    assert by_class != "Website/default/blog"


def test_refs_sort_by_kind_then_namespace_then_name():
    refs = [Ref(Website, "b", "x"), Ref(Website, "a", "y"), Ref(Region, "z"), Ref(Website, "a", "x")]
    assert [str(ref) for ref in sorted(refs)] == ["Region/z", "Website/x/a", "Website/x/b", "Website/y/a"]
    assert Ref(Region, "a") <= Ref(Region, "a")
    assert Ref(Region, "b") >= Ref(Region, "a")
    assert Ref(Region, "b") > Ref(Region, "a")


def test_a_ref_is_immutable():
    ref = Ref(Website, "blog")
    with pytest.raises(AttributeError, match="is immutable"):
        ref.name = "other"
    with pytest.raises(AttributeError, match="is immutable"):
        del ref.name


def test_a_ref_survives_pickling():
    ref = Ref(Website, "blog", "default")
    assert pickle.loads(pickle.dumps(ref)) == ref


@pytest.mark.parametrize("name", ["", "a/b"])
def test_a_ref_needs_a_name_without_slash(name):
    with pytest.raises(BadName, match="Website"):
        Ref(Website, name)


def test_a_ref_to_a_class_without_a_kind_is_an_error():
    with pytest.raises(ConfigError, match="int does not declare a kind"):
        Ref(int, "x")


def test_a_ref_cannot_be_unpacked_by_mistake():
    with pytest.raises(TypeError, match="is not iterable"):
        list(Ref(Website, "blog"))


@pytest.mark.parametrize("namespace", ["default", "", None])
@pytest.mark.parametrize("class_", [Website, None])
def test_ref_to_returns_the_same_as_the_constructor(class_, namespace):
    gvk = GroupVersionKind("example.dev", "v1", "Website")
    made, usual = ref_to(gvk, class_, "blog", namespace), Ref(class_ or gvk, "blog", namespace)
    assert (type(made), made, hash(made), str(made)) == (Ref, usual, hash(usual), str(usual))
    assert (made.gvk, made.class_, made.name, made.namespace) == (gvk, class_, "blog", namespace or None)
    assert pickle.loads(pickle.dumps(made)) == usual
    with pytest.raises(AttributeError, match="is immutable"):
        made.name = "other"


@pytest.mark.parametrize("name", ["", "a/b"])
def test_ref_to_also_requires_a_name(name):
    with pytest.raises(BadName):
        ref_to(GroupVersionKind("example.dev", "v1", "Website"), None, name, None)


def test_a_ref_has_the_cache_key_of_its_object() -> None:
    gvk = GroupVersionKind("example.dev", "v1", "Website")
    ref = Ref(gvk, "blog", "default")
    assert ref.key == ref_to(gvk, None, "blog", "default").key == "default/blog"
    assert Ref(gvk, "blog").key == "blog"
    assert ref_to(gvk, None, "blog", "default", "default/blog") == ref
    assert copy.copy(ref).key == pickle.loads(pickle.dumps(ref)).key == "default/blog"


@pytest.mark.parametrize("namespace", [None, "default", "a/b"])
def test_a_ref_can_be_created_from_its_cache_key(namespace: str | None) -> None:
    gvk = GroupVersionKind("example.dev", "v1", "Website")
    ref = Ref(gvk, "blog", namespace)
    made = ref_at(gvk, None, ref.key)
    assert (made, hash(made), made.namespace, made.key) == (ref, hash(ref), namespace, ref.key)
    with pytest.raises(BadName):
        ref_at(gvk, None, "default/")
