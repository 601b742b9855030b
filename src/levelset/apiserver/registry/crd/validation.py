"""What must hold of a CustomResourceDefinition; whatever does not is a cause with the path of the field.

Rules in CEL (x-kubernetes-validations) of custom resources: told when a definition is written, held to after.

What must hold of one version of a definition: its schema, its columns, its subresources and selectable fields.
"""

import functools
import json
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from levelset.apiserver.registry.builtin.webhook_configurations import check_client_config
from levelset.apiserver.registry.crd.names import is_established
from levelset.apiserver.registry.metadata import check_dns1035_label
from levelset.apiserver.resources.json_members import items, part
from levelset.apiserver.resources.served_resource import Object
from levelset.apiserver.schema import check_structural, field_errors
from levelset.apiserver.schema.schema_nodes import as_list, as_map
from levelset.apiserver.wire.json_path import parse_path
from levelset.errors import BadPointer, Cause
from levelset.objects.names import check_dns1123_subdomain

__all__ = ["check_definition", "check_expressions", "check_version", "expression_rules"]

if TYPE_CHECKING:
    from levelset.cel import Finding, Rules


UNCHECKED = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete "
    "validation"
)
_PLACE = "\0"  # where a schema stands, until that is known
_WORDS = {
    "FieldValueInvalid": "Invalid value",
    "FieldValueRequired": "Required value",
    "FieldValueForbidden": "Forbidden",
    "FieldValueDuplicate": "Duplicate value",
    "FieldValueNotSupported": "Unsupported value",
    "InternalError": "Internal error",
}
# Values that break the schema in these ways may be anything, so that rules could not be evaluated on them.
_BLOCKING = frozenset(
    f"FieldValue{reason}" for reason in ("NotSupported", "Required", "TooLong", "TooMany", "TypeInvalid")
)


def check_expressions(schema: Any, path: str) -> list[Cause]:
    """What is wrong with the rules of a structural schema that stands at this path."""
    if not _has_rules(schema):
        return []
    causes = map(_cause, _compiled(json.dumps(schema)).problems)
    return [Cause(one.field.replace(_PLACE, path), one.reason, one.message.replace(_PLACE, path)) for one in causes]


def expression_rules(schema: Any) -> Callable[[Any, Any, list[Cause]], list[Cause]] | None:
    """What finds out which rules an object breaks, given what is wrong with it already; None if there are no rules."""
    if not _has_rules(schema):
        return None
    written = json.dumps(schema)

    def check(new: Any, old: Any, causes: list[Cause]) -> list[Cause]:
        if any(cause.reason in _BLOCKING for cause in causes):
            return [Cause("<nil>", "FieldValueInvalid", f"Invalid value: null: {UNCHECKED}")]
        rules = _compiled(written)
        broken = next((one for one in rules.problems if one.reason == "FieldValueInvalid"), None)
        if broken is not None:
            return [] if _is_left_alone(new, old) else [_unusable(broken)]
        return [_cause(finding) for finding in rules.check(new, old)]

    return check


def _is_left_alone(new: Any, old: Any) -> bool:
    """Whether nothing changes that rules could be about, so that such an object can still be let go of."""
    members, before = as_map(new), as_map(old)
    if members is None or before is None:
        return False
    return all(members.get(name) == before.get(name) for name in {*members, *before} - {"metadata", "status"})


def _unusable(problem: "Finding") -> Cause:
    """What is said about every object of a definition with a rule that this server cannot evaluate.

    Such a definition was stored by another server, as this one refuses it. To leave the rule out would let everything
    pass that it is there to keep out.
    """
    place = problem.field.removeprefix(_PLACE).lstrip(".")
    return Cause("<nil>", "FieldValueInvalid", f"Invalid value: null: rule compile error: {place}: {problem.message}")


@functools.lru_cache(256)
def _compiled(schema: str) -> "Rules":
    """The rules of a schema, given as JSON: those of one schema are compiled once, however often it is written."""
    from levelset.cel import compile_rules  # noqa: PLC0415  # it takes a while to load, and most schemas have no rules

    return compile_rules(json.loads(schema), _PLACE)


