"""Structural schemas: whether the schema of a definition is one that Kubernetes can work with.

Three things are looked at, as the real server does: the structure (every value has a type, outside the alternatives),
the keywords (`keywords.py`: what is not supported, list types, where defaults may stand), and the defaults themselves
(they must be valid and free of unknown fields). Paths are those of the definition,
`spec.versions[0].schema.openAPIV3Schema.properties[spec].type`.
"""

from levelset.apiserver.schemas import wording
from levelset.apiserver.schemas.compiled import Definitions
from levelset.apiserver.schemas.keywords import NESTED_FORBIDDEN, check_keywords, malformed, unsupported
from levelset.apiserver.schemas.nodes import MAX_DEPTH, Node, Tree, as_map, read_schema, spells_int_or_string
from levelset.apiserver.schemas.pruning import prune
from levelset.apiserver.schemas.trees import copy_tree, join, same
from levelset.errors import Cause
from levelset.re2 import BadRegex, compile_regex

__all__ = ["check_structural"]

ROOT_WITH_STATUS = frozenset(
    {
        *("description", "type", "format", "title", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum"),
        *("maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems", "multipleOf", "required"),
        *("items", "properties", "externalDocs", "example"),
        *("x-kubernetes-preserve-unknown-fields", "x-kubernetes-validations"),
    }
)


def check_structural(schema: Tree, path: str, *, status: bool = False) -> list[Cause]:
    """What is wrong with a schema, as causes with their paths; empty if it can be compiled and served.

    `status` says that the version has a status subresource, which allows less at the root. Never raises.
    """
    if as_map(schema) is None:
        return [wording.type_invalid(path, wording.kind_of(schema), "must be an object")]
    node = read_schema(schema)
    wrong = malformed(node, path)
    if wrong:
        return wrong
    causes = _check_root(node, path) if status else []
    if node.nullable:
        causes.append(wording.forbidden(join(path, "nullable"), "nullable cannot be true at the root"))
    if not unsupported(node):
        structure = _Structure().check(node, path)
        causes += structure or _Defaults().check(node, path)
    causes += check_keywords(node, path)
    return sorted(set(causes), key=lambda one: (one.field, one.reason, one.message))


def _check_root(node: Node, path: str) -> list[Cause]:
    if node.type and node.type != "object":
        return [wording.invalid(join(path, "type"), node.type, "must be object if there is a status subresource")]
    surplus = sorted(name for name, value in node.raw.items() if value and name not in ROOT_WITH_STATUS)
    if surplus:
        detail = f"must not use {', '.join(surplus)} at the root if there is a status subresource"
        return [wording.invalid(path, "", detail)]
    return []


class _Structure:
    """Types everywhere, and nothing but validations inside the alternatives."""

    def __init__(self) -> None:
        self.causes: list[Cause] = []

    def check(self, node: Node, path: str) -> list[Cause]:
        self.schema(node, path, "at the root")
        self.completeness(node, node, path, path)
        return self.causes

    def schema(self, node: Node, path: str, place: str) -> None:
        root = place == "at the root"
        if node.type == "array" and node.items is None:
            self.causes.append(wording.required(join(path, "items"), "must be specified"))
        if node.items is not None:
            self.schema(node.items, join(path, "items"), "for specified array items")
        for name, child in node.properties.items():
            self.schema(child, f"{join(path, 'properties')}[{name}]", "for specified object fields")
        if node.additional is not None and root:
            self.causes.append(wording.forbidden(join(path, "additionalProperties"), "must not be used at the root"))
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
                self.causes.append(wording.invalid(field, value, "must be false beside x-kubernetes-int-or-string"))

    def type(self, node: Node, path: str, place: str) -> None:
        field = join(path, "type")
        if node.embedded and node.type != "object":
            detail = "must be object if x-kubernetes-embedded-resource is true"
            self.causes.append(
                wording.invalid(field, node.type, detail) if node.type else wording.required(field, detail)
            )
        elif not node.type and not node.int_or_string and not node.preserve:
            self.causes.append(wording.required(field, f"must not be empty {place}"))
        if place == "at the root" and node.type not in ("", "object"):
            self.causes.append(wording.invalid(field, node.type, "must be object at the root"))

    def identity(self, node: Node, path: str, *, root: bool) -> None:
        """The type and metadata of a whole object, at the root or embedded."""
        if node.embedded and node.additional is not None:
            field = join(path, "additionalProperties")
            self.causes.append(wording.forbidden(field, "must not be used in an embedded resource"))
        if node.embedded and not node.preserve and not node.properties:
            detail = "must not be empty in an embedded resource that drops unknown fields"
            self.causes.append(wording.required(join(path, "properties"), detail))
        if not root and not node.embedded:
            return
        for name, expected in (("kind", "string"), ("apiVersion", "string"), ("metadata", "object")):
            child = node.properties.get(name)
            if child is not None and child.type != expected:
                field = f"{join(path, 'properties')}[{name}].type"
                self.causes.append(wording.invalid(field, child.type, f"must be {expected}"))
        if root and "metadata" in node.properties and not _restricts_names_only(node.properties["metadata"]):
            field = f"{join(path, 'properties')}[metadata]"
            self.causes.append(wording.forbidden(field, "may restrict nothing but name and generateName"))

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
            try:
                compile_regex(node.pattern)
            except BadRegex as error:
                detail = f"must be a valid regular expression, but isn't: {error}"
                self.causes.append(wording.invalid(join(path, "pattern"), node.pattern, detail))

    def nested(self, node: Node, path: str, *, skip_any: bool = False) -> None:
        """An alternative: it may validate, but not say what a value is."""
        self.validations(node, path, skip_any=skip_any)
        if node.items is not None:
            self.nested(node.items, join(path, "items"))
        for name, child in node.properties.items():
            self.nested(child, f"{join(path, 'properties')}[{name}]")
        for keyword in NESTED_FORBIDDEN:
            value = node.raw.get(keyword)
            if value or (value is not None and keyword == "default"):
                self.causes.append(wording.forbidden(join(path, keyword), "must not be set to be structural"))
        if node.additional is not None:
            field = join(path, "additionalProperties")
            self.causes.append(wording.forbidden(field, "must be undefined to be structural"))
        if "metadata" in node.properties:
            field = f"{join(path, 'properties')}[metadata]"
            self.causes.append(wording.forbidden(field, "must not be specified in a nested context"))

    def completeness(self, validation: Node, schema: Node | None, at: str, path: str) -> None:
        """What an alternative at the root speaks of must be defined outside the alternatives too."""
        if schema is None:
            self.causes.append(wording.required(at, f"because it is defined in {path}"))
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
    return names_only and not others


class _Defaults:
    """Every default must be valid where it stands, and have no field that would be dropped at once."""

    def __init__(self) -> None:
        self.definitions = Definitions()
        self.causes: list[Cause] = []

    def check(self, node: Node, path: str) -> list[Cause]:
        try:
            self.schema(node, path)
        except RecursionError:
            self.causes.append(wording.too_deep(path, MAX_DEPTH))
        return self.causes

    def schema(self, node: Node, path: str) -> None:
        if node.default is not None:
            self.default(node, join(path, "default"))
        if node.items is not None:
            self.schema(node.items, join(path, "items"))
        for name, child in node.properties.items():
            self.schema(child, f"{join(path, 'properties')}[{name}]")

    def default(self, node: Node, path: str) -> None:
        pruned = copy_tree(node.default)
        prune(node, pruned, resolve=self.definitions.resolve, resource=False)
        if not same(pruned, node.default):
            self.causes.append(wording.invalid(path, node.default, "must not have unknown fields"))
        self.causes += self.definitions.collector.collect(node, node.default, path)
