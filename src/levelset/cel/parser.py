"""The CEL parser: lexer, syntax tree with positions, and macro expansion (has, all, map, ...).

The nesting depth is limited, so that no expression exhausts the stack.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from levelset.cel.errors import CompileError, Issue
from levelset.cel.syntax_tree import (
    Bind,
    Call,
    Entry,
    Fold,
    Ident,
    ListOf,
    Literal,
    Logic,
    MapOf,
    Node,
    OptMap,
    Select,
    Struct,
)
from levelset.cel.values import MAX_INT, MAX_UINT, Uint
from levelset.objects.lazy_pattern import Pattern

__all__ = ["MAX_LENGTH", "RESERVED", "Token", "expand", "parse", "tokenize"]

RESERVED = frozenset(
    [
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ]
)


class Token(msgspec.Struct, frozen=True):
    """One token: its kind (name, quoted, literal, sign, end), its value and its position."""

    sort: str
    value: Any
    position: int


_WORD = Pattern(
    r"""(?P<space>(?:[ \t\r\n\f]+|//[^\n]*)+)
    |(?P<text>[rR][bB]?(?=["'])|[bB][rR]?(?=["'])|(?=["']))
    |(?P<float>(?:[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?))
    |(?P<hex>0[xX][0-9a-fA-F]+[uU]?)
    |(?P<int>[0-9]+[uU]?)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<quoted>`[A-Za-z0-9_.\-/ ]+`)
    |(?P<sign>==|!=|<=|>=|&&|\|\||[-+*/%<>!?:.,()\[\]{}])""",
    re.VERBOSE,
)
_RAW = {quote: re.compile(rf"{quote}((?:(?!{quote}).)*){quote}", re.DOTALL) for quote in ('"""', "'''")} | {
    quote: re.compile(rf"{quote}([^{quote}\r\n]*){quote}") for quote in ('"', "'")
}
_PLAIN = {quote: re.compile(rf"{quote}((?:\\.|(?!{quote})[^\\])*){quote}", re.DOTALL) for quote in ('"""', "'''")} | {
    quote: re.compile(rf"{quote}((?:\\.|[^\\{quote}\r\n])*){quote}") for quote in ('"', "'")
}
_ESCAPE = Pattern(
    r"\\(?:x([0-9a-fA-F]{2})|X([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))", re.DOTALL
)
_SHORT = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    "?": "?",
    '"': '"',
    "'": "'",
    "`": "`",
}
_WORDS = {"true": True, "false": False, "null": None}
_MAX_DIGITS = 400


def tokenize(text: str) -> list[Token]:
    """The tokens of the source, followed by one of kind `end`; raises CompileError at the first invalid token."""
    found: list[Token] = []
    position = 0
    while position < len(text):
        match = _WORD.match(text, position)
        if match is None:
            raise _broken(text, position, f"Syntax error: token recognition error at: '{text[position]}'")
        sort = match.lastgroup or ""
        if sort == "text":
            token, position = _read_text(text, match)
            found.append(token)
            continue
        if sort != "space":
            found.append(_token(text, sort, match))
        position = match.end()
    found.append(Token("end", None, len(text)))
    return found


def _token(text: str, sort: str, match: re.Match[str]) -> Token:
    word, start = match.group(), match.start()
    if sort == "name":
        return Token("literal", _WORDS[word], start) if word in _WORDS else Token("name", word, start)
    if sort == "quoted":
        return Token("quoted", word[1:-1], start)
    if sort == "sign":
        return Token("sign", word, start)
    if len(word) > _MAX_DIGITS:
        raise _broken(text, start, "invalid number literal: too long")
    if sort == "float":
        return Token("literal", float(word), start)
    return Token("literal", _integer(text, word, start, 16 if sort == "hex" else 10), start)


def _integer(text: str, word: str, start: int, base: int) -> int:
    """An integer literal; one above the largest int is left to the parser, because a minus may precede it."""
    if word[-1] in "uU":
        number = int(word[:-1], base)
        if number > MAX_UINT:
            raise _broken(text, start, "invalid uint literal")
        return Uint(number)
    number = int(word, base)
    if number > MAX_INT + 1:
        raise _broken(text, start, "invalid int literal")
    return number


