"""The part of Go's text/template that values of DCP use: parses a text to nodes, and evaluates them; pure.

Pipelines, parentheses, `if`, `with`, `else`, comments, trim markers and the functions in `BUILTINS` are supported.
What is not, such as `range` or a variable, is refused by its name. Without loops, the cost grows with the length.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast
from urllib.parse import quote_plus

from msgspec import Struct

from levelset.errors import LevelsetError

__all__ = [
    "ABSENT",
    "BUILTINS",
    "BadTemplate",
    "Branch",
    "Call",
    "Field",
    "Function",
    "Literal",
    "Node",
    "Pipeline",
    "parse_template",
    "render",
]

Function: TypeAlias = Callable[[list[object]], object]


class BadTemplate(LevelsetError):
    """A template that cannot be parsed or evaluated; the message names what is wrong."""


class _Absent(Struct, frozen=True):
    """The class of ABSENT."""


ABSENT: Final = _Absent()
"""What a map without this key has, and `nil`: Go prints `<no value>`, and `<nil>` for a pointer without a value."""


class Field(Struct, frozen=True):
    """`.Spec.Args`: the names of fields, below the dot or, with `$`, the object."""

    names: tuple[str, ...]
    is_root: bool = False


class Literal(Struct, frozen=True):
    """A text, a number, a boolean or nil."""

    value: object


class Call(Struct, frozen=True):
    """The name of a function."""

    name: str


class Pipeline(Struct, frozen=True):
    """Commands, each a list of operands; the value of one is the last argument of the next."""

    commands: tuple[tuple["Operand", ...], ...]


Operand: TypeAlias = Field | Literal | Call | Pipeline


class Branch(Struct, frozen=True):
    """`if` or `with`: nodes for a true value, and nodes for another."""

    condition: Pipeline
    then: tuple["Node", ...]
    otherwise: tuple["Node", ...]
    is_with: bool


Node: TypeAlias = str | Pipeline | Branch
Lookup: TypeAlias = Callable[[object, tuple[str, ...], bool], object]

_DEEPEST: Final = 32
_OPEN: Final = re.compile(r"\{\{(-(?=\s))?\s*")
_CLOSE: Final = re.compile(r"(\s-)?\}\}")
_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<text>"(?:[^"\\\n]|\\.)*")|(?P<raw>`[^`]*`)|(?P<number>[+-]?(?:0[xX][0-9a-fA-F]+|[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?)(?![\w.]))"""
    r"""|(?P<field>(?:\.[A-Za-z_]\w*)+|\.(?!\w))|(?P<variable>\$\w*(?:\.[A-Za-z_]\w*)*)|(?P<name>[A-Za-z_]\w*)"""
    r"""|(?P<mark>:=|[|()=,]))"""
)
_COMMENT: Final = re.compile(r"/\*.*?\*/", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}
_WORDS: Final = {"true": True, "false": False, "nil": ABSENT}
_CHOOSING: Final = ("and", "or")
"""The functions that evaluate only as many operands as they need."""
_UNSUPPORTED: Final = ("range", "define", "template", "block", "break", "continue")
_LARGEST_PLAIN: Final = 1e21
"""From here on Go writes numbers with an exponent."""
_NUMERIC: Final = "dxXobf"
_VERB: Final = re.compile(r"%([-+ 0#]*)([0-9]{0,3})(?:\.([0-9]{1,3}))?(.)", re.DOTALL)


class _Action(Struct, frozen=True):
    """The tokens between `{{` and `}}`, with their kinds, and whether each follows a space."""

    tokens: tuple[tuple[str, str, bool], ...]


def parse_template(text: str) -> tuple[Node, ...]:
    """The nodes of a template; raises BadTemplate."""
    parser = _Parser(list(_lex(text)))
    nodes = parser.nodes(0)
    if parser.left:
        raise BadTemplate(f"unexpected {{{{ {parser.keyword()} }}}}")
    return nodes


def render(nodes: Sequence[Node], root: object, lookup: Lookup, functions: Mapping[str, Function]) -> str:
    """The text of nodes; `lookup` returns a field of a value. Raises BadTemplate, and what a function raises."""
    return "".join(_Evaluation(root, lookup, functions).texts(nodes, root))


