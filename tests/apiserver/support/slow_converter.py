"""A version converter that must be awaited, without a webhook connection."""

from collections.abc import Sequence
from typing import Any, cast

from msgspec.structs import replace

from levelset.apiserver.registry.conversion import ConversionRequired
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.errors import ServerFailed
from levelset.objects import decode_tree, encode_tree
from levelset.storage import Item

__all__ = ["SlowConverter", "item", "served", "value"]


class SlowConverter:
    """Converts by replacing the apiVersion, after the conversion was awaited."""

    def __init__(self) -> None:
        self.known: dict[tuple[bytes, str], bytes] = {}
        self.calls: list[int] = []

    def __call__(self, tree: dict[str, Any], wanted: str) -> dict[str, Any]:
        data = encode_tree(tree)
        if (data, wanted) not in self.known:
            raise ConversionRequired(self, data, wanted)
        return cast("dict[str, Any]", decode_tree(self.known[data, wanted]))

    async def convert_all(self, needs: Sequence[ConversionRequired], /) -> None:
        self.calls.append(len(needs))
        for one in needs:
            if b"broken" in one.data:
                raise ServerFailed("broken")
            self.known[one.data, one.api_version] = one.data.replace(b"example.com/v2", one.api_version.encode())


def served(converter: SlowConverter) -> ServedResource:
    """The resource of widgets, served in v1 and stored in v2."""
    made = ServedResource("example.com", "v1", "Widget", "widgets", "widget", "WidgetList", True, "v2", custom=True)
    return replace(made, convert=converter, converts_by_webhook=True, since=10**9)


def value(name: str) -> bytes:
    """The stored bytes of a widget."""
    return encode_tree({"apiVersion": "example.com/v2", "kind": "Widget", "metadata": {"name": name}, "spec": {}})


def item(name: str) -> Item:
    """A stored widget."""
    return Item(f"/registry/example.com/widgets/default/{name}", value(name), 1, 1, 1)
