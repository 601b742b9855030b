"""Writes the merge information of the built-in kinds, taken from Kubernetes' OpenAPI v3 documents.

    python scripts/generate_shapes.py FOLDER [TARGET]

FOLDER holds the documents, one JSON file per group and version. What is written are the same schemas, reduced to
the keywords that merging needs; definitions that say nothing about merging, and have no maps, are left out, and so
are references to them.
The same documents always give the same bytes.
"""

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

TARGET = Path(__file__).parent.parent / "src" / "levelset" / "patch" / "builtin_shapes.json"
ABOUT = "Cut down from Kubernetes' OpenAPI v3 documents; Apache License 2.0; Copyright The Kubernetes Authors."
META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
LIST_TYPE = "x-kubernetes-list-type"
LIST_KEYS = "x-kubernetes-list-map-keys"
MAP_TYPE = "x-kubernetes-map-type"
# The default value of each keyword.
SILENT = {LIST_TYPE: "atomic", MAP_TYPE: "granular"}
WORDS = (LIST_TYPE, LIST_KEYS, MAP_TYPE, "x-kubernetes-patch-merge-key", "x-kubernetes-patch-strategy")

Schema = dict[str, Any]


def main(arguments: list[str]) -> int:
    """Reads the folder that is named, writes the file, and says how large it is."""
    if not 1 <= len(arguments) <= 2:
        print(__doc__, file=sys.stderr)
        return 2
    target = Path(arguments[1]) if len(arguments) == 2 else TARGET
    text = render(read_definitions(Path(arguments[0])))
    target.write_text(text, encoding="utf-8")
    print(f"{target.name}: {len(text)} characters")
    return 0


