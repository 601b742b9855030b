"""Label and field selectors of list, watch and deletecollection requests, matched with little decoding."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from levelset.apiserver.registry.storage_codec import served_tree
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import Tree
from levelset.errors import BadRequest, BadSelector
from levelset.objects import FieldSelector, LabelSelector
from levelset.objects.json_tree import is_map
from levelset.storage import Item

__all__ = ["Selectors", "field_value", "parse_selectors"]

_ALL_LABELS: Final = LabelSelector.everything()
_ALL_FIELDS: Final = FieldSelector.everything()
_EVERY_KIND: Final = frozenset({"metadata.name", "metadata.namespace"})
# Other kinds without a namespace can be selected by it, too.
_WITHOUT_NAMESPACE_FIELD: Final = frozenset({("", "v1", "namespaces"), ("", "v1", "nodes")})
# Fields that are computed: a bool that is absent is false, and Job's count has another name.
_FALSE: Final = frozenset({"spec.hostNetwork", "spec.unschedulable"})
_ALIASES: Final = {"status.successful": "status.succeeded"}


class Selectors(msgspec.Struct, frozen=True):
    """A label selector and a field selector, which must both match. Selectors with equal strings compare equal."""

    labels: LabelSelector = _ALL_LABELS
    fields: FieldSelector = _ALL_FIELDS

    @property
    def name(self) -> str | None:
        """The name that the field selector requires; None if it does not."""
        return self.fields.requires_exact("metadata.name")

    def matches(self, served: ServedResource, item: Item) -> bool:
        """Whether a stored object matches; decodes only its metadata if that is enough."""
        if self.fields.fields <= _EVERY_KIND:
            head = _decode_head(item.value).metadata
            return self.labels.matches(head.labels) and self.fields.matches(
                {"metadata.name": head.name, "metadata.namespace": head.namespace}
            )
        return self.matches_tree(served_tree(served, item))

    def matches_tree(self, tree: Tree) -> bool:
        """Whether an object in its served version matches."""
        if not self.labels.matches(tree["metadata"].get("labels")):
            return False
        return self.fields.is_everything or self.fields.matches(lambda path: field_value(tree, path))


def parse_selectors(served: ServedResource, parameters: Mapping[str, tuple[str, ...]]) -> Selectors | None:
    """Parses the selectors of a request; None if they select everything. Raises BadRequest."""
    labels, fields = parameters.get("labelSelector"), parameters.get("fieldSelector")
    if labels is None and fields is None:
        return None
    try:
        selectors = Selectors(
            LabelSelector.parse(labels[0]) if labels else _ALL_LABELS,
            FieldSelector.parse(fields[0]) if fields else _ALL_FIELDS,
        )
    except BadSelector as error:
        raise BadRequest(f"unable to parse the selector: {error}") from error
    has_namespace = served.gvr not in _WITHOUT_NAMESPACE_FIELD
    everywhere = _EVERY_KIND if has_namespace else frozenset({"metadata.name"})
    for path in sorted(selectors.fields.fields - everywhere):
        if path not in served.selectable:
            known = ", ".join(sorted({*everywhere, *served.selectable}))
            raise BadRequest(f"field label not supported: {path}; {served.qualified} can be selected by {known}")
    return None if selectors.labels.is_everything and selectors.fields.is_everything else selectors


def field_value(tree: Any, path: str) -> str:
    """The string that a field selector compares with; empty if the field does not exist."""
    if path == "source":
        return field_value(tree, "source.component") or field_value(tree, "reportingComponent")
    value: Any = tree
    for name in _ALIASES.get(path, path).split("."):
        if not is_map(value):
            return ""
        value = value.get(name)
    if value is None and path in _FALSE:
        return "false"
    if path in _ALIASES:
        return str(value or 0)
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case _:
            return ""


class _Metadata(msgspec.Struct, frozen=True, gc=False):
    name: str = ""
    namespace: str = ""
    labels: dict[str, str] | None = None


class _Head(msgspec.Struct, frozen=True, gc=False):
    metadata: _Metadata


_decode_head: Final = msgspec.json.Decoder(_Head).decode