def _read_text(text: str, match: re.Match[str]) -> tuple[Token, int]:
    """A string or bytes literal, and its end."""
    prefix, start = match.group().lower(), match.end()
    quote = text[start : start + 3] if text[start : start + 3] in ('"""', "'''") else text[start]
    raw, binary = "r" in prefix, "b" in prefix
    body = (_RAW if raw else _PLAIN)[quote].match(text, start)
    if body is None:
        raise _broken(text, match.start(), f"Syntax error: token recognition error at: '{text[match.start() :][:40]}'")
    inside = body.group(1)
    if raw:
        value: str | bytes = inside.encode("utf-8", "replace") if binary else inside
    elif binary:
        value = _unescape_bytes(text, inside, match.start())
    else:
        value = _ESCAPE.sub(lambda found: _unescape(text, found, match.start()), inside)
    return Token("literal", value, match.start()), body.end()


def _unescape(text: str, match: re.Match[str], start: int) -> str:
    short = match.group(6)
    if short is not None:
        if short not in _SHORT:
            raise _broken(text, start, "invalid escape sequence: unable to unescape string")
        return _SHORT[short]
    octal = match.group(5)
    code = int(octal, 8) if octal else int(next(group for group in match.groups() if group), 16)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise _broken(text, start, "invalid unicode code point")
    return chr(code)


def _unescape_bytes(text: str, inside: str, start: int) -> bytes:
    pieces: list[bytes] = []
    last = 0
    for match in _ESCAPE.finditer(inside):
        pieces.append(inside[last : match.start()].encode("utf-8", "replace"))
        if match.group(3) or match.group(4):
            raise _broken(text, start, "unable to unescape string: unicode escapes are not for bytes")
        pieces.append(bytes([ord(_unescape(text, match, start))]))
        last = match.end()
    return b"".join([*pieces, inside[last:].encode("utf-8", "replace")])


def _broken(text: str, position: int, message: str) -> CompileError:
    return CompileError(text, [Issue(position, message)])


def expand(text: str, call: Call) -> Node:
    """The expansion of a macro call, or the call itself; raises CompileError for an invalid use of a macro."""
    if call.target is None:
        found = _has(text, call) if call.function == "has" and len(call.arguments) == 1 else call
    else:
        shape = _FOLDS.get((call.function, len(call.arguments)))
        found = shape(text, call, call.target) if shape else call
    if found is call:
        call.rest_on(call.target, *call.arguments)
    return found


def _has(text: str, call: Call) -> Node:
    inner = call.arguments[0]
    if not isinstance(inner, Select) or inner.test or inner.optional:
        raise _wrong(text, call.arguments[0], "invalid argument to has() macro")
    found = Select(call.position, inner.operand, inner.field, test=True)
    found.rest_on(inner.operand)
    return found


def _fold(macro: str, names: int, *, when: bool = False) -> Callable[[str, Call, Node], Node]:
    """A macro over a range with a number of variables, then an optional condition, then the body."""

    def expander(text: str, call: Call, target: Node) -> Node:
        variables = [_simple(text, argument) for argument in call.arguments[:names]]
        if len(set(variables)) != len(variables):
            raise _wrong(text, call.arguments[1], "duplicate variable name")
        condition = call.arguments[names] if when else None
        body = call.arguments[-1]
        found = Fold(call.position, macro, target, tuple(variables), body, condition)
        found.rest_on(target, condition, body)
        return found

    return expander


def _opt(*, flat: bool) -> Callable[[str, Call, Node], Node]:
    def expander(text: str, call: Call, target: Node) -> Node:
        found = OptMap(call.position, target, _simple(text, call.arguments[0]), call.arguments[1], flat)
        found.rest_on(target, call.arguments[1])
        return found

    return expander


def _sort_by(text: str, call: Call, target: Node) -> Node:
    name = "@sorted"
    keys = Fold(
        call.position, "map", Ident(call.position, name), (_simple(text, call.arguments[0]),), call.arguments[1]
    )
    keys.rest_on(keys.over, keys.body)
    body = Call(call.position, "@sortByAssociatedKeys", Ident(call.position, name), [keys])
    body.rest_on(body.target, keys)
    found = Bind(call.position, name, target, body)
    found.rest_on(target, body)
    return found


