"""The words of an expression: names, numbers, texts and signs, each with its place."""

import re
from dataclasses import dataclass
from typing import Any

from levelset.cel.errors import CompileError, Issue
from levelset.cel.values import MAX_INT, MAX_UINT, Uint

__all__ = ["RESERVED", "Token", "tokenize"]

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


@dataclass(frozen=True, slots=True)
class Token:
    """One word: its sort (name, quoted, literal, sign, end), what it says, and where."""

    sort: str
    value: Any
    position: int


_WORD = re.compile(
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
_ESCAPE = re.compile(
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
    """The words of this text, with one of sort `end` last; raises CompileError at the first that is none."""
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
    """A whole number; one above the largest int is left for the parser, as a minus may stand before it."""
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
    """A text or bytes literal and where it ends."""
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
