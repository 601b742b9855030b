"""Schema validation: prunes, defaults and validates objects against a compiled schema.

    schema = compile_schema({"type": "object", "properties": {...}})
    outcome = schema.admit(tree)  # prunes, sets defaults, validates
    outcome.dropped, outcome.causes

Trees are plain JSON and are changed in place: pass a freshly decoded tree, never a shared one.

Generated code (`validator_code.py`) accepts valid objects. Only if it does not, `ErrorCollector` walks the object again
and collects all field errors, with the messages of Kubernetes. With the old object, unchanged invalid values are not
reported (ratcheting): members of objects and items of keyed lists are compared with their old values, other lists as a
whole.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

import msgspec

from levelset.apiserver.schema import field_errors, numbers
from levelset.apiserver.schema.embedded_metadata import METADATA, check_identity
from levelset.apiserver.schema.formats import TIME_IN_SECONDS, is_quantity, text_format
from levelset.apiserver.schema.json_values import copy_tree, is_member, join
from levelset.apiserver.schema.list_keys import duplicates, identity, is_unchanged, key_of
from levelset.apiserver.schema.prune_and_default import Resolve, decode_as_go, fill, prune, without_nulls
from levelset.apiserver.schema.schema_nodes import MAX_DEPTH, Node, Tree, as_list, as_map, read_schema
from levelset.apiserver.schema.validator_code import CodeGenerator, Function, Mode
from levelset.errors import Cause, LevelsetError
from levelset.objects import decode_tree, encode_tree
from levelset.patch.merge_schema import Shape
from levelset.re2 import BadRegex, Regex, compile_regex
from levelset.re2.step_budget import StepsExceeded, within

__all__ = [
    "ABSENT",
    "FINE",
    "Admission",
    "Compiled",
    "Definitions",
    "ErrorCollector",
    "compile_schema",
    "has_type",
]

ABSENT: Tree = object()
"""Marks that there is no old value to compare with."""


class ErrorCollector:
    """Collects the causes of one schema; `pattern` compiles an expression, or returns None if it is invalid."""

    def __init__(self, resolve: Resolve, pattern: Callable[[str], Regex | None], *, are_builtin: bool = False) -> None:
        self._resolve = resolve
        self._pattern = pattern
        self._are_builtin = are_builtin

    def collect(self, node: Node, tree: Tree, path: str = "", *, old: Tree = ABSENT, depth: int = 0) -> list[Cause]:
        """All causes in the tree, except those of unchanged values."""
        node = self._resolve(node)
        if depth > MAX_DEPTH:
            return [field_errors.too_deep(path, MAX_DEPTH)]
        causes = self._type(node, tree, path)
        if tree is not None and (node.any_of or node.one_of or node.all_of or node.not_ is not None):
            causes += self._alternatives(node, tree, path, old, depth)
        match tree:
            case str():
                causes += self._text(node, tree, path)
            case bool() | None:
                pass
            case int() | float():
                causes += numbers.check(node, tree, path)
            case list():
                causes += self._list(node, as_list(tree) or [], path, old, depth)
            case _:
                pass
        if node.enum and not is_member(tree, node.enum):
            texts = [one if isinstance(one, str) else field_errors.show(one) for one in node.enum]  # as upstream
            causes.append(field_errors.not_supported(path, tree, texts))
        members = as_map(tree)
        if members is not None:
            causes += self._object(node, members, path, old, depth)
        if causes and old is not ABSENT and is_unchanged(self._resolve, node, tree, old):
            return []
        return causes

    def _type(self, node: Node, tree: Tree, path: str) -> list[Cause]:
        if has_type(node, tree):
            return []
        form = "" if self._are_builtin else _type_format(node)
        if form and tree is not None and not isinstance(tree, str):
            if not isinstance(tree, list):
                return [_mistyped(path, form, _GO_FORMATS.get(tree.__class__, ""))]
            if node.type == "string":  # as upstream, which takes any list for a text with a format
                return []
        expected = "integer,string" if node.int_or_string else node.type
        return [_mistyped(path, expected, field_errors.kind_of(tree))]

    def _text(self, node: Node, text: str, path: str) -> list[Cause]:
        causes: list[Cause] = []
        if node.max_length is not None and len(text) > node.max_length:
            causes.append(field_errors.too_long(path, node.max_length))
        elif node.min_length is not None and len(text) < node.min_length:
            detail = f"{path} in body should be at least {node.min_length} chars long"
            causes.append(field_errors.invalid(path, text, detail))
        elif node.pattern:
            pattern = self._pattern(node.pattern)
            if pattern is None or not pattern.matches(text):
                causes.append(field_errors.invalid(path, text, f"{path} in body should match '{node.pattern}'"))
        check = text_format(node.format) if node.type in ("", "string") else None
        if check is not None and not check(text):
            causes.append(_mistyped(path, node.format, text))
        return causes

    def _list(self, node: Node, items: list[Tree], path: str, old: Tree, depth: int) -> list[Cause]:
        causes: list[Cause] = []
        if node.items is not None:
            former = self._former(node, old)
            for at, one in enumerate(items):
                before = former.get(identity(key_of(node, one)), ABSENT) if former else ABSENT
                causes += self.collect(node.items, one, f"{path}[{at}]", old=before, depth=depth + 1)
        if node.min_items is not None and len(items) < node.min_items:
            detail = f"{path} in body should have at least {node.min_items} items"
            causes.append(field_errors.invalid(path, len(items), detail))
        if node.max_items is not None and len(items) > node.max_items:
            causes.append(field_errors.too_many(path, len(items), node.max_items))
        return causes + duplicates(node, items, path)

    def _former(self, node: Node, old: Tree) -> dict[str, Tree]:
        """The old items of a keyed list by key; empty for other lists."""
        if old is ABSENT or node.list_type != "map":
            return {}
        return {identity(key_of(node, one)): one for one in as_list(old) or []}

    def _object(self, node: Node, members: dict[str, Tree], path: str, old: Tree, depth: int) -> list[Cause]:
        causes: list[Cause] = []
        if node.min_properties is not None and len(members) < node.min_properties:
            detail = f"{path} in body should have at least {node.min_properties} properties"
            causes.append(field_errors.invalid(path, len(members), detail))
        if node.max_properties is not None and len(members) > node.max_properties:
            causes.append(field_errors.too_many(path, len(members), node.max_properties))
        former = None if old is ABSENT or node.map_type == "atomic" else as_map(old)
        for name, one in members.items():
            before = ABSENT if former is None else former.get(name, ABSENT)
            causes += self._member(node, (name, one), path, before, depth)
        causes += [field_errors.required(join(path, name)) for name in node.required if name not in members]
        if node.embedded:
            causes += self._embedded(members, path, depth)
        return causes

    def _member(self, node: Node, member: tuple[str, Tree], path: str, old: Tree, depth: int) -> list[Cause]:
        name, value = member
        child = node.child(name)
        if child is not None:
            if not path and name in ("apiVersion", "kind"):
                old = ABSENT
            return self.collect(child, value, join(path, name), old=old, depth=depth + 1)
        if node.additional is False:
            return [field_errors.invalid(path, name, f"{join(path, name)} in body is a forbidden property")]
        return []

    def _embedded(self, members: dict[str, Tree], path: str, depth: int) -> list[Cause]:
        causes = check_identity(members, path)
        if members.get("metadata") is not None:
            field = join(path, "metadata")
            wrong = self.collect(METADATA, members["metadata"], field, depth=depth + 1)
            if wrong:
                causes.append(field_errors.undecodable(field, members["metadata"], wrong[0].message))
        return causes

    def _alternatives(self, node: Node, tree: Tree, path: str, old: Tree, depth: int) -> list[Cause]:
        def tried(options: tuple[Node, ...]) -> list[list[Cause]]:
            return [self.collect(one, tree, path, old=old, depth=depth + 1) for one in options]

        causes: list[Cause] = []
        either = tried(node.either() if has_type(node, tree) else node.any_of)
        if either and all(either):
            causes.append(_alternative(f'"{path}" must validate at least one schema (anyOf)'))
            causes += _nearest(either, tree)
        exactly = tried(node.one_of)
        fitting = sum(not one for one in exactly)
        if exactly and fitting != 1:
            found = f"Found {fitting} valid alternatives" if fitting else "Found none valid"
            detail = f'"{path}" must validate one and only one schema (oneOf). {found}'
            causes.append(_alternative(detail))
            causes += _nearest(exactly, tree)
        every = tried(node.all_of)
        if any(every):
            suffix = ". None validated" if all(every) else ""
            causes += [cause for one in every for cause in one]
            causes.append(_alternative(f'"{path}" must validate all the schemas (allOf){suffix}'))
        if node.not_ is not None and not tried((node.not_,))[0]:
            causes.append(_alternative(f'"{path}" must not validate the schema (not)'))
        return causes


def _nearest(alternatives: list[list[Cause]], tree: Tree) -> list[Cause]:
    """The causes of the alternative that upstream reports: of a value without members the first, else the fewest."""
    return min(alternatives, key=len) if isinstance(tree, dict | list) else alternatives[0]


def _mistyped(path: str, expected: str, actual: str) -> Cause:
    return field_errors.type_invalid(
        path, actual, f"{path} in body must be of type {expected}: {field_errors.show(actual)}"
    )


def _type_format(node: Node) -> str:
    """The format that upstream names in place of the type; empty if it ignores the format."""
    if node.int_or_string or not node.format:
        return ""
    if node.type in _NUMBER_FORMATS:
        return node.format if node.format in _NUMBER_FORMATS[node.type] else ""
    if any(node.format in formats for formats in _NUMBER_FORMATS.values()):
        return node.format
    is_known = text_format(node.format) is not None or node.format == "password"
    return node.format if node.type == "string" and is_known else ""


def has_type(node: Node, value: Tree) -> bool:
    """Whether a value has the type that the schema declares; a whole number may be written 1.0."""
    if value is None:
        return node.nullable or not (node.type or node.int_or_string)
    if node.int_or_string:
        return isinstance(value, str) or numbers.is_integer(value)
    match node.type:
        case "":
            return True
        case "string":
            return isinstance(value, str)
        case "integer":
            return numbers.is_integer(value)
        case "number":
            return numbers.is_number(value)
        case "boolean":
            return isinstance(value, bool)
        case "object":
            return isinstance(value, dict)
        case "array":
            return isinstance(value, list)
        case "quantity":
            return is_quantity(value) if isinstance(value, str) else numbers.is_number(value)
        case _:
            return False


def _has_json_type(node: Node, value: Tree) -> bool:
    if node.is_any_scalar:
        return not isinstance(value, (dict, list))
    if node.int_or_string or node.type in ("", "quantity"):
        return True
    return numbers.is_number(value) if node.type in ("integer", "number") else has_type(node, value)


_LOAD_STEPS = 10_000  # of the patterns of one stored object, which a list may read by the thousand
_FIRST_LOAD_STEPS = 100_000  # of the first one, for which the schema is compiled
_LARGE_SCHEMA = 64 * 1024  # bytes
_SMALL = 150  # nodes of a schema that is compiled in milliseconds
ANY_JSON = "io.k8s.apimachinery.pkg.runtime.RawExtension"
NO_MEMBERS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceSubresourceStatus"
TIME = "io.k8s.apimachinery.pkg.apis.meta.v1.Time"
QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
TYPE = "FieldValueTypeInvalid"
DUPLICATE = "FieldValueDuplicate"
_BEYOND = "Checked value must be of type integer"
"""What is said of a number that its type cannot hold."""


_NUMBER_FORMATS = {"integer": ("int32", "int64"), "number": ("float", "double")}
_GO_FORMATS: dict[type, str] = {int: "int64", float: "float64"}
"""What upstream calls a value of the wrong type, where the schema has a format."""


def _alternative(problem: str) -> Cause:
    """A violation of alternatives; as upstream, which does not know its place but in the text."""
    return field_errors.invalid("<nil>", "", problem)


class Admission(msgspec.Struct, frozen=True):
    """The outcome for an object: the paths of the fields that were dropped, and its field errors."""

    dropped: tuple[str, ...] = ()
    causes: tuple[Cause, ...] = ()

    @property
    def type_error(self) -> Cause | None:
        """The first value of the wrong type, for which a built-in kind responds with 400 rather than 422."""
        return next((one for one in self.causes if one.reason == TYPE or _BEYOND in one.message), None)


FINE = Admission()
"""The outcome for an object that the schema accepts as it is; other outcomes may be equal to it, but not identical."""


class Definitions:
    """Schemas that refer to each other by name; each is read and compiled on first use, and then shared."""

    def __init__(self, schemas: Mapping[str, Tree] | None = None) -> None:
        self._schemas: Mapping[str, Tree] = {} if schemas is None else schemas
        self.are_builtin = schemas is not None
        self._nodes: dict[str, Node] = {}
        self._patterns: dict[str, Regex | None] = {}
        self.collector = ErrorCollector(self.resolve, self.pattern, are_builtin=self.are_builtin)
        self.generator = CodeGenerator(reference=self._function, pattern=self.pattern, filled=self._filled)

    def resolve(self, node: Node) -> Node:
        """The schema that a reference names; a schema without a reference is returned unchanged."""
        for _ in range(MAX_DEPTH):
            if not node.ref:
                return node
            node = self._node(node.ref)
        return Node(preserve=True)

    def pattern(self, expression: str) -> Regex | None:
        """The compiled expression; None if it is invalid."""
        if expression not in self._patterns:
            try:
                self._patterns[expression] = compile_regex(expression)
            except BadRegex:
                self._patterns[expression] = None
        return self._patterns[expression]

    def _node(self, name: str) -> Node:
        if name not in self._nodes:
            raw = self._schemas.get(name)
            found = Node(preserve=True) if raw is None or name == ANY_JSON else read_schema(raw, builtin=True)
            if name == NO_MEMBERS:
                found.preserve = False
            if name == TIME:
                found.format = TIME_IN_SECONDS
            self._nodes[name] = Node(type="quantity") if name == QUANTITY else found
        return self._nodes[name]

    def _function(self, name: str, mode: Mode) -> Function:
        return self.generator.function(self.resolve(Node(ref=name)), mode)

    def _filled(self, node: Node) -> tuple[Tree, bool]:
        value = copy_tree(node.default)
        fill(node, value, resolve=self.resolve)
        return value, not self.collector.collect(node, value)


class Compiled:
    """One compiled schema. Nothing raises, whatever the tree: errors are returned as causes."""

    def __init__(self, node: Node, definitions: Definitions, *, resource: bool, has_patterns: bool = True) -> None:
        self.is_expensive = has_patterns or node.weight > _SMALL
        """Whether validation may take many steps: for patterns, or to compile it; see `levelset.re2.step_budget`."""
        self._node = node
        self._definitions = definitions
        self._resource = resource
        self._load_steps = _FIRST_LOAD_STEPS
        self._admits: Function = self._first_admit
        self._checks: Function = self._first_check

    @property
    def node(self) -> Node:
        """The schema as it was read; shared, so not to be changed."""
        return self._node

    def admit(self, tree: Tree, old: Tree = None) -> Admission:
        """Prunes, defaults and validates in one pass; with `old`, errors in unchanged values are ignored."""
        try:
            if self._admits(tree):
                return FINE
        except RecursionError:
            pass
        dropped = self._prepare(tree)
        return Admission(tuple(dropped), tuple(self.validate(tree, old)))

    def accepts(self, tree: Tree) -> bool:
        """Whether the tree is certainly valid: nothing to prune, no null to remove, all valid. Sets defaults.

        False is inconclusive, and may leave the tree partly defaulted.
        """
        try:
            return self._admits(tree)
        except RecursionError:
            return False

    def load(self, tree: Tree) -> None:
        """Prunes and defaults an object that was accepted before, under a schema that may have changed since."""
        steps, self._load_steps = self._load_steps, _LOAD_STEPS
        try:
            if within(steps, lambda: self._admits(tree)):
                return
        except (RecursionError, StepsExceeded):  # neither patterns nor compiled code are needed here
            pass
        self._prepare(tree)

    def prune(self, tree: Tree, *, has_keys: bool = True) -> list[str]:
        """Removes the fields that the schema does not declare; returns their paths, possibly without keys of maps."""
        try:
            resolve = self._definitions.resolve
            found = prune(self._node, tree, resolve=resolve, resource=self._resource, has_keys=has_keys)
            # Upstream decodes built-in kinds in the order of the document, and sorts what it prunes of others.
            return found if self._definitions.are_builtin else sorted(found)
        except RecursionError:
            return []

    def default(self, tree: Tree) -> None:
        """Removes nulls that are not allowed and sets defaults."""
        try:
            if self._definitions.are_builtin:
                decode_as_go(self._node, tree, resolve=self._definitions.resolve)
            without_nulls(self._node, tree, resolve=self._definitions.resolve)
            fill(self._node, tree, resolve=self._definitions.resolve)
        except RecursionError:
            return

    def validate(self, tree: Tree, old: Tree = None) -> list[Cause]:
        """All errors in the tree, which is not changed; see `admit` for `old`."""
        collect = self._definitions.collector.collect
        try:
            if self._checks(tree):
                return []
        except RecursionError:
            pass
        try:
            causes = collect(self._node, tree, old=ABSENT if old is None else old)
            if old is not None and any(one.reason == DUPLICATE for one in causes):
                former = collect(self._node, old)
                if any(one.reason == DUPLICATE for one in former):
                    causes = [one for one in causes if one.reason != DUPLICATE]
        except RecursionError:
            return [field_errors.too_deep("", MAX_DEPTH)]
        return causes

    def first_type_error(self, tree: Tree) -> Cause | None:
        """The first value of the wrong type, if any: for kinds whose decoding fails for such an object."""
        return Admission(causes=tuple(self.validate(tree))).type_error

    def first_mismatch(self, tree: Tree) -> Cause | None:
        """The first value that is not of the JSON type of its schema, where null is of every type, and all numbers are.

        The fields of such an object cannot be tracked.
        """
        try:
            return self._mismatch(self._node, tree, "")
        except RecursionError:
            return field_errors.too_deep("", MAX_DEPTH)

    def typed_errors(self, tree: dict[str, Tree], shape: Shape) -> list[str]:
        """Why the tree is no object that could be merged by server-side apply, in the words of Kubernetes."""
        from levelset.apiserver.schema.typed_errors import TypedErrors  # noqa: PLC0415 - of what is refused only

        found = TypedErrors(self._definitions.resolve)
        found.check_object(self._node, shape, tree)
        return found.errors

    def _mismatch(self, node: Node, tree: Tree, path: str) -> Cause | None:
        node = self._definitions.resolve(node)
        if tree is None:
            return None
        if not _has_json_type(node, tree):
            return _mistyped(path, node.type, field_errors.kind_of(tree))
        below: list[tuple[Node | None, Tree, str]] = [
            *((node.child(name), one, join(path, name)) for name, one in (as_map(tree) or {}).items()),
            *((node.items, one, f"{path}[{at}]") for at, one in enumerate(as_list(tree) or [])),
        ]
        found = (self._mismatch(child, one, at) for child, one, at in below if child is not None)
        return next((one for one in found if one is not None), None)

    def _prepare(self, tree: Tree) -> list[str]:
        dropped = self.prune(tree)
        self.default(tree)
        return dropped

    def _first_admit(self, tree: Tree) -> bool:
        """Generates the code that prunes, defaults and validates, and replaces this method by it."""
        made = self._definitions.generator.function(self._node, "admit", resource=self._resource)
        self._admits = made
        return made(tree)

    def _first_check(self, tree: Tree) -> bool:
        """Generates the code that only validates, and replaces this method by it."""
        made = self._definitions.generator.function(self._node, "check", resource=self._resource)
        self._checks = made
        return made(tree)


def compile_schema(schema: Tree, *, definitions: Definitions | None = None, resource: bool | None = None) -> Compiled:
    """The compiled schema; never raises: rejecting invalid schemas is the task of `check_structural`.

    Without definitions it is the schema of a custom resource (`resource=False`: of some other value), whose
    `apiVersion`, `kind` and `metadata` are handled by the server. With definitions it is one of the components of
    Kubernetes' OpenAPI documents, whose references are looked up there (`resource=True`: of a kind).
    """
    if definitions is not None:
        return Compiled(read_schema(schema, builtin=True), definitions, resource=bool(resource))
    try:
        written = encode_tree(schema)
    except LevelsetError:  # a tree that cannot arrive over the wire
        return Compiled(read_schema(schema), Definitions(), resource=resource is not False)
    cache = _shared if len(written) <= _LARGE_SCHEMA else _shared_large
    return cache(written, is_resource=resource is not False)


def _read(schema: bytes, *, is_resource: bool) -> Compiled:
    node = read_schema(decode_tree(schema))
    return Compiled(node, Definitions(), resource=is_resource, has_patterns=b'"pattern"' in schema)


# The servers of one process, such as those of its tests, share the same definitions.
_shared: Final = lru_cache(maxsize=256)(_read)
_shared_large: Final = lru_cache(maxsize=8)(_read)
