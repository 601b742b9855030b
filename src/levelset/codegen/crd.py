"""Generates the CustomResourceDefinition of a kind from its classes, one class for each version.

```python
definition = crd_of(Website)  # one version
definition = crd_of(Website, OldWebsite)  # two, of which one is stored
```
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from levelset.codegen.schema import PRESERVE, schema_of
from levelset.errors import ConfigError
from levelset.objects.kind_definition import Column, Definition, definition_of
from levelset.objects.lazy_pattern import Pattern
from levelset.objects.resource import Object

__all__ = ["crd_of", "crds_of", "is_custom", "version_priority"]

_VERSION: Final = Pattern(r"v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?")
_STABILITY: Final = {"alpha": 0, "beta": 1, None: 2}
_NAMES: Final = Pattern(r"(?:\.[A-Za-z_][A-Za-z0-9_-]*)+")


def crd_of(
    *kinds: type[Object],
    stored: type[Object] | None = None,
    conversion: Mapping[str, Any] | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    reads_source: bool = True,
    is_open: bool = False,
    is_computed: bool = False,
) -> dict[str, Any]:
    """The CRD of one kind; its versions are the classes, the most stable and newest first.

    The storage version is the class with `stored=True`, or else `stored`, or else the first. `conversion` is
    `spec.conversion`, such as a strategy `Webhook`. ConfigError if the classes are not versions of one kind, or if a
    column, the scale or a selectable field has a path that the schema does not define. `reads_source` is that of
    `schema_of`; `is_open` generates a schema that accepts everything. `is_computed` is for `ApiServer.serve_computed`,
    which does not store it: its group may be one of Kubernetes, such as metrics.k8s.io.
    """
    ordered = sorted(kinds, key=lambda kind: version_priority(definition_of(kind).gvk.version), reverse=True)
    definitions = [definition_of(kind) for kind in ordered]
    first = _require_one_kind(definitions, is_computed=is_computed)
    chosen = _stored(definitions, None if stored is None else definition_of(stored))
    names = {"plural": first.plural, "singular": first.singular, "kind": first.gvk.kind, "listKind": first.list_kind}
    several = {"shortNames": first.short_names, "categories": first.categories}
    metadata: dict[str, Any] = {"name": f"{first.plural}.{first.gvk.group}"}
    metadata |= {name: dict(value) for name, value in (("labels", labels), ("annotations", annotations)) if value}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": {
            "group": first.gvk.group,
            "names": {**names, **{name: list(words) for name, words in several.items() if words}},
            "scope": first.scope,
            **({"conversion": dict(conversion)} if conversion else {}),
            "versions": [
                _version(
                    definition,
                    _open_schema(definition) if is_open else schema_of(kind, reads_source=reads_source),
                    is_stored=definition is chosen,
                    is_selectable=not is_open,
                )
                for kind, definition in zip(ordered, definitions, strict=True)
            ],
        },
    }


def crds_of(
    kinds: Iterable[type[Object]],
    *,
    hubs: Collection[type[Object]] = (),
    conversions: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[dict[str, Any]]:
    """The CRDs of these classes, sorted by name; built-in kinds of Kubernetes are left out.

    Of several versions, the one among `hubs` is stored. `conversions` are by CRD name.
    """
    found: dict[str, dict[type[Object], None]] = {}
    for kind in kinds:
        gvk = definition_of(kind).gvk
        if is_custom(gvk.group):
            found.setdefault(f"{definition_of(kind).plural}.{gvk.group}", {})[kind] = None
    return [
        crd_of(
            *classes,
            stored=next((one for one in classes if one in hubs), None),
            conversion=(conversions or {}).get(name),
        )
        for name, classes in sorted(found.items())
    ]


def is_custom(group: str) -> bool:
    """Whether kinds of this group are defined by CRDs, and not built into Kubernetes."""
    return "." in group and not group.endswith(".k8s.io")


def version_priority(version: str) -> tuple[int, int, int, str]:
    """The sort key of versions as in Kubernetes: v2, v1, v1beta2, v1beta1, v1alpha1, and then all others."""
    found = _VERSION.fullmatch(version)
    if found is None:
        return -1, 0, 0, version
    return _STABILITY[found[2]], int(found[1]), int(found[3] or 0), ""


def _require_one_kind(definitions: Sequence[Definition], *, is_computed: bool) -> Definition:
    if not definitions:
        raise ConfigError("crd_of() needs at least one class")
    first, *others = definitions
    versions = [one.gvk.version for one in definitions if one.gvk.kind == first.gvk.kind]
    if len(set(versions)) != len(versions):
        raise ConfigError(
            f"{first.gvk.kind}: two classes for one version among {', '.join(versions)}; keep one of them"
        )
    for one in others:
        for what in ("group", "kind"):
            if getattr(one.gvk, what) != getattr(first.gvk, what):
                raise ConfigError(f"{first.gvk} and {one.gvk} are not versions of one kind: their {what} differs")
        for what in ("plural", "singular", "scope"):
            if getattr(one, what) != getattr(first, what):
                raise ConfigError(
                    f"{one.gvk}: {what}={getattr(one, what)!r}, but {getattr(first, what)!r} in {first.gvk}"
                )
    if not is_computed and not is_custom(first.gvk.group):
        raise ConfigError(f"{first.gvk} is a built-in kind of Kubernetes; use your own group, such as acme.dev")
    return first


def _stored(definitions: Sequence[Definition], fallback: Definition | None) -> Definition:
    chosen = [one for one in definitions if one.stored]
    if len(chosen) > 1:
        shown = ", ".join(one.gvk.version for one in chosen)
        raise ConfigError(f"{chosen[0].gvk.kind}: {shown} all have stored=True, but only one version can be stored")
    return chosen[0] if chosen else definitions[0] if fallback is None else fallback


def _open_schema(definition: Definition) -> dict[str, Any]:
    free = {"type": "object", PRESERVE: True}
    words = {"description": definition.description} if definition.description else {}
    return {**words, "type": "object", "properties": {"spec": free, "status": free}, PRESERVE: True}


def _version(definition: Definition, schema: dict[str, Any], *, is_stored: bool, is_selectable: bool) -> dict[str, Any]:
    _check_paths(definition, schema)
    made: dict[str, Any] = {"name": definition.gvk.version, "served": definition.served, "storage": is_stored}
    if definition.deprecated:
        made["deprecated"] = True
        made |= {"deprecationWarning": definition.deprecation} if definition.deprecation else {}
    if definition.columns:
        made["additionalPrinterColumns"] = [_column(one) for one in definition.columns]
    if definition.selectable and is_selectable:
        made["selectableFields"] = [{"jsonPath": path} for path in definition.selectable]
    subresources = _subresources(definition)
    made |= {"subresources": subresources} if subresources else {}
    return {**made, "schema": {"openAPIV3Schema": schema}}


def _subresources(definition: Definition) -> dict[str, Any]:
    found: dict[str, Any] = {"status": {}} if definition.status else {}
    if definition.scale is not None:
        scale = {"specReplicasPath": definition.scale.spec, "statusReplicasPath": definition.scale.status}
        selector = definition.scale.selector
        found["scale"] = {**scale, "labelSelectorPath": selector} if selector else scale
    return found


def _column(column: Column) -> dict[str, Any]:
    required = {"name": column.name, "type": column.type, "jsonPath": column.path}
    more = {"format": column.format, "description": column.description, "priority": column.priority}
    return {**required, **{name: value for name, value in more.items() if value}}


def _check_paths(definition: Definition, schema: Mapping[str, Any]) -> None:
    """Raises ConfigError if a column, the scale or a selectable field has a path that the schema does not define."""
    scale = definition.scale
    paths = [(f"column {one.name!r}", one.path) for one in definition.columns]
    paths += [("selectable", path) for path in definition.selectable]
    if scale is not None:
        paths += [("scale", path) for path in (scale.spec, scale.status, scale.selector) if path]
    for what, path in paths:
        if _NAMES.fullmatch(path) and not _path_exists(path, schema):
            raise ConfigError(f"{definition.gvk}: {what} has the path {path}, which the class does not define")


def _path_exists(path: str, schema: Mapping[str, Any]) -> bool:
    node: Any = schema
    first, *rest = path.removeprefix(".").split(".")
    if first == "metadata":
        return True
    for name in (first, *rest):
        if "additionalProperties" in node or node.get(PRESERVE):
            return True
        node = node.get("properties", {}).get(name)
        if node is None:
            return False
    return True
