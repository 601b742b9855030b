"""Validation of CustomResourceDefinitions, and of custom resources by their CEL rules (x-kubernetes-validations).

`check_definition` validates a whole CRD: names, scope, versions with their schemas, printer columns and subresources,
conversion, and what cannot change. `expression_rules` makes the validator of a custom resource from its schema.
"""

import functools
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from levelset.apiserver.expressions.match_conditions import CEL_IMPORT_STEPS
from levelset.apiserver.registry.builtin.rules.webhook_rules import check_client_config, check_review_versions
from levelset.apiserver.registry.crd.names import is_established
from levelset.apiserver.resources.json_members import list_member, map_member
from levelset.apiserver.resources.served_resource import Object
from levelset.apiserver.schema import SchemaProblems, compile_schema, field_errors, find_problems
from levelset.apiserver.schema.json_values import count_values
from levelset.apiserver.schema.schema_nodes import MAX_DEPTH, as_list, as_map
from levelset.apiserver.wire.json_path import parse_path
from levelset.apiserver.wire.status_errors import Undecodable
from levelset.errors import BadPointer, Cause
from levelset.objects.codec import decode_tree, encode_tree
from levelset.objects.json_tree import is_list, is_map
from levelset.objects.lazy_pattern import Pattern
from levelset.objects.names import check_dns1035_label, check_dns1123_subdomain
from levelset.re2.step_budget import charge, charge_import

if TYPE_CHECKING:
    from levelset.cel import Finding, Rules

__all__ = ["check_definition", "check_expressions", "check_version", "expression_rules", "format_warnings"]

SCOPES = ("Cluster", "Namespaced")
APPROVAL_ANNOTATION = "api-approved.kubernetes.io"
_PROTECTED = Pattern(r"(?:.*\.)?(?:k8s|kubernetes)\.io")
_URL = Pattern(r"https?://[^\s/]+\S*")
COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
MAX_SELECTABLE_FIELDS = 8
MAX_WARNING_LENGTH = 256
RULES_NOT_CHECKED = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete "
    "validation"
)
_STEPS_PER_VALUE = 100  # of validating a schema
_STEPS_PER_CHARACTER = 3  # of compiling the rules of a schema
# Rules in the JSON of a schema, in which quotes inside a text are escaped.
_RULES = Pattern(rb'"x-kubernetes-validations":(?!\[\]|null)')
_DEFAULT = b'"default":'
_UNKNOWN_FIELDS = "must not have unknown fields"
_PATH = "\0"  # a placeholder for the path of the schema, so that compiled rules can be shared
_ERROR_TYPES = {
    "FieldValueInvalid": "Invalid value",
    "FieldValueRequired": "Required value",
    "FieldValueForbidden": "Forbidden",
    "FieldValueDuplicate": "Duplicate value",
    "FieldValueNotSupported": "Unsupported value",
    "InternalError": "Internal error",
}
# With these errors a value may have any type, so that CEL rules cannot be evaluated on it.
_BLOCKING = frozenset(
    f"FieldValue{reason}" for reason in ("NotSupported", "Required", "TooLong", "TooMany", "TypeInvalid")
)


def check_definition(new: Object, old: Object | None) -> list[Cause]:
    """Validates a CRD and all of its versions; `old` is None on create."""
    spec = new["spec"]
    charge(_STEPS_PER_VALUE * count_values(spec))
    causes = [*_check_metadata_name(new)] if old is None else []
    causes += [*_check_group(new), *_check_scope(spec), *_check_versions(spec), *_check_names(spec["names"])]
    causes += _check_conversion(spec)
    if old is not None:
        causes += _check_immutable(new, old)
    causes += [*_check_stored_versions(new), *_check_approval(new)]
    if spec.get("preserveUnknownFields"):
        detail = "set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        causes.append(field_errors.invalid("spec.preserveUnknownFields", True, f"cannot set to true, {detail}"))
        if any(_has_default(map_member(one, "schema").get("openAPIV3Schema")) for one in list_member(spec, "versions")):
            detail = "must be false in order to use defaults in the schema"
            causes.append(field_errors.invalid("spec.preserveUnknownFields", True, detail))
    return causes


def _has_default(schema: Any) -> bool:
    """Whether a schema has a default, or one inside of it; any tree is one."""
    if is_map(schema):
        return schema.get("default") is not None or any(map(_has_default, schema.values()))
    return is_list(schema) and any(map(_has_default, schema))


