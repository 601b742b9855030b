"""The served resources of a CustomResourceDefinition: one `ServedResource` for each of its versions."""

import functools
import sys
from collections.abc import Callable
from itertools import takewhile
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from levelset.apiserver.registry.crd.names import is_terminating
from levelset.apiserver.registry.crd.scale_values import ScaleValues
from levelset.apiserver.registry.crd.validation import expression_rules
from levelset.apiserver.resources.catalog import sort_versions
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.served_resource import Column, Object, Rules, ScalePaths, ServedResource
from levelset.apiserver.schema import Compiled, compile_schema
from levelset.apiserver.wire.json_path import parse_path
from levelset.errors import BadPointer
from levelset.objects import decode_tree, encode_tree
from levelset.patch import Shape, resource_shape

__all__ = ["schema_tree", "served_versions"]

NAME_COLUMN = Column("Name", "string", "name", description="The name of the object, unique within its namespace.")
AGE_COLUMN = Column(
    "Age",
    "date",
    description="When the object was created, as seen by the server.",
    path=".metadata.creationTimestamp",
)
CUSTOM_RESOURCE_RULES = Rules()
_SMALL: Final = 32 * 1024
_READ_METADATA: Final = frozenset({"name", "deletionTimestamp"})
"""The metadata of a CRD that its resources depend on."""


def served_versions(
    definition: Object,
    since: int,
    *,
    logs: Callable[..., Any] | None = None,
    convert: Callable[[Object, str], Object] | None = None,
    converts_by_webhook: bool = False,
) -> tuple[ServedResource, ...]:
    """The resources of all versions of a CRD, including those that are not served.

    `since` is the storage revision at which its schemas last changed, `logs` the handler of its `log` subresource,
    `convert` the converter between its versions, `converts_by_webhook` whether it is a webhook that must be awaited.
    """
    resources = _small_or_whole(definition, since)
    if convert is not None:
        # An object that is not stored in the requested version must be converted, whenever it was written.
        resources = tuple(
            replace(one, convert=convert, converts_by_webhook=converts_by_webhook, since=_since_converted(one))
            for one in resources
        )
    return resources if logs is None else tuple(replace(one, logs=logs) for one in resources)


def _small_or_whole(definition: Object, since: int) -> tuple[ServedResource, ...]:
    """The resources without handlers; servers of this process share those of a small definition, with its schemas."""
    metadata = {name: value for name, value in definition["metadata"].items() if name in _READ_METADATA}
    document = encode_tree({**definition, "metadata": metadata})
    return _shared(document, since) if len(document) < _SMALL else _whole(definition, since)


@functools.lru_cache(maxsize=32)  # tests start one server after the other, each with the same kinds
def _shared(document: bytes, since: int) -> tuple[ServedResource, ...]:
    return _whole(decode_tree(document), since)


def _whole(definition: Object, since: int) -> tuple[ServedResource, ...]:
    versions = definition["spec"]["versions"]
    schemas = {one["name"]: _schema(one) for one in versions}
    storage = next(one for one in versions if one.get("storage"))
    return tuple(_served(definition, one, storage, schemas, since) for one in versions)


def _since_converted(served: ServedResource) -> int:
    return served.since if served.version == served.storage_version else sys.maxsize


def schema_tree(version: Object) -> Any:
    """The `openAPIV3Schema` of a version; None if it has none."""
    return map_member(version, "schema").get("openAPIV3Schema")


def _served(
    definition: Object, version: Object, storage: Object, schemas: dict[str, Callable[[], Compiled | None]], since: int
) -> ServedResource:
    spec = definition["spec"]
    # The accepted names are incomplete until there is no conflict; nothing is served then, but objects may be stored.
    names = {**spec["names"], **map_member(map_member(definition, "status"), "acceptedNames")}
    subresources = map_member(version, "subresources")
    # A version whose schema differs from that of the storage version prunes every object that it reads.
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
        short_names=tuple(list_member(names, "shortNames")),
        categories=tuple(list_member(names, "categories")),
        custom=True,
        status=subresources.get("status") is not None,
        scale=_scale(subresources.get("scale")),
        schema=schemas[version["name"]],
        schema_source=schema_tree(version),
        storage_schema=schemas[storage["name"]],
        shape=_shape(version),
        column_source=functools.partial(_columns, version),
        selectable=tuple(one["jsonPath"].lstrip(".") for one in list_member(version, "selectableFields")),
        rules=_rules(version, schemas[version["name"]]),
        deprecation=_deprecation(spec, version, names["kind"]),
        terminating=is_terminating(definition),
        since=sys.maxsize if differs else since,
    )


def _rules(version: Object, schema: Callable[[], Compiled | None]) -> Rules:
    source = schema_tree(version)
    expressions = expression_rules(source)
    has_status = map_member(version, "subresources").get("status") is not None
    # The client's status is dropped from a new object; the defaults of the schema take its place, without an owner.
    defaults_status = has_status and "default" in map_member(map_member(source, "properties"), "status")
    paths = _scale(map_member(version, "subresources").get("scale"))
    if expressions is None and not defaults_status and paths is None:
        return CUSTOM_RESOURCE_RULES
    prepare = functools.partial(_default_status, schema) if defaults_status else None
    rules = msgspec.structs.replace(CUSTOM_RESOURCE_RULES, expressions=expressions, prepare_create=prepare)
    if paths is None:
        return rules
    values = ScaleValues(paths)
    return msgspec.structs.replace(rules, validate=values.validate, validate_part=values.validate_part)


def _default_status(schema: Callable[[], Compiled | None], tree: Object) -> None:
    compiled = schema()
    if compiled is not None:
        compiled.default(tree)


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
    columns = list_member(version, "additionalPrinterColumns")
    if not columns:
        return NAME_COLUMN, AGE_COLUMN
    # As upstream: a column whose path cannot be parsed ends the table.
    return (NAME_COLUMN, *map(_column, takewhile(_has_path, columns)))


def _has_path(column: Object) -> bool:
    try:
        parse_path(column["jsonPath"])
    except BadPointer:
        return False
    return True


def _column(tree: Object) -> Column:
    return Column(
        tree["name"],
        tree["type"],
        tree.get("format") or "",
        tree.get("priority") or 0,
        tree.get("description") or "",
        tree["jsonPath"],
    )


def _deprecation(spec: Object, version: Object, kind: str) -> str | None:
    """The warning of a deprecated version; by default it names the version to use: the preferred one above it."""
    if not version.get("deprecated"):
        return None
    if warning := version.get("deprecationWarning"):
        return str(warning)
    group, name = spec["group"], version["name"]
    current = [one["name"] for one in spec["versions"] if one.get("served") and not one.get("deprecated")]
    better = list(takewhile(lambda one: one != name, sort_versions([*current, name])))
    advice = f"; use {group}/{better[0]} {kind}" if better else ""
    return f"{group}/{name} {kind} is deprecated{advice}"
