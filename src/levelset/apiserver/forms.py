"""The other forms of an answer: an object or a list as a Table, or as nothing but its metadata.

A client asks for them in its Accept header (`application/json;as=Table;g=meta.k8s.io;v=v1`); `negotiation` reads that
and names the form here.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from levelset.apiserver import tables
from levelset.apiserver.served import Object, Served
from levelset.errors import BadRequest

__all__ = ["METADATA", "METADATA_LIST", "TABLE", "Form", "form_of", "render", "render_table", "to_metadata"]

TABLE = "Table"
METADATA = "PartialObjectMetadata"
METADATA_LIST = "PartialObjectMetadataList"
_INCLUDES = ("Metadata", "None", "Object")


@dataclass(frozen=True, slots=True)
class Form:
    """What the client wants instead of the object: one of TABLE, METADATA, METADATA_LIST, in a version of meta.k8s.io.

    `include` says what each row of a table carries of its object: `Metadata`, `Object` or `None`.
    """

    kind: str
    version: str = "v1"
    include: str = "Metadata"

    @property
    def api_version(self) -> str:
        """The apiVersion of the answer."""
        return f"meta.k8s.io/{self.version}"


def form_of(kind: str, version: str = "v1", *, include: str | None = None) -> Form:
    """The form with the `includeObject` of the query; raises BadRequest for an unknown one."""
    if kind != TABLE:
        return Form(kind, version)
    chosen = include or "Metadata"
    if chosen not in _INCLUDES:
        raise BadRequest(f"unrecognized includeObject value: {chosen[:40]!r}; choose one of {', '.join(_INCLUDES)}")
    return Form(kind, version, chosen)


def render(served: Served, form: Form, tree: Object, *, now: datetime) -> Object:
    """The tree in another form; a tree with `items` is a list. What is not changed is shared with the tree given."""
    if form.kind == TABLE:
        return render_table(served, form, tree, now=now)
    items: list[Object] | None = tree.get("items")
    if items is None or form.kind == METADATA:
        return to_metadata(tree, form.api_version)
    return {
        "kind": METADATA_LIST,
        "apiVersion": form.api_version,
        "metadata": tree.get("metadata", {}),
        "items": [to_metadata(item, form.api_version) for item in items],
    }


def to_metadata(tree: Object, api_version: str = "meta.k8s.io/v1") -> Object:
    """An object without all but its metadata."""
    return {"kind": METADATA, "apiVersion": api_version, "metadata": tree.get("metadata", {})}


def render_table(served: Served, form: Form, tree: Object, *, now: datetime, headed: bool = True) -> Object:
    """One object or a list as a table; in a watch only the first table is `headed` by its columns."""
    items: list[Object] | None = tree.get("items")
    kind: str | None = tree.get("kind") if items is None else None
    metadata: Object = tree.get("metadata", {})
    if items is None:  # one object gives its table its resourceVersion, but nothing else of its metadata
        metadata = {"resourceVersion": metadata.get("resourceVersion", "")}
        items = [tree]
    return {
        "kind": TABLE,
        "apiVersion": form.api_version,
        "metadata": metadata,
        "columnDefinitions": tables.definitions(served, kind) if headed else None,
        "rows": [{"cells": tables.cells(served, one, now), "object": _row_object(served, form, one)} for one in items],
    }


def _row_object(served: Served, form: Form, tree: Object) -> Any:
    if form.include == "None":
        return None
    if form.include == "Object":
        # Items of a built-in list come without kind and apiVersion; a row's object always says what it is.
        return {"kind": served.kind, "apiVersion": served.api_version, **tree}
    return to_metadata(tree, form.api_version)
