"""The ways to say which objects are meant, read into one: a selector as a text, as a map, or as the value itself."""

from collections.abc import Mapping
from typing import Any

from levelset.errors import BadSelector
from levelset.objects.fieldselectors import FieldSelector
from levelset.objects.selectors import LabelSelector

__all__ = ["Fields", "Labels", "read_fields", "read_labels"]

Labels = str | Mapping[str, str] | LabelSelector
"""A label selector: as a text, as labels that must all be there, or as a value."""
Fields = str | Mapping[str, str] | FieldSelector
"""A field selector, in the same three ways."""


def read_labels(labels: Labels | None) -> LabelSelector | None:
    """The label selector that is meant; BadSelector for what is none, before anything is asked."""
    if isinstance(labels, str):
        return LabelSelector.parse(labels)
    if isinstance(labels, Mapping):
        return LabelSelector.of(labels)
    if labels is None or isinstance(labels, LabelSelector):
        return labels
    raise _none("label", labels)


def read_fields(fields: Fields | None) -> FieldSelector | None:
    """The field selector that is meant; BadSelector for what is none, before anything is asked."""
    if isinstance(fields, str):
        return FieldSelector.parse(fields)
    if isinstance(fields, Mapping):
        return FieldSelector.of(fields)
    if fields is None or isinstance(fields, FieldSelector):
        return fields
    raise _none("field", fields)


def _none(what: str, given: Any) -> BadSelector:
    # Taken as its text, it would select something else than was meant; a delete would, too.
    ways = f'give a text ("a=b"), a map, or a {what.title()}Selector'
    return BadSelector(f"a value of type {type(given).__name__} is no {what} selector; {ways}")