def _lex(text: str) -> Iterator[str | _Action]:
    position, trims = 0, False
    while (found := _OPEN.search(text, position)) is not None:
        before = text[position : found.start()]
        before = before.lstrip() if trims else before
        yield before.rstrip() if found[1] else before
        position = found.end()
        comment = _COMMENT.match(text, position)
        tokens: list[tuple[str, str, bool]] = []
        position = comment.end() if comment else position
        while (end := _CLOSE.match(text, position) or _CLOSE.match(text, _skip(text, position))) is None:
            token = None if comment else _TOKEN.match(text, position)
            if token is None:
                rest = text[position : position + 20].strip()
                raise BadTemplate(f"unexpected {rest!r}" if rest else "an action is not closed with }}")
            kind = token.lastgroup or ""
            tokens.append((kind, token[kind], token.start(kind) > position))
            position = token.end()
        position, trims = end.end(), bool(end[1])
        if not tokens and not comment:
            raise BadTemplate("an action is empty")
        if tokens:
            yield _Action(tuple(tokens))
    yield text[position:].lstrip() if trims else text[position:]


def _skip(text: str, position: int) -> int:
    """The position after white space, but for the one before a trim marker."""
    while position < len(text) and text[position].isspace() and not text.startswith("-}}", position + 1):
        position += 1
    return position


class _Parser:
    """Parses the pieces of a template, from the first to the last."""

    def __init__(self, pieces: list[str | _Action]) -> None:
        self.left = pieces[::-1]

    def keyword(self) -> str:
        """The first word of the next action, or an empty text."""
        piece = self.left[-1] if self.left else ""
        return piece.tokens[0][1] if isinstance(piece, _Action) else ""

    def nodes(self, depth: int) -> tuple[Node, ...]:
        """The nodes up to the next `else` or `end`, which is not consumed."""
        if depth > _DEEPEST:
            raise BadTemplate(f"actions are nested more than {_DEEPEST} deep")
        found: list[Node] = []
        while self.left and self.keyword() not in ("else", "end"):
            piece = self.left.pop()
            if isinstance(piece, str):
                found.append(piece)
                continue
            word = piece.tokens[0][1]
            if word in _UNSUPPORTED:
                raise BadTemplate(f"{word} is not supported")
            is_branch = word in ("if", "with")
            found.append(self._branch(piece.tokens, depth) if is_branch else _pipeline(piece.tokens))
        return tuple(found)

    def _branch(self, tokens: tuple[tuple[str, str, bool], ...], depth: int) -> Branch:
        word = tokens[0][1]
        condition, then = _pipeline(tokens[1:]), self.nodes(depth + 1)
        otherwise: tuple[Node, ...] = ()
        if self.keyword() == "else":
            piece = self.left.pop()
            assert isinstance(piece, _Action), "a keyword is in an action"
            if len(piece.tokens) > 1:  # else if ...: the inner branch consumes the end
                if piece.tokens[1][1] != word:
                    raise BadTemplate(f"unexpected {piece.tokens[1][1]} after the else of {word}")
                return Branch(condition, then, (self._branch(piece.tokens[1:], depth + 1),), word == "with")
            otherwise = self.nodes(depth + 1)
        if self.keyword() != "end":
            raise BadTemplate(f"{word} has no end")
        self.left.pop()
        return Branch(condition, then, otherwise, word == "with")


def _pipeline(tokens: Sequence[tuple[str, str, bool]], depth: int = 0) -> Pipeline:
    if depth > _DEEPEST:
        raise BadTemplate(f"parentheses are nested more than {_DEEPEST} deep")
    commands: list[list[Operand]] = [[]]
    position = 0
    while position < len(tokens):
        kind, word, is_apart = tokens[position]
        if word == "|" and kind == "mark":
            commands.append([])
        elif word == "(" and kind == "mark":
            end = _closing(tokens, position)
            commands[-1].append(_pipeline(tokens[position + 1 : end], depth + 1))
            position = end
        elif kind == "field" and not is_apart and position and tokens[position - 1][1] == ")":
            raise BadTemplate("a field of a value in parentheses is not supported")
        else:
            commands[-1].append(_operand(kind, word))
        position += 1
    if not all(commands):
        raise BadTemplate("a value is missing")
    if any(one[0] == Literal(ABSENT) for one in commands):
        raise BadTemplate("nil is no value of its own, but an argument only")
    return Pipeline(tuple(tuple(one) for one in commands))


def _closing(tokens: Sequence[tuple[str, str, bool]], position: int) -> int:
    depth = 0
    for number in range(position, len(tokens)):
        if tokens[number][0] == "mark":
            depth += {"(": 1, ")": -1}.get(tokens[number][1], 0)
        if depth == 0:
            return number
    raise BadTemplate("a parenthesis is not closed")


def _operand(kind: str, word: str) -> Operand:
    match kind:
        case "text":
            return Literal(re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[0]), word[1:-1]))
        case "raw":
            return Literal(word[1:-1])
        case "number":
            is_float = "x" not in word.lower() and any(one in word for one in ".eE")
            return Literal(float(word) if is_float else int(word, 16 if "x" in word.lower() else 10))
        case "field":
            return Field(tuple(one for one in word.split(".") if one))
        case "variable" if word == "$" or word.startswith("$."):
            return Field(tuple(word.split(".")[1:]), is_root=True)
        case "variable":
            raise BadTemplate(f"variables are not supported: {word}")
        case "name":
            return Literal(_WORDS[word]) if word in _WORDS else Call(word)
        case _:
            raise BadTemplate(f"unexpected {word!r}")


