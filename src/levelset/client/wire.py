"""Writes a request as the bytes that go over the wire; pure, and remembers the header lines it has written before."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from levelset.client.calls import Call
from levelset.errors import ConfigError

__all__ = ["RequestWriter"]

_METHODS: Final = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
_WITH_BODY: Final = frozenset({"PATCH", "POST", "PUT"})
_FRAMING: Final = frozenset({"connection", "content-length", "expect", "host", "te", "transfer-encoding", "upgrade"})
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile(r"[\t -~\x80-\xff]*")
_REMEMBERED: Final = 256

_Items = tuple[tuple[str, str], ...]


class RequestWriter:
    """Writes requests to one server.

    `host` is the value of the Host header, `path` stands before every path, and `fixed` are header fields for every
    request, which those of a call replace.
    """

    __slots__ = ("_fixed", "_host", "_known", "_path")

    def __init__(self, host: str, *, path: str = "", fixed: Sequence[tuple[str, str]] = ()) -> None:
        self._host = host
        self._path = path
        self._fixed = tuple(fixed)
        self._known: dict[tuple[_Items, _Items], str] = {}

    def write(self, call: Call, credentials: Mapping[str, str]) -> bytes:
        """The whole request; ConfigError for what would break the message."""
        target = f"{self._path}{call.path}?{call.query}" if call.query else self._path + call.path
        is_clean = target.isascii() and target.isprintable() and " " not in target
        if call.method not in _METHODS or not is_clean or target[:1] != "/":
            raise ConfigError(f"{call.method} {target[:200]!r} cannot be sent: its path is not percent-encoded.")
        key = tuple(credentials.items()), tuple(call.headers.items())
        lines = self._known.get(key)
        if lines is None:
            lines = self._remember(key)
        if not call.body and call.method not in _WITH_BODY:
            return f"{call.method} {target} HTTP/1.1\r\n{lines}\r\n".encode("latin-1")
        head = f"{call.method} {target} HTTP/1.1\r\n{lines}Content-Length: {len(call.body)}\r\n\r\n"
        return head.encode("latin-1") + call.body

    def _remember(self, key: tuple[_Items, _Items]) -> str:
        lines = _write_lines(self._host, self._fixed, *key)
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        self._known[key] = lines
        return lines


def _write_lines(host: str, fixed: _Items, credentials: _Items, own: _Items) -> str:
    """The header lines; a field of the call replaces a credential, and both replace a fixed one."""
    said = {name.lower() for name, _ in own}
    kept = [field for field in credentials if field[0].lower() not in said]
    said.update(name.lower() for name, _ in kept)
    first = [field for field in fixed if field[0].lower() not in said]
    return "".join(_check(("Host", host), *[_own(field) for field in (*first, *kept, *own)]))


def _own(field: tuple[str, str]) -> tuple[str, str]:
    if field[0].lower() in _FRAMING:
        raise ConfigError(f"The header {field[0]} is the transport's own: leave it out.")
    return field


def _check(*fields: tuple[str, str]) -> Iterable[str]:
    for name, value in fields:
        if _NAME.fullmatch(name) is None:
            raise ConfigError(f"{name[:200]!r} is not the name of a header.")
        if _VALUE.fullmatch(value) is None:
            # The value may be a secret.
            raise ConfigError(f"The header {name} cannot be sent: there is a line break or another such letter in it.")
        yield f"{name}: {value}\r\n"
