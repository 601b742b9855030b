"""Which definitions and objects are taken from the files of a module, and what the corpus is made of.

`sources.toml` names the modules with their versions and hashes, and the folders that their definitions are in. Every
YAML document of a module that is an object of one of these definitions, or of a built-in kind, is a sample: at most
`_CUSTOM` (`_BUILTIN`) of each kind and module, none twice.
"""

import hashlib
import json
import math
import posixpath
import tomllib
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from tests.conformance.builtin import recorded_resources

__all__ = [
    "SOURCES",
    "Contents",
    "Corpus",
    "Resource",
    "Sample",
    "Source",
    "join",
    "read_sources",
    "read_zip",
    "select",
]

SOURCES: Final = Path(__file__).parent / "sources.toml"
NAMESPACE: Final = "corpus"
_CUSTOM: Final = 20
_BUILTIN: Final = 4
_LARGEST: Final = 8_000_000  # bytes of a file
_DEFINITION: Final = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")


class Source(NamedTuple):
    """A module of the Go module proxy: version, hash of its zip, and the folders of its definitions, best first."""

    module: str
    version: str
    sum: str
    definitions: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name of its files in the cache and of its facts."""
        return self.module.replace("/", "+")


class Document(NamedTuple):
    """A YAML document: its file in the module with its number there, and the object."""

    where: str
    body: dict[str, Any]


class Contents(NamedTuple):
    """What is taken of a module: definitions by name, and objects of any kind."""

    definitions: dict[str, dict[str, Any]]
    objects: tuple[Document, ...]


class Resource(NamedTuple):
    """Where the objects of a kind are created."""

    group_version: str
    plural: str
    is_namespaced: bool
    definition: str | None = None

    @property
    def path(self) -> str:
        """The path of the collection."""
        prefix = f"/apis/{self.group_version}" if "/" in self.group_version else f"/api/{self.group_version}"
        return f"{prefix}/{f'namespaces/{NAMESPACE}/' if self.is_namespaced else ''}{self.plural}"


class Sample(NamedTuple):
    """An object to create."""

    source: str
    where: str
    body: dict[str, Any]
    resource: Resource


class Corpus(NamedTuple):
    """All definitions, with their sources, and all samples."""

    definitions: dict[str, tuple[str, dict[str, Any]]]
    samples: tuple[Sample, ...]


def read_sources(path: Path = SOURCES) -> list[Source]:
    """The modules of the corpus, in their order."""
    tables = tomllib.loads(path.read_text("utf-8"))["source"]
    return [Source(one["module"], one["version"], one["sum"], tuple(one["definitions"])) for one in tables]


class _Loader(yaml.CSafeLoader):
    """YAML as JSON: times are texts."""


_Loader.yaml_implicit_resolvers = {
    letter: [one for one in found if one[0] != "tag:yaml.org,2002:timestamp"]
    for letter, found in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def read_zip(path: Path, prefix: str) -> Iterator[Document]:
    """The objects in YAML files of a module's zip, in the order of their paths; templates are left out."""
    with zipfile.ZipFile(path) as archive:
        for info in sorted(archive.infolist(), key=lambda one: one.filename):
            name = info.filename.removeprefix(prefix)
            if name.endswith((".yaml", ".yml")) and info.file_size <= _LARGEST and not name.startswith("vendor/"):
                text = archive.read(info)
                if b"apiVersion:" in text and b"kind:" in text:
                    yield from _documents(name, text)


def _documents(name: str, text: bytes) -> Iterator[Document]:
    try:
        found = [_as_json(one) for one in yaml.load_all(text.decode(), Loader=_Loader)]
    except (yaml.YAMLError, ValueError, TypeError):  # a template, or not an object of JSON
        return
    for number, one in enumerate(found):
        if isinstance(one, dict) and _is_object(one):
            yield Document(f"{name}#{number}", one)