class _Evaluation:
    """Evaluates nodes."""

    def __init__(self, root: object, lookup: Lookup, functions: Mapping[str, Function]) -> None:
        self._root = root
        self._lookup = lookup
        self._functions = {**BUILTINS, **functions}

    def texts(self, nodes: Sequence[Node], dot: object) -> Iterator[str]:
        """The texts of nodes; `dot` is what `.` means."""
        for node in nodes:
            match node:
                case str():
                    yield node
                case Pipeline():
                    value = self._value(node, dot)
                    yield "<no value>" if value is ABSENT else _shown(value)
                case Branch(condition, then, otherwise, is_with):
                    value = self._value(condition, dot)
                    if _is_true(value):
                        yield from self.texts(then, value if is_with else dot)
                    else:
                        yield from self.texts(otherwise, dot)

    def _value(self, pipeline: Pipeline, dot: object) -> object:
        piped: list[object] = []
        for head, *operands in pipeline.commands:
            if isinstance(head, Call):
                piped = [self._call(head.name, operands, piped, dot)]
            elif operands or piped:
                raise BadTemplate("a value that is no function has arguments")
            else:
                piped = [self._operand(head, dot)]
        return piped[0]

    def _call(self, name: str, operands: Sequence[Operand], piped: list[object], dot: object) -> object:
        if name in _CHOOSING:
            return self._choose(name, [*operands, *(Literal(one) for one in piped)], dot)
        function = self._functions.get(name)
        if function is None:
            known = ", ".join(sorted({*self._functions, *_CHOOSING}))
            raise BadTemplate(f'function "{name}" is not defined; there are {known}')
        return function([*(self._operand(one, dot) for one in operands), *piped])

    def _choose(self, name: str, operands: Sequence[Operand], dot: object) -> object:
        """The first value that decides `and` or `or`, or the last; the others are not evaluated."""
        value: object = None
        if not operands:
            raise BadTemplate(f"{name} needs a value")
        for one in operands:
            value = self._operand(one, dot)
            if _is_true(value) == (name == "or"):
                return value
        return value

    def _operand(self, operand: Operand, dot: object) -> object:
        match operand:
            case Literal(value):
                return value
            case Field(names, is_root):
                start = self._root if is_root else dot
                return self._lookup(start, names, is_root or dot is self._root)
            case Call(name):
                return self._call(name, (), [], dot)
            case Pipeline():
                return self._value(operand, dot)


def _is_true(value: object) -> bool:
    is_plain = isinstance(value, str | int | float | list | tuple | Mapping)
    return bool(cast("Any", value)) if is_plain else value is not None and value is not ABSENT


def _shown(value: object) -> str:
    """A value as Go prints it."""
    match value:
        case None | _Absent():
            return "<nil>"
        case bool():
            return "true" if value else "false"
        case str() | int():
            return str(value)
        case float():
            return f"{value:.17g}" if value.is_integer() and abs(value) < _LARGEST_PLAIN else repr(value)
        case list() | tuple():
            return f"[{' '.join(_shown(one) for one in cast('Sequence[object]', value))}]"
        case Mapping():
            items = sorted(cast("Mapping[str, object]", value).items())
            return f"map[{' '.join(f'{name}:{_shown(one)}' for name, one in items)}]"
        case _:
            raise BadTemplate(f"{type(value).__name__} is no text; name one of its fields")


def _index(arguments: list[object]) -> object:
    if not arguments:
        raise BadTemplate("index needs a map or a list")
    value, *keys = arguments
    for key in keys:
        if isinstance(value, Mapping) and isinstance(key, str):
            fields: Mapping[Any, Any] = cast("Any", value)
            value = fields.get(key, "")
        elif isinstance(value, list | tuple) and isinstance(key, int) and not isinstance(key, bool):
            items = cast("Sequence[Any]", value)
            if not 0 <= key < len(items):
                raise BadTemplate(f"index out of range: {key}")
            value = items[key]
        else:
            raise BadTemplate("index needs a map and a text, or a list and a number")
    return value


