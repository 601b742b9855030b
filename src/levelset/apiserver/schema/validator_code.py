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

Python compiles a function in one piece, and lets no other thread run meanwhile. So an object with many members is
checked by many small functions (`members_of`), each for a part of its members, and compiling is charged to the step
budget.

Where a keyword needs more than a comparison (a null that has to be removed, an object without a schema), the function
returns False and leaves the work to the slow path.
"""

import contextlib
import itertools
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Literal, Protocol

import msgspec

from levelset.apiserver.schema import numbers
from levelset.apiserver.schema.embedded_metadata import is_plain_identity
from levelset.apiserver.schema.formats import is_quantity, text_format
from levelset.apiserver.schema.json_values import copy_tree, is_member
from levelset.apiserver.schema.list_keys import unique, unique_keys
from levelset.apiserver.schema.schema_nodes import Node, Tree
from levelset.re2 import Regex
from levelset.re2.step_budget import StepsExceeded, charge, remaining

__all__ = ["CodeGenerator", "Function", "FunctionWriter", "Mode", "Namespace"]

Mode = Literal["admit", "check"]

MAX_INLINE_DEPTH = 8
"""How many levels are inlined into one function; deeper schemas get a function of their own."""

MAX_INLINE_NODES = 30
"""How many nodes are inlined into a function; larger schemas are compiled when they are first needed."""

MAX_MEMBER_NODES = 200
"""How many nodes of an object's members are inlined; the members of larger objects are checked part by part."""

PART_NODES = 100
"""How many nodes the functions for a part of the members have."""

MAX_ALTERNATIVES = 64
"""How many alternatives, required names and list keys are compiled; more of them are left to the slow path."""

MAX_LINES = 200
"""How many lines are compiled at a time, unless one function has more."""

STEPS_PER_LINE = 150
"""The steps of writing and compiling a line, see `levelset.re2.step_budget`."""

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

    def members_of(self, node: Node, mode: Mode, names: list[str]) -> str:
        """The name of a function for these members of an object, compiled on its first call."""
        ...

    def refer(self, ref: str, mode: Mode) -> str:
        """The name of the function of a definition."""
        ...

    def constant(self, value: Tree) -> str:
        """A name for a value."""
        ...

    def matcher(self, expression: str) -> tuple[str, str, int] | None:
        """Names of a matcher for short texts and one for all, and the maximum length for the first; None if invalid."""
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
                quick, matches, limit = names
                self.refuse(f"not ({quick}({var}) if len({var}) <= {limit} else {matches}({var}))")
        check = text_format(node.format) if node.type in ("", "string") and node.format else None
        if check is not None:
            self.refuse(f"not {self.generator.constant(check)}({var})")

    def number(self, node: Node, var: str) -> None:
        """Keywords of numbers."""
        if numbers.limits_beyond(node):
            self.put("return False")
            return
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
        is_listed = node.items is not None and node.items.type == "object" and not node.items.nullable
        if not is_listed or len(node.list_keys) > MAX_ALTERNATIVES:
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
                self.present(node, item)
            else:
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
        self.required(node.required, var)
        for names in self.parts(node, list(node.properties), var):
            self.checked_part(node, var, names)
        if isinstance(node.additional, Node):
            self.others(node, node.additional, var)
        elif node.additional is False:
            self.refuse(f"not {var}.keys() <= {self.generator.constant(node.properties.keys())}")

    def checked_part(self, node: Node, var: str, names: list[str]) -> None:
        """Some members of an object that is only validated."""
        for name in names:
            item = self.variable()
            before = len(self.lines)
            self.put(f"if {name!a} in {var}:")
            with self.block():
                self.put(f"{item} = {var}[{name!a}]")
                self.value(node.properties[name], item, null=True)
            if len(self.lines) == before + 2:
                del self.lines[before:]

    def required(self, names: Sequence[str], var: str) -> None:
        """The keyword required."""
        if len(names) > MAX_ALTERNATIVES:
            self.refuse(f"not {var}.keys() >= {self.generator.constant(frozenset(names))}")
            return
        for name in names:
            self.refuse(f"{name!a} not in {var}")

    def parts(self, node: Node, names: list[str], var: str, counter: str = "") -> list[list[str]]:
        """The members to check here, as one part; those of a large object are left to functions for their parts.

        The function of a part returns one more than the members that it counted, if there is a counter.
        """
        if sum(_inlined(node.properties[name]) for name in names) <= MAX_MEMBER_NODES:
            return [names]
        for part in _parts(node, names):
            call = f"{self.generator.members_of(node, self.mode, part)}({var})"
            if counter:
                count = self.variable()
                self.put(f"{count} = {call}")
                self.refuse(f"not {count}")
                self.put(f"{counter} += {count} - 1")
            else:
                self.refuse(f"not {call}")
        return []

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
        for name in IDENTITY if identity else ():
            if name in node.properties:
                self.identity(node, name, node.properties[name], var, counter)
        names = [name for name in node.properties if not (identity and name in IDENTITY)]
        for part in self.parts(node, names, var, counter):
            always += self.admitted_part(node, var, part, counter)
        self.required([name for name in node.required if name not in node.properties], var)
        if not closed:
            self.unnamed(node, var)
            return
        counted = [counter, str(always)] if always else [counter]
        counted += [f"({name!a} in {var})" for name in IDENTITY if identity and name not in node.properties]
        self.refuse(f"len({var}) != {' + '.join(counted)}")

    def admitted_part(self, node: Node, var: str, names: list[str], counter: str) -> int:
        """Some members by name; returns how many of them are always present afterwards."""
        return sum(self.member(node, name, node.properties[name], var, counter) for name in names)

    def part(self, node: Node, var: str, names: list[str]) -> None:
        """The body of a function for a part of the members of an object; see `parts` for what it returns."""
        if self.mode == "check":
            self.checked_part(node, var, names)
            self.put("return True")
            return
        closed = node.additional is None and not node.preserve
        counter = self.variable() if closed else ""
        if closed:
            self.put(f"{counter} = 1")
        always = self.admitted_part(node, var, names, counter)
        self.put(f"return {counter} + {always}" if closed else "return True")

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
        if max(map(len, (node.any_of, node.one_of, node.all_of))) > MAX_ALTERNATIVES:
            self.put("return False")
            return

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


