"""Installation of CRDs into an embedded server."""

import pytest

from levelset.client import OnlyMetadata
from levelset.client.object_types import view_of
from levelset.errors import ConfigError, Invalid
from levelset.objects import Column, GroupVersionKind, Ref, Resource, Scale, Spec, Status
from levelset.runtime.controller import Controller, owns, references, watches
from levelset.runtime.manager.crd_install import crds_for, install_crds, kinds_of
from levelset.testing.virtual_time import virtual
from tests.client.fixtures import ConfigMap, Namespace, open_client


class ShopSpec(Spec):
    open: bool = True
    goods: dict[str, int] = {}
    replicas: int | None = None


class ShopStatus(Status):
    sold: int = 0
    selector: str = ""
    replicas: int = 0


class Shop(
    Resource[ShopSpec, ShopStatus],
    api="trade.example.dev/v1",
    short_names=["sh"],
    categories=["all"],
    columns=[Column("Sold", ".status.sold", "integer", priority=1)],
    scale=Scale(selector=".status.selector"),
):
    """A place to buy things."""


class OldShop(Resource[ShopSpec, ShopStatus], api="trade.example.dev/v1alpha1", kind="Shop", plural="shops"):
    """The same kind in an older version."""


class Region(Resource[ShopSpec, None], api="trade.example.dev/v1", scope="Cluster"):
    """A cluster-scoped kind."""


class OddSpec(Spec):
    either: list[int] | str


class Odd(Resource[OddSpec, None], api="trade.example.dev/v1"):
    pass


async def reconcile(obj, ctx):
    pass


def test_the_kinds_of_controllers_are_those_they_reconcile_and_watch_each_once():
    shops = Controller(
        Shop,
        reconcile,
        owns(ConfigMap),
        references(Region, lambda shop: []),
        watches(OnlyMetadata(Namespace), to=lambda one: []),
        watches(GroupVersionKind("", "v1", "Secret"), to=lambda one: []),
    )
    maps = Controller(ConfigMap, reconcile)
    assert [view.gvk.kind for view in kinds_of([shops, maps])] == ["Shop", "ConfigMap", "Region", "Namespace", "Secret"]


@virtual
async def test_a_class_is_served_with_its_names_columns_and_subresources():
    async with open_client(crd=False) as client:
        shops = Controller(Shop, reconcile, owns(ConfigMap))
        assert await install_crds(client, kinds_of([shops])) == ("shops.trade.example.dev",)
        made = await client.create(Shop.new("corner", ShopSpec(goods={"tea": 3})))
        await client.update_status(made.with_status(ShopStatus(sold=2)))
        found = await client.get(Shop, "corner")
        assert (found.spec.goods, found.status) == ({"tea": 3}, ShopStatus(sold=2))
        served = await client.mapper.resource(GroupVersionKind("trade.example.dev", "v1", "Shop"))
        assert served.gvr.resource == "shops"


@virtual
async def test_kinds_that_are_served_already_are_left_alone():
    async with open_client(crd=False) as client:
        views = kinds_of([Controller(Region, reconcile, owns(ConfigMap))])
        assert await install_crds(client, views) == ("regions.trade.example.dev",)
        assert await install_crds(client, views) == ()
        await client.create(Region.new("north", ShopSpec()))


def test_several_versions_of_a_kind_are_one_crd_with_the_first_stored():
    (tree,) = crds_for([view_of(OldShop), view_of(Shop)]).values()
    versions = tree["spec"]["versions"]
    assert [(one["name"], one["storage"]) for one in versions] == [("v1", False), ("v1alpha1", True)]
    assert versions[0]["schema"]["openAPIV3Schema"]["description"] == "A place to buy things."
    assert versions[0]["subresources"]["scale"]["labelSelectorPath"] == ".status.selector"
    assert tree["spec"]["names"]["shortNames"] == ["sh"]


def test_kinds_without_a_class_have_no_crd():
    bare = GroupVersionKind("trade.example.dev", "v1", "Shop")
    assert crds_for([view_of(OnlyMetadata(Shop)), view_of(bare)]) == {}


def test_a_child_watched_as_metadata_counts_as_a_whole_kind():
    (_, view) = kinds_of([Controller(Region, reconcile, owns(Shop))])
    assert view.class_ is Shop


@virtual
async def test_the_server_rejects_what_the_class_does_not_allow():
    async with open_client(crd=False) as client:
        await install_crds(client, [view_of(Shop)])
        tree = {"apiVersion": "trade.example.dev/v1", "kind": "Shop", "metadata": {"name": "x", "namespace": "default"}}
        with pytest.raises(Invalid, match=r"spec.goods.tea"):
            await client.create({**tree, "spec": {"goods": {"tea": "much"}}})
        made = await client.create({**tree, "spec": {}})
        assert made.tree["spec"] == {"open": True}


@virtual
async def test_a_class_without_a_schema_is_served_with_a_warning(caplog):
    async with open_client(crd=False) as client:
        await install_crds(client, [view_of(Odd)])
        made = await client.create(Odd.new("x", OddSpec(either="or"), namespace="default"))
        assert made.spec.either == "or"
    (record,) = [one for one in caplog.records if one.name == "levelset.runtime.manager"]
    assert record.getMessage().startswith("odds.trade.example.dev is served without a schema")
    assert "Odd.spec.either: list | str has no structural schema" in record.getMessage()


def test_classes_that_are_not_versions_of_one_kind_raise_a_config_error():
    with pytest.raises(ConfigError, match="two classes for one version"):
        crds_for([view_of(Shop), view_of(Shop)])


@virtual
async def test_a_definition_with_an_older_version_only_gets_the_new_one_and_keeps_its_objects() -> None:
    async with open_client() as client:
        assert await install_crds(client, [view_of(OldShop)]) == ("shops.trade.example.dev",)
        await client.create(OldShop.new("corner", ShopSpec(open=False)))
        assert await install_crds(client, [view_of(Shop), view_of(OldShop)]) == ("shops.trade.example.dev",)
        new = await client.get(Ref(Shop, "corner", "default"))
        old = await client.get(Ref(OldShop, "corner", "default"))
        assert (new.spec.open, old.spec.open) == (False, False)
        await client.create(Shop.new("market", ShopSpec()))
        assert await install_crds(client, [view_of(Shop), view_of(OldShop)]) == ()
