import copy
import pickle
from typing import Generic, TypeVar

import msgspec
import pytest

from levelset.errors import ConfigError
from levelset.objects.codec import decode, encode
from levelset.objects.model import replace
from levelset.objects.ref import Ref
from levelset.objects.resource import ApiStatus, Object, PartialObjectMetadata, Resource, origin_of
from tests.objects.samples import Region, Settings, Website, WebsiteSpec, WebsiteStatus, blog


def test_an_object_always_writes_its_api_version_and_kind():
    assert msgspec.json.encode(Settings()) == b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{}}'


def test_names_are_snake_case_here_and_camel_case_on_the_wire():
    site = blog(pod_ip="10.0.0.1", cluster_ips=("10.0.0.2",))
    spec = msgspec.json.decode(encode(site))["spec"]
    assert spec == {"image": "blog:1", "podIP": "10.0.0.1", "clusterIPs": ["10.0.0.2"]}


def test_an_object_knows_its_name_namespace_and_ref():
    site = blog()
    assert (site.name, site.namespace, site.ref) == ("blog", "default", Ref(Website, "blog", "default"))


def test_an_object_is_immutable():
    with pytest.raises(AttributeError):
        blog().spec.image = "other"


def test_two_new_objects_share_no_metadata():
    first, second = Settings(), Settings()
    first.metadata.labels["a"] = "b"
    assert second.metadata.labels == {}


def test_a_change_is_a_new_object():
    site = blog()
    changed = site.with_spec(replicas=3).with_status(WebsiteStatus(ready=1)).with_metadata(labels={"a": "b"})
    assert (changed.spec.replicas, changed.status.ready, changed.metadata.labels) == (3, 1, {"a": "b"})
    assert changed.with_status(ready=2).status == WebsiteStatus(ready=2)
    assert (site.spec.replicas, site.status) == (1, None)


def test_a_spec_can_be_replaced_as_a_whole_which_type_checkers_check():
    spec = WebsiteSpec(image="blog:2", replicas=3)
    assert blog().with_spec(spec).spec == spec
    assert blog().with_spec(spec, replicas=4).spec == replace(spec, replicas=4)


def test_a_resource_without_an_api_is_refused_where_it_is_defined():
    with pytest.raises(ConfigError, match=r'write class Site\(Resource\[WebsiteSpec, None\], api="example.dev/v1"\)'):

        class Site(Resource[WebsiteSpec, None]):
            pass


def test_a_spec_or_status_that_is_no_model_is_refused_where_it_is_defined():
    class Plain:
        pass

    with pytest.raises(ConfigError, match=r"Plain is no Spec: write class Plain\(Spec\)"):

        class Site(Resource[Plain, None], api="example.dev/v1"):
            pass

    with pytest.raises(ConfigError, match=r"Plain is no Status: write class Plain\(Status\)"):

        class Other(Resource[WebsiteSpec, Plain], api="example.dev/v1"):
            pass


def test_a_generic_base_of_several_kinds_needs_no_api():
    part = TypeVar("part")

    class Base(Resource[part, None], Generic[part]):
        pass

    class Site(Base[WebsiteSpec], api="example.dev/v1"):
        pass

    assert Site.new("blog", WebsiteSpec(image="a")).kind == "Site"


def test_a_missing_status_cannot_be_changed_in_part():
    with pytest.raises(ConfigError, match="Website/default/blog has no typed status"):
        blog().with_status(ready=2)


def test_unknown_attributes_are_refused():
    with pytest.raises(TypeError, match="imagee"):
        blog().with_spec(imagee="x")


@pytest.mark.parametrize(
    "remake",
    [
        replace,
        copy.copy,
        copy.deepcopy,
        lambda obj: obj.with_spec(replicas=9),
        lambda obj: pickle.loads(pickle.dumps(obj)),
    ],
    ids=["replace", "copy", "deepcopy", "with_spec", "pickle"],
)
def test_copies_keep_the_origin_of_an_object(remake):
    site = decode(Website, b'{"kind":"Website","spec":{"image":"x","new":1}}')
    assert origin_of(remake(site)) == origin_of(site) is not None


def test_the_origin_does_not_count_for_equality():
    site = decode(Website, encode(blog()))
    assert site == blog()


def test_the_repr_shows_what_is_set():
    assert repr(blog().spec) == "WebsiteSpec(image='blog:1')"


def test_a_kind_may_have_no_status_and_no_namespace():
    north = Region.new("north", WebsiteSpec(image="x"))
    assert str(north.ref) == "Region/north"


def test_an_api_status_is_an_object():
    raw = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","reason":"NotFound","code":404}'
    assert decode(ApiStatus, raw).code == 404


def test_partial_object_metadata_decodes_only_the_metadata():
    raw = b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"x"}}'
    assert decode(PartialObjectMetadata, raw).name == "x"


def test_a_class_may_be_a_base_for_kinds_without_being_one():
    class Common(Object):
        level: int = 0

    class Leaf(Common, api="example.dev/v1"):
        pass

    assert decode(Leaf, b'{"kind":"Leaf","level":2}').level == 2
