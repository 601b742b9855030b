"""Which objects a request is about: label and field selectors, told with as little decoding as they need."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from levelset.apiserver.registry.storage_codec import served_tree
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import Tree
from levelset.errors import BadRequest, BadSelector
from levelset.objects import FieldSelector, LabelSelector
from levelset.objects.json_tree import is_map
from levelset.storage import Item

__all__ = ["Selection", "field_value", "selection_of"]

_ALL_LABELS: Final = LabelSelector.everything()
_ALL_FIELDS: Final = FieldSelector.everything()
_EVERY_KIND: Final = frozenset({"metadata.name", "metadata.namespace"})


@dataclass(frozen=True, slots=True)
class Selection:
    """A label selector and a field selector; an object must meet both. Equal texts make equal selections."""

    labels: LabelSelector = _ALL_LABELS
    fields: FieldSelector = _ALL_FIELDS

    @property
    def name(self) -> str | None:
        """The one name that is asked for, if there is one."""
        return self.fields.requires_exact("metadata.name")

    def matches(self, served: ServedResource, item: Item) -> bool:
        """Whether a stored object is meant; only its head is decoded if that decides."""
        if self.fields.fields <= _EVERY_KIND:
            head = _decode_head(item.value).metadata
            return self.labels.matches(head.labels) and self.fields.matches(
                {"metadata.name": head.name, "metadata.namespace": head.namespace}
            )
        return self.matches_tree(served_tree(served, item))

    def matches_tree(self, tree: Tree) -> bool:
        """Whether an object in its served version is meant."""
        if not self.labels.matches(tree["metadata"].get("labels")):
            return False
        return self.fields.is_everything or self.fields.matches(lambda path: field_value(tree, path))


def selection_of(served: ServedResource, parameters: Mapping[str, tuple[str, ...]]) -> Selection | None:
    """What the parameters of a request select; None if that is everything. Raises BadRequest."""
    labels, fields = parameters.get("labelSelector"), parameters.get("fieldSelector")
    if labels is None and fields is None:
        return None
    try:
        wanted = Selection(
            LabelSelector.parse(labels[0]) if labels else _ALL_LABELS,
            FieldSelector.parse(fields[0]) if fields else _ALL_FIELDS,
        )
    except BadSelector as error:
        raise BadRequest(f"unable to parse the selector: {error}") from error
    for path in sorted(wanted.fields.fields - _EVERY_KIND):
        if path not in served.selectable:
            known = ", ".join(sorted({*_EVERY_KIND, *served.selectable}))
            raise BadRequest(f"field label not supported: {path}; {served.qualified} can be selected by {known}")
    return None if wanted.labels.is_everything and wanted.fields.is_everything else wanted


def field_value(tree: Any, path: str) -> str:
    """The text that a field selector compares: empty if the field is not there."""
    value: Any = tree
    for name in path.split("."):
        if not is_map(value):
            return ""
        value = value.get(name)
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case {"component": str(component)}:  # the `source` of an event is selected by its component
            return component
        case _:
            return ""


class _Metadata(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    namespace: str = ""
    labels: dict[str, str] | None = None


class _Head(msgspec.Struct, frozen=True, gc=False):
    metadata: _Metadata


_decode_head: Final = msgspec.json.Decoder(_Head).decode
