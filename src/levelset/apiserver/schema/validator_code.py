"""Compiles schemas to Python functions that prune-check, default and validate an object in one pass.

A generated function returns True if the tree is certainly valid: no unknown fields, no null that is not allowed, every
value valid. Missing members get their defaults. It returns False at the first doubt, and the slow path
(`prune_and_default.py`, `validation.py`) decides: a function may be wrong in that direction only. For the schema
`{type: object, properties: {n: {type: integer, default: 1, maximum: 5}}}` it is

    def f1(x0):
        try:
            if type(x0) is not dict: return False
            x1 = 0
            if 'n' in x0:
                x2 = x0['n']
                if type(x2) is not int: return False
                if not -9223372036854775808 <= x2 <= 5: return False
            else:
                x0['n'] = 1
            if len(x0) != x1 + 1: return False
            return True
        except KeyError:  # a required member is missing
            return False

There are two modes. `admit` is the one above. `check` only validates: it tolerates unknown members and changes nothing,
as needed for the alternatives inside allOf, anyOf, oneOf and not, and for objects that are only validated.

Where a keyword needs more than a comparison (a null that has to be removed, an object without a schema), the function
returns False and leaves the work to the slow path.
"""

import contextlib
from collections.abc import Callable, Generator
from typing import Literal, Protocol

from levelset.apiserver.schema import numbers
from levelset.apiserver.schema.embedded_metadata import is_plain_identity
from levelset.apiserver.schema.formats import is_quantity, text_format
from levelset.apiserver.schema.json_values import copy_tree, is_member
from levelset.apiserver.schema.list_keys import unique, unique_keys
from levelset.apiserver.schema.schema_nodes import Node, Tree
from levelset.re2 import Regex

__all__ = ["CodeGenerator", "Function", "FunctionWriter", "Mode", "Namespace"]

Mode = Literal["admit", "check"]

MAX_INLINE_DEPTH = 8
"""How many levels are inlined into one function; deeper schemas get a function of their own."""

MAX_INLINE_NODES = 30
"""How many nodes are inlined into a function; larger schemas are compiled when they are first needed."""

BLOCK = "    "
IDENTITY = ("apiVersion", "kind", "metadata")


class Namespace(Protocol):
    """The namespace of generated code: names the functions, constants and patterns that it uses."""

    def later(self, node: Node, mode: Mode) -> str:
        """The name of a separate function for a schema."""
        ...

    def apart(self, node: Node, mode: Mode) -> str:
        """The name of a function for a schema that is compiled on its first call."""
        ...

    def refer(self, ref: str, mode: Mode) -> str:
        """The name of the function of a definition."""
        ...

    def constant(self, value: Tree) -> str:
        """A name for a value."""
        ...

    def matcher(self, expression: str) -> tuple[str, str, int] | None:
        """Names of a backtracking and a linear matcher, and the maximum length for the first; None if it is invalid."""
        ...

    def filled(self, node: Node) -> tuple[Tree, bool]:
        """The default of a schema with its inner defaults, and whether it is valid."""
        ...


