"""Codegen: schemas written out as Python, which is the fastest form it can have.

The generated function looks at a tree once and says True if all is well: no unknown fields, no null where none may be,
every value valid. Missing members get their defaults on the way. It says False at the first doubt and leaves the rest
to the thorough files (`pruning.py`, `collecting.py`), so it may be wrong in one direction only. For the schema
`{type: object, properties: {n: {type: integer, default: 1, maximum: 5}}}` it reads

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

There are two moods. `admit` is the one above. `check` only validates: it tolerates unknown members and changes nothing,
which is what the alternatives inside allOf, anyOf, oneOf and not need, and objects that are validated only.
"""

from collections.abc import Callable

from levelset.apiserver.schemas import numbers
from levelset.apiserver.schemas.formats import is_quantity
from levelset.apiserver.schemas.metadata import is_plain_identity
from levelset.apiserver.schemas.nodes import Node, Tree
from levelset.apiserver.schemas.trees import copy_tree, is_member
from levelset.apiserver.schemas.uniqueness import unique, unique_keys
from levelset.apiserver.schemas.writing import Mood, Writer
from levelset.re2 import Regex

__all__ = ["Function", "Generator"]

Function = Callable[[Tree], bool]


class Generator:
    """Writes functions into one namespace; `reference` names the function of a schema that is referred to.

    `filled` gives a default value with all inner defaults, and whether it is valid by itself.
    """

    def __init__(
        self,
        *,
        reference: Callable[[str, Mood], Function],
        pattern: Callable[[str], Regex | None],
        filled: Callable[[Node], tuple[Tree, bool]],
    ) -> None:
        self._reference = reference
        self._pattern = pattern
        self._filled = filled
        self._count = 0
        self._names: dict[tuple[str, Mood], str] = {}
        self._waiting: list[tuple[str, Node, Mood, bool]] = []
        self._space: dict[str, Tree] = {
            "copy_tree": copy_tree,
            "is_member": is_member,
            "is_multiple": numbers.is_multiple,
            "is_plain_identity": is_plain_identity,
            "is_quantity": is_quantity,
            "unique": unique,
            "unique_keys": unique_keys,
        }

    def function(self, node: Node, mood: Mood, *, resource: bool = False) -> Function:
        """The function of a schema; `resource` is the root of an object, whose identity is not in the schema."""
        lines: list[str] = []
        name = self.later(node, mood, resource=resource)
        while self._waiting:
            lines += self._written(*self._waiting.pop())
        # Names and literals come from ascii() or are constants in the namespace: a schema cannot smuggle in code.
        exec(compile("\n".join(lines), "<schema>", "exec"), self._space)  # noqa: S102
        made: Function = self._space[name]
        return made

    def _written(self, name: str, node: Node, mood: Mood, resource: bool) -> list[str]:
        writer = Writer(self, node, mood)
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

    def later(self, node: Node, mood: Mood, *, resource: bool = False) -> str:
        """The name of a function that will be written with those of the schema at hand."""
        name = self._fresh("f")
        self._waiting.append((name, node, mood, resource))
        return name

    def constant(self, value: Tree) -> str:
        """A name for a value."""
        name = self._fresh("c")
        self._space[name] = value
        return name

    def filled(self, node: Node) -> tuple[Tree, bool]:
        """The default of a schema as it is put in, and whether it is valid."""
        return self._filled(node)

    def apart(self, node: Node, mood: Mood) -> str:
        """The name of a function for a schema that is made only when it is called."""
        return self._lazy(lambda: self.function(node, mood))

    def refer(self, ref: str, mood: Mood) -> str:
        """The name of the function of a definition; the function itself is made when it is first called."""
        key = (ref, mood)
        if key not in self._names:
            self._names[key] = self._lazy(lambda: self._reference(ref, mood))
        return self._names[key]

    def matcher(self, expression: str) -> tuple[str, str, int] | None:
        """Names of a quick and a steady matcher, and up to which length the quick one will do; None if it is broken."""
        pattern = self._pattern(expression)
        if pattern is None:
            return None
        quick = self._lazy(lambda: pattern.quick().search)
        return quick, self._lazy(lambda: pattern.steady().matches), pattern.limit

    def _lazy(self, make: Callable[[], Callable[[Tree], Tree]]) -> str:
        """A name for a function that is made when it is first called, and then stands there itself."""
        name, space = self._fresh("d"), self._space

        def first(value: Tree) -> Tree:
            made = space[name] = make()
            return made(value)

        space[name] = first
        return name

    def _fresh(self, letter: str) -> str:
        self._count += 1
        return f"{letter}{self._count}"