_TEXT_FORMATS = frozenset(
    {
        *("bsonobjectid", "uri", "email", "hostname", "ipv4", "ipv6", "cidr", "mac", "uuid", "uuid3", "uuid4", "uuid5"),
        *("isbn", "isbn10", "isbn13", "creditcard", "ssn", "hexcolor", "rgbcolor", "byte", "password", "date"),
        *("duration", "datetime", "k8sshortname", "k8slongname"),
    }
)
_FORMAT_MEMBERS = frozenset(
    {"format", "properties", "definitions", "allOf", "anyOf", "oneOf", "items", "additionalProperties", "not"}
)
_NUMBER_FORMATS = {"integer": ("int32", "int64"), "number": ("float", "double")}


def format_warnings(new: Object, old: Object | None) -> list[str]:
    """Warns of the formats that nothing checks; of an update, of those that are new."""
    known: set[str] = set() if old is None else set(_unknown_formats(old))
    return [f'unrecognized format "{one}"' for one in _unknown_formats(new) if one not in known]


def _unknown_formats(definition: Object) -> Iterator[str]:
    schemas = [
        map_member(one, "schema").get("openAPIV3Schema")
        for one in list_member(map_member(definition, "spec"), "versions")
    ]
    pending = _with_formats(schemas)
    while pending:
        node = pending.pop()
        form, kind = node.get("format"), node.get("type") or ""
        if form and isinstance(form, str):
            is_text = kind in ("", "string") and form.replace("-", "") in _TEXT_FORMATS
            if not is_text and form not in _NUMBER_FORMATS.get(str(kind), ()):
                yield form
        # Most nodes have none of them: a call for each that is absent took a tenth of the creation of a definition.
        for name in ("properties", "definitions"):
            if name in node:
                pending += _with_formats((as_map(node[name]) or {}).values())
        for name in ("allOf", "anyOf", "oneOf"):
            if name in node:
                pending += _with_formats(as_list(node[name]) or [])
        for name in ("items", "additionalProperties", "not"):
            if name in node:
                pending += _with_formats((node[name],))


def _with_formats(nodes: Iterable[Any]) -> list[Object]:
    """The nodes of a schema that have a format or further nodes: most of a large one have neither."""
    return [one for one in nodes if is_map(one) and not _FORMAT_MEMBERS.isdisjoint(one)]


def _check_metadata_name(definition: Object) -> Iterator[Cause]:
    spec, metadata = definition["spec"], definition["metadata"]
    wanted = f"{spec['names'].get('plural') or ''}.{spec.get('group') or ''}"
    problem = 'must be spec.names.plural+"."+spec.group'
    if metadata.get("generateName", wanted) != wanted:
        yield field_errors.invalid("metadata.generateName", metadata["generateName"], problem)
    if metadata.get("name", wanted) not in ("", wanted):  # one that is missing has a cause of its own
        yield field_errors.invalid("metadata.name", metadata["name"], problem)


def _check_group(definition: Object) -> Iterator[Cause]:
    group = definition["spec"].get("group") or ""
    problems = check_dns1123_subdomain(group)
    if not group:
        yield field_errors.required("spec.group")
    elif problems:
        yield field_errors.invalid("spec.group", group, ",".join(problems))
    elif "." not in group:
        yield field_errors.invalid("spec.group", group, "should be a domain with at least one dot")


def _check_scope(spec: Object) -> Iterator[Cause]:
    scope = spec.get("scope")
    if not scope:
        yield field_errors.required("spec.scope")
    elif scope not in SCOPES:
        yield field_errors.not_supported("spec.scope", scope, SCOPES)


def _check_names(names: Object) -> Iterator[Cause]:
    fields = ("plural", "singular", "kind", "listKind")
    yield from [field_errors.required(f"spec.names.{field}") for field in fields if not names.get(field)]
    for field in fields:
        value, is_kind = names.get(field) or "", field in ("kind", "listKind")
        problems = check_dns1035_label(value.lower() if is_kind else value) if value else ()
        if problems:
            prefix = "may have mixed case, but should otherwise match: " if is_kind else ""
            yield field_errors.invalid(f"spec.names.{field}", value, prefix + ",".join(problems))
    yield from _check_labels(names, "shortNames")
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        yield field_errors.invalid("spec.names.listKind", names["listKind"], "kind and listKind may not be the same")
    yield from _check_labels(names, "categories")


