"""From a CustomResourceDefinition to what is served: one `Served` for each of its versions."""

import functools
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from levelset.apiserver.registry.crd.names import is_terminating
from levelset.apiserver.registry.crd.validation import expression_rules
from levelset.apiserver.resources.json_members import items, part
from levelset.apiserver.resources.served_resource import Column, Object, Rules, ScalePaths, ServedResource
from levelset.apiserver.schema import Compiled, compile_schema
from levelset.patch import Shape, resource_shape

__all__ = ["schema_tree", "served_of"]

NAME = Column("Name", "string", "name", description="The name of the object, unique within its namespace.")
AGE = Column(
    "Age",
    "date",
    description="When the object was created, as seen by the server.",
    path=".metadata.creationTimestamp",
)
RULES = Rules()


def served_of(
    definition: Object,
    since: int,
    *,
    logs: Callable[..., Any] | None = None,
    convert: Callable[[Object, str], Object] | None = None,
    awaits: bool = False,
) -> tuple[ServedResource, ...]:
    """All versions of a definition, those that are not served included.

    `since` is the revision at which its schemas last changed, `logs` what answers its `log` subresource, `convert` what
    makes of an object in one version the same object in another, `awaits` whether that may have to be waited for.
    """
    versions = definition["spec"]["versions"]
    schemas = {one["name"]: _schema(one) for one in versions}
    storage = next(one for one in versions if one.get("storage"))
    made = [_served(definition, one, storage, schemas, since) for one in versions]
    if convert is not None:
        # What is not stored in the version that is asked for must be converted, however new it is.
        made = [replace(one, convert=convert, awaits=awaits, since=_since_converted(one)) for one in made]
    return tuple(made if logs is None else [replace(one, logs=logs) for one in made])


def _since_converted(served: ServedResource) -> int:
    return served.since if served.version == served.storage_version else sys.maxsize


def schema_tree(version: Object) -> Any:
    """The schema of a version as it was written; None if it has none."""
    return part(version, "schema").get("openAPIV3Schema")


def _served(
    definition: Object, version: Object, storage: Object, schemas: dict[str, Callable[[], Compiled | None]], since: int
) -> ServedResource:
    spec = definition["spec"]
    # Names that are not accepted yet are missing there; nothing is served then, but objects may be stored.
    names = {**spec["names"], **part(part(definition, "status"), "acceptedNames")}
    subresources = part(version, "subresources")
    # A version with a schema of its own drops what it does not know on every read, however new the object.
    differs = schema_tree(version) != schema_tree(storage)
    return ServedResource(
        spec["group"],
        version["name"],
        names["kind"],
        spec["names"]["plural"],
        names.get("singular") or names["kind"].lower(),
        names.get("listKind") or f"{names['kind']}List",
        namespaced=spec["scope"] == "Namespaced",
        storage_version=storage["name"],
        short_names=tuple(items(names, "shortNames")),
        categories=tuple(items(names, "categories")),
        custom=True,
        status=subresources.get("status") is not None,
        scale=_scale(subresources.get("scale")),
        schema=schemas[version["name"]],
        schema_source=schema_tree(version),
        storage_schema=schemas[storage["name"]],
        shape=_shape(version),
        column_source=functools.partial(_columns, version),
        selectable=tuple(one["jsonPath"].lstrip(".") for one in items(version, "selectableFields")),
        rules=_rules(version),
        deprecation=_deprecation(spec["group"], version, names["kind"]),
        terminating=is_terminating(definition),
        since=sys.maxsize if differs else since,
    )


def _rules(version: Object) -> Rules:
    expressions = expression_rules(schema_tree(version))
    return RULES if expressions is None else replace(RULES, expressions=expressions)


def _schema(version: Object) -> Callable[[], Compiled | None]:
    tree = schema_tree(version)
    return functools.cache(lambda: None if tree is None else compile_schema(tree))


def _shape(version: Object) -> Callable[[], Shape]:
    tree = schema_tree(version)
    return functools.cache(lambda: resource_shape(tree))


def _scale(scale: Any) -> ScalePaths | None:
    if scale is None:
        return None
    return ScalePaths(scale["specReplicasPath"], scale["statusReplicasPath"], scale.get("labelSelectorPath"))


def _columns(version: Object) -> tuple[Column, ...]:
    columns = version.get("additionalPrinterColumns")
    return (NAME, *map(_column, columns)) if columns else (NAME, AGE)


def _column(tree: Object) -> Column:
    return Column(
        tree["name"],
        tree["type"],
        tree.get("format") or "",
        tree.get("priority") or 0,
        tree.get("description") or "",
        tree["jsonPath"],
    )


def _deprecation(group: str, version: Object, kind: str) -> str | None:
    if not version.get("deprecated"):
        return None
    return version.get("deprecationWarning") or f"{group}/{version['name']} {kind} is deprecated"
