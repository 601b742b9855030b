"""Compiled schemas: what the server asks of a schema, fast when all is well and thorough when not.

    schema = compile_schema({"type": "object", "properties": {...}})
    outcome = schema.admit(tree)  # unknown fields out, defaults in, validated
    outcome.dropped, outcome.causes

Trees are plain JSON and are changed in place: hand in what was just decoded, never what somebody else holds.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from levelset.apiserver.schema import field_errors
from levelset.apiserver.schema.code_generator import CodeGenerator, Function, Mood
from levelset.apiserver.schema.json_values import copy_tree
from levelset.apiserver.schema.prune_and_default import fill, prune, without_nulls
from levelset.apiserver.schema.schema_nodes import MAX_DEPTH, Node, Tree, read_schema
from levelset.apiserver.schema.validation import ABSENT, Collector
from levelset.errors import Cause, LevelsetError
from levelset.objects import decode_tree, encode_tree
from levelset.re2 import BadRegex, Regex, compile_regex

__all__ = ["Admission", "Compiled", "Definitions", "compile_schema"]

QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
TYPE = "FieldValueTypeInvalid"
DUPLICATE = "FieldValueDuplicate"


@dataclass(frozen=True, slots=True)
class Admission:
    """What came of an object: the paths of the fields that were dropped, and everything that is wrong with it."""

    dropped: tuple[str, ...] = ()
    causes: tuple[Cause, ...] = ()

    @property
    def type_error(self) -> Cause | None:
        """The first value of the wrong type, which a built-in kind answers with 400 rather than 422."""
        return next((one for one in self.causes if one.reason == TYPE), None)


FINE = Admission()


class Definitions:
    """Schemas that refer to each other by name; each is read and compiled when it is first needed, and then shared."""

    def __init__(self, schemas: Mapping[str, Tree] | None = None) -> None:
        self._schemas: Mapping[str, Tree] = {} if schemas is None else schemas
        self._nodes: dict[str, Node] = {}
        self._patterns: dict[str, Regex | None] = {}
        self.collector = Collector(self.resolve, self.pattern)
        self.generator = CodeGenerator(reference=self._function, pattern=self.pattern, filled=self._filled)

    def resolve(self, node: Node) -> Node:
        """The schema that a reference leads to; one without a reference is its own answer."""
        for _ in range(MAX_DEPTH):
            if not node.ref:
                return node
            node = self._node(node.ref)
        return Node(preserve=True)

    def pattern(self, expression: str) -> Regex | None:
        """The compiled expression, None if it is none."""
        if expression not in self._patterns:
            try:
                self._patterns[expression] = compile_regex(expression)
            except BadRegex:
                self._patterns[expression] = None
        return self._patterns[expression]

    def _node(self, name: str) -> Node:
        if name not in self._nodes:
            raw = self._schemas.get(name)
            found = Node(preserve=True) if raw is None else read_schema(raw, builtin=True)
            self._nodes[name] = Node(type="quantity") if name == QUANTITY else found
        return self._nodes[name]

    def _function(self, name: str, mood: Mood) -> Function:
        return self.generator.function(self.resolve(Node(ref=name)), mood)

    def _filled(self, node: Node) -> tuple[Tree, bool]:
        value = copy_tree(node.default)
        fill(node, value, resolve=self.resolve)
        return value, not self.collector.collect(node, value)


class Compiled:
    """One schema, ready to use. Nothing raises, whatever the tree: what is wrong with it comes back as causes."""

    def __init__(self, node: Node, definitions: Definitions, *, resource: bool) -> None:
        self._node = node
        self._definitions = definitions
        self._resource = resource
        self._admits: Function = self._first_admit
        self._checks: Function = self._first_check

    def admit(self, tree: Tree, old: Tree = None) -> Admission:
        """Prunes, defaults and validates in one go; with `old`, what did not change is not held against the object."""
        try:
            if self._admits(tree):
                return FINE
        except RecursionError:
            pass
        dropped = self._prepare(tree)
        return Admission(tuple(dropped), tuple(self.validate(tree, old)))

    def accepts(self, tree: Tree) -> bool:
        """Whether all is certainly well: nothing to prune, no null to take out, all valid. It fills in defaults.

        False is said at the first doubt, and proves nothing; a tree that got that may be half filled.
        """
        try:
            return self._admits(tree)
        except RecursionError:
            return False

    def load(self, tree: Tree) -> None:
        """Prunes and defaults an object that was accepted before, under a schema that may have changed since."""
        try:
            if self._admits(tree):
                return
        except RecursionError:
            pass
        self._prepare(tree)

    def prune(self, tree: Tree) -> list[str]:
        """Takes out the fields that the schema does not know; returns their paths, sorted."""
        try:
            return prune(self._node, tree, resolve=self._definitions.resolve, resource=self._resource)
        except RecursionError:
            return []

    def default(self, tree: Tree) -> None:
        """Takes out nulls that may not be there and puts in defaults."""
        try:
            without_nulls(self._node, tree, resolve=self._definitions.resolve)
            fill(self._node, tree, resolve=self._definitions.resolve)
        except RecursionError:
            return

    def validate(self, tree: Tree, old: Tree = None) -> list[Cause]:
        """Everything that is wrong with the tree, which is left as it is; see `admit` for `old`."""
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
        """The first value of the wrong type, if any: for kinds that refuse to decode such an object."""
        return Admission(causes=tuple(self.validate(tree))).type_error

    def _prepare(self, tree: Tree) -> list[str]:
        dropped = self.prune(tree)
        self.default(tree)
        return dropped

    def _first_admit(self, tree: Tree) -> bool:
        """Generates the code that prunes, defaults and validates, and leaves it in this place."""
        made = self._definitions.generator.function(self._node, "admit", resource=self._resource)
        self._admits = made
        return made(tree)

    def _first_check(self, tree: Tree) -> bool:
        """Generates the code that validates only, and leaves it in this place."""
        made = self._definitions.generator.function(self._node, "check", resource=self._resource)
        self._checks = made
        return made(tree)


def compile_schema(schema: Tree, *, definitions: Definitions | None = None, resource: bool | None = None) -> Compiled:
    """The schema compiled; never raises, since a schema that makes no sense was for `check_structural` to refuse.

    Without definitions it is the schema of a custom resource (`resource=False`: of some other value), whose
    `apiVersion`, `kind` and `metadata` are the server's business. With definitions it is one of the components of
    Kubernetes' OpenAPI documents, whose references are looked up there.
    """
    if definitions is not None:
        return Compiled(read_schema(schema, builtin=True), definitions, resource=bool(resource))
    try:
        written = encode_tree(schema)
    except LevelsetError:  # no tree that could have come over the wire
        return Compiled(read_schema(schema), Definitions(), resource=resource is not False)
    return _shared(written, is_resource=resource is not False)


@lru_cache(maxsize=256)  # the servers of one process, such as those of its tests, have the same definitions
def _shared(schema: bytes, *, is_resource: bool) -> Compiled:
    return Compiled(read_schema(decode_tree(schema)), Definitions(), resource=is_resource)