def _check_labels(names: Object, field: str) -> Iterator[Cause]:
    for index, value in enumerate(names.get(field) or ()):
        if problems := check_dns1035_label(value):
            yield field_errors.invalid(f"spec.names.{field}[{index}]", value, ",".join(problems))


def _check_versions(spec: Object) -> Iterator[Cause]:
    versions = list_member(spec, "versions")
    shared = {name for name in _SHAREABLE if all(one.get(name) == versions[0].get(name) for one in versions)}
    for index, version in enumerate(versions):
        yield from check_version(version, f"spec.versions[{index}]", shared=shared, is_first=not index)
    shown = spec.get("versions")
    if len({one.get("name") for one in versions}) != len(versions):
        yield field_errors.invalid("spec.versions", shown, "must contain unique version names")
    if sum(1 for one in versions if one.get("storage")) != 1:
        yield field_errors.invalid("spec.versions", shown, "must have exactly one version marked as storage version")
    first = versions[0].get("name") if versions else ""
    if first and (problems := check_dns1035_label(first)):
        yield field_errors.invalid("spec.version", first, ",".join(problems))  # as upstream, which has a copy there


def _check_conversion(spec: Object) -> Iterator[Cause]:
    conversion = map_member(spec, "conversion")
    strategy, hook = conversion.get("strategy"), conversion.get("webhook")
    if strategy == "Webhook":
        yield from _check_webhook(hook)
    elif hook is not None:
        words = "should not be set when strategy is not set to Webhook"
        if hook.get("clientConfig") is not None:
            yield field_errors.forbidden("spec.conversion.webhookClientConfig", words)
        if hook.get("conversionReviewVersions"):
            yield field_errors.forbidden("spec.conversion.conversionReviewVersions", words)
    if not strategy:
        yield field_errors.required("spec.conversion.strategy")
    elif strategy not in ("None", "Webhook"):
        yield field_errors.not_supported("spec.conversion.strategy", strategy, ("None", "Webhook"))


def _check_webhook(hook: Any) -> Iterator[Cause]:
    """Checks a conversion webhook; upstream names its fields as its internal version does."""
    given: dict[str, Any] = hook or {}
    causes: list[Cause] = []
    config, path = given.get("clientConfig"), "spec.conversion.webhookClientConfig"
    if config is None:
        causes.append(field_errors.required(path, "required when strategy is set to Webhook"))
    else:
        check_client_config(config, path, causes, None)
    check_review_versions(given.get("conversionReviewVersions"), "spec.conversion.conversionReviewVersions", causes)
    yield from causes


def _check_approval(definition: Object) -> Iterator[Cause]:
    """A protected group (`*.k8s.io`, `*.kubernetes.io`) needs an annotation with the approval of its API."""
    if not _PROTECTED.fullmatch(definition["spec"].get("group") or ""):
        return
    path = f"metadata.annotations[{APPROVAL_ANNOTATION}]"
    approval = map_member(definition["metadata"], "annotations").get(APPROVAL_ANNOTATION)
    if not approval:
        yield field_errors.required(
            path, "protected groups must have an approval, see github.com/kubernetes/enhancements/1111"
        )
    elif not approval.startswith("unapproved") and not _URL.fullmatch(approval):
        yield field_errors.invalid(path, approval, "must be a URL or begin with 'unapproved'")


def _check_immutable(new: Object, old: Object) -> Iterator[Cause]:
    """The fields that the storage keys depend on are immutable."""
    paths = ["group", "names.plural", *(("scope", "names.kind") if is_established(old) else ())]
    for path in paths:
        value, former = _at(new["spec"], path), _at(old["spec"], path)
        if value != former:
            yield field_errors.invalid(f"spec.{path}", value, "field is immutable")


def _check_stored_versions(definition: Object) -> Iterator[Cause]:
    """A version cannot be removed while it is in `status.storedVersions`."""
    versions = list_member(definition["spec"], "versions")
    names = {one.get("name") for one in versions}
    stored = list_member(map_member(definition, "status"), "storedVersions")
    storing = [one for one in versions if one.get("storage")]
    if not stored and not storing:
        yield field_errors.invalid("status.storedVersions", None, "must have at least one stored version")
        return
    left = {*stored, *(one.get("name") for one in storing[:1])}  # the first one is added to them
    for one in versions:
        if one.get("storage") and one.get("name") not in left:
            detail = f"must have the storage version {one.get('name') or ''}"
            yield field_errors.invalid("status.storedVersions", one, detail)
        left.discard(one.get("name"))  # as upstream, which finds each of them once
    for index, version in enumerate(stored):
        if version not in names:
            detail = (
                f"missing from spec.versions; {version} was previously a storage version, and must remain in"
                f" spec.versions until a storage migration ensures no data remains persisted in {version} and removes"
                f" {version} from status.storedVersions"
            )
            yield field_errors.invalid(f"status.storedVersions[{index}]", version, detail)


