"""A converter that must be waited for, without any connection."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from levelset.apiserver.registry.conversion import NeedsConversion
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.errors import ServerFailed
from levelset.objects import decode_tree, encode_tree
from levelset.storage import Item

__all__ = ["Slow", "item", "served", "value"]


class Slow:
    """Converts by changing the version, after it was waited for."""

    def __init__(self) -> None:
        self.known: dict[tuple[bytes, str], bytes] = {}
        self.calls: list[int] = []

    def __call__(self, tree: dict[str, Any], wanted: str) -> dict[str, Any]:
        data = encode_tree(tree)
        if (data, wanted) not in self.known:
            raise NeedsConversion(self, data, wanted)
        return cast("dict[str, Any]", decode_tree(self.known[data, wanted]))

    async def fulfil(self, needs: Sequence[NeedsConversion], /) -> None:
        self.calls.append(len(needs))
        for one in needs:
            if b"broken" in one.data:
                raise ServerFailed("broken")
            self.known[one.data, one.wanted] = one.data.replace(b"example.com/v2", one.wanted.encode())


def served(converter: Slow) -> ServedResource:
    """Widgets in v1, stored in v2."""
    made = ServedResource("example.com", "v1", "Widget", "widgets", "widget", "WidgetList", True, "v2", custom=True)
    return replace(made, convert=converter, awaits=True, since=10**9)


def value(name: str) -> bytes:
    """What is stored for a widget."""
    return encode_tree({"apiVersion": "example.com/v2", "kind": "Widget", "metadata": {"name": name}, "spec": {}})


def item(name: str) -> Item:
    """A stored widget."""
    return Item(f"/registry/example.com/widgets/default/{name}", value(name), 1, 1, 1)
