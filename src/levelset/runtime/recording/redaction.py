"""Replaces secret values in a recording by stand-ins that replay equally.

Values of Secrets (`data`, `stringData`), tokens that the API server issues, and the fields that the user names are
secret. Each is replaced wherever it appears in the file, plain or base64, in other objects, requests and error texts.
Its stand-in has the same length and the same classes of characters, and depends on the value and on a random key that
is never written: equal values have equal stand-ins in one recording, and nothing leads back.

A value shorter than `MIN_LENGTH` is replaced only where it is known to be secret: elsewhere it may be any other text. A
value may be copied before it is seen in a Secret; when the recording is closed, such copies are replaced, too.
"""

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import msgspec

from levelset.errors import ConfigError
from levelset.objects.json_tree import is_list, is_map
from levelset.runtime.recording.entries import Answer, Batch, Request, ScopeEntry
from levelset.runtime.recording.recording_file import Part, read_blocks, rewrite

__all__ = ["MIN_LENGTH", "Redactor", "stand_in"]

MIN_LENGTH: Final = 6
_CLASSES: Final = ("abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789")
_MIN_MIDDLE: Final = 9
"""The shortest value that is replaced in the middle of base64 texts: others are too short to be found there."""
_PARTS: Final = re.compile(rb"""(?=[^\s"',{}\[\]]*[0-9])(?=[^\s"',{}\[\]]*[A-Za-z])[^\s"',{}\[\]]{10,}""")
"""The parts of a longer value that may be secret by themselves: long words with letters and digits."""
_FIRST: Final = {2: 0x100, 3: 0x4E00, 4: 0x1F300}
"""The first of 256 characters with so many bytes in UTF-8."""

_read: Final = msgspec.json.Decoder().decode


class Redactor:
    """Learns secret values from entries and replaces them in encoded blocks. Used by one thread.

    `fields` are paths such as `Website.spec.token`; values in `keep` are never taken for secret.
    """

    def __init__(self, fields: Sequence[str] = (), *, secrets_too: bool = True, keep: Iterable[str] = ()) -> None:
        self._key = secrets.token_bytes(32)
        self._paths: dict[str, list[tuple[str, ...]]] = {}
        self._keep = {one.encode() for one in keep}
        if secrets_too:
            self._paths["Secret"] = [("data", "*"), ("stringData", "*")]
            self._paths["TokenRequest"] = [("status", "token")]
        for one in fields:
            kind, *path = one.split(".")
            if not path or not all(path):
                raise ConfigError(f"redact {one!r}: write KIND.FIELD, such as Website.spec.token")
            self._paths.setdefault(kind, []).append(tuple(path))
        # How the resource of a kind begins in a path: `/policies` belongs to `Policy`.
        self._parts = {kind: f"/{kind.lower().removesuffix('y')}" for kind in self._paths}
        self._words = ("/token", *self._parts.values())
        self._may_be_secret = re.compile("|".join([*map(re.escape, self._parts.values()), "/token$"])).search
        self._scopes: dict[int, list[str]] = {}
        self._requests: dict[int, list[str]] = {}
        self._values: dict[bytes, bytes] = {}
        self._has_written = self._has_learned_late = False

    def learn(self, parts: Sequence[Part]) -> None:
        """Finds secret values in the entries of parts."""
        if not self._may_have_any(parts):
            return
        scopes, requests, may_be_secret = self._scopes, self._requests, self._may_be_secret
        for entry in chain.from_iterable(one.entries() for one in parts):
            if isinstance(entry, Request):
                if may_be_secret(entry.path) is not None and (kinds := self._kinds_of_path(entry.path)):
                    requests[entry.number] = kinds
                    self._learn(entry.body, kinds)
            elif isinstance(entry, Answer):
                if requests and entry.number in requests:
                    self._learn(entry.body, requests.pop(entry.number))
            elif isinstance(entry, Batch):
                if entry.scope in scopes:
                    for event in entry.events:
                        self._learn(event.raw, scopes[entry.scope])
            elif isinstance(entry, ScopeEntry) and entry.kind in self._paths:
                scopes[entry.number] = [entry.kind]

    def _may_have_any(self, parts: Sequence[Part]) -> bool:
        """Whether any of the entries may be about a secret kind; most often none is, so paths are searched together."""
        if self._scopes or self._requests:
            return True
        paths = "\n".join(chain.from_iterable([one.paths for one in parts]))
        return any(word in paths for word in self._words)

    def clean(self, payload: bytes | memoryview) -> bytes | memoryview:
        """The payload with all known values replaced, in the same length."""
        self._has_written = True
        if not self._values:
            return payload
        cleaned = bytes(payload)
        for value, replacement in self._values.items():
            if value in cleaned:
                cleaned = cleaned.replace(value, replacement)
        return cleaned

    def finish(self, path: Path) -> None:
        """Replaces the values that were written before they were known, and forgets everything."""
        if self._has_learned_late and any(one in payload for payload in read_blocks(path) for one in self._values):
            rewrite(path, self.clean)
        self._values.clear()
        self._key = b""

    def _kinds_of_path(self, path: str) -> list[str]:
        found = [kind for kind, part in self._parts.items() if part in path]
        return [*found, "TokenRequest"] if path.endswith("/token") and "TokenRequest" in self._paths else found

    def _learn(self, raw: bytes, kinds: Sequence[str]) -> None:
        if not kinds or not raw:
            return
        try:
            tree = _read(raw)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return  # not JSON, so there are no fields in it
        for kind in kinds:
            for path in self._paths[kind]:
                for name, value in _values_at(tree, path):
                    if isinstance(value, str) and value:
                        self._add(name, value, is_base64=kind == "Secret" and path[0] == "data")

    def _add(self, name: str, value: str, *, is_base64: bool) -> None:
        plain = value.encode()
        if is_base64:
            try:
                plain = base64.b64decode(plain, validate=True)
            except (binascii.Error, ValueError):
                is_base64 = False
        if not plain or plain in self._keep:
            return
        replacement = stand_in(plain, self._key)
        spellings = [*_spellings(plain, replacement, name)]
        # Code takes a token out of a kubeconfig by its place: the stand-in of the token is at that place, too.
        for place in _PARTS.finditer(plain) if _has_parts(plain) else ():
            start, end = place.span()
            spellings += _spellings(plain[start:end], replacement[start:end], name)
        for known, by in spellings:
            is_new = known not in self._values and known != by and known not in self._keep
            if is_new and len(known) == len(by):  # the lengths in the file must stay true
                self._has_learned_late |= self._has_written
                self._values[known] = by