def _at(tree: Object, path: str) -> Any:
    found: Any = tree
    for name in path.split("."):
        found = found.get(name)
    return found


_SHAREABLE = ("schema", "selectableFields", "subresources", "additionalPrinterColumns")


def check_version(version: Object, path: str, *, shared: Collection[str] = (), is_first: bool = True) -> list[Cause]:
    """Validates one version of a CRD; `shared` are the parts that all versions have alike.

    Upstream has those in one place only, so that selectable fields are not found in a schema of a version, and are
    checked once.
    """
    name = version.get("name") or ""
    causes: list[Cause] = []
    if check_dns1035_label(name):
        causes.append(field_errors.invalid(f"{path}.name", name, ",".join(check_dns1035_label(name))))
    causes += _check_warning(version, path)
    schema = map_member(version, "schema").get("openAPIV3Schema")
    if schema is None:
        causes.append(field_errors.required(f"{path}.schema.openAPIV3Schema"))
    else:
        status = map_member(version, "subresources").get("status") is not None
        problems = find_problems(schema, f"{path}.schema.openAPIV3Schema", status=status)
        wrong = problems.causes
        if wrong and wrong[0].reason == field_errors.UNDECODABLE:
            raise Undecodable(f"the definition cannot be decoded: {wrong[0].field}: {wrong[0].message}")
        found = [*wrong, *check_expressions(schema, f"{path}.schema.openAPIV3Schema", problems)]
        causes += found or problems.unsupported
        if not found:
            compile_schema(schema)  # now, in the thread of a large definition, rather than for the first object
    if is_first or "subresources" not in shared:
        causes += _check_scale(map_member(version, "subresources").get("scale"), f"{path}.subresources.scale")
    columns = list_member(version, "additionalPrinterColumns")
    for index, column in enumerate(columns if is_first or "additionalPrinterColumns" not in shared else ()):
        causes += _check_column(column, f"{path}.additionalPrinterColumns[{index}]")
    are_shared = "selectableFields" in shared
    if not are_shared or is_first:
        apart = schema is None or are_shared is not ("schema" in shared)
        check_selectable = partial(_check_unschematic, are_shared=are_shared) if apart else _check_selectable
        causes += check_selectable(list_member(version, "selectableFields"), schema, f"{path}.selectableFields")
    return causes


def _check_unschematic(fields: list[Any], _schema: Any, path: str, *, are_shared: bool) -> Iterator[Cause]:
    """Selectable fields need a schema; upstream says so in other words if all versions have the same."""
    words = "validations.schema is included" if are_shared else "`version.schema.openAPIV3Schema` is not included"
    if fields:
        yield field_errors.invalid(path, "", f"may only be set when {words}")


def _check_warning(version: Object, path: str) -> Iterator[Cause]:
    warning = version.get("deprecationWarning")
    if warning is None:
        return
    field = f"{path}.deprecationWarning"
    if not version.get("deprecated"):
        yield field_errors.invalid(field, warning, "can only be set for deprecated versions")
        return
    if len(warning) > MAX_WARNING_LENGTH:
        yield field_errors.invalid(field, warning, f"must be <= {MAX_WARNING_LENGTH} characters long")
    if not warning:
        yield field_errors.invalid(field, warning, "must not be an empty string")
    if not warning.isprintable():
        index = next(len(warning[:at].encode()) for at, one in enumerate(warning) if not one.isprintable())
        detail = f"non-printable character found at index {index}"
        yield field_errors.invalid(field, warning, f"must only contain printable UTF-8 characters; {detail}")


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
        elif not value.startswith("."):
            yield field_errors.invalid(f"{path}.{field}", value, "must be a simple json path starting with .")
        elif not value.startswith(roots):
            shown = " or ".join(root.rstrip(".") for root in roots)
            detail = f"should be a json path under {'either ' if len(roots) > 1 else ''}{shown}"
            yield field_errors.invalid(f"{path}.{field}", value, detail)


