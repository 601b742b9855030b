#!/usr/bin/env python3
"""Writes the schemas of the built-in kinds as compact data into the package.

    python scripts/generate_schemas.py FOLDER

FOLDER holds Kubernetes' OpenAPI v3 documents (`api_v1.json`, `apis_apps_v1.json`, ...) and `tables.json`, their
columns; `descriptions.json`, if it is there, describes the metadata. Every group and version gives one file in
`src/levelset/apiserver/data`: its kinds, its own schemas, its resources with their verbs, and the columns. Schemas that
many groups share (the metadata) are in `meta.json`, and `index.json` says which file holds which schemas. The same
input gives the same bytes.
"""

import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Tree = dict[str, Any]

DATA = Path(__file__).parent.parent / "src" / "levelset" / "apiserver" / "data"
COMPONENT = "#/components/schemas/"
META = "meta"


def main(folder: Path) -> None:
    """Reads the documents in the folder and writes the data."""
    documents = {version_of(path): read(path) for path in sorted(folder.glob("api*_*.json"))}
    tables = read(folder / "tables.json")
    owners = {prefix_of(document, version): version for version, document in documents.items()}
    schemas = merge(document["components"]["schemas"] for document in documents.values())
    files: dict[str, Tree] = {META: {"definitions": {}}}
    for version, document in documents.items():
        columns = {name: [list(one.values()) for one in rows] for name, rows in tables.get(version, {}).items()}
        files[version] = {"columns": columns, "definitions": {}, **kinds_and_resources(document, version, schemas)}
    for name, schema in schemas.items():
        files[owners.get(name.rpartition(".")[0], META)]["definitions"][name] = schema
    if (folder / "descriptions.json").exists():
        describe(files[META]["definitions"], read(folder / "descriptions.json"))
    DATA.mkdir(parents=True, exist_ok=True)
    for old in DATA.glob("*.json"):
        old.unlink()
    for name, content in files.items():
        write(file_of(name), content)
    write("index.json", {"prefixes": owners, "versions": {version: file_of(version) for version in documents}})
    total = sum(path.stat().st_size for path in DATA.glob("*.json"))
    print(f"{len(files) + 1} files, {len(schemas)} schemas, {total} bytes")


def describe(definitions: Tree, descriptions: Tree) -> None:
    """Adds the descriptions of shared schemas and their members, which `kubectl explain` shows."""
    for name, given in descriptions.items():
        schema = definitions[name] = {**definitions[name], "description": given["description"]}
        members = {
            member: {**one, "description": given["properties"][member]} if member in given["properties"] else one
            for member, one in schema["properties"].items()
        }
        schema["properties"] = members


def read(path: Path) -> Tree:
    """The document in a file."""
    document: Tree = json.loads(path.read_text())
    return document


def write(name: str, content: Tree) -> None:
    """Writes one file, compact and with sorted keys; a line per schema, so that differences can be read."""
    parts = [f"{compact(key)}:{lines(part)}" for key, part in sorted(content.items())]
    (DATA / name).write_text("{" + ",\n".join(parts) + "}\n")


def lines(part: Tree) -> str:
    """An object with one member per line."""
    return "{" + ",\n".join(f"{compact(name)}:{compact(value)}" for name, value in sorted(part.items())) + "}"


def compact(value: object) -> str:
    """JSON without spaces, keys sorted."""
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def version_of(path: Path) -> str:
    """The group and version that a document is about: `v1`, `apps/v1`."""
    parts = path.stem.split("_")
    return parts[1] if parts[0] == "api" else "/".join(parts[1:])


def file_of(version: str) -> str:
    """The name of the file of a group and version."""
    return version.replace("/", "_") + ".json"


def prefix_of(document: Tree, version: str) -> str:
    """What the names of a version's own schemas begin with, such as `io.k8s.api.apps.v1`."""
    group, _, name = version.rpartition("/")
    own = {"group": group, "kind": "", "version": name}
    counts: dict[str, int] = {}
    for schema, content in document["components"]["schemas"].items():
        for kind in content.get("x-kubernetes-group-version-kind", []):
            if {**kind, "kind": ""} == own and "apimachinery" not in schema:
                prefix = schema.rpartition(".")[0]
                counts[prefix] = counts.get(prefix, 0) + 1
    return max(sorted(counts), key=lambda prefix: counts[prefix])


def merge(groups: Iterable[Tree]) -> Tree:
    """All schemas by name; where two documents list different kinds for one schema, all of them."""
    merged: Tree = {}
    for group in groups:
        for name, schema in group.items():
            known: Tree = merged.get(name) or schema
            merged[name] = schema
            kinds = "x-kubernetes-group-version-kind"
            if kinds in schema:
                both = {compact(one): one for one in [*known[kinds], *schema[kinds]]}
                merged[name] = {**schema, kinds: [both[key] for key in sorted(both)]}
            elif known != schema:
                raise SystemExit(f"two different schemas are called {name}")
    return merged


def kinds_and_resources(document: Tree, version: str, schemas: Tree) -> Tree:
    """The kinds of a version with their schemas' names, and its resources as listed by the paths."""
    group, _, name = version.rpartition("/")
    kinds: Tree = {}
    for schema, content in schemas.items():
        for one in content.get("x-kubernetes-group-version-kind", []):
            if one["group"] == group and one["version"] == name and "apimachinery" not in schema:
                kinds[one["kind"]] = schema
    return {"kinds": kinds, "resources": resources_of(document, version)}


PATH = re.compile(r"/(?:watch/)?(namespaces/\{namespace\}/)?([a-z]+)(?:/\{name\}(?:/([a-z]+))?)?")


def resources_of(document: Tree, version: str) -> Tree:
    """Each resource: its kind, whether it is namespaced, its verbs, and its subresources with theirs."""
    root = ("/apis/" if "/" in version else "/api/") + version
    found: Tree = {}
    for path in sorted(document["paths"]):
        match = PATH.fullmatch(path.removeprefix(root))
        if match is None:
            continue
        methods: Tree = document["paths"][path]
        for method in ("delete", "get", "head", "options", "patch", "post", "put"):
            operation: Tree = methods.get(method, {})
            if "x-kubernetes-action" in operation:
                note(found, match, operation)
    for resource in found.values():
        for one in (resource, *resource.get("subresources", {}).values()):
            one["verbs"] = sorted(one["verbs"])
    return {name: resource for name, resource in found.items() if resource["kind"]}


def note(found: Tree, match: "re.Match[str]", operation: Tree) -> None:
    """Adds what one operation says about its resource."""
    kind = operation["x-kubernetes-group-version-kind"]
    resource = found.setdefault(match[2], {"kind": "", "namespaced": False, "verbs": []})
    if match[1]:
        resource["namespaced"] = True
    target = resource
    if match[3]:
        parts = resource.setdefault("subresources", {})
        target = parts.setdefault(match[3], {**kind, "verbs": []})
    else:
        resource["kind"] = kind["kind"]
    verb = {"post": "create", "put": "update", "watchlist": "watch"}.get(
        operation["x-kubernetes-action"], operation["x-kubernetes-action"]
    )
    if verb not in target["verbs"]:
        target["verbs"].append(verb)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("give the folder with the OpenAPI documents")
    main(Path(sys.argv[1]))
