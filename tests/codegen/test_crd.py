"""CRDs generated from classes, as golden files and on a server."""

import pytest

from levelset.codegen.crd import crd_of, crds_of, version_priority
from levelset.errors import ConfigError, Invalid
from levelset.objects import Column, GroupVersionKind, Object, Ref, Resource, Scale, Spec, Status, write_manifests
from levelset.testing.virtual_time import virtual
from tests.client.fixtures import open_client
from tests.codegen.golden_files import check_text
from tests.codegen.sample_kinds import OldShop, Shop

# Generated before any loop runs: attribute docstrings are read from files.
SHOPS = crd_of(Shop)
BOTH = crd_of(OldShop, Shop)

SHOP = GroupVersionKind("trade.example.dev", "v1", "Shop")


def shop(**spec):
    return {
        "apiVersion": "trade.example.dev/v1",
        "kind": "Shop",
        "metadata": {"name": "corner", "namespace": "default"},
        "spec": {"image": "shop:1", **spec},
    }


class SmallSpec(Spec):
    replicas: int = 1


class SmallStatus(Status):
    replicas: int = 0


def test_the_crd_of_a_kind_with_two_versions_equals_the_golden_file():
    check_text("shops.trade.example.dev.yaml", write_manifests([BOTH]))


@virtual
async def test_a_server_accepts_the_crd_and_applies_the_defaults():
    async with open_client(crd=False) as client:
        await client.create(BOTH)
        made = await client.create(shop(ports=[{"name": "web", "number": 80}]))
        spec = made.tree["spec"]
        assert (spec["replicas"], spec["color"], spec["memory"], spec["share"]) == (1, "red", "128Mi", 0.5)
        assert spec["stock"] == {"least": 0, "most": 100}
        assert spec["ports"] == [{"name": "web", "number": 80, "protocol": "TCP"}]
        assert (await client.get(Shop, "corner", namespace="default")).spec.ports[0].number == 80


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"image": ""}, "spec.image"),
        ({"image": None}, "spec.image"),
        ({"replicas": -1}, "spec.replicas"),
        ({"color": "green"}, "spec.color"),
        ({"closed": "no"}, "spec.closed"),
        ({"share": 0}, "spec.share"),
        ({"ports": [{"name": "Web!", "number": 80}]}, "spec.ports[0].name"),
        ({"ports": [{"name": "web"}]}, "spec.ports[0].number"),
        ({"ports": [{"name": "web", "number": 1}, {"name": "web", "number": 2}]}, "spec.ports[1]"),
        ({"hosts": ["a", "a"]}, "spec.hosts[1]"),
        ({"tags": ["a", "a"]}, "spec.tags[1]"),
        ({"memory": "lots"}, "spec.memory"),
        ({"opened": "yesterday"}, "spec.opened"),
        ({"stock": {"most": 1000}}, "spec.stock.most"),
        ({"filling": {"plan": {"type": "Weekly"}}}, "spec.filling.plan.day"),
        ({"filling": {"plan": {"type": "Daily"}}}, "spec.filling.plan.type"),
        ({"limits": {"cpu": True}}, "spec.limits.cpu"),
        ({"labels": {str(number): "" for number in range(17)}}, "spec.labels"),
        ({"template": {"spec": {}}}, "spec.template.apiVersion"),
        ({"site": "no site"}, "spec.site"),
    ],
)
@virtual
async def test_an_object_that_violates_a_constraint_is_rejected_with_the_field(spec, field):
    async with open_client(crd=False) as client:
        await client.create(SHOPS)
        with pytest.raises(Invalid) as refused:
            await client.create(shop(**spec))
        assert field in [cause.field for cause in refused.value.causes]


@virtual
async def test_open_fields_are_preserved_and_unknown_ones_pruned():
    async with open_client(crd=False) as client:
        await client.create(SHOPS)
        preserved = {
            "settings": {"deep": {"er": [1]}},
            "anything": [1, "two"],
            "extension": {"least": 1, "more": True, "most": 2},
            "template": {"apiVersion": "v1", "kind": "Pod", "spec": {"x": 1}},
            "limits": {"cpu": 1, "memory": "1Gi"},
            "shelves": None,
        }
        made = await client.create(shop(**preserved, unknown=1))
        assert {name: made.tree["spec"][name] for name in preserved} == preserved
        assert "unknown" not in made.tree["spec"]


@virtual
async def test_scale_and_selectable_fields_work_on_a_server():
    async with open_client(crd=False) as client:
        await client.create(BOTH)
        await client.create(shop())
        assert [one.name for one in await client.list(SHOP, namespace="default", fields="spec.color=red")] == ["corner"]
        assert [one.name for one in await client.list(SHOP, namespace="default", fields="spec.color=blue")] == []
        scale = await client.get(Ref(SHOP, "corner", "default"), subresource="scale")
        assert scale.tree["spec"]["replicas"] == 1


