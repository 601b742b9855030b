"""Label and field selectors of list, watch and deletecollection requests, matched with little decoding."""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from levelset.apiserver.registry.storage_codec import served_tree
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.apiserver.resources.server_state import Tree
from levelset.apiserver.schema.field_errors import show
from levelset.errors import BadRequest, BadSelector
from levelset.objects import FieldSelector, LabelSelector
from levelset.objects.field_selectors import FieldRequirement, FieldTerm, parse_field_terms
from levelset.objects.json_tree import is_map
from levelset.objects.label_selectors import cut_at_nulls
from levelset.objects.names import shorten
from levelset.storage import Item

__all__ = ["NOTHING", "SelectorTexts", "Selectors", "field_value", "read_selectors"]

_ALL_LABELS: Final = LabelSelector.everything()
_ALL_FIELDS: Final = FieldSelector.everything()
_EVERY_KIND: Final = frozenset({"metadata.name", "metadata.namespace"})
# Upstream every kind with fields of its own has words of its own for all others; most of them agree.
_UNKNOWN_FIELDS: Final = {
    ("batch", "Job"): "field label {quoted} not supported for Job",
    ("resource.k8s.io", "ResourceSlice"): (
        "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: {name}"
    ),
}
_MAX_CACHED_TEXTS: Final = 512
_FIELD_ALIASES: Final = {("", "Pod", "spec.host"): "spec.nodeName"}
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


NOTHING: Final = Selectors(LabelSelector.nothing())
"""Selects no object."""


class SelectorTexts(msgspec.Struct, frozen=True):
    """The selectors of a request, parsed; which fields the kind can be selected by is not checked yet."""

    labels: LabelSelector
    terms: tuple[FieldTerm, ...]

    def resolve(self, served: ServedResource) -> Selectors | None:
        """The selectors for objects of a kind; None if they select everything. Raises BadRequest."""
        fields = FieldSelector(tuple(_requirements(served, self.terms))) if self.terms else _ALL_FIELDS
        return None if self.labels.is_everything and fields.is_everything else Selectors(self.labels, fields)


def read_selectors(parameters: Mapping[str, tuple[str, ...]]) -> SelectorTexts | None:
    """Parses the selectors of a request; None if there are none. Raises BadRequest in the words of kube-apiserver.

    Upstream parses them together with other options, checks whether the options fit together, and only then whether the
    kind has the fields: `resolve` does that.
    """
    labels, fields = parameters.get("labelSelector"), parameters.get("fieldSelector")
    if labels is None and fields is None:
        return None
    texts = labels[0] if labels else "", fields[0] if fields else ""
    return _cached_texts(*texts) if len(texts[0]) + len(texts[1]) <= _MAX_CACHED_TEXTS else _read_texts(*texts)


def _read_texts(labels: str, fields: str) -> SelectorTexts:
    try:
        return SelectorTexts(
            LabelSelector.parse(cut_at_nulls(labels) if "\0" in labels else labels) if labels else _ALL_LABELS,
            tuple(parse_field_terms(fields)) if fields else (),
        )
    except BadSelector as error:
        raise BadRequest(error.api_message) from error


_cached_texts: Final = lru_cache(maxsize=256)(_read_texts)  # a client sends the same selectors with all of its lists


def _requirements(served: ServedResource, terms: tuple[FieldTerm, ...]) -> Iterator[FieldRequirement]:
    for term in terms:
        if not term.field and not term.value:
            continue  # upstream takes `=` for a term that says nothing
        name = _FIELD_ALIASES.get((served.group, served.kind, term.field), term.field)
        if not _is_selectable(served, name):
            raise BadRequest(_unknown_field(served, name))
        yield FieldRequirement(name, term.value, term.negated)


def _is_selectable(served: ServedResource, name: str) -> bool:
    if name == "metadata.namespace":  # most kinds without namespaces can be selected by it, too
        return served.namespaced or not (served.custom or served.selectable)
    return name == "metadata.name" or name in served.selectable


def _unknown_field(served: ServedResource, name: str) -> str:
    if served.custom or served.selectable:
        text = "field label not supported: {name}"
        return _UNKNOWN_FIELDS.get((served.group, served.kind), text).format(name=shorten(name), quoted=show(name))
    return f'{show(name)} is not a known field selector: only "metadata.name", "metadata.namespace"'


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