def _inlined(node: Node) -> int:
    """How many nodes are inlined where this one is checked."""
    return 1 if node.weight > MAX_INLINE_NODES else node.weight


def _parts(node: Node, names: list[str]) -> Iterator[list[str]]:
    part, size = list[str](), 0
    for name in names:
        part.append(name)
        size += _inlined(node.properties[name])
        if size >= PART_NODES:
            yield part
            part, size = [], 0
    if part:
        yield part


Function = Callable[[Tree], bool]


class _Waiting(msgspec.Struct, frozen=True):
    """A function that is named, and not yet written; `members` if it is for a part of the members of an object."""

    name: str
    node: Node
    mode: Mode
    resource: bool = False
    members: list[str] | None = None


class _Thread(threading.local):
    """What this thread has still to write, and the names that it has made for the function it compiles."""

    def __init__(self) -> None:
        self.waiting: list[_Waiting] = []
        self.names: list[str] = []


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
        self._numbers = itertools.count(1)  # a thread may compile beside the event loop
        self._names: dict[tuple[str, Mode], str] = {}
        self._failed: dict[tuple[int, Mode, bool, str], int] = {}  # the steps that were too few
        self._here = _Thread()
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
        """The function of a schema; `resource` is the root of an object, whose identity is not in the schema.

        Compiling is charged to the step budget: raises StepsExceeded.
        """
        return self._compiled(node, mode, resource=resource)

    def _compiled(
        self, node: Node, mode: Mode, *, resource: bool = False, members: list[str] | None = None
    ) -> Function:
        """The function, once all that it calls are compiled.

        What has failed is removed, and not tried again with no more steps than it has had: it would be for every read.
        """
        key = (id(node), mode, resource, members[0] if members else "")
        left = remaining()
        if left is not None and left <= self._failed.get(key, -1):
            raise StepsExceeded
        self._here.names = []
        one = _Waiting(self._fresh("f"), node, mode, resource=resource, members=members)
        try:
            self._compile([one])
        except StepsExceeded:
            self._failed[key] = max(left or 0, self._failed.get(key, -1))
            self._forget(self._here.names)
            raise
        finally:
            self._here.waiting, self._here.names = [], []
        made: Function = self._space[one.name]
        return made

    def _forget(self, names: list[str]) -> None:
        shared = set(self._names.values())  # other functions may use them already
        for name in names:
            if name not in shared:
                self._space.pop(name, None)

    def _compile(self, waiting: list[_Waiting]) -> None:
        lines: list[str] = []
        while waiting or lines:
            if waiting:
                lines += self._written(waiting.pop())
                waiting += self._here.waiting
                self._here.waiting = []
            if not waiting or len(lines) >= MAX_LINES:
                charge(STEPS_PER_LINE * len(lines))
                # Names and literals come from ascii() or are constants in the namespace: a schema cannot inject code.
                exec(compile("\n".join(lines), "<schema>", "exec"), self._space)  # noqa: S102
                lines = []

    def _written(self, one: _Waiting) -> list[str]:
        writer = FunctionWriter(self, one.node, one.mode)
        writer.put(f"def {one.name}(x0):")
        with writer.block():
            writer.put("try:")
            with writer.block():
                if one.members is not None:
                    writer.part(one.node, "x0", one.members)
                elif one.resource:
                    writer.resource(one.node, "x0")
                else:
                    writer.value(one.node, "x0", null=True)
                writer.put("return True")
            writer.put("except KeyError: return False")
        return writer.lines

    def later(self, node: Node, mode: Mode) -> str:
        """The name of a function that will be written together with those of the current schema."""
        name = self._fresh("f")
        self._here.waiting.append(_Waiting(name, node, mode))
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

    def members_of(self, node: Node, mode: Mode, names: list[str]) -> str:
        """The name of a function for these members of an object, compiled on its first call."""
        return self._lazy(lambda: self._compiled(node, mode, members=names))

    def refer(self, ref: str, mode: Mode) -> str:
        """The name of the function of a definition; the function is compiled on its first call."""
        key = (ref, mode)
        if key not in self._names:
            self._names[key] = self._lazy(lambda: self._reference(ref, mode))
        return self._names[key]

    def matcher(self, expression: str) -> tuple[str, str, int] | None:
        """Names of a matcher for short texts and one for all, and the maximum length for the first; None if invalid.

        The first is not charged to the step budget.
        """
        pattern = self._pattern(expression)
        if pattern is None:
            return None
        quick = self._lazy(lambda: pattern.backtracking().search)
        return quick, self.constant(pattern.matches), pattern.free

    def _lazy(self, make: Callable[[], Callable[[Tree], Tree]]) -> str:
        """The name of a function that is compiled on its first call, and then replaces itself in the namespace."""
        name, space = self._fresh("d"), self._space

        def first(value: Tree) -> Tree:
            made = space[name] = make()
            return made(value)

        space[name] = first
        return name

    def _fresh(self, letter: str) -> str:
        name = f"{letter}{next(self._numbers)}"
        self._here.names.append(name)
        return name