def _as_json(value: Any) -> Any:
    """The value with texts as keys, as Go converts YAML to JSON; TypeError for what JSON has no form of."""
    if isinstance(value, dict):
        return {_key(name): _as_json(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_as_json(one) for one in value]
    if value is None or isinstance(value, (str, bool, int)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise TypeError(f"{type(value)} is not JSON")


def _key(name: Any) -> str:
    return name if isinstance(name, str) else json.dumps(name)


def _is_object(body: dict[str, Any]) -> bool:
    metadata = body.get("metadata")
    if not (isinstance(body.get("apiVersion"), str) and isinstance(body.get("kind"), str)):
        return False
    return isinstance(metadata, dict) and any(isinstance(metadata.get(one), str) for one in ("name", "generateName"))


def select(source: Source, documents: Iterable[Document]) -> Contents:
    """The definitions in the folders of the source, each from the first that has it, and all other objects."""
    places: dict[str, tuple[int, dict[str, Any]]] = {}
    count: Counter[tuple[str, str]] = Counter()
    seen: set[str] = set()
    objects: list[Document] = []
    for one in documents:
        kind = (one.body["apiVersion"], one.body["kind"])
        if kind == _DEFINITION:
            folder, name = posixpath.dirname(one.where), one.body["metadata"].get("name")
            if folder in source.definitions and name and _has_schemas(one.body):
                place = source.definitions.index(folder)
                places[name] = min(places.get(name, (place, one.body)), (place, one.body), key=lambda found: found[0])
            continue
        digest = _digest(one.body)
        if count[kind] < _CUSTOM and digest not in seen:
            count[kind] += 1
            seen.add(digest)
            objects.append(one)
    return Contents({name: body for name, (_, body) in sorted(places.items())}, tuple(objects))


def _has_schemas(body: dict[str, Any]) -> bool:
    """Whether it is a whole definition, and not a patch of one."""
    spec = body.get("spec") or {}
    versions = spec.get("versions")
    return bool(spec.get("group") and spec.get("names") and versions and all("schema" in one for one in versions))


def _digest(body: Any) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def join(contents: Sequence[tuple[str, Contents]]) -> Corpus:
    """The corpus of these modules: of two definitions with one name the first is taken."""
    definitions: dict[str, tuple[str, dict[str, Any]]] = {}
    for source, one in contents:
        for name, body in one.definitions.items():
            definitions.setdefault(name, (source, body))
    kinds = _builtin_kinds() | {kind: found for _, body in definitions.values() for kind, found in _kinds(body)}
    samples: list[Sample] = []
    seen: set[str] = set()
    for source, one in contents:
        count: Counter[Resource] = Counter()
        for document in one.objects:
            resource = kinds.get((document.body["apiVersion"], document.body["kind"]))
            if resource is None or (digest := _digest(document.body)) in seen:
                continue
            count[resource] += 1
            if count[resource] <= (_BUILTIN if resource.definition is None else _CUSTOM):
                seen.add(digest)
                samples.append(Sample(source, document.where, _placed(document.body, resource), resource))
    return Corpus(definitions, tuple(samples))


def _kinds(body: dict[str, Any]) -> Iterator[tuple[tuple[str, str], Resource]]:
    spec = body["spec"]
    for version in spec["versions"]:
        api = f"{spec['group']}/{version['name']}"
        is_namespaced = spec.get("scope") == "Namespaced"
        yield (
            (api, spec["names"]["kind"]),
            Resource(api, spec["names"]["plural"], is_namespaced, body["metadata"]["name"]),
        )


def _builtin_kinds() -> dict[tuple[str, str], Resource]:
    found: dict[tuple[str, str], Resource] = {}
    for path, resources in recorded_resources.recorded().items():
        api = path.removeprefix("/apis/").removeprefix("/api/")
        for name, one in resources.items():
            if "/" not in name and "create" in one["verbs"] and one["kind"] != _DEFINITION[1]:
                found[(api, one["kind"])] = Resource(api, name, one["namespaced"])
    return found


def _placed(body: dict[str, Any], resource: Resource) -> dict[str, Any]:
    """The object in the namespace of the corpus, or in none."""
    metadata = {name: value for name, value in body["metadata"].items() if name != "namespace"}
    return {**body, "metadata": metadata | ({"namespace": NAMESPACE} if resource.is_namespaced else {})}