_FOLDS: Mapping[tuple[str, int], Callable[[str, Call, Node], Node]] = {
    ("all", 2): _fold("all", 1),
    ("exists", 2): _fold("exists", 1),
    ("exists_one", 2): _fold("exists_one", 1),
    ("existsOne", 2): _fold("exists_one", 1),
    ("map", 2): _fold("map", 1),
    ("map", 3): _fold("map", 1, when=True),
    ("filter", 2): _fold("filter", 1),
    ("all", 3): _fold("all", 2),
    ("exists", 3): _fold("exists", 2),
    ("exists_one", 3): _fold("exists_one", 2),
    ("existsOne", 3): _fold("exists_one", 2),
    ("transformList", 3): _fold("map", 2),
    ("transformList", 4): _fold("map", 2, when=True),
    ("transformMap", 3): _fold("transformMap", 2),
    ("transformMap", 4): _fold("transformMap", 2, when=True),
    ("transformMapEntry", 3): _fold("transformMapEntry", 2),
    ("transformMapEntry", 4): _fold("transformMapEntry", 2, when=True),
    ("optMap", 2): _opt(flat=False),
    ("optFlatMap", 2): _opt(flat=True),
    ("sortBy", 2): _sort_by,
}


def _simple(text: str, node: Node) -> str:
    if not isinstance(node, Ident):
        raise _wrong(text, node, "argument must be a simple name")
    return node.name


def _wrong(text: str, node: Node, message: str) -> CompileError:
    return CompileError(text, [Issue(node.position, message)])


MAX_LENGTH = 100_000  # characters
_MAX_NESTING = 80  # nested brackets: each level takes some frames of Python's stack
_MAX_HEIGHT = 130

_EXPECTED = (
    "expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', "
    "NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)
_EXPECTED_ARGUMENT = _EXPECTED.replace("'('", "'(', ')'")
_LEVELS = {"||": 1, "&&": 2, "==": 3, "!=": 3, "<": 3, "<=": 3, ">": 3, ">=": 3, "in": 3} | {
    "+": 4,
    "-": 4,
    "*": 5,
    "/": 5,
    "%": 5,
}


def parse(text: str) -> Node:
    """The syntax tree of this expression; raises CompileError with the position of a syntax error."""
    if len(text) > MAX_LENGTH:
        raise CompileError(text[:80], [Issue(0, f"expression code point size exceeds limit: size: {len(text)}")])
    return _Parser(text, tokenize(text)).parse()


def _begins(token: Token) -> bool:
    """Whether an expression can begin with this token."""
    if token.sort == "sign":
        return token.value in (".", "(", "[", "{", "-", "!")
    return token.sort == "literal" or (token.sort == "name" and token.value != "in")


class _Parser:
    def __init__(self, text: str, tokens: list[Token]) -> None:
        self._text = text
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    def parse(self) -> Node:
        found = self._expression()
        if self._peek().sort != "end":
            # As upstream, whose parser goes on without one token if that helps.
            problem = "extraneous" if self._tokens[self._at + 1].sort == "end" else "mismatched"
            raise self._unexpected(f"{problem} input '{self._shown()}' expecting <EOF>")
        return found

    # Token access.

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
        position = self._peek().position if self._text else -1  # as upstream: the column before the first one
        return self._fail(position, f"Syntax error: {problem}")

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
            # Not `_made`: visiting all operands again for each one would be quadratic.
            left.height = max(left.height, 1 + right.height)
            self._check_height(left)
            return left
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
            if signs and signs[-1].value == sign.value:  # two of the same operator cancel out
                signs.pop()
            else:
                found = self._made(Call(sign.position, f"{sign.value}_", None, [found]), found)
        return found

    def _signed(self, signs: list[Token]) -> Node:
        """A member expression, or a negative number, which is one literal."""
        token = self._peek()
        is_number = token.sort == "literal" and type(token.value) in (int, float)
        if len(signs) == 1 and signs[-1].value == "-" and is_number:
            self._take()
            return self._members(Literal(signs.pop().position, -token.value))
        return self._members(self._primary())

    # Members and primary expressions.

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
        problem = "extraneous" if token.sort != "end" and _begins(self._tokens[self._at + 1]) else "mismatched"
        raise self._unexpected(f"{problem} input '{self._shown()}' {_EXPECTED}")

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
        if self._peek().sort == "end":  # a call may end here, too
            raise self._unexpected(f"mismatched input '<EOF>' {_EXPECTED_ARGUMENT}")
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
        expanded = expand(self._text, Call(position, function, target, arguments))
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
    """The qualified name that a chain of plain fields spells."""
    names: list[str] = []
    while isinstance(node, Select) and not node.test and not node.optional:
        names.append(node.field)
        node = node.operand
    if not isinstance(node, Ident):
        return None
    return ".".join([node.name, *reversed(names)])