def _printf(arguments: list[object]) -> str:
    if not arguments or not isinstance(arguments[0], str):
        raise BadTemplate("printf needs a format")
    values = arguments[:0:-1]

    def one(found: re.Match[str]) -> str:
        flags, width, precision, verb = found.groups()
        if verb == "%":
            return "%"
        if not values:
            raise BadTemplate(f"printf: no value for {found[0]}")
        if "#" in flags or " " in flags:
            raise BadTemplate(f"printf: {found[0]} is not supported")
        value = values.pop()
        text = _verb(verb, value, precision)
        if "+" in flags and verb in _NUMERIC and cast("float", value) >= 0:
            text = f"+{text}"
        if "-" in flags:
            return text.ljust(int(width or 0))
        if "0" in flags and verb in _NUMERIC:
            return text.zfill(int(width or 0))  # the sign stays first
        return text.rjust(int(width or 0), "0" if "0" in flags and verb != "s" else " ")

    made = _VERB.sub(one, arguments[0])
    if values:
        raise BadTemplate("printf has more values than verbs")
    return made


def _verb(verb: str, value: object, precision: str | None) -> str:
    match verb:
        case "v":
            return _shown(value)
        case "s" if isinstance(value, str):
            return value if precision is None else value[: int(precision)]
        case "q" if isinstance(value, str):
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t") + '"'
        case "t" if isinstance(value, bool):
            return _shown(value)
        case "d" | "x" | "X" | "o" | "b" if isinstance(value, int) and not isinstance(value, bool):
            return format(value, verb)
        case "f" if isinstance(value, float):
            return f"{value:.{6 if precision is None else int(precision)}f}"
        case _:
            raise BadTemplate(f"printf: %{verb} is not supported for {_shown(value)}")


def _equal(arguments: list[object]) -> bool:
    if len(arguments) < 2:
        raise BadTemplate("eq needs two values")
    return any(_is_same(arguments[0], one) for one in arguments[1:])


def _unequal(arguments: list[object]) -> bool:
    if len(arguments) != 2:
        raise BadTemplate("ne needs two values")
    return not _equal(arguments)


def _is_same(left: object, right: object) -> bool:
    kinds = [_kind_of(one) for one in (left, right)]
    if kinds[0] != kinds[1] and ABSENT in (left, right):
        return False
    if kinds[0] != kinds[1]:
        raise BadTemplate(f"{_shown(left)} and {_shown(right)} have different types")
    if kinds[0] is not None:
        return left == right
    are_nil = [one is None or one is ABSENT for one in (left, right)]
    if not all(are_nil) and ABSENT not in (left, right):
        raise BadTemplate("maps and lists cannot be compared")
    return all(are_nil)


def _kind_of(value: object) -> type | None:
    """The type by which values are compared; None for what is no text, number or boolean."""
    return next((one for one in (bool, str, int, float) if isinstance(value, one)), None)


def _ordered(compare: Callable[[Any, Any], bool], name: str) -> Function:
    def function(arguments: list[object]) -> bool:
        if len(arguments) != 2 or any(_kind_of(one) in (bool, None) for one in arguments):
            raise BadTemplate(f"{name} needs two texts or two numbers")
        if _kind_of(arguments[0]) is not _kind_of(arguments[1]):
            raise BadTemplate(f"{_shown(arguments[0])} and {_shown(arguments[1])} have different types")
        return compare(*arguments)

    return function


def _only(function: Callable[[Any], object], name: str) -> Function:
    def called(arguments: list[object]) -> object:
        if len(arguments) != 1:
            raise BadTemplate(f"{name} needs one value")
        return function(arguments[0])

    return called


def _length(value: object) -> int:
    if not isinstance(value, str | list | tuple | Mapping):
        raise BadTemplate(f"len: {_shown(value)} has no length")
    return len(value.encode()) if isinstance(value, str) else len(cast("Sequence[object]", value))


def _print(arguments: list[object]) -> str:
    """Go's Sprint: with a space between two values if neither is a text."""
    made = ""
    for number, one in enumerate(arguments):
        is_spaced = number and not isinstance(one, str) and not isinstance(arguments[number - 1], str)
        made += f" {_shown(one)}" if is_spaced else _shown(one)
    return made


BUILTINS: Final[Mapping[str, Function]] = {
    "eq": _equal,
    "ge": _ordered(lambda left, right: left >= right, "ge"),
    "gt": _ordered(lambda left, right: left > right, "gt"),
    "index": _index,
    "le": _ordered(lambda left, right: left <= right, "le"),
    "len": _only(_length, "len"),
    "lt": _ordered(lambda left, right: left < right, "lt"),
    "ne": _unequal,
    "not": _only(lambda value: not _is_true(value), "not"),
    "print": _print,
    "printf": _printf,
    "println": lambda arguments: " ".join(_shown(one) for one in arguments) + "\n",
    "urlquery": lambda arguments: quote_plus("<no value>" if arguments == [ABSENT] else _print(arguments)),
}
"""The functions of every template; `and` and `or` are part of the language."""
