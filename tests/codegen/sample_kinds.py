"""Sample kinds for tests of the generators, with one of each feature of a class."""

import enum
from datetime import datetime
from typing import Annotated, Any, Literal

from levelset.objects import (
    Atomic,
    Column,
    Condition,
    Embedded,
    ListMap,
    ListSet,
    Meta,
    Model,
    PreserveUnknown,
    Quantity,
    Resource,
    Rule,
    Scale,
    Spec,
    Status,
)

__all__ = [
    "Color",
    "Cron",
    "Filling",
    "OldShop",
    "OldShopSpec",
    "Port",
    "Shop",
    "ShopSpec",
    "ShopStatus",
    "Stock",
    "Weekly",
]


class Color(enum.StrEnum):
    """What a shop is painted in."""

    RED = "red"
    BLUE = "blue"


class Port(Model):
    """A door for customers from the network."""

    name: Annotated[str, Meta(min_length=1, max_length=15, pattern=r"^[a-z0-9-]+$")]
    number: Annotated[int, Meta(ge=1, le=65535)]
    """Where it listens."""
    target: int | str | None = None
    protocol: Literal["TCP", "UDP"] = "TCP"


class Stock(Model, rules=[Rule("self.least <= self.most", "least must not be above most", field_path=".least")]):
    """How much is kept."""

    least: Annotated[int, Meta(ge=0)] = 0
    most: Annotated[int, Meta(lt=1000)] = 100


class Weekly(Model, tag="Weekly", tag_field="type"):
    """Goods come on one day."""

    day: Literal["Monday", "Friday"]


class Cron(Model, tag="Cron", tag_field="type"):
    """Goods come by a table of times."""

    schedule: str
    zone: str = "UTC"


class Filling(Model):
    """How the shelves are filled."""

    plan: Weekly | Cron | None = None


class ShopSpec(Spec):
    """What the owner wants."""

    image: Annotated[str, Meta(min_length=1), Rule("self == oldSelf", "the image cannot change")]
    replicas: Annotated[int, Meta(ge=0, multiple_of=1)] = 1
    color: Color = Color.RED
    closed: bool = False
    share: Annotated[float, Meta(gt=0, le=1)] = 0.5
    ports: Annotated[tuple[Port, ...], ListMap("name"), Meta(max_length=8)] = ()
    hosts: Annotated[tuple[str, ...], ListSet()] = ()
    tags: frozenset[str] = frozenset()
    arguments: Annotated[list[str], Atomic()] = []
    memory: Quantity = Quantity("128Mi")
    opened: datetime | None = None
    shelves: Annotated[int, Meta(ge=1)] | None = 3
    stock: Stock = Stock()
    filling: Filling | None = None
    limits: dict[str, Quantity] = {}
    labels: Annotated[dict[str, str], Atomic(), Meta(max_length=16)] = {}
    settings: dict[str, Any] = {}
    extension: Annotated[Stock, PreserveUnknown()] | None = None
    template: Annotated[dict[str, Any], Embedded()] = {}
    anything: Any = None
    site: Annotated[str, Meta(extra_json_schema={"format": "uri"})] | None = None


class ShopStatus(Status):
    """How the shop is."""

    replicas: int = 0
    selector: str = ""
    conditions: tuple[Condition, ...] = ()


class Shop(
    Resource[ShopSpec, ShopStatus],
    api="trade.example.dev/v1",
    short_names=["sh"],
    categories=["all"],
    columns=[
        Column("Replicas", ".status.replicas", "integer"),
        Column("Color", ".spec.color", priority=1, description="What it is painted in."),
        Column("Age", ".metadata.creationTimestamp", "date"),
    ],
    scale=Scale(selector=".status.selector"),
    selectable=[".spec.color"],
):
    """A place to buy things."""


class OldShopSpec(Spec):
    """What the owner wanted."""

    picture: str = ""


class OldShop(
    Resource[OldShopSpec, ShopStatus],
    api="trade.example.dev/v1beta1",
    kind="Shop",
    plural="shops",
    deprecated="use trade.example.dev/v1; this version goes in 2027",
):
    """A shop in the words of yesterday."""
