"""Built-in kinds: their schemas, resources and columns, stored as data files and read on first use.

There is one file per group and version (written by `scripts/generate_schemas.py`). Reading one decodes it and nothing
more; a schema is compiled when the first object of its kind arrives, part by part as parts are used.
"""

import functools
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from levelset.apiserver.schema.prune_and_default import IDENTITY
from levelset.apiserver.schema.schema_nodes import Tree, as_list, as_map
from levelset.apiserver.schema.validation import Compiled, Definitions, compile_schema

__all__ = [
    "BuiltinSchemas",
    "Column",
    "Part",
    "Resource",
    "builtin_columns",
    "builtin_kind",
    "builtin_names",
    "builtin_resources",
    "builtin_schemas",
    "builtin_type",
    "builtin_versions",
    "components",
    "library",
    "preload",
]

DATA = Path(__file__).parent.parent / "data"
COMPONENT = "#/components/schemas/"


class Part(msgspec.Struct, frozen=True):
    """A subresource: the kind of its body and its verbs."""

    group: str
    version: str
    kind: str
    verbs: tuple[str, ...]


class Resource(msgspec.Struct, frozen=True):
    """A resource as Kubernetes serves it."""

    kind: str
    namespaced: bool
    verbs: tuple[str, ...]
    subresources: dict[str, Part] = {}


class Column(msgspec.Struct, frozen=True, array_like=True):
    """A column of a table; those with a priority above zero show in wide output only."""

    name: str
    type: str
    format: str
    priority: int


class _File(msgspec.Struct, frozen=True):
    definitions: dict[str, Tree]
    kinds: dict[str, str] = {}
    resources: dict[str, Resource] = {}
    columns: dict[str, tuple[Column, ...]] = {}


class _Index(msgspec.Struct, frozen=True):
    prefixes: dict[str, str]
    versions: dict[str, str]


class BuiltinSchemas(msgspec.Struct, frozen=True):
    """The kinds of a group and version with their schemas, and the library that resolves their references."""

    kinds: Mapping[str, Tree]
    definitions: Mapping[str, Tree]


def builtin_versions() -> tuple[tuple[str, str], ...]:
    """All groups and versions with data files, as pairs; the core group is the empty string."""
    return tuple((group, version) for group, _, version in (one.rpartition("/") for one in _index().versions))


def builtin_schemas(group: str, version: str) -> BuiltinSchemas:
    """The schemas of a group and version; without kinds if there is no data file."""
    names = _file(_key(group, version)).kinds
    return BuiltinSchemas({kind: LIBRARY[name] for kind, name in names.items()}, LIBRARY)


@functools.cache
def builtin_kind(group: str, version: str, kind: str) -> Compiled | None:
    """The compiled schema of a kind, the same one every time; None if there is no such kind."""
    name = _file(_key(group, version)).kinds.get(kind)
    return None if name is None else compile_schema(_content(LIBRARY[name]), definitions=_definitions(), resource=True)


@functools.cache
def builtin_type(name: str) -> Compiled:
    """The compiled schema of a component by its name, the same one every time."""
    return compile_schema(LIBRARY[name], definitions=_definitions(), resource=False)


def builtin_names(group: str, version: str) -> Mapping[str, str]:
    """The schema names of a group and version's kinds, as `components` uses them."""
    return _file(_key(group, version)).kinds


def builtin_resources(group: str, version: str) -> Mapping[str, Resource]:
    """The resources of a group and version by their plural names."""
    return _file(_key(group, version)).resources


def builtin_columns(group: str, version: str, resource: str) -> tuple[Column, ...]:
    """The columns of a resource's table; empty if the resource is unknown."""
    return _file(_key(group, version)).columns.get(resource, ())


def components(names: Iterable[str]) -> dict[str, Tree]:
    """These schemas and all schemas that they refer to, by name: the components of an OpenAPI document."""
    found: dict[str, Tree] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found and name in LIBRARY:
            found[name] = LIBRARY[name]
            waiting.extend(_references(found[name]))
    return dict(sorted(found.items()))


def library() -> Mapping[str, Tree]:
    """All schemas of the built-in kinds and their components, by name."""
    return LIBRARY


def preload() -> None:
    """Reads all data files, so that no request waits for the disk; they are still decoded on demand."""
    for version in ("meta", *_index().versions):
        _bytes(version)


def _references(tree: Tree) -> Iterator[str]:
    """The names of the schemas that a schema refers to."""
    for member, value in (as_map(tree) or {}).items():
        if member == "$ref" and isinstance(value, str):
            yield value.removeprefix(COMPONENT)
        else:
            yield from _references(value)
    for value in as_list(tree) or []:
        yield from _references(value)


class _Library(Mapping[str, Tree]):
    """All schemas by name; a file is read when the first of its schemas is looked up."""

    def __getitem__(self, name: str) -> Tree:
        version = _index().prefixes.get(name.rpartition(".")[0], "meta")
        return _file(version).definitions[name]

    def __iter__(self) -> Iterator[str]:
        for version in ("meta", *_index().versions):
            yield from _file(version).definitions

    def __len__(self) -> int:
        return sum(1 for _ in self)


LIBRARY: Mapping[str, Tree] = _Library()


@functools.cache
def _definitions() -> Definitions:
    return Definitions(LIBRARY)


def _content(schema: Tree) -> Tree:
    """The schema of an object without the members that every object has: the server checks those for all kinds."""
    properties = as_map(schema["properties"]) or {}
    return {**schema, "properties": {name: one for name, one in properties.items() if name not in IDENTITY}}


def _key(group: str, version: str) -> str:
    return f"{group}/{version}" if group else version


@functools.cache
def _index() -> _Index:
    return msgspec.json.decode((DATA / "index.json").read_bytes(), type=_Index)


@functools.cache
def _bytes(version: str) -> bytes:
    return (DATA / _index().versions.get(version, "meta.json")).read_bytes()


@functools.cache
def _file(version: str) -> _File:
    if version not in ("meta", *_index().versions):
        return _File({})
    return msgspec.json.decode(_bytes(version), type=_File)