def stand_in(value: bytes, key: bytes) -> bytes:
    """The replacement of a value: as long, with letters and digits replaced by others of their class."""
    stream = hashlib.shake_256(hmac.digest(key, value, "sha256")).digest(2 * len(value))
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return stream[: len(value)]
    numbers = (int.from_bytes(stream[place : place + 2], "big") for place in range(0, len(stream), 2))
    return "".join(map(_replaced, text, numbers)).encode()


def _replaced(character: str, number: int) -> str:
    """Another character of the same class and of the same length in UTF-8; punctuation stays."""
    for one in _CLASSES:
        if character in one:
            return one[number % len(one)]
    size = len(character.encode())
    return character if size == 1 else chr(_FIRST[size] + number % 256)


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _spellings(plain: bytes, replacement: bytes, name: str) -> Iterator[tuple[bytes, bytes]]:
    """The forms in which a value may be in the file, each with that of its replacement: JSON, plain, base64."""
    forms = [(base64.b64encode(plain), base64.b64encode(replacement))]
    if _is_text(plain):
        forms.append((_in_json(plain), _in_json(replacement)))
    if len(plain) >= MIN_LENGTH:
        yield from forms
        yield plain, replacement
        yield base64.urlsafe_b64encode(plain), base64.urlsafe_b64encode(replacement)
        # Inside of an annotation that is JSON itself, in an error message, in a URL, and in the middle of base64.
        if _is_text(plain):
            yield _in_json(_in_json(plain)), _in_json(_in_json(replacement))
            yield repr(plain.decode())[1:-1].encode(), repr(replacement.decode())[1:-1].encode()
        yield quote(plain, safe="").encode(), quote(replacement, safe="").encode()
        for offset in (0, 1, 2) if len(plain) >= _MIN_MIDDLE else ():
            yield _middle_of_base64(plain, offset), _middle_of_base64(replacement, offset)
        return
    before = msgspec.json.encode(name)
    for known, by in forms:
        yield b'%b:"%b"' % (before, known), b'%b:"%b"' % (before, by)


def _in_json(value: bytes) -> bytes:
    return msgspec.json.encode(value.decode())[1:-1]


def _middle_of_base64(value: bytes, offset: int) -> bytes:
    """The characters of a base64 text that are those of a value after so many bytes of something else, modulo 3."""
    encoded = base64.b64encode(bytes(offset) + value)
    return encoded[4 if offset else 0 : (offset + len(value)) // 3 * 4]


def _has_parts(plain: bytes) -> bool:
    return any(one in plain for one in b" \n{")


def _values_at(tree: Any, path: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """The values at a path of an object, or of each object of a list, with the names of their members."""
    if not is_map(tree):
        return
    items = tree.get("items")
    if is_list(items) and "metadata" in tree:
        for one in items:
            yield from _values_at(one, path)
        return
    found: list[tuple[str, Any]] = [("", tree)]
    for name in path:
        found = [deeper for _, one in found for deeper in _members(one, name)]
    yield from found


def _members(tree: Any, name: str) -> Sequence[tuple[str, Any]]:
    if is_list(tree):
        return [deeper for one in tree for deeper in _members(one, name)]
    if not is_map(tree):
        return ()
    if name == "*":
        return list(tree.items())
    return [(name, tree[name])] if name in tree else ()
