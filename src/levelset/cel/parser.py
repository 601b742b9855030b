"""Expressions read: text to tree, with the place of everything, and a bound on how deep a tree may be."""

from levelset.cel import macros
from levelset.cel.errors import CompileError, Issue
from levelset.cel.lexer import RESERVED, Token, tokenize
from levelset.cel.syntax_tree import Call, Entry, Ident, ListOf, Literal, Logic, MapOf, Node, Select, Struct
from levelset.cel.values import MAX_INT

__all__ = ["MAX_LENGTH", "parse"]

MAX_LENGTH = 100_000  # characters
_MAX_NESTING = 80  # brackets inside brackets: each takes some frames of Python's stack
_MAX_HEIGHT = 130

_EXPECTED = (
    "expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', "
    "NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)
_LEVELS = {"||": 1, "&&": 2, "==": 3, "!=": 3, "<": 3, "<=": 3, ">": 3, ">=": 3, "in": 3} | {
    "+": 4,
    "-": 4,
    "*": 5,
    "/": 5,
    "%": 5,
}


def parse(text: str) -> Node:
    """The tree of this expression; raises CompileError, with the place, for anything that is none."""
    if len(text) > MAX_LENGTH:
        raise CompileError(text[:80], [Issue(0, f"expression code point size exceeds limit: size: {len(text)}")])
    return _Parser(text, tokenize(text)).parse()


class _Parser:
    def __init__(self, text: str, tokens: list[Token]) -> None:
        self._text = text
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    def parse(self) -> Node:
        found = self._expression()
        if self._peek().sort != "end":
            raise self._unexpected(f"extraneous input '{self._shown()}' expecting <EOF>")
        return found

    # Reading words.

    def _peek(self) -> Token:
        return self._tokens[self._at]

    def _take(self) -> Token:
        token = self._tokens[self._at]
        if token.sort != "end":
            self._at += 1
        return token

    def _is(self, sign: str) -> bool:
        token = self._tokens[self._at]
        return token.sort == "sign" and token.value == sign

    def _accept(self, sign: str) -> Token | None:
        return self._take() if self._is(sign) else None

    def _expect(self, sign: str) -> Token:
        if not self._is(sign):
            raise self._unexpected(f"mismatched input '{self._shown()}' expecting '{sign}'")
        return self._take()

    def _shown(self) -> str:
        token = self._peek()
        if token.sort == "end":
            return "<EOF>"
        after = self._tokens[self._at + 1].position
        return self._text[token.position : after].strip()[:40]

    def _unexpected(self, problem: str) -> CompileError:
        return self._fail(self._peek().position, f"Syntax error: {problem}")

    def _fail(self, position: int, message: str) -> CompileError:
        return CompileError(self._text, [Issue(position, message)])

    # Operators, loosest first.

    def _expression(self) -> Node:
        self._depth += 1
        if self._depth > _MAX_NESTING:
            raise self._fail(self._peek().position, f"expression recursion limit exceeded: {_MAX_NESTING}")
        condition = self._binary(1)
        question = self._accept("?")
        if question is not None:
            yes = self._binary(1)
            self._expect(":")
            no = self._expression()
            condition = self._made(Call(question.position, "_?_:_", None, [condition, yes, no]), condition, yes, no)
        self._depth -= 1
        return condition

    def _binary(self, least: int) -> Node:
        left = self._unary()
        while (level := self._level()) >= least:
            token = self._take()
            right = self._binary(level + 1)
            left = self._joined(token, left, right)
        return left

    def _level(self) -> int:
        token = self._peek()
        return _LEVELS.get(token.value, 0) if token.sort == "sign" or token.value == "in" else 0

    def _joined(self, token: Token, left: Node, right: Node) -> Node:
        if token.value not in ("&&", "||"):
            name = "@in" if token.value == "in" else f"_{token.value}_"
            return self._made(Call(token.position, name, None, [left, right]), left, right)
        if isinstance(left, Logic) and left.operator == token.value:
            left.operands.append(right)
            return self._made(left, *left.operands)
        return self._made(Logic(token.position, token.value, [left, right]), left, right)

    def _unary(self) -> Node:
        signs: list[Token] = []
        while self._is("!") or self._is("-"):
            signs.append(self._take())
            if len(signs) > _MAX_NESTING:
                raise self._fail(signs[-1].position, f"expression recursion limit exceeded: {_MAX_NESTING}")
        found = self._signed(signs)
        while signs:
            sign = signs.pop()
            if signs and signs[-1].value == sign.value:  # two of a kind cancel out
                signs.pop()
            else:
                found = self._made(Call(sign.position, f"{sign.value}_", None, [found]), found)
        return found

    def _signed(self, signs: list[Token]) -> Node:
        """A member, or a negative number, which is one literal."""
        token = self._peek()
        is_number = token.sort == "literal" and type(token.value) in (int, float)
        if len(signs) == 1 and signs[-1].value == "-" and is_number:
            self._take()
            return self._members(Literal(signs.pop().position, -token.value))
        return self._members(self._primary())

    # Members and what they hang on.

    def _members(self, node: Node) -> Node:
        while True:
            if token := self._accept("."):
                node = self._member(node, token)
            elif token := self._accept("["):
                optional = self._accept("?") is not None
                index = self._expression()
                self._expect("]")
                name = "_[?_]" if optional else "_[_]"
                node = self._made(Call(token.position, name, None, [node, index]), node, index)
            elif self._is("{") and (named := _dotted(node)) is not None:
                node = self._struct(named)
            else:
                return node

    def _member(self, node: Node, dot: Token) -> Node:
        optional = self._accept("?") is not None
        token = self._take()
        if token.sort not in ("name", "quoted") or (token.sort == "name" and token.value == "in"):
            self._at -= token.sort != "end"
            raise self._unexpected(f"mismatched input '{self._shown()}' expecting IDENTIFIER")
        if token.sort == "name" and not optional and self._is("("):
            opening = self._take()
            return self._call(opening.position, token.value, node, self._arguments(")"))
        return self._made(Select(dot.position, node, token.value, optional=optional), node)

    def _primary(self) -> Node:
        token = self._peek()
        if token.sort == "literal":
            self._take()
            if type(token.value) is int and token.value > MAX_INT:
                raise self._fail(token.position, "invalid int literal")
            return Literal(token.position, token.value)
        if token.sort == "name" and token.value != "in":
            return self._name()
        if token.sort == "sign" and token.value in ".([{":
            return self._bracket(self._take())
        raise self._unexpected(f"mismatched input '{self._shown()}' {_EXPECTED}")

    def _name(self) -> Node:
        token = self._take()
        if token.value in RESERVED:
            raise self._fail(token.position, f"reserved identifier: {token.value}")
        if opening := self._accept("("):
            return self._call(opening.position, token.value, None, self._arguments(")"))
        return Ident(token.position, token.value)

    def _bracket(self, token: Token) -> Node:
        if token.value == ".":
            if self._peek().sort != "name":
                raise self._unexpected(f"mismatched input '{self._shown()}' expecting IDENTIFIER")
            return self._name()
        if token.value == "(":
            inner = self._expression()
            self._expect(")")
            return inner
        return self._list(token.position) if token.value == "[" else self._map(token.position)

    def _arguments(self, closing: str) -> list[Node]:
        found: list[Node] = []
        while not self._is(closing):
            found.append(self._expression())
            if not self._accept(","):
                break
        self._expect(closing)
        return found

    def _list(self, position: int) -> Node:
        elements: list[Node] = []
        optional: set[int] = set()
        while not self._is("]"):
            if self._accept("?"):
                optional.add(len(elements))
            elements.append(self._expression())
            if not self._accept(","):
                break
        self._expect("]")
        return self._made(ListOf(position, elements, frozenset(optional)), *elements)

    def _map(self, position: int) -> Node:
        entries: list[Entry] = []
        while not self._is("}"):
            optional = self._accept("?") is not None
            key = self._expression()
            colon = self._expect(":")
            entries.append(Entry(colon.position, key, self._expression(), optional))
            if not self._accept(","):
                break
        self._expect("}")
        return self._made(MapOf(position, entries), *(node for entry in entries for node in (entry.key, entry.value)))

    def _struct(self, name: str) -> Node:
        opening = self._take()
        entries: list[Entry] = []
        while not self._is("}"):
            optional = self._accept("?") is not None
            field = self._take()
            if field.sort not in ("name", "quoted"):
                raise self._fail(field.position, "Syntax error: expected the name of a field")
            colon = self._expect(":")
            entries.append(Entry(colon.position, field.value, self._expression(), optional))
            if not self._accept(","):
                break
        self._expect("}")
        return self._made(Struct(opening.position, name, entries), *(entry.value for entry in entries))

    def _call(self, position: int, function: str, target: Node | None, arguments: list[Node]) -> Node:
        expanded = macros.expand(self._text, Call(position, function, target, arguments))
        self._check_height(expanded)
        return expanded

    def _made(self, node: Node, *children: Node) -> Node:
        node.rest_on(*children)
        self._check_height(node)
        return node

    def _check_height(self, node: Node) -> None:
        if node.height > _MAX_HEIGHT:
            raise self._fail(max(node.position, 0), f"expression recursion limit exceeded: {_MAX_HEIGHT}")


def _dotted(node: Node) -> str | None:
    """The name that a chain of plain fields spells."""
    names: list[str] = []
    while isinstance(node, Select) and not node.test and not node.optional:
        names.append(node.field)
        node = node.operand
    if not isinstance(node, Ident):
        return None
    return ".".join([node.name, *reversed(names)])