def _check_column(column: Object, path: str) -> Iterator[Cause]:
    kind, form, json_path = column.get("type"), column.get("format"), column.get("jsonPath")
    types = f"must be one of {','.join(COLUMN_TYPES)}"
    if not column.get("name"):
        yield field_errors.required(f"{path}.name")
    if not kind:
        yield field_errors.required(f"{path}.type", types)
    elif kind not in COLUMN_TYPES:
        yield field_errors.invalid(f"{path}.type", kind, types)
    if form and form not in COLUMN_FORMATS:
        yield field_errors.invalid(f"{path}.format", form, f"must be one of {','.join(COLUMN_FORMATS)}")
    if not json_path:
        yield field_errors.required(f"{path}.JSONPath")  # as kube-apiserver spells it in causes
    elif not json_path.startswith("."):
        yield field_errors.invalid(f"{path}.JSONPath", json_path, "must be a simple json path starting with .")


def _check_selectable(fields: list[Any], schema: Any, path: str) -> Iterator[Cause]:
    if len(fields) > MAX_SELECTABLE_FIELDS:
        yield field_errors.too_many(path, len(fields), MAX_SELECTABLE_FIELDS)
    seen: set[str] = set()
    for index, field in enumerate(fields):
        text = field.get("jsonPath") or ""
        at = f"{path}[{index}].jsonPath"
        if not text:
            yield field_errors.required(at)
            continue
        problem = _selectable_problem(text, schema)
        if problem:
            yield field_errors.invalid(at, text, problem)
        if problem.startswith("is an invalid path"):
            continue
        if text in seen:
            yield field_errors.duplicate(at, text)
        seen.add(text)