def _has_rules(schema: Any) -> bool:
    waiting = [schema]
    while waiting:
        tree = waiting.pop()
        members = as_map(tree)
        if members is not None and members.get("x-kubernetes-validations"):
            return True
        waiting += (as_list(tree) or []) if members is None else members.values()
    return False


def _cause(finding: "Finding") -> Cause:
    words = _WORDS.get(finding.reason, "Invalid value")
    is_shown = finding.is_shown and finding.reason not in ("FieldValueRequired", "FieldValueForbidden")
    shown = f" {field_errors.show(finding.value)}:" if is_shown else ""
    if finding.reason == "FieldValueDuplicate":  # which has no room for a message
        return Cause(finding.field or "<nil>", finding.reason, f"{words}{':' if is_shown else ''}{shown.rstrip(':')}")
    return Cause(finding.field or "<nil>", finding.reason, f"{words}:{shown} {finding.message}")


COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
COLUMN_FORMATS = (
    *("int32", "int64", "float", "double", "byte", "date", "date-time", "password", "bsonobjectid", "uri", "email"),
    *("hostname", "ipv4", "ipv6", "cidr", "mac", "uuid", "uuid3", "uuid4", "uuid5", "isbn", "isbn10", "isbn13"),
    *("creditcard", "ssn", "hexcolor", "rgbcolor", "duration", "datetime"),
)
MOST_SELECTABLE = 8
LONGEST_WARNING = 256


def check_version(version: Object, path: str) -> list[Cause]:
    """Everything that is wrong with a version of a definition."""
    name = version.get("name") or ""
    causes: list[Cause] = []
    if check_dns1035_label(name):
        causes.append(field_errors.invalid(f"{path}.name", name, "; ".join(check_dns1035_label(name))))
    causes += _check_warning(version, path)
    schema = part(version, "schema").get("openAPIV3Schema")
    if schema is None:
        causes.append(field_errors.required(f"{path}.schema.openAPIV3Schema", "schemas are required"))
    else:
        status = part(version, "subresources").get("status") is not None
        wrong = check_structural(schema, f"{path}.schema.openAPIV3Schema", status=status)
        causes += wrong or check_expressions(schema, f"{path}.schema.openAPIV3Schema")
    causes += _check_scale(part(version, "subresources").get("scale"), f"{path}.subresources.scale")
    for index, column in enumerate(items(version, "additionalPrinterColumns")):
        causes += _check_column(column, f"{path}.additionalPrinterColumns[{index}]")
    causes += _check_selectable(items(version, "selectableFields"), schema, f"{path}.selectableFields")
    return causes


def _check_warning(version: Object, path: str) -> Iterator[Cause]:
    warning = version.get("deprecationWarning")
    if warning is None:
        return
    field = f"{path}.deprecationWarning"
    if not version.get("deprecated"):
        yield field_errors.invalid(field, warning, "can only be set for deprecated versions")
    if not warning or len(warning) > LONGEST_WARNING or not warning.isprintable():
        yield field_errors.invalid(field, warning, f"must be 1 to {LONGEST_WARNING} printable characters")


def _check_scale(scale: Any, path: str) -> Iterator[Cause]:
    if scale is None:
        return
    fields = (
        ("specReplicasPath", (".spec.",), True),
        ("statusReplicasPath", (".status.",), True),
        ("labelSelectorPath", (".spec.", ".status."), False),
    )
    for field, roots, needed in fields:
        value = scale.get(field) or ""
        if not value:
            if needed:
                yield field_errors.required(f"{path}.{field}")
        elif not value.startswith(roots) or _plain_names(value) is None:
            detail = f"should be a JSONPath of member names under {' or '.join(roots)}"
            yield field_errors.invalid(f"{path}.{field}", value, detail)


