"""What requests are made of: the kinds, their schemas, valid objects of them, and values of their fields.

Objects and values are those of the recorded cases (`tests/conformance/builtin/cases`), where good and bad values of
most fields are, and those of the definitions in `definitions.yaml`.
"""

import copy
import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import yaml

from levelset.apiserver.registry.builtin.kind_table import builtin_kinds
from levelset.apiserver.schema.builtin_schemas import DATA
from tests.conformance.builtin import recorded_objects

__all__ = ["DRY", "Corpus", "Kind", "load", "resolve"]

_STREAMS = frozenset({"proxy", "exec", "attach", "portforward", "log"})  # of a kubelet, which neither server has
FOLDER = Path(__file__).parent
_REF = "#/components/schemas/"

# Kinds whose objects would change how the servers answer later requests of other sequences: they are only tried.
DRY = frozenset(
    {
        "APIService",
        "ClusterRoleBinding",
        "CustomResourceDefinition",
        "FlowSchema",
        "IPAddress",
        "LimitRange",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
        "MutatingWebhookConfiguration",
        "PriorityClass",
        "PriorityLevelConfiguration",
        "ResourceQuota",
        "ServiceCIDR",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ValidatingWebhookConfiguration",
    }
)


@dataclass(frozen=True)
class Kind:
    """A resource that requests are made for: `bases` are valid objects."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    verbs: tuple[str, ...]
    subresources: tuple[str, ...]
    schema: Any
    bases: tuple[Any, ...]
    custom: bool = False

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def root(self) -> str:
        return f"/apis/{self.api_version}" if self.group else f"/api/{self.version}"

    @property
    def is_dry(self) -> bool:
        return self.kind in DRY

    def collection(self) -> str:
        return f"{self.root}/namespaces/${{ns}}/{self.plural}" if self.namespaced else f"{self.root}/{self.plural}"


@dataclass
class Corpus:
    """All kinds, and the values that fields were seen with, by schema and property."""

    kinds: list[Kind]
    values: dict[tuple[str, str], list[Any]] = field(default_factory=dict)
    definitions: list[Any] = field(default_factory=list)

    def choose(self, random: Random) -> Kind:
        """A kind with objects; pods, workloads and custom resources more often than the rest."""
        return random.choices(self.kinds, [_weight(one) for one in self.kinds])[0]


def _weight(kind: Kind) -> float:
    if kind.custom:
        return 4
    return 3 if kind.kind in ("Pod", "Deployment", "Service", "Job", "ConfigMap", "StatefulSet") else 1


@cache
def schemas() -> dict[str, Any]:
    """The schemas of all built-in types by name, with their enums."""
    found: dict[str, Any] = {}
    for path in sorted(DATA.glob("*.json")):
        found |= json.loads(path.read_text()).get("definitions", {}) if path.stem != "openapi_v2" else {}
    for name, enums in json.loads((DATA / "enums.json").read_text()).items():
        for member, values in enums.items():
            if name in found and member in found[name].get("properties", {}):
                found[name]["properties"][member] = {**found[name]["properties"][member], "enum": values}
    return found


def resolve(schema: Any) -> tuple[str, Any]:
    """The name and the content of a schema behind its reference."""
    for one in (schema, *schema.get("allOf", ())):
        if one.get("$ref", "").startswith(_REF):
            name = one["$ref"].removeprefix(_REF)
            return name, schemas().get(name, {})
    return str(schema.get("x-name", "")), schema


@cache
def load() -> Corpus:
    """The corpus; it is the same each time."""
    bases: defaultdict[str, list[Any]] = defaultdict(list)
    changes: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for area in recorded_objects.AREAS:
        for base in recorded_objects.load(area):
            if base.path and recorded_objects.answers(area).get(base.name, {}).get("", {}).get("code") == 201:
                bases[base.path].append(_in_namespace(base.tree))
                changes[base.path] += [_in_namespace(one.changes) for one in base.cases]
    kinds = [*_builtin(bases), *_custom()]
    corpus = Corpus(kinds, definitions=[one["definition"] for one in _definitions()])
    values: defaultdict[tuple[str, str], dict[str, Any]] = defaultdict(dict)
    for kind in kinds:
        for tree in kind.bases:
            _harvest(kind.schema, tree, values)
        for one in changes[_recorded_path(kind)]:
            for path, value in one.items():
                _harvest_at(kind.schema, recorded_objects.steps_of(path), value, values)
    corpus.values = {key: list(found.values()) for key, found in values.items()}
    return corpus


def _in_namespace(tree: Any) -> Any:
    return json.loads(json.dumps(tree).replace(f'"{recorded_objects.NAMESPACE}"', '"${ns}"'))


def _recorded_path(kind: Kind) -> str:
    return kind.collection().replace("${ns}", recorded_objects.NAMESPACE)


def _builtin(bases: dict[str, list[Any]]) -> Iterator[Kind]:
    names = {
        (gvk["group"], gvk["version"], gvk["kind"]): name
        for name, schema in schemas().items()
        for gvk in schema.get("x-kubernetes-group-version-kind", ())
    }
    for one in builtin_kinds():
        name = names[one.group, one.version, one.kind]
        parts = (
            *(part for part in one.subresources if part not in _STREAMS),
            *(("status",) if one.status else ()),
            *(("scale",) if one.scale else ()),
        )
        kind = Kind(
            *(one.group, one.version, one.kind, one.plural, one.namespaced, tuple(one.verbs), parts),
            schema={"$ref": f"{_REF}{name}"},
            bases=(),
        )
        found = bases.get(_recorded_path(kind), []) or _further().get(one.kind, [])
        if found:
            yield Kind(**{**kind.__dict__, "bases": tuple(found)})


@cache
def _further() -> dict[str, list[Any]]:
    """Objects of the kinds that no case is about: reviews, and definitions that do not exist yet."""
    found: dict[str, list[Any]] = yaml.safe_load((FOLDER / "further_objects.yaml").read_text())
    text = json.dumps([one["definition"] for one in _definitions()]).replace("fuzz.example", "dry.example")
    return found | {"CustomResourceDefinition": json.loads(text)}


@cache
def _definitions() -> list[Any]:
    found: list[Any] = list(yaml.safe_load_all((FOLDER / "definitions.yaml").read_text()))
    return found


def _custom() -> Iterator[Kind]:
    for one in _definitions():
        spec = one["definition"]["spec"]
        for version in spec["versions"]:
            schema = copy.deepcopy(version["schema"]["openAPIV3Schema"])
            schema["properties"] = {
                "metadata": {"$ref": f"{_REF}io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}
            } | schema.get("properties", {})
            yield Kind(
                *(spec["group"], version["name"], spec["names"]["kind"], spec["names"]["plural"]),
                spec["scope"] == "Namespaced",
                ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"),
                tuple(version.get("subresources") or ()),
                schema,
                tuple(one["objects"]),
                custom=True,
            )


def _harvest(schema: Any, tree: Any, values: dict[tuple[str, str], dict[str, Any]]) -> None:
    name, content = resolve(schema)
    if isinstance(tree, dict):
        for member, value in tree.items():
            below = content.get("properties", {}).get(member)
            if below is not None:
                values[name, member].setdefault(json.dumps(value, sort_keys=True), value)
                _harvest(below, value, values)
            elif isinstance(content.get("additionalProperties"), dict):
                _harvest(content["additionalProperties"], value, values)
    elif isinstance(tree, list):
        for value in tree:
            _harvest(content.get("items", {}), value, values)


def _harvest_at(schema: Any, steps: list[Any], value: Any, values: dict[tuple[str, str], dict[str, Any]]) -> None:
    for number, step in enumerate(steps):
        name, content = resolve(schema)
        if isinstance(step, int):
            schema = content.get("items", {})
            continue
        schema = content.get("properties", {}).get(step)
        if schema is None:
            return
        if number == len(steps) - 1 and value is not None:
            values[name, step].setdefault(json.dumps(value, sort_keys=True), value)
            _harvest(schema, value, values)