def _selectable_problem(text: str, schema: Any) -> str:
    """Why a path cannot be a selectable field; empty if it can."""
    names = _plain_names(text)
    if not text.startswith((".", "[")):
        return f"is an invalid path: expected [ or . but got: {text.partition('.')[0].partition('[')[0]}"
    if names is None or not text.startswith("."):
        return "must be a simple path such as .spec.color"
    if names[0] == "metadata":
        return "must not point to fields in metadata"
    node: Any = schema
    for name in names:
        properties = node.get("properties") if isinstance(node, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - a JSON tree
        node = properties.get(name) if isinstance(properties, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - a JSON tree
        if node is None:
            return "is an invalid path: does not refer to a valid field"
    if not isinstance(node, dict) or node.get("type") not in ("string", "boolean", "integer"):  # pyright: ignore[reportUnknownMemberType] - a JSON tree
        detail = "Enum string fields and strings with formats are allowed."
        return f"must point to a field of type string, boolean or integer. {detail}"
    return ""


def _plain_names(text: str) -> tuple[str, ...] | None:
    """The member names of a path of plain names; None for any other path."""
    try:
        return parse_path(text).names or None
    except BadPointer:
        return None


_SOUND = SchemaProblems([], is_structural=True, is_sound=True)


def check_expressions(schema: Any, path: str, problems: SchemaProblems = _SOUND) -> list[Cause]:
    """Validates the CEL rules of the schema at this path, in which these problems were found.

    As upstream: rules are compiled if the schema is structural, except at and above errors in keywords. A default that
    violates them is such an error, too.
    """
    encoded = encode_tree(schema)
    if not _RULES.search(encoded):
        return []
    from levelset.cel import check_rules  # noqa: PLC0415 - as below

    wrong: list[Finding] = []
    if problems.is_sound and _DEFAULT in encoded:
        fields = {one.field for one in problems.causes if _UNKNOWN_FIELDS not in one.message}
        wrong = list(_wrong_defaults(schema, _PATH, {one.replace(path, _PATH, 1) for one in fields}, is_root=True))
    if wrong or not problems.is_structural:
        found = [*wrong, *check_rules(schema, _PATH)]
    else:
        found = list(_compiled(encoded).problems)
        if problems.keywords:
            keywords = [one.replace(path, _PATH, 1) for one in problems.keywords]
            texts = check_rules(schema, _PATH)
            # The costs of rules that are not compiled do not count.
            found = [
                one for one in found if one in texts or not (one.field == _PATH or _is_around(one.field, keywords))
            ]
    causes = map(_cause, found)
    return [Cause(one.field.replace(_PATH, path), one.reason, one.message.replace(_PATH, path)) for one in causes]


def _wrong_defaults(
    schema: Object, path: str, refused: set[str], *, is_root: bool = False, depth: int = 0
) -> "Iterator[Finding]":
    """What the rules around the defaults of a schema find in those that are not refused for another reason."""
    at = f"{path}.default"
    is_valid = not any(field == at or field.startswith((f"{at}.", f"{at}[")) for field in refused)
    if schema.get("default") is not None and is_valid:
        is_resource = is_root or schema.get("x-kubernetes-embedded-resource") is True
        for one in _compiled(encode_tree(schema), is_root=is_resource, is_lenient=True).check_default(
            schema["default"]
        ):
            inside = one.field and f"{'' if one.field.startswith('[') else '.'}{one.field}"
            yield msgspec.structs.replace(one, field=f"{at}{inside}")
    if depth == MAX_DEPTH:
        return
    items = as_map(schema.get("items"))
    if items is not None:
        yield from _wrong_defaults(items, f"{path}.items", refused, depth=depth + 1)
    for name, child in (as_map(schema.get("properties")) or {}).items():
        members = as_map(child)
        if members is not None:
            yield from _wrong_defaults(members, f"{path}.properties[{name}]", refused, depth=depth + 1)


def _is_around(field: str, keywords: list[str]) -> bool:
    """Whether a rule, named by this field of it, is at or above one of these keywords."""
    place = field.rpartition(".x-kubernetes-validations")[0]
    return any(one.startswith(f"{place}.") for one in keywords)


def expression_rules(schema: Any) -> Callable[[Any, Any, list[Cause]], list[Cause]] | None:
    """The validator of an object by the CEL rules of its schema; None if the schema has no rules.

    It is called with the new object, the old one, and the causes that were found before.
    """
    encoded = encode_tree(schema)
    if not _RULES.search(encoded):
        return None

    def check(new: Any, old: Any, causes: list[Cause]) -> list[Cause]:
        if any(cause.reason in _BLOCKING for cause in causes):
            return [Cause("<nil>", "FieldValueInvalid", f"Invalid value: null: {RULES_NOT_CHECKED}")]
        rules = _compiled(encoded)
        invalid_rule = next((one for one in rules.problems if one.reason == "FieldValueInvalid"), None)
        if invalid_rule is not None:
            return [] if _is_unchanged(new, old) else [_invalid_rule_cause(invalid_rule)]
        return [_cause(finding) for finding in rules.check(new, old)]

    return check


def _is_unchanged(new: Any, old: Any) -> bool:
    """Whether only metadata or status changes, so that finalizers of such an object can still be removed."""
    members, before = as_map(new), as_map(old)
    if members is None or before is None:
        return False
    return all(members.get(name) == before.get(name) for name in {*members, *before} - {"metadata", "status"})


def _invalid_rule_cause(problem: "Finding") -> Cause:
    """The error of every object of a CRD with a rule that this server cannot compile.

    Only another server can have stored such a CRD; this one rejects it. Skipping the rule would accept objects that
    violate it.
    """
    path = problem.field.removeprefix(_PATH).lstrip(".")
    return Cause("<nil>", "FieldValueInvalid", f"Invalid value: null: rule compile error: {path}: {problem.message}")


@functools.lru_cache(256)
def _compiled(schema: bytes, *, is_root: bool = True, is_lenient: bool = False) -> "Rules":
    """The compiled rules of a schema, given as JSON so that equal schemas are compiled once."""
    charge_import("levelset.cel", CEL_IMPORT_STEPS)
    charge(_STEPS_PER_CHARACTER * len(schema))
    from levelset.cel import compile_rules  # noqa: PLC0415 - slow to load, and most schemas have no rules

    return compile_rules(decode_tree(schema), _PATH, is_root=is_root, is_lenient=is_lenient)


def _cause(finding: "Finding") -> Cause:
    error_type = _ERROR_TYPES.get(finding.reason, "Invalid value")
    is_shown = finding.is_shown and finding.reason not in ("FieldValueRequired", "FieldValueForbidden")
    shown = f" {field_errors.show(finding.value)}:" if is_shown else ""
    if finding.reason == "FieldValueDuplicate":  # Kubernetes prints no message for a duplicate
        return Cause(
            finding.field or "<nil>", finding.reason, f"{error_type}{':' if is_shown else ''}{shown.rstrip(':')}"
        )
    return Cause(finding.field or "<nil>", finding.reason, f"{error_type}:{shown} {finding.message}")
