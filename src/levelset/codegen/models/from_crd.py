"""Generates Python classes from a CustomResourceDefinition: one module for each version.

```python
files = models_from_crd(document)  # {"certificates_v1.py": "...", ...}
```

The classes are for reading, changing and writing objects. Validation (patterns, limits, rules) and defaulting are left
to the server. Decoding and encoding an object gives the same JSON.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from levelset.codegen.models import source_text as layout
from levelset.codegen.models.module_plan import Module, kind_of, name_keywords
from levelset.codegen.models.module_writer import write_module
from levelset.codegen.models.schema_reader import Reader, Schema, SchemaLocation, Type, as_list, as_map
from levelset.codegen.models.source_text import quoted
from levelset.errors import BadObject

__all__ = ["file_name", "models_from_crd"]

_KIND: Final = re.compile(r"[A-Za-z]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?", re.ASCII)
_GROUP: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)
_WORD: Final = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_TYPES: Final = frozenset({"string", "integer", "number", "boolean", "date"})


def models_from_crd(
    document: Mapping[str, Any],
    *,
    versions: Collection[str] = (),
    descriptions: bool = True,
    with_group: bool = False,
) -> Mapping[str, str]:
    """The modules of a CRD by file name: one for each served version, or for the given `versions`.

    With `with_group` the files are named after the group, too, for a folder in which two groups share a resource.
    With `descriptions` the schema's descriptions become docstrings. BadObject names the version and field that cannot
    be read, and what to do.
    """
    crd = _read(document)
    word = f"{crd.plural}.{crd.group}" if with_group else crd.plural
    return {file_name(word, name): crd.source(name, descriptions=descriptions) for name in crd.choose(versions)}


def file_name(word: str, version: str) -> str:
    """The file for a resource or group and a version: `certificates_v1.py`."""
    return f"{re.sub(r'[^a-z0-9]+', '_', word.lower())}_{version}.py"


@dataclass(frozen=True, slots=True)
class _Definition:
    """A CRD with validated names and versions."""

    name: str
    group: str
    kind: str
    plural: str
    names: Schema
    scope: str
    versions: Mapping[str, Schema]

    def choose(self, wanted: Collection[str]) -> list[str]:
        """The versions to generate: the requested ones, or all that are served."""
        for one in wanted:
            if one not in self.versions:
                raise BadObject(f"{self.name} has no version {one!r}; it has {', '.join(self.versions)}")
        found = [name for name, one in self.versions.items() if one.get("served", True) is not False]
        return [name for name in self.versions if name in wanted] if wanted else found

    def source(self, name: str, *, descriptions: bool) -> str:
        version = self.versions[name]
        location = SchemaLocation(f"{self.name} {name}")
        api = f"{self.group}/{name}"
        schema = _schema(version, location)
        reader = Reader(_no_references, is_open=lambda _: False)
        keywords = [*self._keywords(), *_version_keywords(self, version, schema, descriptions=descriptions)]
        kind = kind_of((api, self.kind), schema, location, reader, keywords=keywords)
        title = f"{self.kind}, version {name} of {self.group}, with all that belongs to it."
        return write_module(Module(title, (kind,), descriptions=descriptions))

    def _keywords(self) -> list[str]:
        short, categories = (
            [str(one) for one in as_list(self.names.get(word))] for word in ("shortNames", "categories")
        )
        singular = str(self.names.get("singular") or "")
        return name_keywords(
            self.kind,
            SchemaLocation(self.name),
            plural=self.plural,
            singular=singular,
            scope=self.scope,
            short_names=short,
            categories=categories,
        )


def _read(document: Any) -> _Definition:
    tree = as_map(document)
    if tree.get("kind") != "CustomResourceDefinition":
        shown = tree.get("kind", document)
        raise BadObject(f"this is a {shown!r:.60}, not a CustomResourceDefinition; pass one CustomResourceDefinition")
    name = str(as_map(tree.get("metadata")).get("name") or "this CustomResourceDefinition")
    version = tree.get("apiVersion")
    if version != "apiextensions.k8s.io/v1":
        raise BadObject(f"{name}: apiVersion is {version!r}; write it as apiextensions.k8s.io/v1", field="apiVersion")
    outer = as_map(tree.get("spec"))
    names = as_map(outer.get("names"))
    return _Definition(
        name,
        _text(name, outer, "group", _GROUP, "spec"),
        _text(name, names, "kind", _KIND, "spec.names"),
        _text(name, names, "plural", _WORD, "spec.names"),
        names,
        "Cluster" if outer.get("scope") == "Cluster" else "Namespaced",
        _versions(name, outer.get("versions")),
    )


def _text(name: str, tree: Schema, member: str, pattern: re.Pattern[str], path: str) -> str:
    value = tree.get(member)
    if not isinstance(value, str) or pattern.fullmatch(value) is None:
        field = f"{path}.{member}"
        raise BadObject(f"{name}: {field} is {value!r:.60}; a server would reject it; fix it first", field=field)
    return value


def _versions(name: str, listed: Any) -> Mapping[str, Schema]:
    found: dict[str, Schema] = {}
    for number, one in enumerate(as_list(listed)):
        version = as_map(one)
        found[_text(name, version, "name", _WORD, f"spec.versions[{number}]")] = version
    if not found:
        raise BadObject(f"{name}: spec.versions must list a version with its schema", field="spec.versions")
    return found


def _schema(version: Schema, location: SchemaLocation) -> Schema:
    found = as_map(as_map(version.get("schema")).get("openAPIV3Schema"))
    if not found:
        raise location.error("the version has no schema.openAPIV3Schema to generate classes from; add one")
    return found


def _no_references(target: str, location: SchemaLocation) -> Type:
    raise location.error(f"it refers to {target}, but a CustomResourceDefinition has no definitions; inline the schema")


def _version_keywords(crd: _Definition, version: Schema, schema: Schema, *, descriptions: bool) -> Iterator[str]:
    """The class keywords of a version: columns, subresources, storage and deprecation."""
    columns = [_column(one, descriptions=descriptions) for one in _maps(version.get("additionalPrinterColumns"))]
    if columns:
        flat = f"columns=[{', '.join(columns)}]"
        is_long = len(flat) > layout.WIDTH - 5 or "\n" in flat
        yield "\n".join(layout.listed("columns=[", columns, "]", width=0)) if is_long else flat
    subresources, properties = as_map(version.get("subresources")), as_map(schema.get("properties"))
    has_status = "status" in subresources
    if has_status != ("status" in properties and "spec" in properties):
        yield f"status={has_status}"
    if "scale" in subresources:
        yield _scale(as_map(subresources["scale"]))
    fields = [quoted(str(one.get("jsonPath"))) for one in _maps(version.get("selectableFields"))]
    if fields:
        yield f"selectable=[{', '.join(fields)}]"
    if version.get("storage") is True and len(crd.versions) > 1:
        yield "stored=True"
    if version.get("served", True) is False:
        yield "served=False"
    if version.get("deprecated") is True:
        warning = version.get("deprecationWarning")
        yield f"deprecated={quoted(warning) if isinstance(warning, str) else True}"


def _maps(listed: Any) -> list[Schema]:
    return [as_map(one) for one in as_list(listed) if as_map(one)]


def _column(column: Schema, *, descriptions: bool) -> str:
    parts = [quoted(str(column.get("name"))), quoted(str(column.get("jsonPath")))]
    kind = column.get("type")
    parts += [quoted(kind)] if isinstance(kind, str) and kind in _TYPES and kind != "string" else []
    parts += [f"format={quoted(str(column['format']))}"] if column.get("format") else []
    parts += (
        [f"priority={column['priority']}"] if isinstance(column.get("priority"), int) and column["priority"] else []
    )
    text = f"description={quoted(' '.join(str(column.get('description') or '').split()))}"
    # Longer descriptions are left out: they are only headings.
    parts += [text] if descriptions and column.get("description") and len(text) < layout.WIDTH - 12 else []
    return "\n".join(layout.bracketed("Column(", parts, ")", width=layout.WIDTH - 8, after=1))


def _scale(scale: Schema) -> str:
    given = [
        (word, scale.get(name), usual)
        for word, name, usual in (
            ("spec", "specReplicasPath", ".spec.replicas"),
            ("status", "statusReplicasPath", ".status.replicas"),
            ("selector", "labelSelectorPath", None),
        )
    ]
    words = [f"{word}={quoted(str(path))}" for word, path, usual in given if path and path != usual]
    return f"scale=Scale({', '.join(words)})"
