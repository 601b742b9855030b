from levelset.client.discovery import ApiResource, served_by
from levelset.objects.kind_definition import Scale, define
from levelset.objects.ref import GroupVersionKind, GroupVersionResource


def test_a_class_says_by_itself_what_it_is_served_under() -> None:
    definition = define("Website", api="example.dev/v1", status=True, scale=Scale(), short_names=["web"])
    served = ApiResource.of(definition)
    assert served.gvr == GroupVersionResource("example.dev", "v1", "websites")
    assert served.gvk == GroupVersionKind("example.dev", "v1", "Website")
    assert served.namespaced
    assert (served.subresources, served.short_names) == (("scale", "status"), ("web",))


def test_it_prints_as_kubectl_would_be_told() -> None:
    assert str(ApiResource.of(define("Website", api="example.dev/v1"))) == "websites.v1.example.dev"
    assert str(ApiResource.of(define("Pod", api="v1"))) == "pods.v1"


def test_what_a_class_is_served_under_is_made_once() -> None:
    one, other = define("Website", api="example.dev/v1"), define("Website", api="example.dev/v1", status=True)
    assert served_by(one) is served_by(one)
    assert (served_by(one), served_by(other)) == (ApiResource.of(one), ApiResource.of(other))