def read_definitions(folder: Path) -> dict[str, Schema]:
    """All component schemas of all documents in `folder`, by their full names."""
    found: dict[str, Schema] = {}
    for path in sorted(folder.glob("*.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        found.update(document.get("components", {}).get("schemas", {}))
    for name, schema in found.items():
        if schema.keys() <= {"description", "type"} and schema.get("type") in (None, "object"):
            found[name] = {**schema, MAP_TYPE: "atomic"}  # nothing is known of what is in it
    return found


def render(definitions: dict[str, Schema]) -> str:
    """The file's text: the kinds, then one definition per line, so that a change of Kubernetes reads well as a diff."""
    kinds = dict(sorted(find_kinds(definitions)))
    keys = key_fields(definitions)
    listing = find_listing(definitions)
    speaking = find_speaking(definitions, keys, listing)
    cut = {name: cut_down(definitions[name], speaking, keys.get(name, set()), listing) for name in speaking}
    reduced = reachable(cut, kinds.values())
    lines = [f"{quote(short(name))}:{compact(cut[name])}" for name in sorted(reduced, key=short)]
    names = [f"{quote(kind)}:{quote(short(name))}" for kind, name in kinds.items()]
    return (
        f'{{"about":{quote(ABOUT)},\n"kinds":{{\n'
        + ",\n".join(names)
        + '\n},"definitions":{\n'
        + ",\n".join(lines)
        + "\n}}\n"
    )


def find_kinds(definitions: dict[str, Schema]) -> Iterator[tuple[str, str]]:
    """Every kind that carries ObjectMeta, as group/version/kind, with the name of its definition."""
    for name, schema in definitions.items():
        kinds = schema.get("x-kubernetes-group-version-kind", [])
        metadata = schema.get("properties", {}).get("metadata", {})
        if len(kinds) == 1 and reference(metadata) == META:
            yield f"{kinds[0]['group']}/{kinds[0]['version']}/{kinds[0]['kind']}", name


def key_fields(definitions: dict[str, Schema]) -> dict[str, set[str]]:
    """For each definition that is a list's item: the fields that key such a list, whose defaults are needed."""
    found: dict[str, set[str]] = {}
    for schema in definitions.values():
        for one in schema.get("properties", {}).values():
            item = reference(one.get("items", {}))
            if one.get(LIST_TYPE) == "map" and item is not None:
                found.setdefault(item, set()).update(one.get(LIST_KEYS, []))
    return found


def find_listing(definitions: dict[str, Schema]) -> set[str]:
    """The definitions with sets or keyed lists, of their own or in definitions that they reference."""
    listing: set[str] = set()
    while more := {name for name, one in definitions.items() if name not in listing and has_lists(one, listing)}:
        listing |= more
    return listing


def has_lists(schema: Schema, listing: set[str]) -> bool:
    """Whether a schema has sets or keyed lists, or refers to one of these definitions."""
    if schema.get(LIST_TYPE) in ("set", "map") or reference(schema) in listing:
        return True
    below: list[Schema] = [*schema.get("properties", {}).values()]
    below += [schema[word] for word in ("items", "additionalProperties") if isinstance(schema.get(word), dict)]
    return any(has_lists(one, listing) for one in below)


def find_speaking(definitions: dict[str, Schema], keys: dict[str, set[str]], listing: set[str]) -> set[str]:
    """The definitions with merge information, of their own or in definitions that they reference."""
    speaking: set[str] = set()
    while True:
        more = {
            name
            for name, schema in definitions.items()
            if name not in speaking and cut_down(schema, speaking, keys.get(name, set()), listing)
        }
        if not more:
            return speaking
        speaking |= more


def cut_down(schema: Schema, speaking: set[str], keys: set[str], listing: set[str]) -> Schema:
    """The part of a schema that merging needs; empty if there is none."""
    reduced: Schema = {word: schema[word] for word in WORDS if word in schema and schema[word] != SILENT.get(word)}
    target = reference(schema)
    if target in speaking:
        reduced["$ref"] = short(target)
        if schema.get(MAP_TYPE) == "granular":
            reduced[MAP_TYPE] = "granular"  # though the type is atomic elsewhere
    members = {name: cut_down(one, speaking, set(), listing) for name, one in schema.get("properties", {}).items()}
    for name in keys & schema.get("properties", {}).keys():
        if "default" in schema["properties"][name]:
            members[name]["default"] = schema["properties"][name]["default"]
    # A manager that applies a map or a struct does not own its existence if a struct declares it by name.
    declared = {name for name, one in schema.get("properties", {}).items() if is_map(one)}
    needed = {name: member for name, member in sorted(members.items()) if member or name in declared}
    if needed:
        reduced["properties"] = needed
    # The items of a list that is replaced whole are inspected only for what is repeated in their lists.
    is_inspected = "items" in schema and (reduced or has_lists(schema["items"], listing))
    if is_inspected and (items := cut_down(schema["items"], speaking, set(), listing)):
        reduced["items"] = items
    rest: Schema | None = schema.get("additionalProperties")
    if rest and (others := cut_down(rest, speaking, set(), listing)):
        reduced["additionalProperties"] = others
    return reduced


def is_map(schema: Schema) -> bool:
    """Whether values are maps or structs: references to texts and numbers are taken for such, which does no harm."""
    return reference(schema) is not None or "additionalProperties" in schema


def reachable(definitions: dict[str, Schema], roots: Iterable[str]) -> set[str]:
    """The definitions that the kinds lead to."""
    long = {short(name): name for name in definitions}
    found: set[str] = set()
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += [long[target] for target in references(definitions[name])]
    return found


def references(tree: Schema) -> Iterator[str]:
    """Every name that a cut-down schema refers to, at any depth."""
    for word, value in tree.items():
        if word == "$ref":
            yield value
        elif isinstance(value, dict):
            yield from references(cast("Schema", value))


def reference(schema: Schema) -> str | None:
    """The full name that a schema refers to, directly or by an allOf of one."""
    parts: list[Schema] = schema.get("allOf") or [{}]
    found: str | None = schema.get("$ref") or parts[0].get("$ref")
    return found.rsplit("/", 1)[-1] if found else None


def short(name: str) -> str:
    """The name without the parts that all of its group share."""
    for prefix in ("io.k8s.api.", "io.k8s.apimachinery.pkg.apis.", "io.k8s."):
        if name.startswith(prefix):
            return name[len(prefix) :]
    return name


def quote(text: str) -> str:
    """The text as JSON."""
    return json.dumps(text)


def compact(tree: Schema) -> str:
    """The tree as JSON without spaces, members sorted."""
    return json.dumps(tree, sort_keys=True, separators=(",", ":"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