class FunctionWriter:
    """Writes the lines of one function; every check that fails returns False."""

    def __init__(self, generator: Namespace, root: Node, mode: Mode) -> None:
        self.generator = generator
        self.root = root
        self.mode: Mode = mode
        self.lines: list[str] = []
        self.indent = 0
        self.variables = 0

    def put(self, line: str) -> None:
        """Adds a line."""
        self.lines.append(BLOCK * self.indent + line)

    def refuse(self, condition: str) -> None:
        """Adds the line that returns False under a condition."""
        self.put(f"if {condition}: return False")

    @contextlib.contextmanager
    def block(self) -> Generator[None, None, None]:
        """Indents the lines written inside by one level."""
        self.indent += 1
        yield
        self.indent -= 1

    def variable(self) -> str:
        """A name for a local variable."""
        self.variables += 1
        return f"x{self.variables}"

    def value(self, node: Node, var: str, *, null: bool) -> None:
        """Checks a value; `null` means that it may be null here."""
        if null and node.accepts_null():
            before = len(self.lines)
            self.put(f"if {var} is not None:")
            with self.block():
                self.some(node, var)
            if len(self.lines) == before + 1:
                self.lines.pop()
            return
        if null and not node.type and not node.int_or_string:
            self.refuse(f"{var} is None")
        self.some(node, var)

    def some(self, node: Node, var: str) -> None:
        """Checks a value that is not null, or whose type check rejects null."""
        if node.ref:
            self.refuse(f"not {self.generator.refer(node.ref, self.mode)}({var})")
            return
        if node is not self.root and (
            node.weight > MAX_INLINE_NODES or (self.indent > MAX_INLINE_DEPTH and node.weight > 1)
        ):
            self.refuse(f"not {self.generator.apart(node, self.mode)}({var})")
            return
        self.typed(node, var)
        if node.enum:
            self.enumerated(node, var)
        self.alternatives(node, var)

    def typed(self, node: Node, var: str) -> None:
        """Checks the type, and the keywords that belong to it."""
        match "int-or-string" if node.int_or_string else node.type:
            case "string":
                self.refuse(f"type({var}) is not str")
                self.text(node, var)
            case "integer":
                self.refuse(f"type({var}) is not int")
                self.number(node, var)
            case "number":
                self.refuse(f"type({var}) is not float and type({var}) is not int")
                self.number(node, var)
            case "boolean":
                self.refuse(f"{var} is not True and {var} is not False")
            case "object":
                self.refuse(f"type({var}) is not dict")
                self.members(node, var)
            case "array":
                self.refuse(f"type({var}) is not list")
                self.items(node, var)
            case "int-or-string":
                self.refuse(f"type({var}) is not str and type({var}) is not int")
                self.when(f"type({var}) is str", self.text, node, var)
                self.when(f"type({var}) is int", self.number, node, var)
            case "quantity":
                self.refuse(f"not (is_quantity({var}) if type({var}) is str else type({var}) in (int, float))")
            case "":
                self.by_kind(node, var)
            case _:
                self.put("return False")

    def by_kind(self, node: Node, var: str) -> None:
        """Checks the keywords of a schema without a type: each applies to the values of its own type."""
        self.when(f"type({var}) is str", self.text, node, var)
        self.when(f"type({var}) is int or type({var}) is float", self.number, node, var)
        self.when(f"type({var}) is list", self.items, node, var)
        self.when(f"type({var}) is dict", self.members, node, var)

    def when(self, condition: str, write: Callable[[Node, str], None], node: Node, var: str) -> None:
        """Writes the lines under a condition, or nothing if there are none."""
        before = len(self.lines)
        self.put(f"if {condition}:")
        with self.block():
            write(node, var)
        if len(self.lines) == before + 1:
            self.lines.pop()

    def text(self, node: Node, var: str) -> None:
        """Keywords of strings."""
        if node.max_length is not None:
            self.refuse(f"len({var}) > {node.max_length}")
        if node.min_length:
            self.refuse(f"len({var}) < {node.min_length}")
        if node.pattern:
            names = self.generator.matcher(node.pattern)
            if names is None:
                self.put("return False")
            else:
                backtracking, linear, limit = names
                self.refuse(f"not ({backtracking}({var}) if len({var}) <= {limit} else {linear}({var}))")
        check = text_format(node.format) if node.type in ("", "string") and node.format else None
        if check is not None:
            self.refuse(f"not {self.generator.constant(check)}({var})")

    def number(self, node: Node, var: str) -> None:
        """Keywords of numbers."""
        low, high = numbers.span(node) or (None, None)
        above, below = "<=", "<="
        if node.minimum is not None and (low is None or node.minimum >= low):
            low, above = node.minimum, "<" if node.exclusive_minimum else "<="
        if node.maximum is not None and (high is None or node.maximum <= high):
            high, below = node.maximum, "<" if node.exclusive_maximum else "<="
        left = "" if low is None else f"{self.literal(low)} {above} "
        right = "" if high is None else f" {below} {self.literal(high)}"
        if left or right:
            self.refuse(f"not {left}{var}{right}")
        if node.multiple_of is not None:
            self.refuse(f"not is_multiple({var}, {self.literal(node.multiple_of)})")

    def literal(self, value: Tree) -> str:
        """A scalar as source; a value without a simple literal, such as an infinite float, becomes a constant."""
        if isinstance(value, str) or (isinstance(value, int) and value.bit_length() < 64):
            return ascii(value)
        return self.generator.constant(value)

    def enumerated(self, node: Node, var: str) -> None:
        """The keyword enum."""
        texts = [one for one in node.enum if isinstance(one, str)]
        if node.type == "string" and not node.int_or_string:
            self.refuse(f"{var} not in {self.generator.constant(frozenset(texts))}")
        else:
            self.refuse(f"not is_member({var}, {self.generator.constant(node.enum)})")

    def items(self, node: Node, var: str) -> None:
        """Keywords of lists."""
        if node.min_items:
            self.refuse(f"len({var}) < {node.min_items}")
        if node.max_items is not None:
            self.refuse(f"len({var}) > {node.max_items}")
        if node.items is not None:
            self.each(node.items, var, var)
        elif self.mode == "admit" and not node.preserve:
            # Objects in a list without a schema lose all their members: left to the slow path.
            self.free(var)
        if node.list_type == "set":
            self.refuse(f"len({var}) > 1 and not unique({var})")
        elif node.list_type == "map":
            self.keys(node, var)

    def keys(self, node: Node, var: str) -> None:
        """Checks that the keys of a keyed list are unique."""
        if node.items is None or node.items.type != "object" or node.items.nullable:
            self.refuse(f"{var}")
        elif len(node.list_keys) == 1:
            self.refuse(f"len({var}) > 1 and not unique_keys({var}, {node.list_keys[0]!a})")
        else:
            key = "".join(f"y.get({name!a}), " for name in node.list_keys)
            self.refuse(f"len({var}) > 1 and not unique([({key}) for y in {var}])")

    def each(self, node: Node, var: str, values: str) -> None:
        """Checks each of several values."""
        item = self.variable()
        before = len(self.lines)
        self.put(f"for {item} in {values}:")
        with self.block():
            if self.mode == "admit" and not node.nullable and (node.default is not None or values != var):
                # A null is replaced by a default, or removed from a map: left to the slow path.
                self.refuse(f"{item} is None")
            self.value(node, item, null=True)
        if len(self.lines) == before + 1:
            self.lines.pop()

    def free(self, var: str) -> None:
        """Rejects values that might contain objects without a schema."""
        item = self.variable()
        self.put(f"for {item} in {var}:")
        with self.block():
            self.refuse(f"type({item}) is dict or type({item}) is list")

    def resource(self, node: Node, var: str) -> None:
        """The root of a custom resource."""
        fitting = node.type in ("", "object") and not node.int_or_string
        self.refuse(f"type({var}) is not dict" if fitting else "True")
        self.members(node, var, identity=True)
        if node.enum:
            self.enumerated(node, var)
        self.alternatives(node, var)

    def members(self, node: Node, var: str, *, identity: bool = False) -> None:
        """The members of an object; `identity` is True at the root of a resource."""
        if self.mode == "check":
            self.checked_members(node, var)
        else:
            self.admitted_members(node, var, identity=identity or node.embedded)
        if node.embedded:
            self.refuse(f"not is_plain_identity({var})")
        if node.min_properties:
            self.refuse(f"len({var}) < {node.min_properties}")
        if node.max_properties is not None:
            self.refuse(f"len({var}) > {node.max_properties}")

    def checked_members(self, node: Node, var: str) -> None:
        """Members of an object that is only validated."""
        for name in node.required:
            self.refuse(f"{name!a} not in {var}")
        for name, child in node.properties.items():
            item = self.variable()
            before = len(self.lines)
            self.put(f"if {name!a} in {var}:")
            with self.block():
                self.put(f"{item} = {var}[{name!a}]")
                self.value(child, item, null=True)
            if len(self.lines) == before + 2:
                del self.lines[before:]
        if isinstance(node.additional, Node):
            self.others(node, node.additional, var)
        elif node.additional is False:
            self.refuse(f"not {var}.keys() <= {self.generator.constant(node.properties.keys())}")

    def others(self, node: Node, additional: Node, var: str) -> None:
        """Members under additionalProperties."""
        if not node.properties:
            self.each(additional, var, f"{var}.values()")
            return
        known = self.generator.constant(frozenset(node.properties))
        self.each(additional, var, f"[y for n, y in {var}.items() if n not in {known}]")

    def admitted_members(self, node: Node, var: str, *, identity: bool) -> None:
        """Members by name, counted, so that an unknown member is detected by the number of members."""
        closed = node.additional is None and not node.preserve
        counter = self.variable() if closed else ""
        if closed:
            self.put(f"{counter} = 0")
        always = 0
        for name, child in node.properties.items():
            if identity and name in IDENTITY:
                self.identity(node, name, child, var, counter)
            else:
                always += self.member(node, name, child, var, counter)
        for name in node.required:
            if name not in node.properties:
                self.refuse(f"{name!a} not in {var}")
        if not closed:
            self.unnamed(node, var)
            return
        for name in IDENTITY if identity else ():
            if name not in node.properties:
                self.put(f"if {name!a} in {var}: {counter} += 1")
        self.refuse(f"len({var}) != {counter} + {always}" if always else f"len({var}) != {counter}")

    def unnamed(self, node: Node, var: str) -> None:
        """Members that the schema does not declare by name."""
        if isinstance(node.additional, Node):
            self.others(node, node.additional, var)
        elif node.additional is True and not node.properties:
            self.free(f"{var}.values()")
        elif node.additional is not None:
            self.refuse(f"{var}")

    def identity(self, node: Node, name: str, child: Node, var: str, counter: str) -> None:
        """A member of every object: it is validated, but not pruned."""
        if child.has_defaults():
            self.put("return False")
            return
        self.put(f"if {name!a} in {var}:")
        with self.block():
            if counter:
                self.put(f"{counter} += 1")
            self.refuse(f"not {self.generator.later(child, 'check')}({var}[{name!a}])")
        if name in node.required:
            self.put("else: return False")

    def member(self, node: Node, name: str, child: Node, var: str, counter: str) -> int:
        """One member by name; returns 1 if it is always present afterwards, so that it need not be counted."""
        item = self.variable()
        defaulted = child.default is not None
        if name in node.required and not defaulted:
            self.put(f"{item} = {var}[{name!a}]")
            self.present(child, item)
            return 1
        self.put(f"if {name!a} in {var}:")
        with self.block():
            if counter and not defaulted:
                self.put(f"{counter} += 1")
            self.put(f"{item} = {var}[{name!a}]")
            self.present(child, item)
        if defaulted:
            value, valid = self.generator.filled(child)
            self.put("else:")
            with self.block():
                self.put(f"{var}[{name!a}] = {self.fresh_copy(value)}")
                if not valid:
                    self.put("return False")
        return int(defaulted)

    def present(self, node: Node, var: str) -> None:
        """Checks a present member; a null that is not allowed is replaced or removed by the slow path."""
        if not node.nullable and not node.type and not node.int_or_string:
            self.refuse(f"{var} is None")
        self.value(node, var, null=node.nullable)

    def fresh_copy(self, value: Tree) -> str:
        """Source for a fresh copy of a value."""
        if not isinstance(value, (dict, list)):
            return self.literal(value)
        return f"copy_tree({self.generator.constant(value)})" if value else ("{}" if isinstance(value, dict) else "[]")

    def alternatives(self, node: Node, var: str) -> None:
        """The keywords anyOf, oneOf, allOf and not."""

        def calls(options: tuple[Node, ...]) -> list[str]:
            return [f"{self.generator.later(one, 'check')}({var})" for one in options]

        either = calls(node.either())
        if either:
            self.refuse(f"not ({' or '.join(either)})")
        exactly = calls(node.one_of)
        if exactly:
            self.refuse(f"{' + '.join(exactly)} != 1")
        for call in calls(node.all_of):
            self.refuse(f"not {call}")
        if node.not_ is not None:
            self.refuse(calls((node.not_,))[0])