def _check_column(column: Object, path: str) -> Iterator[Cause]:
    for field in ("name", "type", "jsonPath"):
        if not column.get(field):
            yield field_errors.required(f"{path}.{field}")
    kind, shape, way = column.get("type"), column.get("format"), column.get("jsonPath")
    if kind and kind not in COLUMN_TYPES:
        yield field_errors.invalid(f"{path}.type", kind, f"must be one of {', '.join(COLUMN_TYPES)}")
    if shape and shape not in COLUMN_FORMATS:
        yield field_errors.invalid(f"{path}.format", shape, f"must be one of {', '.join(COLUMN_FORMATS)}")
    if way and not _is_path(way):
        yield field_errors.invalid(f"{path}.jsonPath", way, "must be a JSONPath that begins with a dot")


def _is_path(text: str) -> bool:
    try:
        parse_path(text)
    except BadPointer:
        return False
    return text.startswith((".", "[", "{"))


def _check_selectable(fields: list[Any], schema: Any, path: str) -> Iterator[Cause]:
    if len(fields) > MOST_SELECTABLE:
        yield field_errors.too_many(path, len(fields), MOST_SELECTABLE)
    seen: set[str] = set()
    for index, field in enumerate(fields):
        text = field.get("jsonPath") or ""
        at = f"{path}[{index}].jsonPath"
        if not text:
            yield field_errors.required(at)
            continue
        if text in seen:
            yield field_errors.duplicate(at, text)
        seen.add(text)
        problem = _selectable_problem(text, schema)
        if problem:
            yield field_errors.invalid(at, text, problem)


