"""Collecting: everything that is wrong with an object, with its place and in Kubernetes' words.

This is the slow and thorough side of validation: it runs when the generated code of `codegen.py` has said that
something is wrong. With the former object beside it, what has not changed is not held against anybody (ratcheting):
members of objects and items of keyed lists are compared with their former selves, all other lists as a whole.
"""

from collections.abc import Callable

from levelset.apiserver.schema import field_errors, numbers
from levelset.apiserver.schema.embedded_metadata import METADATA, check_identity
from levelset.apiserver.schema.formats import is_quantity, text_format
from levelset.apiserver.schema.json_values import is_member, join
from levelset.apiserver.schema.list_keys import duplicates, identity, is_unchanged, key_of
from levelset.apiserver.schema.prune_and_default import Resolve
from levelset.apiserver.schema.schema_nodes import MAX_DEPTH, Node, Tree, as_list, as_map
from levelset.errors import Cause
from levelset.re2 import Regex

__all__ = ["ABSENT", "Collector", "fewest", "has_type"]

ABSENT: Tree = object()
"""There is no former value to compare with."""


class Collector:
    """Collects the causes of one schema; `pattern` compiles an expression, or gives None for one that is broken."""

    def __init__(self, resolve: Resolve, pattern: Callable[[str], Regex | None]) -> None:
        self._resolve = resolve
        self._pattern = pattern

    def collect(self, node: Node, tree: Tree, path: str = "", *, old: Tree = ABSENT, depth: int = 0) -> list[Cause]:
        """All causes in the tree, those of unchanged values left out."""
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
            causes.append(field_errors.not_supported(path, tree, node.enum))
        members = as_map(tree)
        if members is not None:
            causes += self._object(node, members, path, old, depth)
        if causes and old is not ABSENT and is_unchanged(self._resolve, node, tree, old):
            return []
        return causes

    def _type(self, node: Node, tree: Tree, path: str) -> list[Cause]:
        if has_type(node, tree):
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
        """The former items of a keyed list by their keys; of other lists none."""
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
        if "metadata" in members:
            field = join(path, "metadata")
            wrong = self.collect(METADATA, members["metadata"], field, depth=depth + 1)
            if wrong:
                causes.append(field_errors.invalid(field, members["metadata"], wrong[0].message))
        return causes

    def _alternatives(self, node: Node, tree: Tree, path: str, old: Tree, depth: int) -> list[Cause]:
        def tried(options: tuple[Node, ...]) -> list[list[Cause]]:
            return [self.collect(one, tree, path, old=old, depth=depth + 1) for one in options]

        causes: list[Cause] = []
        either = tried(node.either())
        if either and all(either):
            causes.append(field_errors.invalid(path, tree, f'"{path}" must validate at least one schema (anyOf)'))
            causes += fewest(either)
        exactly = tried(node.one_of)
        fitting = sum(not one for one in exactly)
        if exactly and fitting != 1:
            found = f"Found {fitting} valid alternatives" if fitting else "Found none valid"
            detail = f'"{path}" must validate one and only one schema (oneOf). {found}'
            causes.append(field_errors.invalid(path, tree, detail))
            causes += fewest(exactly)
        wrong = [cause for one in tried(node.all_of) for cause in one]
        if wrong:
            causes += [*wrong, field_errors.invalid(path, tree, f'"{path}" must validate all the schemas (allOf)')]
        if node.not_ is not None and not tried((node.not_,))[0]:
            causes.append(field_errors.invalid(path, tree, f'"{path}" must not validate the schema (not)'))
        return causes


def fewest(alternatives: list[list[Cause]]) -> list[Cause]:
    """The causes of the alternative that came nearest."""
    nearest = alternatives[0]
    for one in alternatives:
        nearest = one if len(one) < len(nearest) else nearest
    return nearest


def _mistyped(path: str, expected: str, actual: str) -> Cause:
    return field_errors.type_invalid(
        path, actual, f"{path} in body must be of type {expected}: {field_errors.show(actual)}"
    )


def has_type(node: Node, value: Tree) -> bool:
    """Whether a value has the type that the schema asks for; a whole number may be written 1.0."""
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
