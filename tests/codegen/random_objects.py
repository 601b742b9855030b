"""Generates random or complete objects of a schema, and compares them."""

import base64
import json
from collections.abc import Mapping
from random import Random
from typing import Any

from levelset.errors import Malformed
from levelset.objects import Quantity, parse_time

__all__ = ["ObjectGenerator", "lost"]

Schema = Mapping[str, Any]

META = "io.k8s.apimachinery.pkg.apis.meta.v1."
JSON = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
QUANTITIES = ("500m", "1Gi", "1.5Gi", "0", 3, "12e6", "100")
TIMES = ("2026-01-31T12:00:00Z", "2020-02-29T23:59:59Z")
MICRO_TIMES = ("2026-01-31T12:00:00.000000Z", "2026-01-31T12:00:00.123456Z")
# Fields that a server always writes although its documents call them optional.
ALWAYS = {"io.k8s.api.core.v1.PodTemplateSpec": ["spec"], "io.k8s.api.batch.v1.JobTemplateSpec": ["spec"]}
ANYTHING = ("text", 7, True, 2.5, ["a", {"b": None}], {"x": {"y": [1]}})


class ObjectGenerator:
    """Generates values of schemas; with `full` every member is set, and every list and map has one item."""

    def __init__(self, definitions: Mapping[str, Any] | None = None, *, seed: int = 0, full: bool = False) -> None:
        self.definitions = definitions or {}
        self.random = Random(seed)
        self.full = full

    def object(self, schema: Schema, api: str, kind: str) -> dict[str, Any]:
        """A whole object, always with metadata and spec."""
        needed = [*schema.get("required", ()), *(["spec"] if "spec" in schema.get("properties", {}) else [])]
        made: dict[str, Any] = self.value({**schema, "required": needed}, 0, skip=("apiVersion", "kind", "metadata"))
        return {"apiVersion": api, "kind": kind, "metadata": {"name": "one", "labels": {"a": "b"}}, **made}

    def value(self, schema: Schema, depth: int = 0, skip: tuple[str, ...] = ()) -> Any:
        """A value that the schema allows."""
        parts = schema.get("allOf") or [{}]
        target = schema.get("$ref") or (parts[0].get("$ref") if len(parts) == 1 else None)
        if target:
            return self._referred(target.rsplit("/", 1)[-1], depth)
        if schema.get("nullable") and not self.full and self.random.random() < 0.1:
            return None
        if schema.get("x-kubernetes-int-or-string"):
            return self._number_or_text(schema)
        match schema.get("type"):
            case "object":
                return self._object(schema, depth, skip)
            case "array":
                count = 1 if self.full else self.random.choice((0, 1, 2)) if depth < 12 else 0
                return [self.value(schema.get("items", {}), depth + 1) for _ in range(count)]
            case "string":
                return self._text(schema)
            case "integer":
                return self.random.choice(schema.get("enum") or ((7,) if self.full else (0, 1, -5, 2**31)))
            case "number":
                return self.random.choice((0.5, 1.25, 7.75))
            case "boolean":
                return self.random.choice((True, False))
            case _:
                return "text" if schema.get("oneOf") or schema.get("anyOf") else self.random.choice(ANYTHING)

    def _object(self, schema: Schema, depth: int, skip: tuple[str, ...]) -> dict[str, Any]:
        properties = {name: one for name, one in schema.get("properties", {}).items() if name not in skip}
        made: dict[str, Any] = {}
        for name, one in properties.items():
            wanted = (self.full and depth < 40) or self.random.random() < 0.9 / (1 + depth * 0.25)
            if name in schema.get("required", ()) or wanted:
                made[name] = self.value(one, depth + 1)
        values = schema.get("additionalProperties")
        if isinstance(values, Mapping) and not properties:
            names = ["one"] if self.full else self.random.choice(([], ["one"], ["a.b/c", "ü"]))
            made |= {name: self.value(values, depth + 1) for name in names}
        if schema.get("x-kubernetes-embedded-resource"):
            made |= {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "inner"}}
        if schema.get("x-kubernetes-preserve-unknown-fields") and not self.full:
            made["notInTheSchema"] = {"preserved": [1, None, {}]}
        return made

    def _text(self, schema: Schema) -> str:
        if schema.get("enum"):
            return str(self.random.choice([one for one in schema["enum"] if one is not None]))
        match schema.get("format"):
            case "date-time":
                return self.random.choice(TIMES)
            case "byte":
                return base64.b64encode(self.random.randbytes(5)).decode()
            case _:
                return "text" if self.full else self.random.choice(("", "text", 'with "quotes" and \\', "öäü ☃"))

    def _number_or_text(self, schema: Schema) -> int | str:
        if "[KMGTPE]i" in schema.get("pattern", ""):
            return self.random.choice(QUANTITIES)
        return self.random.choice((80, "http", "25%"))

    def _referred(self, name: str, depth: int) -> Any:
        """A value of a definition; definitions without a schema have fixed values."""
        simple: dict[str, tuple[Any, ...]] = {
            f"{META}Time": TIMES,
            f"{META}MicroTime": MICRO_TIMES,
            "io.k8s.apimachinery.pkg.api.resource.Quantity": QUANTITIES,
            "io.k8s.apimachinery.pkg.util.intstr.IntOrString": (80, "http"),
            "io.k8s.apimachinery.pkg.runtime.RawExtension": ({"kind": "Any", "x": [1]},),
            f"{JSON}JSON": ANYTHING,
            f"{JSON}JSONSchemaPropsOrArray": ({"type": "string"}, [{"type": "string"}]),
            f"{JSON}JSONSchemaPropsOrBool": ({"type": "string"}, True, False),
            f"{JSON}JSONSchemaPropsOrStringArray": ({"type": "string"}, ["a"]),
            f"{META}FieldsV1": ({"f:spec": {}},),
            f"{META}DeleteOptions": ({"gracePeriodSeconds": 5, "propagationPolicy": "Orphan"},),
        }
        if name in simple:
            return self.random.choice(simple[name])
        if name == f"{JSON}JSONSchemaProps" and depth > 5:
            return {}
        if name == f"{META}Condition":
            return {"type": "Ready", "status": "True", "reason": "Fine", "lastTransitionTime": TIMES[0]}
        schema = self.definitions[name]
        made = self.value({**schema, "required": [*schema.get("required", ()), *ALWAYS.get(name, ())]}, depth)
        for one in schema.get("x-kubernetes-group-version-kind", ()):
            made |= {"apiVersion": f"{one['group']}/{one['version']}".strip("/"), "kind": one["kind"]}
        return made


def lost(before: Any, after: Any, path: str = "") -> list[str]:
    """The paths of values that were lost or changed; empty values may be missing."""
    if isinstance(before, dict) and isinstance(after, dict):
        return [
            one
            for name, value in before.items()
            if value not in (None, [], {}) or (value == {} and name in after and after[name] != {})
            for one in (lost(value, after[name], f"{path}.{name}") if name in after else [f"{path}.{name}"])
        ]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return [one for old, new in zip(before, after, strict=True) for one in lost(old, new, f"{path}[]")]
    return [] if _same(before, after) else [f"{path}: {json.dumps(before)} is {json.dumps(after)}"]


def _same(before: Any, after: Any) -> bool:
    if type(before) is type(after) and before == after:
        return True
    try:
        if Quantity.from_tree(before) == Quantity.from_tree(after):
            return True
    except Malformed:
        pass
    try:
        return parse_time(before) == parse_time(after)
    except Malformed:
        return False