def test_the_storage_version_is_the_most_stable_unless_a_class_is_marked():
    class Alpha(Resource[SmallSpec, None], api="a.example.dev/v2alpha1", kind="Thing", plural="things"):
        pass

    class Stored(Resource[SmallSpec, None], api="a.example.dev/v1beta1", kind="Thing", plural="things", stored=True):
        pass

    class Stable(Resource[SmallSpec, None], api="a.example.dev/v1", kind="Thing", plural="things", served=False):
        pass

    versions = crd_of(Alpha, Stored, Stable)["spec"]["versions"]
    assert [(one["name"], one["served"], one["storage"]) for one in versions] == [
        ("v1", False, False),
        ("v1beta1", True, True),
        ("v2alpha1", True, False),
    ]
    assert crd_of(Alpha, Stable)["spec"]["versions"][0]["storage"]


def test_versions_are_ordered_as_in_kubernetes():
    names = ["v1", "v10beta3", "foo1", "v3beta1", "v11alpha2", "v12alpha1", "v2", "v10", "v11beta2"]
    ordered = sorted(names, key=version_priority, reverse=True)
    assert ordered == ["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "foo1"]


@virtual
async def test_a_webhook_conversion_is_accepted_by_a_server():
    service = {"name": "shop", "namespace": "shops", "path": "/convert", "port": 443}
    webhook = {"conversionReviewVersions": ["v1"], "clientConfig": {"service": service}}
    conversion = {"strategy": "Webhook", "webhook": webhook}
    words = {"labels": {"a": "b"}, "annotations": {"c": "d"}, "reads_source": False}
    async with open_client(crd=False) as client:
        made = await client.create(crd_of(OldShop, Shop, conversion=conversion, **words))
    assert made.tree["spec"]["conversion"]["webhook"]["clientConfig"]["service"]["path"] == "/convert"
    assert made.metadata.labels == {"a": "b"}


def test_builtin_kinds_get_no_crd():
    class Pod(Object, api="v1"):
        pass

    strategies = {"shops.trade.example.dev": {"strategy": "None"}}
    (made,) = crds_of([Pod, Shop, OldShop, Shop], hubs=[OldShop], conversions=strategies)
    assert [(one["name"], one["storage"]) for one in made["spec"]["versions"]] == [("v1", False), ("v1beta1", True)]
    assert made["spec"]["conversion"] == {"strategy": "None"}
    with pytest.raises(ConfigError, match="is a built-in kind of Kubernetes"):
        crd_of(Pod)


def test_classes_of_different_kinds_are_refused():
    class Other(Resource[SmallSpec, None], api="trade.example.dev/v1"):
        pass

    class Wide(Resource[SmallSpec, None], api="trade.example.dev/v3", kind="Shop", plural="shops", scope="Cluster"):
        pass

    with pytest.raises(ConfigError, match="their kind differs"):
        crd_of(Shop, Other)
    with pytest.raises(ConfigError, match="scope='Namespaced', but 'Cluster'"):
        crd_of(Shop, Wide)
    with pytest.raises(ConfigError, match="two classes for one version"):
        crd_of(Shop, Shop)
    with pytest.raises(ConfigError, match="at least one class"):
        crd_of()


def test_only_one_version_may_be_stored():
    class One(Resource[SmallSpec, None], api="a.example.dev/v1", kind="Thing", plural="things", stored=True):
        pass

    class Two(Resource[SmallSpec, None], api="a.example.dev/v2", kind="Thing", plural="things", stored=True):
        pass

    with pytest.raises(ConfigError, match="v2, v1 all have stored=True"):
        crd_of(One, Two)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": [Column("Ready", ".status.redy")]}, r"column 'Ready' has the path \.status\.redy"),
        ({"scale": Scale(spec=".spec.many")}, r"scale has the path \.spec\.many"),
        ({"selectable": [".spec.shade"]}, r"selectable has the path \.spec\.shade"),
    ],
)
def test_an_invalid_path_is_refused_when_the_crd_is_generated(options, message):
    class Thing(Resource[SmallSpec, SmallStatus], api="a.example.dev/v1", **options):
        pass

    with pytest.raises(ConfigError, match=message):
        crd_of(Thing)


def test_an_open_crd_accepts_everything_and_has_no_selectable_fields():
    made = crd_of(Shop, is_open=True)
    (version,) = made["spec"]["versions"]
    assert "selectableFields" not in version
    assert version["schema"]["openAPIV3Schema"]["x-kubernetes-preserve-unknown-fields"] is True
    assert version["additionalPrinterColumns"] == SHOPS["spec"]["versions"][0]["additionalPrinterColumns"]
