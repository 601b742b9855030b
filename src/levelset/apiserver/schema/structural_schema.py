"""Validation of CRD schemas: whether a schema is structural, uses supported keywords, and has valid defaults.

`check_structural` checks, as kube-apiserver does, the structure (every value has a type, outside the alternatives),
the keywords (unsupported ones, list types and their keys, where defaults may be), and the defaults themselves (valid
and without unknown fields). Paths are those of the CRD, such as
`spec.versions[0].schema.openAPIV3Schema.properties[spec].type`.
"""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from levelset.apiserver.schema import field_errors
from levelset.apiserver.schema.embedded_metadata import METADATA, check_identity
from levelset.apiserver.schema.json_values import copy_tree, join, same
from levelset.apiserver.schema.prune_and_default import prune
from levelset.apiserver.schema.schema_nodes import (
    MAX_DEPTH,
    Node,
    Tree,
    as_list,
    as_map,
    read_schema,
    spells_int_or_string,
)
from levelset.apiserver.schema.validation import Definitions, compile_schema
from levelset.errors import Cause
from levelset.re2 import BadRegex, compile_regex

__all__ = [
    "NESTED_FORBIDDEN",
    "SchemaProblems",
    "check_keywords",
    "check_structural",
    "children",
    "find_problems",
    "malformed",
    "unsupported",
]

TYPES = ("array", "boolean", "integer", "number", "object", "string")

MAX_PATTERN_STEPS = 20_000_000
"""The estimated steps of matching one value; the same as all steps of one request."""
MAX_ESTIMATED_LENGTH = 32 * 1024
"""The length of a value without maxLength, or with a larger one, for the estimate."""
UNSUPPORTED = ("id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref")
_SUSPECTS = frozenset({*UNSUPPORTED, "$schema", "items"})
"""The keywords that may be refused; most schemas have none of them."""

