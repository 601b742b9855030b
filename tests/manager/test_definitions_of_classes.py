"""Definitions for a server of one's own."""

from levelset.client import OnlyMetadata
from levelset.controller import Controller, owns, references, watches
from levelset.manager.definitions import install_definitions, kinds_of, permissive_definition
from levelset.objects import Column, GroupVersionKind, Resource, Scale, Spec, Status
from levelset.objects.definition import definition_of
from tests.apiserver.clock import virtual
from tests.client.world import ConfigMap, Namespace, open_client


class ShopSpec(Spec):
    open: bool = True
    goods: dict[str, int] = {}


class ShopStatus(Status):
    sold: int = 0


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
    """The same in the words of yesterday."""


class Region(Resource[ShopSpec, None], api="trade.example.dev/v1", scope="Cluster"):
    """Where shops are."""


async def reconcile(obj, ctx):
    pass


def test_the_kinds_of_controllers_are_what_they_look_at_and_follow_each_once():
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
        assert await install_definitions(client, kinds_of([shops])) == ("shops.trade.example.dev",)
        made = await client.create(Shop.new("corner", ShopSpec(goods={"tea": 3})))
        await client.update_status(made.with_status(ShopStatus(sold=2)))
        found = await client.get(Shop, "corner")
        assert (found.spec.goods, found.status) == ({"tea": 3}, ShopStatus(sold=2))
        served = await client.mapper.resource(GroupVersionKind("trade.example.dev", "v1", "Shop"))
        assert served.gvr.resource == "shops"


@virtual
async def test_what_is_served_already_is_left_alone():
    async with open_client(crd=False) as client:
        views = kinds_of([Controller(Region, reconcile, owns(ConfigMap))])
        assert await install_definitions(client, views) == ("regions.trade.example.dev",)
        assert await install_definitions(client, views) == ()
        await client.create(Region.new("north", ShopSpec()))


def test_several_versions_of_a_kind_are_one_definition_of_which_the_first_is_stored():
    tree = permissive_definition([definition_of(Shop), definition_of(OldShop)])
    versions = tree["spec"]["versions"]
    assert [(one["name"], one["storage"]) for one in versions] == [("v1", True), ("v1alpha1", False)]
    assert versions[0]["schema"]["openAPIV3Schema"]["description"] == "A place to buy things."
    assert versions[0]["subresources"]["scale"]["labelSelectorPath"] == ".status.selector"
    assert versions[0]["additionalPrinterColumns"] == [
        {"name": "Sold", "type": "integer", "jsonPath": ".status.sold", "priority": 1}
    ]
    assert tree["spec"]["names"]["shortNames"] == ["sh"]
