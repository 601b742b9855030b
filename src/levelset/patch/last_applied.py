"""The last-applied-configuration annotation of kubectl: migration from client-side to server-side apply.

Client-side `kubectl apply` stores what it applied in an annotation, and writes the object as an update. When the same
user switches to server-side apply, those updates belong to another manager, and every change would be a conflict. So
for the manager "kubectl", conflicts are ignored on fields whose live value is the one in the annotation.
"""

from typing import Final, cast

import msgspec

from levelset.errors import BadPatch
from levelset.objects.json_tree import Tree
from levelset.patch.field_sets import EMPTY, FieldSet, compare, fields_of
from levelset.patch.merge_schema import Shape

__all__ = ["KUBECTL", "LAST_APPLIED", "fields_last_applied", "refresh_last_applied"]

KUBECTL: Final = "kubectl"
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
MAX_ANNOTATION_BYTES: Final = 256 * 1024


def fields_last_applied(live: dict[str, Tree], *, shape: Shape, api_version: str) -> FieldSet:
    """The fields that client-side apply wrote and that have not changed since: conflicts on them are ignored.

    Empty if there is no annotation, or if it is unreadable or of another version: then every conflict counts.
    """
    text = _annotations(live).get(LAST_APPLIED)
    if not isinstance(text, str) or not text:
        return EMPTY
    try:
        applied = cast("Tree", msgspec.json.decode(text))
        if not isinstance(applied, dict) or applied.get("apiVersion") != api_version:
            return EMPTY
        changes = compare(applied, live, shape)
        return fields_of(applied, shape, strict=True) - changes.changed - changes.removed
    except (msgspec.DecodeError, UnicodeError, BadPatch):
        return EMPTY


def refresh_last_applied(merged: dict[str, Tree], config: dict[str, Tree]) -> dict[str, Tree]:
    """The merged object with the annotation updated, if it has one.

    A user who goes back to client-side apply then continues from the last applied configuration. An annotation that
    would exceed the size limit is dropped, as in Kubernetes.
    """
    annotations = _annotations(merged)
    if not annotations.get(LAST_APPLIED):
        return merged
    try:
        text = msgspec.json.encode(_without_annotation(config), order="deterministic").decode() + "\n"
    except (TypeError, ValueError, OverflowError) as error:
        raise BadPatch(f"the applied object cannot be written as JSON: {error}") from None
    changed = {**annotations, LAST_APPLIED: text}
    if (
        sum([len(str(name).encode()) + len(str(note).encode()) for name, note in changed.items()])
        > MAX_ANNOTATION_BYTES
    ):
        del changed[LAST_APPLIED]
    if changed == annotations:
        return merged
    return _annotated(merged, changed)


def _without_annotation(config: dict[str, Tree]) -> dict[str, Tree]:
    annotations = _annotations(config)
    if LAST_APPLIED not in annotations:
        return config
    rest = {name: note for name, note in annotations.items() if name != LAST_APPLIED}
    return _annotated(config, rest)


def _annotated(tree: dict[str, Tree], annotations: dict[str, Tree]) -> dict[str, Tree]:
    metadata = tree["metadata"]
    return {**tree, "metadata": {**(metadata if isinstance(metadata, dict) else {}), "annotations": annotations}}


def _annotations(tree: dict[str, Tree]) -> dict[str, Tree]:
    metadata = tree.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return annotations if isinstance(annotations, dict) else {}