Function = Callable[[Tree], bool]


class CodeGenerator:
    """Generates functions in one namespace; `reference` returns the function of a referenced schema.

    `filled` returns a default with all inner defaults, and whether it is valid by itself.
    """

    def __init__(
        self,
        *,
        reference: Callable[[str, Mode], Function],
        pattern: Callable[[str], Regex | None],
        filled: Callable[[Node], tuple[Tree, bool]],
    ) -> None:
        self._reference = reference
        self._pattern = pattern
        self._filled = filled
        self._count = 0
        self._names: dict[tuple[str, Mode], str] = {}
        self._waiting: list[tuple[str, Node, Mode, bool]] = []
        self._space: dict[str, Tree] = {
            "copy_tree": copy_tree,
            "is_member": is_member,
            "is_multiple": numbers.is_multiple,
            "is_plain_identity": is_plain_identity,
            "is_quantity": is_quantity,
            "unique": unique,
            "unique_keys": unique_keys,
        }

    def function(self, node: Node, mode: Mode, *, resource: bool = False) -> Function:
        """The function of a schema; `resource` is the root of an object, whose identity is not in the schema."""
        lines: list[str] = []
        name = self.later(node, mode, resource=resource)
        while self._waiting:
            lines += self._written(*self._waiting.pop())
        # Names and literals come from ascii() or are constants in the namespace: a schema cannot inject code.
        exec(compile("\n".join(lines), "<schema>", "exec"), self._space)  # noqa: S102
        made: Function = self._space[name]
        return made

    def _written(self, name: str, node: Node, mode: Mode, resource: bool) -> list[str]:
        writer = FunctionWriter(self, node, mode)
        writer.put(f"def {name}(x0):")
        with writer.block():
            writer.put("try:")
            with writer.block():
                if resource:
                    writer.resource(node, "x0")
                else:
                    writer.value(node, "x0", null=True)
                writer.put("return True")
            writer.put("except KeyError: return False")
        return writer.lines

    def later(self, node: Node, mode: Mode, *, resource: bool = False) -> str:
        """The name of a function that will be written together with those of the current schema."""
        name = self._fresh("f")
        self._waiting.append((name, node, mode, resource))
        return name

    def constant(self, value: Tree) -> str:
        """A name for a value."""
        name = self._fresh("c")
        self._space[name] = value
        return name

    def filled(self, node: Node) -> tuple[Tree, bool]:
        """The default of a schema with its inner defaults, and whether it is valid."""
        return self._filled(node)

    def apart(self, node: Node, mode: Mode) -> str:
        """The name of a function for a schema that is compiled on its first call."""
        return self._lazy(lambda: self.function(node, mode))

    def refer(self, ref: str, mode: Mode) -> str:
        """The name of the function of a definition; the function is compiled on its first call."""
        key = (ref, mode)
        if key not in self._names:
            self._names[key] = self._lazy(lambda: self._reference(ref, mode))
        return self._names[key]

    def matcher(self, expression: str) -> tuple[str, str, int] | None:
        """Names of a backtracking and a linear matcher, and the maximum length for the first; None if it is invalid."""
        pattern = self._pattern(expression)
        if pattern is None:
            return None
        backtracking = self._lazy(lambda: pattern.backtracking().search)
        return backtracking, self._lazy(lambda: pattern.linear().matches), pattern.limit

    def _lazy(self, make: Callable[[], Callable[[Tree], Tree]]) -> str:
        """The name of a function that is compiled on its first call, and then replaces itself in the namespace."""
        name, space = self._fresh("d"), self._space

        def first(value: Tree) -> Tree:
            made = space[name] = make()
            return made(value)

        space[name] = first
        return name

    def _fresh(self, letter: str) -> str:
        self._count += 1
        return f"{letter}{self._count}"
