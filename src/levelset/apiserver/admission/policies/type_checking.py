"""Type checking of ValidatingAdmissionPolicies: reports expressions that do not fit the schemas of the matched kinds.

Such a policy is still stored, since its expressions may test with `has()` first; its status has the warnings.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec.structs import replace

from levelset.apiserver.admission.policies.params import read_param_kind
from levelset.apiserver.expressions.cel_programs import ExpressionCompileError, PolicyEnvironment
from levelset.apiserver.resources.catalog import Catalog
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.served_resource import Object, ServedResource
from levelset.apiserver.schema import builtin_names, library
from levelset.cel import DYN, Type, declared_type, escape, list_of, map_of, object_of
from levelset.cel import STRING as TEXT
from levelset.objects.json_tree import is_list, is_map

__all__ = ["expression_warnings", "object_type"]

_MAX_TYPES: Final = 10
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


def expression_warnings(catalog: Catalog, policy: Object) -> list[Object]:
    """The `expressionWarnings` of a policy's status: one for each expression that does not fit some matched kind."""
    spec = map_member(policy, "spec")
    kinds = list(_kinds(catalog, list_member(map_member(spec, "matchConstraints"), "resourceRules")))
    environments = [(kind, _environment(catalog, spec, kind)) for kind in kinds]
    found: list[Object] = []
    for index, one in enumerate(list_member(spec, "validations")):
        for word in ("expression", "messageExpression"):
            warnings = [*_warnings(environments, str(one.get(word) or ""))]
            if warnings:
                found.append({"fieldRef": f"spec.validations[{index}].{word}", "warning": "\n".join(warnings)})
    return found


def object_type(served: ServedResource) -> Type:
    """The CEL type of objects of a kind; dynamic where the schema says nothing."""
    if not served.custom:
        name = builtin_names(served.group, served.version).get(served.kind)
        return DYN if name is None else _declared({"$ref": name}, ())
    schema = served.schema_source if is_map(served.schema_source) else {}
    properties = {**map_member(schema, "properties"), "metadata": {"$ref": _META}}
    strings = {word: {"type": "string"} for word in ("apiVersion", "kind")}
    return _declared({**schema, "type": "object", "properties": {**properties, **strings}}, ())


def _warnings(environments: Iterable[tuple[ServedResource, PolicyEnvironment]], text: str) -> Iterator[str]:
    if not text.strip():
        return
    for served, environment in environments:
        try:
            environment.compile(text)
        except ExpressionCompileError as error:
            problem = str(error).removeprefix("compilation failed: ")
            yield f"{served.group}/{served.version}, Kind={served.kind}: {problem}\n"


def _environment(catalog: Catalog, spec: Object, served: ServedResource) -> PolicyEnvironment:
    kind = read_param_kind(spec.get("paramKind"))
    param = None if kind is None else catalog.by_gvk(kind.group, kind.version, kind.kind)
    params_type = None if param is None else object_type(param)
    environment = PolicyEnvironment(kind is not None, object_type=object_type(served), params_type=params_type)
    for one in list_member(spec, "variables"):
        environment = environment.with_variable(str(one.get("name")), str(one.get("expression")))
    return environment


def _kinds(catalog: Catalog, rules: Iterable[Object]) -> list[ServedResource]:
    """The kinds that the rules name; wildcards and subresources are skipped."""
    found: dict[tuple[str, str, str], ServedResource] = {}
    for rule in rules:
        groups, versions = list_member(rule, "apiGroups"), list_member(rule, "apiVersions")
        if any("*" in one for one in (*groups, *versions)):
            continue
        resources = [one for one in list_member(rule, "resources") if "*" not in one and "/" not in one]
        for resource in ((group, version, plural) for group in groups for version in versions for plural in resources):
            served = catalog.find(*resource)
            if served is not None:
                found[served.gvk] = served
            if len(found) == _MAX_TYPES:
                break
    return [found[key] for key in sorted(found)]


def _declared(schema: Any, above: tuple[str, ...]) -> Type:
    """The CEL type of a schema; `above` holds the names of the enclosing schemas, since references can be cyclic."""
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
    properties = map_member(schema, "properties")
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
    """The name of the schema that this one refers to; None if it is not a reference."""
    one: Any = schema
    whole = schema.get("allOf")
    if is_list(whole) and len(whole) == 1 and is_map(whole[0]):
        one = whole[0]
    found = one.get("$ref")
    return found.rpartition("/")[2] if isinstance(found, str) else None
