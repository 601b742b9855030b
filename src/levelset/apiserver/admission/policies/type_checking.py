"""What a ValidatingAdmissionPolicy says about fields that its objects cannot have: found by their schemas.

Such a policy is stored all the same, as its expressions may ask first whether a field is there; its status tells.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from levelset.apiserver.admission.policies.params import read_param_kind
from levelset.apiserver.expressions.cel_programs import Composition, Uncompilable
from levelset.apiserver.resources.catalog import Catalog
from levelset.apiserver.resources.json_members import items, part
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.schema import builtin_names, library
from levelset.cel import DYN, Type, declared_type, escape, list_of, map_of, object_of
from levelset.cel import STRING as TEXT
from levelset.objects.json_tree import is_list, is_map

__all__ = ["expression_warnings", "object_type"]

_MOST_TYPES: Final = 10
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


def expression_warnings(catalog: Catalog, policy: Object) -> list[Object]:
    """The `expressionWarnings` of a policy's status: one for each expression that does not fit some of its objects."""
    spec = part(policy, "spec")
    kinds = list(_kinds(catalog, items(part(spec, "matchConstraints"), "resourceRules")))
    known = [(kind, _composition(catalog, spec, kind)) for kind in kinds]
    found: list[Object] = []
    for index, one in enumerate(items(spec, "validations")):
        for word in ("expression", "messageExpression"):
            told = [*_problems(known, str(one.get(word) or ""))]
            if told:
                found.append({"fieldRef": f"spec.validations[{index}].{word}", "warning": "\n".join(told)})
    return found


def object_type(served: ServedResource) -> Type:
    """The type of objects of a kind, with whatever its schema does not tell left open."""
    if not served.custom:
        name = builtin_names(served.group, served.version).get(served.kind)
        return DYN if name is None else _declared({"$ref": name}, ())
    schema = served.schema_source if is_map(served.schema_source) else {}
    properties = {**part(schema, "properties"), "metadata": {"$ref": _META}}
    strings = {word: {"type": "string"} for word in ("apiVersion", "kind")}
    return _declared({**schema, "type": "object", "properties": {**properties, **strings}}, ())


def _problems(known: Iterable[tuple[ServedResource, Composition]], text: str) -> Iterator[str]:
    if not text.strip():
        return
    for served, composition in known:
        try:
            composition.compile(text)
        except Uncompilable as error:
            problem = str(error).removeprefix("compilation failed: ")
            yield f"{served.group}/{served.version}, Kind={served.kind}: {problem}\n"


def _composition(catalog: Catalog, spec: Object, served: ServedResource) -> Composition:
    kind = read_param_kind(spec.get("paramKind"))
    param = None if kind is None else catalog.by_gvk(kind.group, kind.version, kind.kind)
    given = None if param is None else object_type(param)
    made = Composition(kind is not None, seen=object_type(served), given=given)
    for one in items(spec, "variables"):
        made = made.with_variable(str(one.get("name")), str(one.get("expression")))
    return made


def _kinds(catalog: Catalog, rules: Iterable[Object]) -> list[ServedResource]:
    """The kinds that rules name; those that name all, or subresources, tell nothing."""
    found: dict[tuple[str, str, str], ServedResource] = {}
    for rule in rules:
        groups, versions = items(rule, "apiGroups"), items(rule, "apiVersions")
        if any("*" in one for one in (*groups, *versions)):
            continue
        resources = [one for one in items(rule, "resources") if "*" not in one and "/" not in one]
        for place in ((group, version, plural) for group in groups for version in versions for plural in resources):
            served = catalog.find(*place)
            if served is not None:
                found[served.gvk] = served
            if len(found) == _MOST_TYPES:
                break
    return [found[key] for key in sorted(found)]


def _declared(schema: Any, above: tuple[str, ...]) -> Type:
    """The type of values of a schema; `above` are the names of those that it is a part of, as they may be cyclic."""
    name = _reference(schema)
    if name is not None:
        if name in above or name not in library():
            return DYN
        return _declared(library()[name], (*above, name))
    if schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields"):
        return DYN
    kind = schema.get("type")
    if kind == "array":
        return list_of(_declared(schema.get("items") or {}, above))
    if kind != "object":
        return replace(declared_type({**schema, "nullable": False}) or DYN, nullable=False)
    values = schema.get("additionalProperties")
    if is_map(values):
        return map_of(TEXT, _declared(values, above))
    properties = part(schema, "properties")
    return _fields(properties, above) if properties else DYN


def _fields(properties: Mapping[str, Any], above: tuple[str, ...]) -> Type:
    fields: dict[str, Type] = {}
    keys: dict[str, str] = {}
    for name, schema in properties.items():
        escaped = escape(name)
        if escaped is not None and is_map(schema):
            fields[escaped] = _declared(schema, above)
            keys[escaped] = name
    return object_of(fields, name=above[-1].rpartition(".")[2] if above else "object", keys=keys)


def _reference(schema: Mapping[str, Any]) -> str | None:
    """The name of the schema that this one stands for."""
    one: Any = schema
    whole = schema.get("allOf")
    if is_list(whole) and len(whole) == 1 and is_map(whole[0]):
        one = whole[0]
    found = one.get("$ref")
    return found.rpartition("/")[2] if isinstance(found, str) else None