def _selectable_problem(text: str, schema: Any) -> str:
    """Why this path cannot be selected by; empty if it can."""
    names = _plain_names(text)
    if names is None or not text.startswith("."):
        return "must be a simple path such as .spec.color"
    if names[0] == "metadata":
        return "must not point to fields in metadata"
    node: Any = schema
    for name in names:
        properties = node.get("properties") if isinstance(node, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - a JSON tree
        node = properties.get(name) if isinstance(properties, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - a JSON tree
        if node is None:
            return "must point to a field that the schema specifies"
    if not isinstance(node, dict) or node.get("type") not in ("string", "boolean", "integer"):  # pyright: ignore[reportUnknownMemberType] - a JSON tree
        return "must point to a field of type string, boolean or integer"
    return ""


def _plain_names(text: str) -> tuple[str, ...] | None:
    """The member names of a path that has nothing else in it, or None."""
    try:
        return parse_path(text).names or None
    except BadPointer:
        return None


SCOPES = ("Cluster", "Namespaced")
APPROVAL = "api-approved.kubernetes.io"
_PROTECTED = re.compile(r"(?:.*\.)?(?:k8s|kubernetes)\.io")
_URL = re.compile(r"https?://[^\s/]+\S*")


def check_definition(new: Object, old: Object | None) -> list[Cause]:
    """Everything that is wrong with a definition, as a whole and in each of its versions."""
    spec = new["spec"]
    causes = [*_check_group(new), *_check_scope(spec), *_check_names(spec["names"]), *_check_versions(spec)]
    causes += [*_check_conversion(spec), *_check_approval(new)]
    if spec.get("preserveUnknownFields"):
        causes.append(field_errors.invalid("spec.preserveUnknownFields", True, "must be false"))
    if old is None:
        causes += _check_own_name(new)
    else:
        causes += [*_check_fixed(new, old), *_check_stored(new)]
    return causes


def _check_own_name(definition: Object) -> Iterator[Cause]:
    spec, name = definition["spec"], definition["metadata"].get("name")
    wanted = f"{spec['names'].get('plural')}.{spec.get('group')}"
    if name != wanted:
        yield field_errors.invalid(
            "metadata.name", name, f"must be spec.names.plural+'.'+spec.group, that is {wanted!r}"
        )


def _check_group(definition: Object) -> Iterator[Cause]:
    group = definition["spec"].get("group") or ""
    problems = check_dns1123_subdomain(group)
    if not group:
        yield field_errors.required("spec.group")
    elif problems:
        yield field_errors.invalid("spec.group", group, "; ".join(problems))
    elif "." not in group:
        yield field_errors.invalid("spec.group", group, "should be a domain with at least one dot")


def _check_scope(spec: Object) -> Iterator[Cause]:
    scope = spec.get("scope")
    if not scope:
        yield field_errors.required("spec.scope")
    elif scope not in SCOPES:
        yield field_errors.not_supported("spec.scope", scope, SCOPES)


def _check_names(names: Object) -> Iterator[Cause]:
    for field in ("plural", "singular", "kind", "listKind"):
        value = names.get(field) or ""
        if not value:
            yield field_errors.required(f"spec.names.{field}")
        elif check_dns1035_label(value.lower() if field in ("kind", "listKind") else value):
            yield field_errors.invalid(f"spec.names.{field}", value, "; ".join(check_dns1035_label(value)))
    for field in ("shortNames", "categories"):
        for index, value in enumerate(names.get(field) or ()):
            if check_dns1035_label(value):
                yield field_errors.invalid(f"spec.names.{field}[{index}]", value, "; ".join(check_dns1035_label(value)))
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        yield field_errors.invalid("spec.names.listKind", names["listKind"], "kind and listKind may not be the same")


def _check_versions(spec: Object) -> Iterator[Cause]:
    versions = items(spec, "versions")
    names = [one.get("name") for one in versions]
    if len(set(names)) != len(names):
        yield field_errors.invalid("spec.versions", names, "must contain unique version names")
    if sum(1 for one in versions if one.get("storage")) != 1:
        yield field_errors.invalid("spec.versions", names, "must have exactly one version marked as storage version")
    for index, version in enumerate(versions):
        yield from check_version(version, f"spec.versions[{index}]")


def _check_conversion(spec: Object) -> Iterator[Cause]:
    conversion = part(spec, "conversion")
    strategy, hook = conversion.get("strategy"), conversion.get("webhook")
    if strategy == "None" and hook is not None:
        yield field_errors.forbidden("spec.conversion.webhook", "should not be set when strategy is not set to Webhook")
    elif strategy == "Webhook":
        yield from _check_webhook(hook)
    elif strategy != "None":
        yield field_errors.not_supported("spec.conversion.strategy", strategy, ("None", "Webhook"))


def _check_webhook(hook: Any) -> Iterator[Cause]:
    path = "spec.conversion.webhook"
    if not hook or not hook.get("clientConfig"):
        yield field_errors.required(f"{path}.clientConfig", "required when strategy is set to Webhook")
        return
    yield from check_client_config(hook["clientConfig"], f"{path}.clientConfig")
    known = {"v1", "v1beta1"}
    if not known.intersection(items(hook, "conversionReviewVersions")):
        yield field_errors.invalid(
            f"{path}.conversionReviewVersions", hook.get("conversionReviewVersions"), "must have v1"
        )


def _check_approval(definition: Object) -> Iterator[Cause]:
    """A group of the Kubernetes project itself needs a link to the approval of its API."""
    if not _PROTECTED.fullmatch(definition["spec"].get("group") or ""):
        return
    path = f"metadata.annotations[{APPROVAL}]"
    approval = part(definition["metadata"], "annotations").get(APPROVAL)
    if not approval:
        yield field_errors.required(
            path, "protected groups must have an approval, see github.com/kubernetes/enhancements/1111"
        )
    elif not approval.startswith("unapproved") and not _URL.fullmatch(approval):
        yield field_errors.invalid(path, approval, "must be a URL or begin with 'unapproved'")


def _check_fixed(new: Object, old: Object) -> Iterator[Cause]:
    """What names the stored objects never changes."""
    paths = ["group", "names.plural", *(("scope", "names.kind") if is_established(old) else ())]
    for path in paths:
        value, former = _at(new["spec"], path), _at(old["spec"], path)
        if value != former:
            yield field_errors.invalid(f"spec.{path}", value, "field is immutable")


def _check_stored(definition: Object) -> Iterator[Cause]:
    """A version in which objects are stored cannot be taken away."""
    names = {one.get("name") for one in items(definition["spec"], "versions")}
    for index, version in enumerate(items(part(definition, "status"), "storedVersions")):
        if version not in names:
            detail = "must appear in spec.versions: objects are stored in this version"
            yield field_errors.invalid(f"status.storedVersions[{index}]", version, detail)


def _at(tree: Object, path: str) -> Any:
    found: Any = tree
    for name in path.split("."):
        found = found.get(name)
    return found
