import pytest

from levelset.errors import KindClash
from levelset.objects.model import Spec
from levelset.objects.ref import GroupVersionKind, GroupVersionResource
from levelset.objects.resource import Resource
from levelset.objects.scheme import Scheme
from tests.objects.samples import Region, Settings, Website


def test_a_scheme_finds_the_class_by_kind_and_by_resource():
    scheme = Scheme(Website, Settings)
    assert scheme.find(GroupVersionKind("example.dev", "v1", "Website")) is Website
    assert scheme.find(GroupVersionResource("", "v1", "configmaps")) is Settings
    assert scheme.find(GroupVersionKind("", "v1", "Pod")) is None


def test_a_scheme_knows_plural_and_scope():
    definition = Scheme(Region).definition(GroupVersionKind("example.dev", "v1", "Region"))
    assert definition is not None
    assert (definition.plural, definition.scope) == ("regions", "Cluster")
    assert Scheme().definition(GroupVersionKind("example.dev", "v1", "Region")) is None


def test_adding_a_class_twice_is_fine():
    assert len(Scheme(Website, Website)) == 1


def test_two_classes_for_one_kind_clash():
    class Other(Resource[Spec, None], api="example.dev/v1", kind="Website", plural="others"):
        pass

    with pytest.raises(KindClash, match=r"Other and .*samples\.Website both claim example.dev/v1 Website"):
        Scheme(Website, Other)


def test_two_kinds_under_one_plural_clash_and_leave_the_scheme_as_it_was():
    class Site(Resource[Spec, None], api="example.dev/v1", plural="websites"):
        pass

    scheme = Scheme(Website)
    with pytest.raises(KindClash, match="example.dev/v1 websites"):
        scheme.add(Site)
    assert list(scheme) == [Website]
    assert Site not in scheme


def test_the_same_kind_in_two_versions_does_not_clash():
    class Website2(Resource[Spec, None], api="example.dev/v2", kind="Website"):
        pass

    scheme = Scheme(Website) | Scheme(Website2)
    assert GroupVersionKind("example.dev", "v2", "Website") in scheme
    assert repr(scheme) == "Scheme(Website, Website2)"