NESTED_FORBIDDEN = (
    *("type", "default", "title", "description", "nullable"),
    *("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string"),
    *("x-kubernetes-list-map-keys", "x-kubernetes-list-type", "x-kubernetes-map-type", "x-kubernetes-validations"),
)
"""Keywords that are forbidden inside allOf, anyOf, oneOf and not."""
_UNDEFINED = "must be undefined to be structural"
_FALSE = "must be false to be structural"
_NESTED_DETAILS = {
    **dict.fromkeys(("default", "x-kubernetes-list-type", "x-kubernetes-map-type"), _UNDEFINED),
    **dict.fromkeys(("nullable", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"), _FALSE),
    "x-kubernetes-int-or-string": _FALSE,
}

_POINTERS_OF_NESTED = ("default", "x-kubernetes-list-type", "x-kubernetes-map-type")  # which may be empty and there

_METADATA_ONLY = "must not specify anything other than name and generateName, but metadata is implicitly specified"
IDENTITY = ("metadata", "kind", "apiVersion")


def children(node: Node) -> Iterator[tuple[str, Node]]:
    """All schemas directly inside a schema, with the part of the path that leads to them."""
    if isinstance(node.additional, Node):
        yield "additionalProperties", node.additional
    for name, child in node.properties.items():
        yield f"properties[{name}]", child
    if node.not_ is not None:
        yield "not", node.not_
    for keyword, group in (("allOf", node.all_of), ("oneOf", node.one_of), ("anyOf", node.any_of)):
        for at, one in enumerate(group):
            yield f"{keyword}[{at}]", one
    if node.items is not None:
        yield "items", node.items


def malformed(node: Node, path: str) -> list[Cause]:
    """Keywords with values of the wrong type, and schemas that are nested too deeply."""
    if node.too_deep:
        return [field_errors.too_deep(path, MAX_DEPTH)]
    causes: list[Cause] = []
    for keyword in node.malformed:
        value = node.raw.get(keyword) if keyword else None
        field = join(path, keyword) if keyword else path
        problem = f"{field_errors.kind_of(value)} is not of the type that OpenAPI gives it"
        causes.append(Cause(field, field_errors.UNDECODABLE, problem))
    for part, child in children(node):
        causes += malformed(child, join(path, part))
    return causes


def unsupported(node: Node) -> bool:
    """Whether any keyword is used that structural schemas do not support: then their structure is not checked."""
    raw = node.raw
    is_refused = any(one.field != "dependencies" or raw["dependencies"] for one in _refused(node, ""))
    if is_refused or raw.get("$schema") or raw.get("x-kubernetes-preserve-unknown-fields") is False:
        return True
    return any(unsupported(child) for _, child in children(node))


def _refused(node: Node, path: str) -> Iterator[Cause]:
    if _SUSPECTS.isdisjoint(node.raw):
        return
    for keyword in UNSUPPORTED:
        value = node.raw.get(keyword)
        if value or (value is not None and keyword in ("$ref", "additionalItems", "dependencies")):
            yield field_errors.forbidden(join(path, keyword), f"{keyword} is not supported")
    if isinstance(node.raw.get("items"), list):
        yield field_errors.forbidden(join(path, "items"), "items must be a schema object and not an array")


class _Place(msgspec.Struct, frozen=True):
    """The location of a schema: whether defaults are allowed, and whether it is part of an object's metadata."""

    root: bool = False
    in_metadata: bool = False
    no_defaults: str = ""


def check_keywords(node: Node, path: str) -> list[Cause]:
    """All errors in the keywords of a schema and of those inside it."""
    return _check(node, path, _Place(root=True))


def _check(node: Node, path: str, place: _Place) -> list[Cause]:
    causes = [*_refused(node, path), *_check_one(node, path, place), *_check_lists(node, path)]
    for part, child in children(node):
        causes += _check(child, join(path, part), _place_of(node, part, place))
    if not _SUSPECTS.isdisjoint(node.raw):
        for part, child in _refused_children(node):
            causes += _check(child, join(path, part), _place_of(node, part, place))
    return causes


def _refused_children(node: Node) -> Iterator[tuple[str, Node]]:
    """The schemas in keywords that are refused: upstream checks them nevertheless."""
    for keyword in ("definitions", "dependencies"):
        for name, child in (as_map(node.raw.get(keyword)) or {}).items():
            if as_map(child) is not None:
                yield f"{keyword}[{name}]", read_schema(child)
    for at, child in enumerate(as_list(node.raw.get("items")) or []):
        yield f"items[{at}]", read_schema(child)


def _place_of(node: Node, part: str, place: _Place) -> _Place:
    inner = replace(place, root=False)
    if part == "additionalProperties" and place.in_metadata:
        return replace(inner, no_defaults="inside additionalProperties applying to object metadata")
    name = part.removeprefix("properties[").removesuffix("]")
    if (place.root or node.embedded) and part.startswith("properties[") and name in IDENTITY:
        reason = f"in top-level {name}" if place.root else place.no_defaults
        return replace(inner, in_metadata=True, no_defaults=reason)
    return inner


def _check_one(node: Node, path: str, place: _Place) -> Iterator[Cause]:
    if node.type and node.type not in TYPES:
        yield field_errors.not_supported(join(path, "type"), node.type, TYPES)
    if node.type == "null":
        yield field_errors.forbidden(join(path, "type"), "type cannot be set to null, use nullable as an alternative")
    if node.default is not None and place.no_defaults:
        yield field_errors.forbidden(join(path, "default"), f"must not be set {place.no_defaults}")
    if place.in_metadata and node.embedded:
        yield field_errors.forbidden(
            join(path, "x-kubernetes-embedded-resource"), "must not be used inside of resource meta"
        )
    if node.raw.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield field_errors.forbidden(join(path, "uniqueItems"), detail)
    if node.properties and node.additional is not None and node.additional is not True:
        yield field_errors.forbidden(
            join(path, "additionalProperties"), "additionalProperties and properties are mutual exclusive"
        )
    if node.raw.get("x-kubernetes-preserve-unknown-fields") is False:
        field = join(path, "x-kubernetes-preserve-unknown-fields")
        yield field_errors.invalid(field, False, "must be true or undefined")
    if node.raw.get("x-kubernetes-map-type") is not None:
        yield from _needs_type(node, path, "object", "x-kubernetes-map-type")
        if node.map_type not in ("atomic", "granular"):
            yield field_errors.not_supported(join(path, "x-kubernetes-map-type"), node.map_type, ("atomic", "granular"))


def _needs_type(node: Node, path: str, expected: str, keyword: str) -> Iterator[Cause]:
    field, detail = join(path, "type"), f"must be {expected} if {keyword} is specified"
    if not node.type:
        yield field_errors.required(field, detail)
    elif node.type != expected:
        yield field_errors.invalid(field, node.type, detail)


def _check_lists(node: Node, path: str) -> Iterator[Cause]:
    field = join(path, "x-kubernetes-list-type")
    is_given = node.raw.get("x-kubernetes-list-type") is not None
    if is_given:
        yield from _needs_type(node, path, "array", "x-kubernetes-list-type")
        if node.list_type not in ("atomic", "set", "map"):
            yield field_errors.not_supported(field, node.list_type, ("atomic", "set", "map"))
    if node.list_keys and node.list_type != "map":
        detail = "must be map if x-kubernetes-list-map-keys is non-empty"
        yield (
            field_errors.invalid(field, node.list_type, detail) if is_given else field_errors.required(field, detail)
        )
    if node.list_type == "set" and node.type == "array" and node.items is not None:
        yield from _check_set(node.items, join(path, "items"))
    if node.list_type == "map":
        yield from _check_keyed(node, path)
    if node.list_type in ("set", "map") and node.items is not None and node.items.nullable:
        yield field_errors.forbidden(
            join(path, "items.nullable"), f"cannot be nullable when x-kubernetes-list-type is {node.list_type}"
        )


def _check_set(items: Node, path: str) -> Iterator[Cause]:
    detail = "must be atomic as item of a list with x-kubernetes-list-type=set"
    if items.type == "array" and items.raw.get("x-kubernetes-list-type") not in (None, "atomic"):
        yield field_errors.invalid(join(path, "x-kubernetes-list-type"), items.list_type, detail)
    if items.type == "object" and items.map_type != "atomic":
        # As upstream, which shows the other type.
        yield field_errors.invalid(join(path, "x-kubernetes-map-type"), items.raw.get("x-kubernetes-list-type"), detail)


def _check_keyed(node: Node, path: str) -> Iterator[Cause]:
    field = join(path, "x-kubernetes-list-map-keys")
    if not node.list_keys:
        yield field_errors.required(field, "must not be empty if x-kubernetes-list-type is map")
    if node.items is None:
        given, words = node.raw.get("items"), "schema if x-kubernetes-list-type is map"
        if given is None:
            yield field_errors.required(join(path, "items"), f"must have a {words}")
        else:
            yield field_errors.invalid(join(path, "items"), given, f"must only have a single {words}")
        return
    items = join(path, "items")
    if node.items.type != "object":
        yield field_errors.invalid(
            join(items, "type"), node.items.type, "must be object if parent array's x-kubernetes-list-type is map"
        )
        return
    for _ in range(len(node.list_keys) - len(set(node.list_keys))):
        yield field_errors.invalid(field, list(node.list_keys), "must not contain duplicate entries")
    for key in node.list_keys:
        if key not in node.items.properties:
            yield field_errors.invalid(field, list(node.list_keys), "entries must all be names of item properties")
        else:
            yield from _check_key(node.items, key, f"{items}.properties[{key}]")


def _check_key(items: Node, key: str, path: str) -> Iterator[Cause]:
    child = items.properties[key]
    if child.type in ("array", "object"):
        yield field_errors.invalid(
            join(path, "type"), items.type, "must be a scalar type if parent array's x-kubernetes-list-type is map"
        )
    if key not in items.required and child.default is None:
        detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
        yield field_errors.required(join(path, "default"), detail)
    if child.nullable:
        yield field_errors.forbidden(
            join(path, "nullable"), "this property is in x-kubernetes-list-map-keys, so it cannot be nullable"
        )


ROOT_WITH_STATUS = frozenset(
    {
        *("description", "type", "format", "title", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum"),
        *("maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems", "multipleOf", "required"),
        *("items", "properties", "externalDocs", "example"),
        *("x-kubernetes-preserve-unknown-fields", "x-kubernetes-validations"),
    }
)


_ROOT_NAMES = (
    "[Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern"
    " MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields"
    " XValidations]"
)


class SchemaProblems(NamedTuple):
    """The errors in a schema, and what they mean for its CEL rules."""

    causes: list[Cause]
    is_structural: bool = False
    """Whether it is structural, with valid defaults: else no rule can be compiled."""
    keywords: tuple[str, ...] = ()
    """The fields of errors in keywords: rules at or above one of them cannot be compiled."""
    is_sound: bool = False
    """Whether its structure is valid, so that its defaults are checked."""
    unsupported: tuple[Cause, ...] = ()
    """Errors that are only reported if there are no others."""


def check_structural(schema: Tree, path: str, *, status: bool = False) -> list[Cause]:
    """The errors in a schema, as causes with their paths; empty if it can be compiled and served.

    `status` means that the version has a status subresource, which restricts the keywords at the root. Never raises.
    """
    problems = find_problems(schema, path, status=status)
    return problems.causes or list(problems.unsupported)


def find_problems(schema: Tree, path: str, *, status: bool = False) -> SchemaProblems:
    """As `check_structural`, with what the errors mean for the rules of the schema."""
    if as_map(schema) is None:
        return SchemaProblems([field_errors.type_invalid(path, field_errors.kind_of(schema), "must be an object")])
    node = compile_schema(schema).node
    wrong = malformed(node, path)
    if wrong:
        return SchemaProblems(wrong)
    causes = _check_root(node, path) if status else []
    if node.nullable:
        causes.append(field_errors.forbidden(join(path, "nullable"), "nullable cannot be true at the root"))
    is_structural = not unsupported(node)
    is_sound = False
    if is_structural:
        structure = _Structure().check(node, path)
        is_sound = not structure
        structure = structure or _Defaults().check(node, path)
        is_structural = not structure
        causes += structure
    keywords = check_keywords(node, path)
    causes += keywords
    causes.sort(key=lambda one: (one.field, one.reason, one.message))
    others = [field_errors.invalid(path, "", "OpenAPIV3Schema 'schema' is not supported")] if _has_dialect(node) else []
    return SchemaProblems(causes, is_structural, tuple(one.field for one in keywords), is_sound, tuple(others))


def _has_dialect(node: Node) -> bool:
    return bool(node.raw.get("$schema")) or any(_has_dialect(child) for _, child in children(node))


# These may be empty and there, as in Go, and so may lists and maps.
_POINTERS = frozenset(
    {"additionalItems", "additionalProperties", "not", "$ref", "x-kubernetes-list-type", "x-kubernetes-map-type"}
)


def _check_root(node: Node, path: str) -> list[Cause]:
    if node.type and node.type != "object":
        detail = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
        return [field_errors.invalid(join(path, "type"), node.type, detail)]
    given = {name for name, value in node.raw.items() if value or isinstance(value, (list, dict)) or name in _POINTERS}
    if not given <= ROOT_WITH_STATUS:
        detail = f"only {_ROOT_NAMES} fields are allowed at the root of the schema if the status subresource is enabled"
        return [field_errors.invalid(path, node.raw, detail)]
    return []


class _Structure:
    """Checks that every value has a type, and that alternatives contain only validations."""

    def __init__(self) -> None:
        self.causes: list[Cause] = []

    def check(self, node: Node, path: str) -> list[Cause]:
        self.schema(node, path, "at the root")
        self.completeness(node, node, path, path)
        return self.causes

    def schema(self, node: Node, path: str, place: str) -> None:
        root = place == "at the root"
        if node.type == "array" and node.items is None:
            self.causes.append(field_errors.required(join(path, "items"), "must be specified"))
        if node.items is not None:
            self.schema(node.items, join(path, "items"), "for specified array items")
        for name, child in node.properties.items():
            self.schema(child, f"{join(path, 'properties')}[{name}]", "for specified object fields")
        if node.additional is not None and root:
            self.causes.append(
                field_errors.forbidden(join(path, "additionalProperties"), "must not be used at the root")
            )
        if isinstance(node.additional, Node):
            self.schema(node.additional, join(path, "additionalProperties"), "for specified object fields")
        self.extensions(node, path)
        self.validations(node, path, skip_any=spells_int_or_string(node.any_of))
        self.type(node, path, place)
        self.identity(node, path, root=root)

    def extensions(self, node: Node, path: str) -> None:
        if not node.int_or_string:
            return
        for name, value in (("preserve-unknown-fields", node.preserve), ("embedded-resource", node.embedded)):
            if value:
                field = join(path, f"x-kubernetes-{name}")
                self.causes.append(
                    field_errors.invalid(field, value, "must be false if x-kubernetes-int-or-string is true")
                )

    def type(self, node: Node, path: str, place: str) -> None:
        field = join(path, "type")
        if node.embedded and node.type != "object":
            detail = "must be object if x-kubernetes-embedded-resource is true"
            self.causes.append(
                field_errors.invalid(field, node.type, detail) if node.type else field_errors.required(field, detail)
            )
        elif not node.type and not node.int_or_string and not node.preserve:
            self.causes.append(field_errors.required(field, f"must not be empty {place}"))
        if place == "at the root" and node.type not in ("", "object"):
            self.causes.append(field_errors.invalid(field, node.type, "must be object at the root"))

    def identity(self, node: Node, path: str, *, root: bool) -> None:
        """The type and metadata of a whole object, at the root or embedded."""
        if node.embedded and node.additional is not None:
            field = join(path, "additionalProperties")
            self.causes.append(
                field_errors.forbidden(field, "must not be used if x-kubernetes-embedded-resource is set")
            )
        if node.embedded and not node.preserve and not node.properties:
            detail = (
                "must not be empty if x-kubernetes-embedded-resource is true without"
                " x-kubernetes-preserve-unknown-fields"
            )
            self.causes.append(field_errors.required(join(path, "properties"), detail))
        if not root and not node.embedded:
            return
        for name, expected in (("kind", "string"), ("apiVersion", "string"), ("metadata", "object")):
            child = node.properties.get(name)
            if child is not None and child.type != expected:
                field = f"{join(path, 'properties')}[{name}].type"
                self.causes.append(field_errors.invalid(field, child.type, f"must be {expected}"))
        if root and "metadata" in node.properties and not _restricts_names_only(node.properties["metadata"]):
            field = f"{join(path, 'properties')}[metadata]"
            self.causes.append(field_errors.forbidden(field, _METADATA_ONLY))

    def validations(self, node: Node, path: str, *, skip_any: bool = False) -> None:
        """The alternatives of a schema, and its pattern."""
        for at, one in enumerate(() if skip_any else node.any_of):
            self.nested(one, f"{join(path, 'anyOf')}[{at}]")
        for at, one in enumerate(node.all_of):
            skip_inner = at == 0 and spells_int_or_string(one.any_of)
            self.nested(one, f"{join(path, 'allOf')}[{at}]", skip_any=skip_inner)
        for at, one in enumerate(node.one_of):
            self.nested(one, f"{join(path, 'oneOf')}[{at}]")
        if node.not_ is not None:
            self.nested(node.not_, join(path, "not"))
        if node.pattern:
            self.pattern(node, join(path, "pattern"))

    def pattern(self, node: Node, path: str) -> None:
        """A pattern: it is valid, and matching a value of the largest size does not take too many steps."""
        try:
            regex = compile_regex(node.pattern)
        except BadRegex as error:
            detail = f"must be a valid regular expression, but isn't: {error}"
            self.causes.append(field_errors.invalid(path, node.pattern, detail))
            return
        length = MAX_ESTIMATED_LENGTH if node.max_length is None else min(node.max_length, MAX_ESTIMATED_LENGTH)
        factor = length * regex.steps_per_character / MAX_PATTERN_STEPS
        if factor > 1:
            detail = f"estimated pattern cost exceeds budget by factor of {factor:.1f}x"
            detail = f"{detail} (try simplifying the pattern, or adding maxLength)"
            self.causes.append(field_errors.forbidden(path, detail))

    def nested(self, node: Node, path: str, *, skip_any: bool = False) -> None:
        """An alternative: it may validate, but not define a type, a default or the like."""
        self.validations(node, path, skip_any=skip_any)
        if node.items is not None:
            self.nested(node.items, join(path, "items"))
        for name, child in node.properties.items():
            self.nested(child, f"{join(path, 'properties')}[{name}]")
        for keyword in NESTED_FORBIDDEN:
            value = node.raw.get(keyword)
            if value or (value is not None and keyword in _POINTERS_OF_NESTED):
                self.causes.append(
                    field_errors.forbidden(
                        join(path, keyword), _NESTED_DETAILS.get(keyword, "must be empty to be structural")
                    )
                )
        if node.additional is not None:
            field = join(path, "additionalProperties")
            self.causes.append(field_errors.forbidden(field, "must be undefined to be structural"))
        if "metadata" in node.properties:
            field = f"{join(path, 'properties')}[metadata]"
            self.causes.append(field_errors.forbidden(field, "must not be specified in a nested context"))

    def completeness(self, validation: Node, schema: Node | None, at: str, path: str) -> None:
        """Fields that an alternative mentions must be defined outside the alternatives too."""
        if schema is None:
            self.causes.append(field_errors.required(at, f"because it is defined in {path}"))
            return
        groups = (("allOf", validation.all_of), ("anyOf", validation.any_of), ("oneOf", validation.one_of))
        nested = [(one, f"{join(path, name)}[{number}]") for name, group in groups for number, one in enumerate(group)]
        if validation.not_ is not None:
            nested.append((validation.not_, join(path, "not")))
        for one, where in nested:
            self.alternative(one, schema, at, where)

    def alternative(self, validation: Node, schema: Node | None, at: str, path: str) -> None:
        self.completeness(validation, schema, at, path)
        if schema is None:
            return
        if validation.items is not None:
            self.alternative(validation.items, schema.items, join(at, "items"), join(path, "items"))
        for name, child in validation.properties.items():
            suffix = f"properties[{name}]"
            self.alternative(child, schema.properties.get(name), join(at, suffix), join(path, suffix))


def _restricts_names_only(node: Node) -> bool:
    names_only = node.properties.keys() <= {"name", "generateName"}
    others = any(value for name, value in node.raw.items() if name not in ("type", "properties", "default"))
    return names_only and not others and node.not_ is None and node.items is None


class _Defaults:
    """Every default must be valid and have no unknown fields, which would be pruned at once."""

    def __init__(self) -> None:
        self.definitions = Definitions()
        self.causes: list[Cause] = []

    def check(self, node: Node, path: str) -> list[Cause]:
        try:
            self.schema(node if node.embedded else replace(node, embedded=True), path)  # a whole object
        except RecursionError:
            self.causes.append(field_errors.too_deep(path, MAX_DEPTH))
        return self.causes

    def schema(self, node: Node, path: str, around: "_Around | None" = None) -> None:
        """Checks the defaults of a schema and below; `around` is given inside of the identity of an object."""
        around = None if node.embedded else around
        if node.default is not None:
            self.default(node, join(path, "default"), around)
        if node.items is not None:
            inner = around and _Around(("", *around.names))
            self.schema(node.items, join(path, "items"), inner)
        for name, child in node.properties.items():
            is_identity = around is not None or (node.embedded and name in IDENTITY)
            inner = _Around((name, *(around.names if around else ()))) if is_identity else None
            self.schema(child, f"{join(path, 'properties')}[{name}]", inner)

    def default(self, node: Node, path: str, around: "_Around | None") -> None:
        if around is not None:
            problem = self.identity_problem(around.wrapped(node.default))
            if problem:
                detail = f"must result in valid metadata: {problem}"
                self.causes.append(field_errors.invalid(path, node.default, detail))
                return
        pruned = copy_tree(node.default)
        prune(node, pruned, resolve=self.definitions.resolve, resource=False)
        if around is None and not same(pruned, node.default):
            self.causes.append(field_errors.invalid(path, node.default, "must not have unknown fields"))
        # The messages of upstream name the place within the default.
        for one in self.definitions.collector.collect(node, node.default, ""):
            # A default is no part of what is decoded: what is wrong with it is a violation.
            reason = "FieldValueInvalid" if one.reason == field_errors.UNDECODABLE else one.reason
            field = path if one.field in ("", "<nil>") else f"{path}{'' if one.field[0] == '[' else '.'}{one.field}"
            self.causes.append(replace(one, field=field, reason=reason))

    def identity_problem(self, members: dict[str, Tree]) -> str:
        """What is wrong with the apiVersion, kind and metadata of an object that has this default; empty if nothing."""
        metadata = members.get("metadata")
        wrong = [] if metadata is None else self.definitions.collector.collect(METADATA, metadata, "metadata")
        found = [f"{one.field}: {one.message}" for one in wrong or check_identity(members, "")]
        return found[0] if len(found) == 1 else f"[{', '.join(found)}]" if found else ""


class _Around(NamedTuple):
    """Where a default is in the object around it: the names of the members, the last one first; "" is in a list."""

    names: tuple[str, ...]

    def wrapped(self, default: Tree) -> dict[str, Tree]:
        """An object that has nothing but this default, and a type."""
        found: Tree = copy_tree(default)
        for name in self.names:
            found = {name: found} if name else [found]
        return {"apiVersion": "validation/v1", "kind": "Validation", **(as_map(found) or {})}
