"""Writes the classes of the built-in kinds into the package, from the schemas that the package has already.

    python -m scripts.generate_kinds [TARGET]

Every group and version gives a module of `src/levelset/kinds` (a large one several, to load only what is used);
`enums.py` has the values of enumerated fields, and `__init__.py` the public names. What the schemas do not say is in
`scripts/kinds_tables.py`. The same input gives the same bytes.
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from scripts.kinds_exports import enums, late_module
from scripts.kinds_tables import COMMON, COUNTS, ENUMS, NEEDED, NULL_LISTS, PARTS, SENTENCES, SHORT_NAMES, TITLES

from levelset.apiserver.registry.builtin.kind_table import builtin_kinds
from levelset.apiserver.resources.served_resource import ServedResource
from levelset.codegen.models import source_text as layout
from levelset.codegen.models.module_plan import ImportedClass, Kind, Module, kind_of, name_keywords
from levelset.codegen.models.module_writer import write_module
from levelset.codegen.models.openapi_definitions import WELL_KNOWN, Definitions, short
from levelset.codegen.models.schema_reader import ListOf, Member, Named, Role, SchemaLocation, Shape, Type, TypeName
from levelset.codegen.models.source_text import export_order, quoted

ROOT = Path(__file__).parent.parent / "src" / "levelset"
DATA = ROOT / "apiserver" / "data"
TARGET = ROOT / "kinds"
META = "io.k8s.apimachinery.pkg.apis.meta.v1."
BY_HAND = ("FieldSelectorRequirement", "LabelSelector", "LabelSelectorRequirement")
CORE = "v1"
# Where a name is in several modules, the one that `levelset.kinds` exports; those named with nothing are not exported.
SHOWN = {"Event": "", "EventSeries": "", "Scale": "", "ScaleSpec": "", "ScaleStatus": "", "Subject": "rbac_v1"}
GENERATED = "Written by scripts/generate_kinds.py; change that, or its tables, and run `make kinds`."

Tree = dict[str, Any]


def main(arguments: list[str]) -> int:
    """Writes all modules into the folder that is named, or into the package."""
    target = Path(arguments[0]) if arguments else TARGET
    files = render(read_data())
    target.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (target / name).write_text(text, encoding="utf-8")
    print(f"{len(files)} files, {sum(map(len, files.values()))} characters")
    return 0


@dataclass(frozen=True)
class Data:
    """The schemas of the package: kinds and resources by version, definitions by name, and what the server serves."""

    versions: Mapping[str, Tree]
    prefixes: Mapping[str, str]
    schemas: Mapping[str, Tree]
    served: Mapping[tuple[str, str], ServedResource]


def read_data() -> Data:
    """Reads what `scripts/generate_schemas.py` has written."""
    index = json.loads((DATA / "index.json").read_text())
    versions = {version: json.loads((DATA / file).read_text()) for version, file in index["versions"].items()}
    schemas: dict[str, Tree] = dict(json.loads((DATA / "meta.json").read_text())["definitions"])
    for one in versions.values():
        schemas |= one["definitions"]
    served = {(f"{one.group}/{one.version}".strip("/"), one.kind): one for one in builtin_kinds()}
    return Data(versions, index["prefixes"], schemas, served)


def render(data: Data) -> dict[str, str]:
    """The text of every file, by name."""
    tables = Tables(data)
    catalog = KindModules(data, tables)
    files = {f"{name}.py": hushed(write_module(catalog.module(name))) for name in catalog.names()}
    tables.require_all_used()
    unknown = {*SENTENCES, *TITLES} - {one for name in catalog.names() for one in catalog.exports(name)}
    if unknown:
        raise SystemExit(f"the tables have sentences for {', '.join(sorted(unknown))}, which no schema has")
    files |= {f"{module_name(version)}.py": facade(catalog, version) for version in PARTS}
    files["enums.py"] = enums(GENERATED)
    files["__init__.py"] = exports_module(data, catalog)
    return dict(sorted(files.items()))


def hushed(source: str) -> str:
    """The source with a `noqa` comment where a parameter of `new` must be called `type`."""
    return re.sub(r"^( {8}type: .*,)$", r"\1  # noqa: A002", source, flags=re.MULTILINE)


@dataclass
class Tables:
    """The tables by definition and member; records which entries were used."""

    data: Data
    used: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        self.enums = {member: name for name, (_, members) in ENUMS.items() for member in members.split()}
        self.rows = {
            kind: {f"{name}.{member}" for name, members in table.items() for member in members.split()}
            for kind, table in (("count", COUNTS), ("null", NULL_LISTS), ("needed", NEEDED))
        }

    def adjust(self, definition: str, member: Member) -> Member:
        """The member with the changes of the tables."""
        key = f"{'.'.join(definition.split('.')[-3:])}.{member.wire}"
        kinds = [kind for kind, rows in self.rows.items() if key in rows]
        enum = self.enums.get(key) or ("ConditionStatus" if is_condition(definition, member) else None)
        self.used |= {key} if kinds or key in self.enums else set()
        if "count" in kinds:
            member = replace(member, fallback="0")
        if "null" in kinds:
            member = replace(member, fallback="field(default_factory=lambda: ())")
        if "needed" in kinds:
            member = replace(member, fallback=None)
        if enum is not None:
            member = replace(member, type=ListOf(TypeName(enum)) if isinstance(member.type, ListOf) else TypeName(enum))
        return self._atomic(member)

    def _atomic(self, member: Member) -> Member:
        """Moves the atomic marker from a definition to the members that use it."""
        if isinstance(member.type, Named) and "Atomic()" not in member.notes:
            schema = self.data.schemas[member.type.definition]
            if schema.get("x-kubernetes-map-type") == "atomic":
                return replace(member, notes=(*member.notes, "Atomic()"))
        return member

    def require_all_used(self) -> None:
        """Rejects rows that match nothing: a member was renamed or removed."""
        wrong = sorted({*self.enums, *(key for rows in self.rows.values() for key in rows)} - self.used)
        if wrong:
            raise SystemExit(f"the tables speak of members that no schema has: {', '.join(wrong)}")


def is_condition(definition: str, member: Member) -> bool:
    """Whether this is the status of a condition, which is True, False or Unknown."""
    return member.wire == "status" and definition.endswith("Condition") and member.type == TypeName("str")


class KindModules:
    """All modules to generate: which definition goes where."""

    def __init__(self, data: Data, tables: Tables) -> None:
        self.data = data
        self.tables = tables
        self.api = {module_name(version): version for version in data.versions}
        self.kinds: dict[str, list[Kind]] = {}
        self.titles: dict[str, str] = {}
        self.shapes: dict[str, dict[str, Shape]] = {}
        self.homes = {f"{META}{name}": ImportedClass("levelset.kinds.meta_v1", name) for name in BY_HAND}
        # Core first: the others import from it.
        for version in sorted(data.versions, key=lambda one: (one != CORE, one)):
            if version in PARTS:
                self._add_parts(version)
            else:
                self._add(module_name(version), version, own_kinds(data, version))

    def names(self) -> list[str]:
        """The names of the modules with classes."""
        return sorted(self.kinds)

    def exports(self, name: str) -> list[str]:
        """The classes of a module."""
        classes = [short(one) for one in self.shapes[name]]
        return sorted([*classes, *(kind.name for kind in self.kinds[name])], key=export_order)

    def module(self, name: str) -> Module:
        """The text of a file."""
        shapes = self.shapes[name]
        elsewhere = {one: home for one, home in self.homes.items() if home.module != f"levelset.kinds.{name}"}
        classes = {one: short(one) for one in shapes}
        title = self.titles.get(name) or f"The kinds of {self.api[name]} and their parts."
        sources = dict.fromkeys(ENUMS, "levelset.kinds.enums")
        about = f"{title}\n\n{GENERATED}"
        return Module(about, tuple(self.kinds[name]), shapes, classes, elsewhere, sources, TITLES)

    def _add_parts(self, version: str) -> None:
        kinds = own_kinds(self.data, version)
        prefix = next(one for one, owner in self.data.prefixes.items() if owner == version)
        for part, roots, title in PARTS[version]:
            chosen = {kind: name for kind, name in kinds.items() if kind in roots.split()}
            others = [f"{prefix}.{one}" for one in roots.split() if one not in kinds]
            name = f"{module_name(version)}_{part}"
            self.titles[name] = title
            self._add(name, version, chosen, [Named(one) for one in others])
        left = set(kinds) - {one for _, roots, _ in PARTS[version] for one in roots.split()}
        if left:
            raise SystemExit(f"no part of {version} has {', '.join(sorted(left))}")

    def _add(self, name: str, version: str, kinds: Mapping[str, str], others: list[Type] | None = None) -> None:
        definitions = Definitions(version, self.data.schemas, self.homes, self.tables.adjust)
        made = [self._kind(definitions, version, kind, target) for kind, target in sorted(kinds.items())]
        types = [found for kind in made for _, found in kind.parts]
        found = definitions.reachable([*types, *(others or [])], dict(roles(made)))
        own = {target: kind for kind, target in kinds.items()}
        self.kinds[name] = made
        self.shapes[name] = {one: shape for one, shape in found.items() if one not in own}
        self.homes |= {one: ImportedClass(f"levelset.kinds.{name}", short(one)) for one in (*found, *own)}

    def _kind(self, definitions: Definitions, version: str, kind: str, target: str) -> Kind:
        place = SchemaLocation(version, kind)
        made = kind_of(
            (version, kind),
            self.data.schemas[target],
            place,
            definitions.reader(target),
            keywords=keywords(self.data, version, kind),
            title=SENTENCES[kind],
        )
        members = [self.tables.adjust(target, member) for member in made.members.members]
        members.sort(key=lambda member: not member.required)
        return replace(made, name=kind, members=replace(made.members, members=tuple(members)))


def own_kinds(data: Data, version: str) -> dict[str, str]:
    """The kinds of a version with their definitions, without lists."""
    found: dict[str, str] = data.versions[version]["kinds"]
    return {
        kind: name
        for kind, name in found.items()
        if not kind.endswith("List") and name not in WELL_KNOWN and "properties" in data.schemas[name]
    }


def keywords(data: Data, version: str, kind: str) -> list[str]:
    """The class keywords: names as the server has them, subresources as the documents do."""
    resources: Tree = data.versions[version]["resources"]
    name = next((name for name, one in resources.items() if one["kind"] == kind), "")
    resource: Tree = resources.get(name, {})
    served = data.served.get((version, kind))
    words = name_keywords(
        kind,
        SchemaLocation(version, kind),
        plural=name or f"{kind.lower()}s",
        scope="Namespaced" if resource.get("namespaced", True) else "Cluster",
        short_names=served.short_names if served else SHORT_NAMES.get(kind, "").split(),
        categories=served.categories if served else (),
    )
    schema = data.schemas[data.versions[version]["kinds"][kind]]["properties"]
    has_status = "status" in resource.get("subresources", {})
    if has_status != ("spec" in schema and "status" in schema):
        words.append(f"status={has_status}")
    if "scale" in resource.get("subresources", {}):
        words.append("scale=Scale()")
    return words


def roles(kinds: list[Kind]) -> Iterator[tuple[str, Role]]:
    """Which definitions are the spec or the status of a kind."""
    for kind in kinds:
        if kind.spec is not None and isinstance(kind.spec.type, Named):
            yield kind.spec.type.definition, "Spec"
        if isinstance(kind.status, Named):
            yield kind.status.definition, "Status"


def module_name(version: str) -> str:
    """`apps_v1` for apps/v1, `rbac_v1` for rbac.authorization.k8s.io/v1, `core_v1` for v1."""
    group, _, name = version.rpartition("/")
    return f"{group.partition('.')[0] or 'core'}_{name}"


def facade(catalog: KindModules, version: str) -> str:
    """The module of a version that has parts, which loads them on first use."""
    own = module_name(version)
    parts = {f"levelset.kinds.{own}_{part}": catalog.exports(f"{own}_{part}") for part, _, _ in PARTS[version]}
    name = "v1, the core group," if version == CORE else version
    title = f"The kinds of {name} and their parts; each module is loaded on first use."
    return late_module(f'"""{title}\n\n{GENERATED}\n"""', parts, f"levelset.kinds.{own}")


def exports_module(data: Data, catalog: KindModules) -> str:
    """The public names of `levelset.kinds`: the kinds, their specs and statuses, and the parts that are used most."""
    modules: dict[str, list[str]] = {}
    for name, home in shown(catalog).items():
        modules.setdefault(home, []).append(name)
    title = (
        '"""The built-in kinds: `from levelset.kinds import Deployment, Secret`.\n\n'
        "What most programs need is exported here and loaded on first use; everything else is in the modules,\n"
        "one for each group and version, such as `levelset.kinds.apps_v1`. Of several versions of a kind this is the\n"
        f'newest.\n\n{GENERATED}\n"""'
    )
    rows = [
        f"{quoted(prefix)}: {quoted(f'levelset.kinds.{module_name(version)}')}"
        for prefix, version in sorted(data.prefixes.items())
    ]
    rows.append(f'{quoted(META.rstrip("."))}: "levelset.kinds.meta_v1"')
    known = "\n".join(layout.listed("MODULES: Final = {", sorted(rows), "}", width=0))
    extra = (
        f'{known}\n"""The module of each group and version, by what the names of its OpenAPI definitions begin with."""'
    )
    return late_module(
        title, {f"levelset.kinds.{one}": names for one, names in modules.items()}, "levelset.kinds", extra
    )


def shown(catalog: KindModules) -> dict[str, str]:
    """The exported names, each with its module."""
    found: dict[str, str] = dict.fromkeys(BY_HAND[1:], "meta_v1")
    common = {*COMMON.split()}
    kinds = {kind.name for made in catalog.kinds.values() for kind in made}
    wanted = common | kinds | {f"{kind}{part}" for kind in kinds for part in ("Spec", "Status")}
    for module in catalog.names():
        for name in catalog.exports(module):
            if name in wanted and SHOWN.get(name, module) == module:
                found[name] = module  # of two versions the later, which sorts behind
    missing = common - set(found)
    if missing:
        raise SystemExit(f"no module has {', '.join(sorted(missing))}")
    return dict(sorted(found.items()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
